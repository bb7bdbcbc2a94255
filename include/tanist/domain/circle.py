"""Where a mirror is on its circle: it copies, fails over, is reversed, copies the other way, and fails over again.

`locate` decides it from the state topics of both clusters. Commands, DAGs and the wiring ask it instead of the records.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Verdict
from tanist.domain.failback.outdated import promoted_since
from tanist.domain.failback.reversal import Reversal
from tanist.domain.failover.plan import plan_of
from tanist.domain.moves import MoveStatus
from tanist.domain.records import RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.moves import MirrorMove
    from tanist.domain.names import MirrorName
    from tanist.domain.records import FailoverRun, MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView


class CircleStage(StrEnum):
    """What a mirror is doing, as one of its clusters has it; exactly one holds.

    ABSENT: the cluster has no such mirror. MOVED: it has a record that names the mirror's destination instead.
    ARRIVING: a reversal has brought the mirror's state here; the mirror is locked until its old destination has that
    record. LEAVING: a reversal to the old source is unfinished, and can be withdrawn. WITHDRAWING: what that reversal
    has changed is being put back. OUTDATED: the old source has taken over again since that reversal was planned, so it
    can only be ended. HANDED_OVER: the old source has the mirror's state, so that reversal can only be completed.
    FAILING_OVER: a failover is unfinished. FAILED_OVER: all topics have left the mirror. PARTLY_FAILED_OVER: some have,
    others are mirrored. EMPTY: the mirror has had no topic. MIRRORING: all its topics are mirrored. REVERSED: the same,
    and a reversal has brought the mirror here.
    """

    ABSENT, MOVED, ARRIVING = "ABSENT", "MOVED", "ARRIVING"
    LEAVING, WITHDRAWING, OUTDATED, HANDED_OVER = "LEAVING", "WITHDRAWING", "OUTDATED", "HANDED_OVER"
    FAILING_OVER, FAILED_OVER, PARTLY_FAILED_OVER = "FAILING_OVER", "FAILED_OVER", "PARTLY_FAILED_OVER"
    EMPTY, MIRRORING, REVERSED = "EMPTY", "MIRRORING", "REVERSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPlace:
    """Where a mirror is, as one of its clusters has it.

    `spec`, `move`: as stored there. `came_by`: the reversal that has brought the mirror there, as its source has it on
    record. `source_has_it`: the source has the state that a reversal from there takes to it. `later`: the topics that
    were promoted since that reversal was planned, in words; empty: none. `running`: the unfinished failover. `last`:
    the failover that was done last, to whichever cluster. `mirrored`: the topics that are in the mirror. `left`:
    whether others have left it.
    """

    spec: MirrorSpec | None
    move: MirrorMove | None = None
    came_by: MirrorMove | None = None
    source_has_it: bool = False
    later: str = ""
    running: FailoverRun | None = None
    last: FailoverRun | None = None
    mirrored: tuple[TopicDesired, ...] = ()
    left: bool = False

    @property
    def stage(self) -> CircleStage:
        """The first of the table that holds."""
        return next(stage for stage, holds in _STAGES if holds(self))

    @property
    def forwarding(self) -> MirrorMove | None:
        """The record that names the cluster where the mirror is now; None: it is here, or nowhere."""
        return self.move if self.stage is CircleStage.MOVED else None

    @property
    def arrival(self) -> MirrorMove | None:
        """The unfinished reversal to here: no command but the one that completes it may change the mirror."""
        return self.move if self.stage is CircleStage.ARRIVING else None

    @property
    def departure(self) -> MirrorMove | None:
        """The unfinished reversal from here, also one that is being withdrawn."""
        leaves = {CircleStage.LEAVING, CircleStage.WITHDRAWING, CircleStage.OUTDATED, CircleStage.HANDED_OVER}
        return self.move if self.stage in leaves else None

    @property
    def takeover(self) -> FailoverRun | None:
        """The failover by which this cluster has taken over, while all topics have left the mirror."""
        return self.last if self.left and not self.mirrored and self.running is None else None

    @property
    def source_is_incomplete(self) -> bool:
        """The reversal that has brought the mirror here is yet to be completed at its source, the old destination."""
        return _is(self.came_by, MoveStatus.MOVING)

    def switch_to(self, cluster_id: str) -> FailoverRun | None:
        """The failover by which that cluster has taken over; None: it has not, or another one has since.

        It holds from the end of the failover, during the reversal after it, and until the mirror, which then copies
        from that cluster, fails over again. While the source is incomplete, it holds whatever has begun here.
        """
        is_here = self.spec is not None and self.spec.destination_cluster_id == cluster_id
        copies = self.came_by is not None and self.stage in {CircleStage.ARRIVING, CircleStage.REVERSED}
        run = self.takeover if is_here else self.last if copies or self.source_is_incomplete else None
        plan = plan_of(run) if run is not None else None
        return run if plan is not None and plan.intent.destination_cluster_id == cluster_id else None


_STAGES: Final[tuple[tuple[CircleStage, Callable[[MirrorPlace], bool]], ...]] = (
    (CircleStage.ABSENT, lambda at: at.spec is None and at.move is None),
    (CircleStage.MOVED, lambda at: at.spec is None),
    (CircleStage.HANDED_OVER, lambda at: at.source_has_it),
    (CircleStage.OUTDATED, lambda at: at.later != ""),
    (CircleStage.WITHDRAWING, lambda at: _is(at.move, MoveStatus.WITHDRAWING)),
    (CircleStage.ARRIVING, lambda at: _is(at.move, MoveStatus.MOVING) and _leads_to(at.move, at.spec)),
    (CircleStage.LEAVING, lambda at: _is(at.move, MoveStatus.MOVING)),
    (CircleStage.FAILING_OVER, lambda at: at.running is not None),
    (CircleStage.PARTLY_FAILED_OVER, lambda at: at.left and at.mirrored != ()),
    (CircleStage.FAILED_OVER, lambda at: at.left),
    (CircleStage.EMPTY, lambda at: at.mirrored == ()),
    (CircleStage.REVERSED, lambda at: at.came_by is not None),
    (CircleStage.MIRRORING, lambda _: True),
)
"""An unfinished reversal comes before an unfinished failover: it locks the mirror, so that none can begin."""


def locate(mirror: MirrorName, here: StateView, at_source: StateView | None = None) -> MirrorPlace:
    """Where a mirror is. `here`: the state topic of one of its clusters; `at_source`: that of its source, seen from it.

    `at_source` is None if it is not known: then HANDED_OVER and OUTDATED count as LEAVING or WITHDRAWING, and REVERSED
    counts as MIRRORING. `arrival`, `departure`, `forwarding` and `takeover` do not depend on it.

    Raises:
        ValueError, KeyError, TypeError: the stored plan of the reversal from here cannot be read.
    """
    spec, done = here.mirror(mirror), [run for run in here.failovers(mirror) if run.status is RunStatus.DONE]
    place = MirrorPlace(
        spec=spec,
        move=here.move(mirror),
        running=here.unfinished(mirror),
        last=max(done, key=lambda run: run.at, default=None),
        mirrored=here.mirrored(mirror),
        left=bool(here.removed(mirror)),
    )
    if spec is None or at_source is None:
        return place
    came_by, departure, views = at_source.move(mirror), place.departure, (here, at_source)
    return replace(
        place,
        came_by=came_by if _leads_to(came_by, spec) else None,
        source_has_it=_leads_to(departure, at_source.mirror(mirror)),
        later=promoted_since(Reversal.read(departure.plan_json), mirror, spec.mirror_id, views) if departure else "",
    )


def _is(move: MirrorMove | None, status: MoveStatus) -> bool:
    return move is not None and move.status is status


def _leads_to(move: MirrorMove | None, spec: MirrorSpec | None) -> bool:
    """Whether `spec` is that of the mirror of `move`, at the cluster to which that goes."""
    if move is None or spec is None:
        return False
    return (move.mirror_id, move.cluster_id) == (spec.mirror_id, spec.destination_cluster_id)


class ReversalStatus(StrEnum):
    """PENDING: approved with a failover that is done, not begun. MOVING: begun; the mirror is locked until its end.

    WITHDRAWING: what was changed is being put back. WITHDRAWN: that is done; the approval of the failover is used.
    """

    PENDING, MOVING = "PENDING", "MOVING"
    WITHDRAWING, WITHDRAWN = "WITHDRAWING", "WITHDRAWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReversal:
    """`plan`: of the failover, if PENDING, else of the reversal. `run`: the failover that has approved it, too.

    `next_command`: completes it without another approval; if it is WITHDRAWN, shows the plan to approve.
    """

    status: ReversalStatus
    plan: str
    approver: str
    next_command: str
    run: FailoverRun | None = None

    def __str__(self) -> str:
        return f"the reversal is {self.status} (plan {self.plan}, approved by {self.approver}): `{self.next_command}`"


def pending_reversal(view: StateView, mirror: MirrorName) -> PendingReversal | None:
    """The reversal of a mirror that is to be completed. `view`: of the state topic where it was failed over to."""
    place = locate(mirror, view)
    if place.spec is None:
        return None
    run = _with_reversal(place.takeover)
    where = ("--destination", place.spec.destination)
    move, command = place.move, shlex.join(("tanist", "mirrors", "reverse", mirror, *where))
    if move is not None and (place.arrival or place.departure):
        return PendingReversal(
            status=ReversalStatus(move.status), plan=move.plan, approver=move.approver, next_command=command, run=run
        )
    if run is None:
        return None
    if move is not None and move.status is MoveStatus.WITHDRAWN and run.approval in move.approvals_used:
        return PendingReversal(
            status=ReversalStatus.WITHDRAWN,
            plan=move.plan,
            approver=move.approver,
            next_command=f"{command} --dry-run",
        )
    return PendingReversal(
        status=ReversalStatus.PENDING,
        plan=run.plan,
        approver=run.approver,
        next_command=shlex.join(("tanist", "failover", "run", mirror, *where, "--plan", run.plan)),
        run=run,
    )


def _with_reversal(run: FailoverRun | None) -> FailoverRun | None:
    """`run`, if it was approved with the reversal after it."""
    plan = plan_of(run) if run is not None else None
    return run if plan is not None and plan.intent.reverse else None


def reversal_check(found: PendingReversal | None) -> Check:
    """Whether an approved reversal is left to be completed: until then the new primary is not mirrored."""
    return Check(
        name="reversal",
        verdict=Verdict.PASS if found is None else Verdict.FAIL,
        observed="none pending" if found is None else str(found.status),
        limit="none pending",
        reason="" if found is None else str(found),
    )
