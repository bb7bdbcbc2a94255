"""The leaders of source partitions, which decide which fetcher thread copies them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import AnotherCluster, Stopped, TanistError
from tanist.domain.names import topic_id_of
from tanist.domain.states import Finding
from tanist.fetcher.assignment import FetcherThreadKey, Report
from tanist.fetcher.planning import recreated
from tanist.kafka.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import MirrorName, TopicPartition
    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.assignment import Assigned, Assignment, MirrorPartition
    from tanist.fetcher.planning import Owned
    from tanist.kafka.wire.router import TopicInfo
    from tanist.ports.clock import Clock

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS: Final = 15.0
LOOK_AGAIN_SECONDS: Final = 0.5
ANSWER_SECONDS: Final = 5.0


class SourceLeaders:
    """The leaders of one mirror's source. Owned by the coordination thread; `interrupt` from any."""

    def __init__(self, resolve: Callable[[], Endpoint], client_id: str, clock: Clock) -> None:
        self.error: TanistError | None = None
        self.failing_since: float | None = None
        self._resolve = resolve
        self._client_id = client_id
        self._router: Router | None = None
        self._clock = clock
        self._looked_at = float("-inf")
        self._led: Mapping[str, int] = {}
        """Topics whose partitions all had a leader, with their numbers of partitions."""

    def look(self, spec: MirrorSpec, topics: Mapping[str, int], *, stale: bool) -> None:
        """Refresh if necessary: a leader moved, topics are new or without leader, or the last refresh is too old.

        `topics`: each with its number of partitions, so that topics that have grown count as without leader.
        """
        now = self._clock.monotonic()
        unled = any(self._led.get(name, 0) < partitions for name, partitions in topics.items())
        hurry = stale or self.error is not None or unled
        if now - self._looked_at < (LOOK_AGAIN_SECONDS if hurry else LOOK_EVERY_SECONDS):
            return
        try:
            if self._router is None:
                self._router = Router(self._resolve(), self._client_id)
            self._router.refresh(sorted(topics), self._clock.deadline(ANSWER_SECONDS))
            _same_cluster(spec, self._router.cluster_id)
        except Stopped:
            raise
        except TanistError as why:
            self.failing_since = now if self.error is None else self.failing_since
            self.error = why
        else:
            self.error = self.failing_since = None
            found = self._router.topics()
            self._led = {name: len(info.partitions) for name, info in found.items() if _led(info)}
        self._looked_at = self._clock.monotonic()

    def thread_key(self, spec: MirrorSpec, partition: TopicPartition) -> FetcherThreadKey | None:
        """The fetcher thread for a partition by its last known leader; None: no leader is known."""
        if self._router is None or isinstance(self.error, AnotherCluster):
            return None
        try:
            return FetcherThreadKey(spec.mirror, self._router.leader(partition), 0)
        except TanistError:
            return None

    def report(self, mine: Owned) -> Report | None:
        """A report that no fetcher thread can give: a source that does not answer, a topic that was re-created."""
        if self.error is not None:
            return Report(error=self.error, failing_since=self.failing_since)
        info = self._router.topics().get(mine.topic.topic) if self._router is not None else None
        if info is None:
            return None
        if broken := recreated(mine.topic.topic, topic_id_of(mine.topic.source_topic_id), info.topic_id):
            return Report(finding=Finding.BROKEN, error=broken)
        if info.error is not None:
            return Report(error=info.error, failing_since=self._looked_at - LOOK_EVERY_SECONDS)
        return None

    def interrupt(self) -> None:
        if self._router is not None:
            self._router.interrupt()

    def close(self) -> None:
        if self._router is not None:
            self._router.close()


def _led(info: TopicInfo) -> bool:
    return info.error is None and all(part.leader is not None for part in info.partitions)


def _same_cluster(spec: MirrorSpec, found: str | None) -> None:
    if spec.source_cluster_id and found != spec.source_cluster_id:
        raise AnotherCluster(f"{spec.source!r} is cluster {found}, mirror {spec.mirror!r} was created for another")


def by_lane(assigned: Mapping[MirrorPartition, Assigned], leaders: Mapping[MirrorName, SourceLeaders]) -> Assignment:
    """The assignment of each fetcher thread."""
    lanes: Assignment = {}
    for copied, each in assigned.items():
        key = leaders[copied.mirror].thread_key(each.spec, each.partition)
        if key is not None:
            lanes.setdefault(key, {})[copied] = each
    return lanes


def topics_by_mirror(mine: Iterable[Owned]) -> dict[MirrorName, tuple[MirrorSpec, Mapping[str, int]]]:
    """The mirrors with assigned partitions, each with its topics and their numbers of partitions."""
    found: dict[MirrorName, tuple[MirrorSpec, dict[str, int]]] = {}
    for each in mine:
        found.setdefault(each.spec.mirror, (each.spec, {}))[1][each.topic.topic] = each.topic.partitions
    return dict(found)
