"""The steps of the way back: tails, then the reversal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.circle import CircleStage
from tanist.domain.failback.unseen import unseen
from tanist.domain.filled import REASON, exact_options
from tanist.domain.next_steps import commands, remedies
from tanist.domain.next_steps.commands import typed
from tanist.domain.next_steps.step import NextStep
from tanist.domain.tails import TailStage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.next_steps.situation import Abortable, MirrorSituation, WayBack

_UNTIL_RESCUED = frozenset({TailStage.UNKNOWN, TailStage.SURVEYED})


def go_on(at: MirrorSituation) -> Iterator[NextStep]:
    """Complete the unfinished reversal; one that has not handed the mirror over can be withdrawn."""
    if (found := at.reversal) is None:
        return
    yield NextStep(command=found.next_command, why=f"the reversal {found.plan} is {found.status}")
    if at.place.stage is CircleStage.LEAVING:
        yield NextStep(
            command=commands.reverse(at, "--withdraw", "--reason", REASON),
            why="what it has changed at the old source is put back",
            decision="withdraw the reversal",
        )


def settle_tails(at: MirrorSituation) -> Iterator[NextStep]:
    """Survey and rescue; then decide; then replay.

    Open transactions keep a survey from being final, and so does a source fence that is not in force.
    """
    pending = {each.stage for each in at.tails}
    if pending & _UNTIL_RESCUED:
        yield from remedies.before_a_survey(at)
        if at.way_back is not None and at.way_back.open is not None:
            yield from _abort(at, at.way_back.open)
        yield _survey(at)
    elif at.decided:
        yield NextStep(
            command=typed(at, "failback", "replay", "--plan", at.decided),
            why="a decision about the rescued records is approved and not carried out",
        )
    elif TailStage.RESCUED in pending:
        yield from _decide(at)


def _survey(at: MirrorSituation) -> NextStep:
    return NextStep(
        command=typed(at, "failback", "survey"),
        why="compares the old source with what has taken over, and copies what only it has to quarantine",
    )


def _abort(at: MirrorSituation, found: Abortable) -> Iterator[NextStep]:
    approving = ("--approve" if at.four_eyes else "--plan", found.plan, "--reason", REASON)
    yield NextStep(
        command=typed(at, "failback", "abort-transactions", *(("--plan", found.plan) if found.approved else approving)),
        why=f"open transactions of the old source ({', '.join(found.producers)}) keep the survey from being final",
        decision=None if found.approved else "abort them now; else brokers do so after their timeout",
    )


def _decide(at: MirrorSituation) -> Iterator[NextStep]:
    records = sum(each.records - each.decided for each in at.tails if each.stage is TailStage.RESCUED)
    look = NextStep(
        command=typed(at, "failback", "decide"),
        why="shows the rescued records by class, what would become of them, and how to approve it; changes nothing",
        decision="look first",
    )
    if at.four_eyes:
        yield replace(look, decision=None)
        return
    yield NextStep(
        command=typed(at, "failback", "replay", "--reason", REASON),
        why=f"{records} rescued record(s) are undecided; nothing is destroyed by it",
        decision="replay what is safe, keep the rest in quarantine",
    )
    yield look


def reverse(at: MirrorSituation) -> Iterator[NextStep]:
    """Reverse the mirror, with what that takes; where the old source was not asked, show the plan first.

    What keeps it from being reversed is missing, and no command goes on, but a survey where that helps.
    """
    if (found := at.way_back) is None:
        yield NextStep(command=commands.reverse(at, "--dry-run"), why="shows the plan of the way back")
    elif found.survey_again:
        yield replace(_survey(at), why=f"the survey does not fit any more: {found.problem}")
    elif not found.problem:
        yield from _reverse(at, found)


def _reverse(at: MirrorSituation, found: WayBack) -> Iterator[NextStep]:
    decided = tuple(each.name for each in unseen(found.limitations, ()))
    again = tuple(exact_options("--recreate", found.recreated))
    why = "until then the new primary has no mirror"
    if found.approved:
        yield NextStep(command=commands.reverse(at, *again), why=f"plan {found.plan} is approved; {why}")
        return
    accepting = tuple(word for name in decided for word in ("--accept", name))
    approving = ("--approve", found.plan) if at.four_eyes else accepting
    command = commands.reverse(at, *again, *approving, "--reason", REASON)
    accepts = f"accepting {', '.join(decided)}" if decided else "accepting nothing"
    if not found.recreated:
        decision = f"reverse the mirror, {accepts}" if decided or at.four_eyes else None
        yield NextStep(command=command, why=why, decision=decision)
        return
    named = ", ".join(found.recreated)
    yield NextStep(
        command=command,
        why=f"{why}; {named} cannot return as it is, so it is deleted at the old source and copied again",
        decision=f"copy {named} again from the new primary, {accepts}",
    )
    yield NextStep(
        command=commands.reverse(at, *exact_options("--exclude", found.recreated), "--dry-run"),
        why=f"{named} stays as it is at both clusters; this shows the plan",
        decision=f"leave {named} behind",
    )
