"""Ports whose every call is a point of the stage: there an actor may be frozen or killed, or lose its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tests.explorer.groups import NothingToCompare
from tests.explorer.place import DR
from tests.explorer.product import (
    Chosen,
    CommandContext,
    FailoverContext,
    GroupContacts,
    GroupsMoved,
    MemoryApprovals,
    MemoryPositions,
    SourceContacts,
    SyncRequest,
    moved_by,
    sync_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        replicas=Pointed(place, "replicas", bare.replicas),
        fencing=Pointed(place, "fencing", bare.fencing),
        producer_fencing=Pointed(place, "producer_fencing", bare.producer_fencing),
        opening=Pointed(place, "opening", bare.opening),
    )


def unpointed(place: Place, spec: MirrorSpec) -> FailoverContext:
    """Both clusters of a mirror for who judges: nobody is on the stage, and nothing can happen to them."""
    return FailoverContext(
        spec=spec,
        source=place.east.side(),
        destination=place.west.side(),
        move_groups=lambda *_asked, **_named: GroupsMoved(),
    )


def clusters(place: Place, spec: MirrorSpec, context: CommandContext, user: str) -> FailoverContext:
    """Both clusters, with everything that a failover asks of them."""
    east, west = side(place, place.east), side(place, place.west)
    return FailoverContext(
        spec=spec,
        source=east,
        destination=replace(west, approvals=Pointed(place, "approvals", MemoryApprovals(place.west, user))),
        move_groups=_MoveGroups(place, spec, context),
    )


class _MoveGroups:
    """The last translation, by the same use case as `tanist groups sync`."""

    def __init__(self, place: Place, spec: MirrorSpec, context: CommandContext) -> None:
        self._place, self._spec, self._run = place, spec, context

    def __call__(
        self,
        topics: Sequence[str],
        groups: Sequence[str],
        by: Deadline,
        confirm: Callable[[], None],
        *,
        ask_source: bool,
    ) -> GroupsMoved:
        chosen = Chosen(groups=tuple(groups), topics=frozenset(topics), ask_source=ask_source)
        request = SyncRequest(chosen=chosen, prove_seconds=2.0, confirm=confirm)
        return moved_by(sync_groups(self._spec, contacts(self._place), request, replace(self._run, by=by)))


def contacts(place: Place) -> GroupContacts:
    return GroupContacts(
        destination=side(place, place.west),
        positions=Pointed(place, "positions", MemoryPositions(place.at_west, DR, place.stage.point)),
        source=SourceContacts(
            cluster=side(place, place.east),
            positions=Pointed(place, "source positions", MemoryPositions(place.at_east, DR)),
            proofs=NothingToCompare(),
        ),
    )
