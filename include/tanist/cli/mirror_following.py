"""`tanist mirrors create --copied-by`: the options of a mirror that somebody else copies, and what is shown of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tanist.cli.options import announcing, lasting
from tanist.cli.output import emit, say
from tanist.domain.copier import Copier
from tanist.usecases.items import followed_item, spec_item
from tanist.usecases.mirrors.follow import follow

if TYPE_CHECKING:
    from tanist.cli.options import Session
    from tanist.ports.cluster import Cluster
    from tanist.usecases.mirrors.follow import FollowRequest

NOT_COPIED_HERE: Final = "is for mirrors that Tanist copies: leave it out, or leave out --copied-by"
COPIED_HERE: Final = "is for mirrors that somebody else copies: give --copied-by mm2 or --copied-by other, too"
TOPIC_COLUMNS: Final = ("topic", "copy", "partitions", "copy_partitions", "trouble")

CopiedByOption = Annotated[
    Copier,
    typer.Option(
        "--copied-by",
        help="Who copies the records: Tanist, or MirrorMaker 2 (mm2) or another replicator (other), whose copies are "
        "only followed.",
    ),
]
RenameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        metavar="RULE",
        help="With --offsets mapped or --copied-by: how copies are named: a template such as 'east.{topic}', FROM=TO, "
        "'mm2-default', 'mm2-default:ALIAS' or 'identity' (default: the same names); repeatable, the first match "
        "counts.",
    ),
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--strategy",
        metavar="NAME[=REGEX]",
        help="With --copied-by: how positions are translated, of all topics or of those that match; repeatable.",
    ),
]
AliasesOption = Annotated[
    str | None,
    typer.Option(
        "--mm2-aliases",
        metavar="SOURCE,DESTINATION",
        help="With --copied-by mm2: its aliases of both clusters, by which its topics are named (default: the names of "
        "the connections).",
    ),
]
PollTimeoutOption = Annotated[
    float | None, lasting("--poll-timeout", "With --copied-by: limit of a request that reads timestamps", "1s")
]


def split_aliases(text: str) -> tuple[str, ...]:
    """The aliases of source and destination; empty: none."""
    return tuple(text.split(",")) if text else ()


def create(now: Session, request: FollowRequest, source: Cluster, destination: Cluster) -> None:
    """Register the mirror, and show its topics."""
    found = follow(request, source, destination, announcing(now, "follow"))
    done = found.changed and not now.context.dry_run
    for warning in found.warnings:
        say(f"warning: {warning}")
    if not found.changed:
        say(f"mirror {request.mirror} already exists with this specification: nothing was changed")
    elif done:
        say(f"registered mirror {request.mirror} on {destination.name}, which {request.copied_by.in_words} copies")
    topics = [followed_item(each) for each in found.topics.topics.values()]
    shown: dict[str, Any] = {"changed": done, "warnings": list(found.warnings), "topics": list(found.topics.topics)}
    emit([spec_item(found.spec) | shown | {"followed": topics}], TOPIC_COLUMNS, now.as_json, rows=topics)
