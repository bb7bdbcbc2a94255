"""`tanist offsets`: positions that applications keep outside Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tanist.cli.groups import StrategyOption, strategy_named
from tanist.cli.options import MirrorArgument, Session, asking
from tanist.cli.output import emit, say
from tanist.domain.errors import Misconfigured
from tanist.domain.reconciliation.job import PositionRequest
from tanist.domain.translation import Proof
from tanist.settings.bounded import LIST_BYTES, bounded_text
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest
from tanist.usecases.offsets.lookup import LookupRequest, lookup_item
from tanist.usecases.offsets.lookup import lookup as looked_up
from tanist.usecases.reconciliation.pair import positions

app = typer.Typer(no_args_is_help=True, help="Translate positions that applications keep outside Kafka.")

COLUMNS = ("topic", "partition", "source_offset", "destination_offset", "precision", "proof", "strategy", "reason")

TopicOption = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The name of the source topic.")]
PartitionOption = Annotated[int | None, typer.Option("--partition", metavar="NUMBER", help="The partition.")]
OffsetOption = Annotated[
    int | None, typer.Option("--offset", metavar="OFFSET", help="The source offset that is read next.")
]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help='Many: a JSON list of {"topic", "partition", "offset"}.'),
]


@app.callback()
def root() -> None:
    """Translate positions that applications keep outside Kafka."""


@app.command()
@asking()
def lookup(
    now: Session,
    name: MirrorArgument,
    *,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    file: FileOption = None,
    strategy: StrategyOption = None,
) -> None:
    """Show the destination offset for source offsets that an application keeps outside Kafka. Changes nothing.

    Sink connectors of Kafka Connect that write their offsets to the target system, checkpoints of Flink and Spark, and
    databases have such positions. The answer is that of `groups translate` for a group there: the next record is not
    skipped. It works before and after a failover.

    Exits with 1 if a proof fails, 3 if anything is unknown.

    Example: tanist offsets lookup dr --topic orders --partition 0 --offset 1234
    """
    wanted, by = _wanted(topic, partition, offset, file), strategy_named(strategy)
    mirror = now.mirror_to_read(name, any_copier=True)
    request = LookupRequest(positions=wanted, how=SyncRequest(chosen=Chosen(strategy=by)))
    answer = looked_up(mirror, request, now.context)
    if answer.source_down is not None:
        say(f"warning: source {mirror.spec.source} does not answer: {answer.source_down.reason}")
    emit([lookup_item(each) for each in answer.found], COLUMNS, now.as_json)
    if any(each.row.compared.proof is Proof.MISMATCH for each in answer.found):
        raise typer.Exit(1)
    if any(each.is_unknown for each in answer.found):
        raise typer.Exit(3)


def _wanted(
    topic: str | None, partition: int | None, offset: int | None, file: Path | None
) -> tuple[PositionRequest, ...]:
    """Raises Misconfigured: neither a whole position nor a file is given, or both; or the file is invalid."""
    parts = (topic, partition, offset)
    if file is not None and parts == (None, None, None):
        return positions(bounded_text(file, LIST_BYTES), str(file))
    if file is not None or topic is None or partition is None or offset is None:
        raise Misconfigured("give either one position (--topic, --partition and --offset), or --file with many")
    return (PositionRequest(topic, partition, offset),)
