"""What to do next, as a table: the first row that holds says where a mirror is, and how to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, Verdict
from tanist.domain.circle import CircleStage, ReversalStatus
from tanist.domain.limitation_kinds.table import KINDS
from tanist.domain.next_steps import failing_over, remedies, returning
from tanist.domain.next_steps.step import Guidance, NextStep, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tanist.domain.next_steps.situation import Situation

NOTHING: Final = "NOTHING_TO_FAIL_OVER"
"""No news of a mirror that has failed over."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row: where a mirror is that `holds`, and the steps from there."""

    stage: Stage
    holds: Callable[[Situation], bool]
    steps: Callable[[Situation], Iterable[NextStep]]


def guide(at: Situation) -> Guidance:
    """Where the mirror is, what is missing, and how to go on."""
    rule = next(each for each in RULES if each.holds(at))
    return Guidance(
        mirror=at.status.mirror,
        destination=at.destination,
        stage=rule.stage,
        missing=tuple(_missing(at, rule.stage)),
        steps=tuple({each.command: each for each in rule.steps(at)}.values()),
    )


def _missing(at: Situation, stage: Stage) -> Iterator[str]:
    """What speaks against a failover, and the checks that fail for another reason."""
    source = at.place.spec.source if at.place.spec is not None else "the source"
    if stage is Stage.OLD_SOURCE_SILENT:
        yield f"{source} does not answer: the way back begins when it does"
    limited = {each.name: each for mode in Mode for each in at.limited(mode) if each.name != NOTHING}
    for each in limited.values():
        yield f"{each.name}: {each.detail}{_advice(each.name)}"
    said = {check for name in limited for check in KINDS[name].checks} if limited else set()
    if stage in _AFTER_FAILOVER:
        said |= {"partitions", "source"}  # nothing is mirrored any more
    for check in at.status.checks:
        if check.verdict is not Verdict.PASS and check.name not in said:
            yield f"{check.name}: {check.reason or check.observed}"


def _advice(limitation: str) -> str:
    kind = KINDS.get(limitation)
    return f" ({kind.next_step})" if kind is not None else ""


_AFTER_FAILOVER: Final = frozenset({Stage.FAILED_OVER, Stage.OLD_SOURCE_SILENT, Stage.TAILS_PENDING, Stage.REVERSING})


def _reverses(at: Situation) -> bool:
    """Whether a reversal can go on. An approved one has not begun: it waits for the old source."""
    if at.reversal is None or at.reversal.status is ReversalStatus.WITHDRAWN:
        return False
    return at.reversal.status is not ReversalStatus.PENDING or at.source_answers


def _has_tails(at: Situation) -> bool:
    return at.source_answers and bool(at.tails)


RULES: Final[tuple[Rule, ...]] = (
    Rule(Stage.REVERSING, _reverses, returning.go_on),
    Rule(Stage.FAILING_OVER, lambda at: at.place.running is not None, failing_over.go_on),
    Rule(Stage.APPROVED, lambda at: any(each.approved for each in failing_over.fitting(at)), failing_over.run_it),
    Rule(Stage.PLANNED, lambda at: bool(failing_over.fitting(at)), failing_over.approve_it),
    Rule(Stage.SOURCE_SILENT, failing_over.is_possible_only_unplanned, failing_over.plan_it),
    Rule(Stage.TAILS_PENDING, _has_tails, returning.settle_tails),
    Rule(Stage.NOT_READY, lambda at: bool(at.place.mirrored) and remedies.are_needed(at), remedies.steps),
    Rule(Stage.MIRRORING, lambda at: bool(at.place.mirrored), lambda _: ()),
    Rule(Stage.EMPTY, lambda at: at.place.stage is CircleStage.EMPTY, remedies.take_topics_in),
    Rule(Stage.FAILED_OVER, lambda at: at.source_answers, returning.reverse),
    Rule(Stage.OLD_SOURCE_SILENT, lambda _: True, lambda _: ()),
)
"""A failover comes before everything that can wait, and an unfinished reversal before that: it locks the mirror."""


def next_command(found: Guidance) -> str:
    """The first step, for people: the command, or the decision with its command; empty: nothing is to be done."""
    if not found.steps:
        return ""
    first = found.steps[0]
    return f"{first.decision}: {first.command}" if first.decision else first.command
