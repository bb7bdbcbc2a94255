"""`tanist reconcile`: find the destination offset of each source record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanist.cli.options import ExcludeOption, Session, TopicsOption, asking, selected
from tanist.cli.output import emit, no_verdict, say, stages
from tanist.cli.spark_options import on_spark, results_in
from tanist.domain.checks import named
from tanist.domain.errors import Misconfigured
from tanist.domain.names import mirror_name
from tanist.domain.selection import EVERY_TOPIC
from tanist.settings.bounded import LIST_BYTES, bounded_text
from tanist.spark_submit.place import SparkPlace
from tanist.spark_submit.steps_file import found_partitions
from tanist.spark_submit.submit import run as run_job
from tanist.usecases.reconciliation.pair import Paired, of_mirror, of_topics, positions
from tanist.usecases.reconciliation.publish import publish, published_item
from tanist.wiring.reconciliation import reconciliation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.reconciliation.job import PositionRequest
    from tanist.domain.selection import Selection
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext

COLUMNS = (
    "source_topic",
    "destination_topic",
    "partition",
    "copied",
    "moved",
    "lost",
    "repeated",
    "foreign",
    "only_source",
    "only_destination",
    "runs",
    "reason",
)
POSITION_COLUMNS = (
    "group",
    "topic",
    "partition",
    "source_offset",
    "destination_offset",
    "precision",
    "again",
    "standing",
)
PUBLISHED_COLUMNS = ("topic", "partition", "published", "steps", "merged", "reason")
LONGEST_SECONDS = 6 * 3600.0
_UNKNOWN = 3

NameArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="The mirror; omit it to give --source-topic.")]
SourceOption = Annotated[
    str | None,
    typer.Option("--source", metavar="NAME", help=("The cluster of --source-topic, for topics outside of a mirror.")),
]
SourceTopicOption = Annotated[
    str | None, typer.Option("--source-topic", metavar="TOPIC", help="A topic of --source, instead of a mirror.")
]
DestinationTopicOption = Annotated[
    str | None,
    typer.Option("--destination-topic", metavar="TOPIC", help="The topic to compare with (default: the same name)."),
]
PositionsOption = Annotated[
    Path | None,
    typer.Option(
        "--positions", metavar="FILE", help='Offsets to translate: a JSON list of {"topic", "partition", "offset"}.'
    ),
]
PublishOption = Annotated[
    bool,
    typer.Option(
        "--publish",
        help="Store where readers go on in __mirror_offsets: committed offsets of the mirror can be translated by it.",
    ),
]
FolderOption = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="DIR",
        help="Directory or URI (file:, hdfs:, s3a:, ...) for result.json and runs.parquet (default: "
        "./reconciliation/NAME).",
    ),
]


@asking(seconds=LONGEST_SECONDS, changes=True, dry_run="Read and compare everything, and publish nothing.")
@on_spark
def reconcile(
    now: Session,
    name: NameArgument = None,
    *,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    source: SourceOption = None,
    source_topic: SourceTopicOption = None,
    destination_topic: DestinationTopicOption = None,
    positions_file: PositionsOption = None,
    publish_it: PublishOption = False,
    report: FolderOption = None,
    where: SparkPlace,
) -> None:
    """Find the destination offset of every source record by comparing the records. Changes no topic.

    Works for a mirror and for any two topics: copied by MirrorMaker 2, or with losses, repeats and gaps.

    Reads both topics once, in Spark. Exits with 3 if anything is unknown, 2 on bad input. With --publish the result is
    used by `tanist groups` from then on; it can be repeated at any time.

    Example: tanist reconcile --source east --source-topic orders --destination west --destination-topic east.orders
    """
    asked = _positions(positions_file)
    run = replace(now.context, announce=_announce)
    topics = (source, source_topic, destination_topic)
    results = results_in(report, Path("reconciliation") / (name or str(source_topic)))
    if publish_it and name is None:
        raise Misconfigured("--publish stores the result for a mirror: give its name")
    with no_verdict():
        destination, paired = _paired(now, name, selected(topic, exclude), topics, run)
        submission = reconciliation(now.registry, destination.name, paired, asked, results.folder, publish=publish_it)
        result = run_job(replace(submission, uri=results.uri, place=where), run.by, stages(run.clock))
        if publish_it and paired.mirror is not None:
            found = found_partitions(results.folder)
            told = publish(destination, paired.mirror, result["run"], result["as_of_ms"], found, run)
            result["published"] = [published_item(each, dry_run=run.dry_run) for each in told]
    _show(now, result)
    if result["unknown"] or any(each["reason"] for each in result.get("published", ())):
        raise typer.Exit(_UNKNOWN)


def _paired(
    now: Session, name: str | None, selection: Selection, topics: tuple[str | None, ...], context: CommandContext
) -> tuple[Cluster, Paired]:
    source, topic, copy = topics
    if name is not None and not any(topics):
        mirror = mirror_name(name)
        (destination,) = now.destinations(mirror)
        return destination, of_mirror(
            now.registry.open_mirror(destination, mirror, context, any_copier=True), selection, context
        )
    if name is None and source and topic and selection == EVERY_TOPIC:
        destination = now.destination()
        return destination, of_topics(now.registry.connect(source), destination, (topic, copy or topic), context)
    raise Misconfigured(
        "give either a mirror (optionally with --topic), or two topics: --source, --source-topic, "
        "--destination, and --destination-topic if the name differs"
    )


def _positions(file: Path | None) -> tuple[PositionRequest, ...]:
    return positions(bounded_text(file, LIST_BYTES), str(file)) if file else ()


def _announce(topics: Sequence[str]) -> None:
    say(f"reconciling {len(topics)} topic(s): {named(topics, ', ')}")


def _show(now: Session, result: dict[str, Any]) -> None:
    emit([result], COLUMNS, now.as_json, rows=result["partitions"])
    for partition in result["partitions"]:
        for each in partition["explained"]:
            until = "" if each["until"] is None else f" to {each['until'] - 1}"
            where = f"{partition['source_topic']}-{partition['partition']}: offsets {each['start']}{until}"
            say(f"{where} of the {each['log']}, {each['records']} record(s): {each['reason']}")
    if result["positions"] and not now.as_json:
        emit(result["positions"], (*POSITION_COLUMNS, "reason"), as_json=False)
    if "published" in result and not now.as_json:
        emit(result["published"], PUBLISHED_COLUMNS, as_json=False)
    say(f"runs: {result['runs_file']}")
