"""`tanist validate`: compare mirror topics with their source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tanist.cli.options import ExcludeOption, MirrorArgument, Session, TopicsOption, asking
from tanist.cli.output import emit, no_verdict, say, stages
from tanist.cli.spark_options import on_spark, results_in
from tanist.domain.checks import named
from tanist.domain.names import mirror_name
from tanist.domain.validation.job import Level
from tanist.domain.validation.result import DifferenceKind, ValidationVerdict
from tanist.spark_submit.place import SparkPlace
from tanist.spark_submit.submit import run as run_job
from tanist.usecases.validation.prepare import ValidationRequest
from tanist.wiring.validation import validation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMNS = (
    "partition",
    "verdict",
    "records",
    "copy_records",
    *(kind.value for kind in DifferenceKind),
    "behind",
    "mode",
    "reason",
)
LONGEST_SECONDS = 6 * 3600.0
_MOST_TOLD = 10

LevelOption = Annotated[
    Level | None,
    typer.Option(
        "--level",
        help="ranges: offsets only; batches: every raw batch; records: every record, decompressed.",
        show_default="batches, or records for mirrors that do not copy whole batches",
    ),
]
ReportOption = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="DIR",
        help="Directory or URI (file:, hdfs:, s3a:, ...) for result.json and report.html (default: ./validation/NAME).",
    ),
]


@asking(seconds=LONGEST_SECONDS)
@on_spark
def validate(
    now: Session,
    name: MirrorArgument,
    level: LevelOption = None,
    topic: TopicsOption = None,
    exclude: ExcludeOption = None,
    report: ReportOption = None,
    *,
    where: SparkPlace,
) -> None:
    """Compare a mirror with its source, in Spark, and list differences by offset. Changes nothing.

    Exits with 0 if everything is equal, 1 if anything differs, 3 if it is unknown, 2 if there is nothing to compare.

    Example: tanist validate dr --topic 'orders.*' --level records
    """
    request = ValidationRequest(level=level, include=tuple(topic or ()), exclude=tuple(exclude or ()))
    results = results_in(report, Path("validation") / name)
    run = replace(now.context, announce=_announce)
    with no_verdict():
        mirror = mirror_name(name)
        (destination,) = now.destinations(mirror)
        submission = validation(now.registry, destination, mirror, request, results.folder, run)
        result = run_job(replace(submission, uri=results.uri, place=where), run.by, stages(run.clock))
    emit([result], COLUMNS, now.as_json, rows=[_row(each) for each in result["partitions"]])
    _say_differences(result["partitions"])
    speed = result["bytes"] / 1e6 / max(result["seconds"], 0.001)
    say(f"{result['verdict']}: {result['reason']}")
    read = f"read {result['bytes'] / 1e6:,.0f} MB in {result['seconds']:.1f} s ({speed:,.0f} MB/s)"
    say(f"{read}; {results.shown}/report.html")
    if code := ValidationVerdict(result["verdict"]).exit_code:
        raise typer.Exit(code)


def _announce(topics: Sequence[str]) -> None:
    say(f"validating {len(topics)} topic(s): {named(topics, ', ')}")


def _row(each: dict[str, Any]) -> dict[str, Any]:
    ours, theirs = each["source"] or {}, each["destination"] or {}
    return each | {
        "partition": f"{each['topic']}-{each['partition']}",
        "records": ours.get("records"),
        "copy_records": theirs.get("records"),
    }


def _say_differences(partitions: Iterable[dict[str, Any]]) -> None:
    reported = [
        f"{each['topic']}-{each['partition']}: {found['kind']} {_where(found)}{_detail(found)}"
        for each in partitions
        for found in each["differences"]
    ]
    for line in reported[:_MOST_TOLD]:
        say(line)
    if len(reported) > _MOST_TOLD:
        say(f"and {len(reported) - _MOST_TOLD} more in the report")


def _where(found: dict[str, Any]) -> str:
    places = [
        f"at offset {found[side]}{_to(found[side], found['offsets'])} of the {name}"
        for side, name in (("source", "source"), ("destination", "copy"))
        if found[side] is not None
    ]
    return ", ".join(places)


def _to(first: int, offsets: int) -> str:
    return f" to {first + offsets - 1}" if offsets > 1 else ""


def _detail(found: dict[str, Any]) -> str:
    return f" ({found['detail']})" if found["detail"] else ""
