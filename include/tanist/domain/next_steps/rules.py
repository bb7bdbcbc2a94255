"""What to do next, as a table: the first row that holds says where a mirror is, and how to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, Verdict
from tanist.domain.circle import CircleStage, ReversalStatus
from tanist.domain.copier import CopiedByAnother
from tanist.domain.failback.way_back import no_way_back
from tanist.domain.filled import filled
from tanist.domain.followed import is_followed
from tanist.domain.limitation_kinds.table import KINDS
from tanist.domain.next_steps import failing_over, remedies, returning
from tanist.domain.next_steps.step import Guidance, NextStage, NextStep, ask_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tanist.domain.failback.way_back import NoWayBack
    from tanist.domain.limitation import Limitation
    from tanist.domain.next_steps.situation import MirrorSituation

_NO_NEWS: Final = frozenset({"NOTHING_TO_FAIL_OVER", CopiedByAnother.name})
"""Of a mirror that has failed over, or that somebody else copies."""
_OF_A_LIVE_MIRROR: Final = frozenset({"SOURCE_DOWN"})
"""Not said of one that has failed over: its way back waits for the source."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row: where a mirror is that `holds`, and the steps from there."""

    stage: NextStage
    holds: Callable[[MirrorSituation], bool]
    steps: Callable[[MirrorSituation], Iterable[NextStep]]


def guide(at: MirrorSituation) -> Guidance:
    """Where the mirror is, what is missing, and how to go on."""
    rule = next(each for each in RULES if each.holds(at))
    steps = tuple({each.command: each for each in rule.steps(at)}.values())
    plans = (each.plan for each in at.waiting if steps and each.plan in steps[0].command)
    return Guidance(
        mirror=at.status.mirror,
        destination=at.destination,
        stage=rule.stage,
        source=at.source_name,
        plan=next(plans, ""),
        missing=tuple(
            filled(each, mirror=at.status.mirror, destination=at.destination, topics=(), plan="")
            for each in _missing(at, rule.stage)
        ),
        steps=steps,
    )


def _missing(at: MirrorSituation, stage: NextStage) -> Iterator[str]:
    """What speaks against a failover, and the checks that fail for another reason."""
    if stage is NextStage.OLD_SOURCE_SILENT:
        yield f"{at.source_name} does not answer: the way back begins when it does"
    if stage is NextStage.FAILED_OVER and (why := _no_way_back(at)) is not None:
        yield f"{why.name}: {why.reason}; {why.operator_action.partition(';')[0]}"
    if at.way_back is not None and at.way_back.problem:
        yield at.way_back.problem
    if stage is NextStage.EMPTY:
        yield "no topic is in the mirror: `tanist mirrors add` puts one in"
    limited = {each.name: each for mode in Mode for each in at.limited(mode) if each.name not in _NO_NEWS}
    for each in limited.values():
        if stage not in _AFTER_FAILOVER or each.name not in _OF_A_LIVE_MIRROR:
            yield f"{each.name}: {each.detail}{_advice(each)}"
    said = {check for name in limited for check in KINDS[name].checks} if limited else set()
    if stage in _AFTER_FAILOVER:
        said |= {"partitions", "source"}  # nothing is mirrored any more
    for check in at.status.checks:
        if check.verdict is not Verdict.PASS and check.name not in said:
            yield f"{check.name}: {check.reason or check.observed}"


def _advice(limitation: Limitation) -> str:
    """What its kind says to do, where the detail names no command."""
    kind = KINDS.get(limitation.name)
    return f" ({kind.next_step})" if kind is not None and "`" not in limitation.detail else ""


_AFTER_FAILOVER: Final = frozenset(
    {NextStage.FAILED_OVER, NextStage.OLD_SOURCE_SILENT, NextStage.TAILS_PENDING, NextStage.REVERSING}
)


def _reverses(at: MirrorSituation) -> bool:
    """Whether a reversal can go on. An approved one has not begun: it waits for the old source."""
    if at.reversal is None or at.reversal.status is ReversalStatus.WITHDRAWN:
        return False
    return at.reversal.status is not ReversalStatus.PENDING or at.source_answers


def _approve_or_mend(at: MirrorSituation) -> Iterator[NextStep]:
    """A plan that was only looked at keeps nothing from being mended."""
    yield from failing_over.approve_it(at)
    yield from remedies.steps(at)


def _mend_or_accept(at: MirrorSituation) -> Iterator[NextStep]:
    mends = tuple(remedies.steps(at))
    yield from mends or failing_over.accept_it(at)


def _has_tails(at: MirrorSituation) -> bool:
    return at.source_answers and bool(at.tails)


def _no_way_back(at: MirrorSituation) -> NoWayBack | None:
    return no_way_back(at.place.spec) if at.place.spec is not None else None


def _is_followed(at: MirrorSituation) -> bool:
    return at.place.spec is not None and is_followed(at.place.spec)


RULES: Final[tuple[Rule, ...]] = (
    Rule(NextStage.FOLLOWED, _is_followed, remedies.move_groups),
    Rule(NextStage.REVERSING, _reverses, returning.go_on),
    Rule(NextStage.FAILING_OVER, lambda at: at.place.running is not None, failing_over.go_on),
    Rule(NextStage.APPROVED, lambda at: any(each.approved for each in failing_over.fitting(at)), failing_over.run_it),
    Rule(NextStage.PLANNED, lambda at: bool(failing_over.fitting(at)), _approve_or_mend),
    Rule(NextStage.SOURCE_SILENT, failing_over.is_possible_only_unplanned, failing_over.plan_it),
    Rule(NextStage.TAILS_PENDING, _has_tails, returning.settle_tails),
    Rule(NextStage.NOT_READY, lambda at: bool(at.place.mirrored) and remedies.are_needed(at), _mend_or_accept),
    Rule(NextStage.MIRRORING, lambda at: bool(at.place.mirrored), lambda _: ()),
    Rule(NextStage.EMPTY, lambda at: at.place.stage is CircleStage.EMPTY, remedies.take_topics_in),
    Rule(NextStage.FAILED_OVER, lambda at: _no_way_back(at) is not None, lambda _: ()),
    Rule(NextStage.FAILED_OVER, lambda at: at.source_answers, returning.reverse),
    Rule(NextStage.OLD_SOURCE_SILENT, lambda _: True, lambda _: ()),
)
"""A failover comes before everything that can wait, and an unfinished reversal before that: it locks the mirror."""


def next_command(found: Guidance) -> str:
    """What to type next, in one line; empty: nothing. Where a person decides first: what shows the answers."""
    if not found.steps:
        return ""
    first = found.steps[0]
    if first.decision is None:
        return first.command
    return ask_command(found.mirror, found.destination)
