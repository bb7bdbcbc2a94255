"""Whether a mirror has failed over to a cluster and at most the reversal after that is left to do. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.failover.plan import plan_of
from tanist.domain.moves import MoveStatus
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.usecases.failback.reverse import last_move

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.records import FailoverRun
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import ReturnedMirror


def switched(clusters: ReturnedMirror, to: str, command: CommandContext) -> FailoverRun | None:
    """The failover by which the cluster with the id `to` has taken over; None: it has not, or another has since.

    It holds from the end of the failover, during the reversal after it, and until the mirror, which then copies from
    `to`, fails over again. `clusters`: of the mirror where it is now.
    """
    mirror = clusters.spec.mirror
    view = clusters.destination.state(STATE_TOPIC, command.by)
    if clusters.spec.destination_cluster_id == to:
        over = bool(view.removed(mirror)) and not view.mirrored(mirror) and view.unfinished(mirror) is None
    elif (move := last_move(clusters, command)) is None:
        over = False
    else:
        copies = bool(view.mirrored(mirror)) and not view.removed(mirror) and view.unfinished(mirror) is None
        over = move.status is MoveStatus.MOVING or copies
    return _last_to(view, mirror, to) if over else None


def _last_to(view: StateView, mirror: MirrorName, to: str) -> FailoverRun | None:
    """The last failover that is done, if it was to that cluster."""
    done = [each for each in view.failovers(mirror) if each.status is RunStatus.DONE]
    last = max(done, key=lambda each: each.at, default=None)
    plan = plan_of(last) if last is not None else None
    return last if plan is not None and plan.intent.destination_cluster_id == to else None
