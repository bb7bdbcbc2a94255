"""The steps of the way back: tails, then the reversal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.circle import CircleStage
from tanist.domain.failback.unseen import unseen
from tanist.domain.next_steps import commands
from tanist.domain.next_steps.commands import of_topics, typed
from tanist.domain.next_steps.step import NextStep
from tanist.domain.tails import TailStage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.next_steps.situation import Abortable, MirrorSituation

_UNTIL_RESCUED = frozenset({TailStage.UNKNOWN, TailStage.SURVEYED})


def go_on(at: MirrorSituation) -> Iterator[NextStep]:
    """Complete the unfinished reversal; one that has not handed the mirror over can be withdrawn."""
    if (found := at.reversal) is None:
        return
    yield NextStep(command=found.next_command, why=f"the reversal {found.plan} is {found.status}")
    if at.place.stage is CircleStage.LEAVING:
        yield NextStep(
            command=commands.reverse(at, "--withdraw", "--reason", "the reversal is unfinished"),
            why="what it has changed at the old source is put back",
            decision="withdraw the reversal",
        )


def settle_tails(at: MirrorSituation) -> Iterator[NextStep]:
    """Survey and rescue; then decide; then replay. Open transactions keep a survey from being final."""
    pending = {each.stage for each in at.tails}
    if at.way_back is not None and at.way_back.open is not None and TailStage.UNKNOWN in pending:
        yield from _abort(at, at.way_back.open)
    if pending & _UNTIL_RESCUED:
        yield NextStep(
            command=typed(at, "failback", "survey"),
            why="compares the old source with what has taken over, and copies what only it has to quarantine",
        )
    elif TailStage.RESCUED in pending:
        yield from _decide(at)
    elif at.decided:
        yield NextStep(
            command=typed(at, "failback", "replay", "--plan", at.decided),
            why="a decision about the rescued records is approved and not carried out",
        )


def _abort(at: MirrorSituation, found: Abortable) -> Iterator[NextStep]:
    named, approving = ", ".join(found.producers), ("--reason", "their producers are fenced")
    yield NextStep(
        command=typed(
            at, "failback", "abort-transactions", "--plan", found.plan, *(() if found.approved else approving)
        ),
        why=f"open transactions of the old source ({named}) keep the survey from being final",
        decision=None if found.approved else "abort them now; else brokers do so after their timeout",
    )


def _decide(at: MirrorSituation) -> Iterator[NextStep]:
    records = sum(each.records for each in at.tails if each.stage is TailStage.RESCUED)
    yield NextStep(
        command=typed(at, "failback", "replay", "--reason", "replay what is safe, keep the rest in quarantine"),
        why=f"{records} rescued record(s) are undecided; nothing is destroyed by it",
        decision="replay what is safe, keep the rest in quarantine",
    )
    yield NextStep(
        command=typed(at, "failback", "decide"),
        why="shows the rescued records by class, and how to decide otherwise; changes nothing",
        decision="look first",
    )


def reverse(at: MirrorSituation) -> Iterator[NextStep]:
    """Reverse the mirror, with what that takes; where the old source was not asked, show the plan first."""
    if (found := at.way_back) is None:
        yield NextStep(command=commands.reverse(at, "--dry-run"), why="shows the plan of the way back")
        return
    if found.problem:
        yield NextStep(command=commands.reverse(at, "--dry-run"), why=f"it cannot be reversed yet: {found.problem}")
        return
    decided = tuple(each.name for each in unseen(found.limitations, ()))
    accepting = tuple(word for name in decided for word in ("--accept", name))
    why = "until then the new primary has no mirror"
    if not found.recreated:
        yield NextStep(
            command=commands.reverse(at, *accepting, "--reason", "the old source is back"),
            why=why,
            decision=f"reverse the mirror, accepting {', '.join(decided)}" if decided else None,
        )
        return
    named, again = ", ".join(found.recreated), tuple(of_topics("--recreate", found.recreated))
    yield NextStep(
        command=commands.reverse(at, *again, *accepting, "--reason", "the old source is back, with other records"),
        why=f"{why}; {named} cannot return as it is, so it is deleted at the old source and copied again",
        decision=f"copy {named} again from the new primary, accepting {', '.join(decided) or 'nothing'}",
    )
    yield NextStep(
        command=commands.reverse(at, *of_topics("--exclude", found.recreated), "--reason", "some topics stay behind"),
        why=f"{named} stays as it is at both clusters",
        decision=f"leave {named} behind",
    )
