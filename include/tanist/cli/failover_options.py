"""The options of the commands of a failover."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tanist.cli.options import duration, lasting
from tanist.domain.checks import Mode
from tanist.domain.failover.reserve import budget_of, time_of
from tanist.domain.names import MOST_OFFSETS
from tanist.usecases.failover.route import STEP_IDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ModeOption = Annotated[
    Mode,
    typer.Option("--mode", help=("planned: the source answers and is drained first; unplanned: it is not waited for.")),
]
LossOption = Annotated[
    int | None,
    typer.Option(
        "--max-loss",
        metavar="N",
        min=0,
        max=MOST_OFFSETS,
        help="Offsets that may be lost (default: what the plan counts).",
    ),
]
ReserveOption = Annotated[
    int | None,
    typer.Option(
        "--reserve",
        metavar="TIME|N|none",
        parser=lambda text: _parsed(budget_of, text),
        show_default=False,
        help="Most offsets to reserve at each leader in an unplanned failover, as a time or a number (default: 10s).",
    ),
]
DeadSinceOption = Annotated[
    int | None,
    typer.Option(
        "--source-dead-since",
        metavar="TIME",
        parser=lambda text: _parsed(time_of, text),
        help="When the source accepted its last record (ISO 8601): bounds what is reserved and forecast (unplanned).",
    ),
]
ReverseOption = Annotated[
    bool,
    typer.Option(
        "--reverse",
        help="Planned: reverse the mirror as the last step, so that it copies to its old source (`mirrors reverse`).",
    ),
]
AnswersOption = Annotated[
    bool,
    typer.Option("--although-it-answers", help="Unplanned: fail over although every partition of the source answers."),
]
PlanOption = Annotated[str | None, typer.Option("--plan", metavar="HASH", help="The approved plan.")]
MirrorOrAllArgument = Annotated[str | None, typer.Argument(metavar="NAME", help="The mirror; not with --all.")]
MirrorOrPlanArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="The mirror; with --all DESTINATION/NAME=HASH, a plan of it.")
]
MorePlansArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="DESTINATION/NAME=HASH", help="With --all: the plans of further mirrors."),
]
AllOption = Annotated[bool, typer.Option("--all", help="Every mirror of every destination.")]
AllPlansOption = Annotated[bool, typer.Option("--all", help="Several plans, each as DESTINATION/NAME=HASH.")]
SourceOption = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="With --all: only mirrors that copy from this cluster.")
]
AT_ONCE: Final = 4
MOST_AT_ONCE: Final = 32
AtOnceOption = Annotated[
    int,
    typer.Option(
        "--at-once", metavar="N", min=1, max=MOST_AT_ONCE, help="With --all: how many mirrors at the same time."
    ),
]
EvidenceOption = Annotated[
    Path | None,
    typer.Option("--evidence", metavar="DIR", help="Directory for the evidence (default: ./evidence/HASH)."),
]


def given(value: str | None, what: str) -> str:
    """An argument that only --all does without. Raises typer.BadParameter where it is missing."""
    if value is None:
        raise typer.BadParameter("it is missing; only with --all it is not needed", param_hint=f"'{what}'")
    return value


def none_of(values: Mapping[str, object], why: str = "is for one mirror, not for --all") -> None:
    """Raises typer.BadParameter for the first of the options, by their names, that was given."""
    for what, value in values.items():
        if value is not None:
            raise typer.BadParameter(f"it {why}", param_hint=f"'{what}'")


def _parsed(parse: Callable[[str], int], text: str | int) -> int:
    """A default is passed as a number."""
    try:
        return text if isinstance(text, int) else parse(text)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None


def _step(text: str) -> str:
    if text not in STEP_IDS:
        raise typer.BadParameter(f"{text!r} is not a step: {', '.join(STEP_IDS)}")
    return text


def _window(text: str | float) -> float:
    return 0.0 if str(text).strip() in {"0", "0s", "0.0"} else duration(text)


ProofOption = Annotated[
    float,
    lasting("--fence-proof", "How long a fenced source must take no records; 0 skips the proof", "5s", parser=_window),
]
DrainOption = Annotated[
    float,
    lasting("--drain", "Longest planned drain; a longer one is undone", "5m"),
]
BudgetOption = Annotated[
    float,
    lasting("--budget", "How long an unplanned failover drains partitions that still answer", "15s"),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="STEP",
        parser=_step,
        autocompletion=lambda: list(STEP_IDS),
        help=f"Stop after this step: {', '.join(STEP_IDS)}.",
    ),
]
