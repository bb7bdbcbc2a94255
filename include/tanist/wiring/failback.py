"""Connects the use cases of the way back to both clusters."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import TanistError
from tanist.domain.failover.plan import plan_of
from tanist.domain.moves import MoveStatus
from tanist.domain.problems import each
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reverse import at_no_point, last_move, reverse, reversed_before
from tanist.usecases.failback.settling import end_arrival
from tanist.usecases.failback.switched import switched
from tanist.usecases.failover.journal import BEGINS, DONE, NOT_YET, add_event
from tanist.wiring.failover import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tanist.domain.names import MirrorName
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.reverse import Reversed
    from tanist.usecases.mirror import ReturnedMirror
    from tanist.wiring.registry import ClusterRegistry

_SETTLE_SECONDS: Final = 30.0
_REVERSE: Final = "reverse"


def moved_to(
    registry: ClusterRegistry, destination: Cluster, mirror: MirrorName, context: CommandContext
) -> Cluster | None:
    """The cluster that a mirror has moved to from `destination`; None: it has not moved.

    Raises:
        Misconfigured: that cluster is not configured here.
    """
    view = destination.state(STATE_TOPIC, context.by)
    move = view.move(mirror)
    return None if view.mirror(mirror) is not None or move is None else registry.connect(move.destination)


def reverse_mirror(
    registry: ClusterRegistry,
    clusters: ReturnedMirror,
    request: ReversalRequest,
    context: CommandContext,
    checkpoint: Callable[[str], None] = at_no_point,
) -> Reversed:
    """Reverse a mirror; or complete an interrupted reversal, also one that has brought it to where it is now.

    If the mirror has failed over since that one, the request is for the next one. Raises as `reverse`.
    """
    move = last_move(clusters, context)
    if move is not None and move.status is MoveStatus.MOVING:
        old = registry.open_mirror(clusters.source, clusters.spec.mirror, context).returned()
        done = reverse(request, old, context, checkpoint)
        if done.topics:
            return done
        completed = True
    else:
        completed = end_arrival(clusters.destination, clusters.spec.mirror, context)
    if move is not None and (before := reversed_before(move, clusters, context)) is not None:
        return replace(before, changed=completed)
    return reverse(request, clusters, context, checkpoint)


def reverse_after(  # of which failover, where, and where it is told
    registry: ClusterRegistry,
    destination: Cluster,
    mirror: MirrorName,
    failover: str,
    context: CommandContext,
    evidence: Folder,
) -> Reversed | None:
    """The last step of a failover plan with a reversal, once the failover is done, by its approval; or the rest of it.

    None: the plan has no reversal, or the mirror has failed over again since. For a while it waits for what is not
    settled right after the failover, such as markers of the old source's coordinators. `evidence`: of the failover.

    Raises as `reverse_mirror`.
    """
    clusters = registry.open_mirror(destination, mirror, context).returned()
    run = destination.state(STATE_TOPIC, context.by).failover(mirror, failover)
    plan = plan_of(run) if run is not None else None
    if plan is None or not plan.intent.reverse:
        return None
    last = switched(clusters, plan.intent.destination_cluster_id, context)
    if last is None or last.plan != failover:
        return None
    add_event(evidence, context.clock, _REVERSE, BEGINS, {})
    try:
        done = _once_settled(registry, clusters, ReversalRequest(failover=failover), context)
    except TanistError as why:
        add_event(evidence, context.clock, _REVERSE, NOT_YET, {"reason": str(why)})
        raise
    detail = {"plan_hash": done.plan, "source": done.spec.source, "destination": done.spec.destination}
    add_event(evidence, context.clock, _REVERSE, DONE, detail)
    return done


def _once_settled(
    registry: ClusterRegistry, clusters: ReturnedMirror, request: ReversalRequest, context: CommandContext
) -> Reversed:
    by = context.clock.deadline(_SETTLE_SECONDS)
    while True:
        try:
            return reverse_mirror(registry, clusters, request, context)
        except TanistError as why:
            if not by.left(context.clock.monotonic()) or not all(one.retriable for one in each(why)):
                raise
            context.clock.wait(1.0)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file in the folder of the evidence, replaced as a whole."""

    path: Path
    name: str = "manifest.json"

    def check(self) -> None:
        """Raise Misconfigured if it cannot be written; called before anything is changed."""
        Folder(self.path).check()

    def write(self, manifest: Mapping[str, Any]) -> None:
        """Replace the file."""
        Folder(self.path).replace(self.name, json.dumps(manifest, indent=2) + "\n")
