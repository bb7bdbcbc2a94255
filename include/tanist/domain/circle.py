"""Where a mirror is on its circle: it copies, fails over, is reversed, copies the other way, and fails over again.

`locate` decides it from the state topics of both clusters; commands, DAGs and pages ask it, and decide nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.failback.outdated import promoted_since
from tanist.domain.failback.reversal import Reversal
from tanist.domain.failover.plan import plan_of
from tanist.domain.moves import UNFINISHED, MoveStatus
from tanist.domain.records import RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.moves import MirrorMove
    from tanist.domain.names import MirrorName
    from tanist.domain.records import FailoverRun, MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView


class CircleStage(StrEnum):
    """What a mirror is doing, as one of its clusters has it; exactly one holds.

    ABSENT: the cluster has no such mirror. MOVED: nor has it, but a record that forwards to its destination.
    ARRIVING: a reversal has brought the mirror's state here, and locks it until its old destination forwards to here.
    LEAVING: a reversal to the old source is unfinished, and can be withdrawn. WITHDRAWING: it is being put back.
    OUTDATED: the old source has taken over again since that reversal was planned, so it can only be ended.
    HANDED_OVER: the old source has the mirror's state, so that reversal can only be completed.
    FAILING_OVER: a failover is unfinished. FAILED_OVER: all topics have left the mirror.
    PARTLY_FAILED_OVER: some have, others are mirrored. EMPTY: it never had a topic.
    MIRRORING: all its topics are mirrored. REVERSED: they are, since a reversal has brought the mirror here.
    """

    ABSENT, MOVED = "ABSENT", "MOVED"
    ARRIVING, LEAVING, WITHDRAWING = "ARRIVING", "LEAVING", "WITHDRAWING"
    OUTDATED, HANDED_OVER = "OUTDATED", "HANDED_OVER"
    FAILING_OVER, FAILED_OVER, PARTLY_FAILED_OVER = "FAILING_OVER", "FAILED_OVER", "PARTLY_FAILED_OVER"
    EMPTY, MIRRORING, REVERSED = "EMPTY", "MIRRORING", "REVERSED"


_LEAVES: Final = frozenset(
    {CircleStage.LEAVING, CircleStage.WITHDRAWING, CircleStage.OUTDATED, CircleStage.HANDED_OVER}
)
"""A reversal from here is unfinished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPlace:
    """Where a mirror is, as one of its clusters has it.

    `spec`, `move`: as stored there. `came_by`: the reversal that has brought the mirror there, as its source has it on
    record; MOVING: that is yet to be completed at the source. `source_has_it`: the source has the state that a reversal
    from there takes to it. `later`: the topics that were promoted since that reversal was planned, in words; empty:
    none. `running`: the unfinished failover. `last`: the failover that was done last, to whichever cluster. `mirrored`:
    the topics that are in the mirror. `left`: whether others have left it.
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
        return self.move if self.stage in _LEAVES else None

    @property
    def takeover(self) -> FailoverRun | None:
        """The failover by which this cluster has taken over, while the mirror copies nothing."""
        return self.last if self.departure or self.stage is CircleStage.FAILED_OVER else None

    def switch_to(self, cluster_id: str) -> FailoverRun | None:
        """The failover by which that cluster has taken over; None: it has not, or another one has since.

        It holds from the end of the failover, during the reversal after it, and until the mirror, which then copies
        from that cluster, fails over again.
        """
        run = self.takeover
        if self.spec is None or self.spec.destination_cluster_id != cluster_id:
            run = self.last if self._copies_since_a_reversal() else None
        plan = plan_of(run) if run is not None else None
        return run if plan is not None and plan.intent.destination_cluster_id == cluster_id else None

    def _copies_since_a_reversal(self) -> bool:
        """It does as well while the reversal is yet to be completed at the old destination, whatever has begun here."""
        if self.came_by is None:
            return False
        return self.came_by.status is MoveStatus.MOVING or self.stage in {CircleStage.ARRIVING, CircleStage.REVERSED}


_STAGES: Final[tuple[tuple[CircleStage, Callable[[MirrorPlace], bool]], ...]] = (
    (CircleStage.ABSENT, lambda at: at.spec is None and at.move is None),
    (CircleStage.MOVED, lambda at: at.spec is None),
    (CircleStage.ARRIVING, lambda at: _arrives(at.move, at.spec)),
    (CircleStage.HANDED_OVER, lambda at: _is_unfinished(at.move) and at.source_has_it),
    (CircleStage.OUTDATED, lambda at: _is_unfinished(at.move) and at.later != ""),
    (CircleStage.WITHDRAWING, lambda at: at.move is not None and at.move.status is MoveStatus.WITHDRAWING),
    (CircleStage.LEAVING, lambda at: _is_unfinished(at.move)),
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

    Where `at_source` is not known (None), HANDED_OVER and OUTDATED are not told from LEAVING and WITHDRAWING, nor is
    REVERSED from MIRRORING.

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
    departure = place.departure
    return replace(
        place,
        came_by=_brought_by(at_source.move(mirror), spec),
        source_has_it=departure is not None and _has_arrived(at_source.mirror(mirror), departure, spec),
        later=_promoted_since(departure, spec, (here, at_source)) if departure is not None else "",
    )


def _is_unfinished(move: MirrorMove | None) -> bool:
    return move is not None and move.status in UNFINISHED


def _arrives(move: MirrorMove | None, spec: MirrorSpec | None) -> bool:
    if move is None or spec is None or move.status is not MoveStatus.MOVING:
        return False
    return move.cluster_id == spec.destination_cluster_id


def _brought_by(move: MirrorMove | None, spec: MirrorSpec) -> MirrorMove | None:
    """`move`, which the source has on record, if it has brought the mirror to where it is."""
    if move is None or move.mirror_id != spec.mirror_id:
        return None
    return move if move.cluster_id == spec.destination_cluster_id else None


def _has_arrived(there: MirrorSpec | None, move: MirrorMove, spec: MirrorSpec) -> bool:
    """Whether `there`, a spec at the old source, is that of the mirror after `move`."""
    if there is None or there.mirror_id != spec.mirror_id:
        return False
    return there.destination_cluster_id == move.cluster_id


def _promoted_since(move: MirrorMove, spec: MirrorSpec, views: tuple[StateView, StateView]) -> str:
    return promoted_since(Reversal.read(move.plan_json), spec.mirror, spec.mirror_id, views)
