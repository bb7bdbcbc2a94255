"""Ports whose every call is a point of the stage: there an actor may be frozen or killed, or lose its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tests.explorer.groups import NothingToCompare
from tests.explorer.place import DR
from tests.explorer.product import (
    MemoryApprovals,
    MemoryPositions,
    OpenMirror,
)
from tests.fakes.cluster import nowhere, pair_with

if TYPE_CHECKING:
    from tests.explorer.place import Ground, Place
    from tests.explorer.product import Cluster, Deadline, GuardedCluster, MirrorName, MirrorSpec

_AT_ONCE: Final = frozenset({"close", "view", "ended"})
"""These ask no cluster."""


class Pointed:
    """Any port."""

    def __init__(self, place: Ground, name: str, port: Any) -> None:
        self._place, self._name, self._port = place, name, port

    def __getattr__(self, method: str) -> Any:
        found = getattr(self._port, method)
        if method in _AT_ONCE:
            return found

        def call(*args: Any, **named: Any) -> Any:
            label = f"{self._name}.{method}"
            self._place.stage.point(label)
            self._place.before(label, args)
            reported = found(*args, **named)
            self._place.after(label, args)
            self._place.stage.answer(label)
            return reported

        return call


def side(place: Ground, cluster: GuardedCluster) -> Cluster:
    """A cluster as commands see it."""
    bare: Cluster = cluster.side()

    def open_store(topic: str, mirror: MirrorName | None, by: Deadline, **how: bool) -> Any:
        what = "open" if mirror else "read"
        place.stage.point(f"state.{what}")
        store = bare.open_store(topic, mirror, by, **how)
        place.stage.answer(f"state.{what}")
        return Pointed(place, "state", store)

    return replace(
        bare,
        open_store=open_store,
        topics=Pointed(place, "topics", bare.topics),
        configs=Pointed(place, "configs", bare.configs),
        logs=Pointed(place, "logs", bare.logs),
        access=Pointed(place, "access", bare.access),
        acls=Pointed(place, "acls", bare.acls),
        replicas=Pointed(place, "replicas", bare.replicas),
        fencing=Pointed(place, "fencing", bare.fencing),
        producer_fencing=Pointed(place, "producer_fencing", bare.producer_fencing),
        opening=Pointed(place, "opening", bare.opening),
    )


def unpointed(place: Place, spec: MirrorSpec) -> OpenMirror:
    """A mirror for who judges: nobody is on the stage, and nothing can happen to its clusters."""
    return OpenMirror(
        spec=spec, source=place.east.side(), destination=place.west.side(), pair=pair_with(), from_source=nowhere
    )


def clusters(place: Place, spec: MirrorSpec, user: str) -> OpenMirror:
    """A mirror, with everything that a failover asks of its clusters, and a sync of groups."""
    east, west = side(place, place.east), side(place, place.west)
    theirs = Pointed(place, "source positions", MemoryPositions(place.at_east, DR))
    ours = Pointed(place, "positions", MemoryPositions(place.at_west, DR, place.stage.point))
    approvals = Pointed(place, "approvals", MemoryApprovals(place.west, user))
    return OpenMirror(
        spec=spec,
        source=replace(east, positions=lambda _: theirs),
        destination=replace(west, approvals=approvals, positions=lambda _: ours),
        pair=pair_with(proofs=NothingToCompare()),
        from_source=nowhere,
    )
