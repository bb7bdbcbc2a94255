"""The steps of a failover: plan, approve, run; or finish what was begun."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode
from tanist.domain.failover.commands import approve_command
from tanist.domain.filled import REASON
from tanist.domain.next_steps import commands
from tanist.domain.next_steps.step import NextStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.next_steps.situation import MirrorSituation, WaitingPlan

FRESH_MS: Final = 3_600_000
"""A kept plan of a source that answers is something to go on with for so long; it may be older, but nobody waits."""


def go_on(at: MirrorSituation) -> Iterator[NextStep]:
    """Finish the unfinished run, unless somebody does; before its point of no return it can be undone as well."""
    run = at.place.running
    if run is None:
        return
    if at.at_work:
        look = commands.typed(at, "failover", "status")
        yield NextStep(command=look, why=f"plan {run.plan} is at work ({run.runner}): look again in a moment")
        return
    stopped = f"; it stopped: {run.reason}" if run.reason else ""
    finish = NextStep(command=commands.run(at, run.plan), why=f"plan {run.plan} is unfinished{stopped}")
    if run.no_return:
        yield finish
        return
    undo = NextStep(
        command=commands.typed(at, "failover", "abort", "--reason", REASON),
        why="nothing is open yet: the source fences are lifted, and the mirror goes on",
        decision="undo the failover",
    )
    if at.void:
        reasons = "its approval has expired, its source is gone, or more is at risk than it tolerates"
        why = f"plan {run.plan} cannot go on: {reasons}; {undo.why}"
        yield replace(undo, why=why, decision=None)
        return
    yield finish
    yield undo


def fitting(at: MirrorSituation) -> tuple[WaitingPlan, ...]:
    """The plans that go on from here: an approved one first, then the newest of the mode that the source asks for.

    While the source does not answer no planned failover can be. While it answers, a planned failover loses nothing, so
    an unplanned plan is left alone until somebody has approved it, and a planned one is old after FRESH_MS.
    """
    if at.source_is_down:
        found = [each for each in at.waiting if each.mode is Mode.UNPLANNED]
    else:
        fresh = (each for each in at.waiting if each.approved or at.now - each.at < FRESH_MS)
        found = [each for each in fresh if each.mode is Mode.PLANNED or each.approved]
    return tuple(sorted(found, key=lambda each: (each.mode is not Mode.PLANNED, not each.approved, -each.at)))


def run_it(at: MirrorSituation) -> Iterator[NextStep]:
    """Run the approved plan. Where the source answers again an unplanned one is a decision."""
    first = fitting(at)[0]
    if not first.approved:
        yield from approve_it(at)
        return
    if first.mode is Mode.PLANNED or at.source_is_down:
        yield NextStep(command=commands.run(at, first.plan), why=f"{first.mode} plan {first.plan} is approved")
        return
    yield NextStep(
        command=commands.plan(at, Mode.PLANNED),
        why="the source answers again, and a planned failover loses nothing",
        decision="fail over, planned",
    )
    yield NextStep(
        command=commands.run(at, first.plan, "--although-it-answers"),
        why=f"unplanned plan {first.plan} is approved: what was not copied is lost",
        decision="fail over although the source answers",
    )


def approve_it(at: MirrorSituation) -> Iterator[NextStep]:
    """Approve the kept plan; or leave it, it expires."""
    first = fitting(at)[0]
    yield NextStep(
        command=approve_command(first.intent, first.plan, at.destination, kept=True),
        why=f"{first.mode} plan {first.plan} is kept, and covers what is so now; left alone it expires",
        decision=f"approve the {first.mode} failover",
    )


def is_possible_only_unplanned(at: MirrorSituation) -> bool:
    """Whether the source does not answer and nothing blocks an unplanned failover."""
    blocked = any(each.blocks for each in at.status.limitations[Mode.UNPLANNED])
    return bool(at.place.mirrored) and at.source_gone and at.source_is_down and not blocked


def plan_it(at: MirrorSituation) -> Iterator[NextStep]:
    """Fail over, or wait for the source."""
    yield NextStep(
        command=commands.plan(at, Mode.UNPLANNED),
        why=f"{at.source_name} does not answer; where it comes back soon, waiting loses nothing",
        decision="fail over without the source",
    )


def accept_it(at: MirrorSituation) -> Iterator[NextStep]:
    """Where no command mends what speaks against a planned failover: nothing, until somebody fails over as it is."""
    limited = at.limited(Mode.PLANNED)
    if limited and at.source_answers and not any(each.blocks for each in limited):
        names = ", ".join(sorted({each.name for each in limited}))
        yield NextStep(
            command=commands.plan(at, Mode.PLANNED),
            why=f"{names}: no command of Tanist mends it, and whoever approves a plan accepts it; until then it waits",
            decision="fail over as it is",
        )
