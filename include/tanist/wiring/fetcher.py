"""Connects the fetcher service to its clusters."""

from __future__ import annotations

import os
import threading
from contextlib import closing, contextmanager
from functools import partial
from platform import node as host_name
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import TanistError
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_PARTITIONS, STATE_TOPIC
from tanist.domain.state_view import NOTHING_YET
from tanist.kafka.wire.clock import SystemClock
from tanist.usecases.command import CommandContext
from tanist.usecases.lock import Purpose, mirror_lock
from tanist.usecases.mirrors.create import EXPIRATION
from tanist.wiring.duties import RegistryDuties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.promotions import PromotionRecord
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.fetcher.service import Parts, Service
    from tanist.kafka.adapters.compacted_topic import CompactedTopic
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.settings import ClusterSettings
    from tanist.usecases.lock import LockedMirror
    from tanist.wiring.registry import ClusterRegistry
    from tanist.wiring.verdicts import Verdicts


DEFAULT_PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
_START_SECONDS: Final = 30.0
END_SECONDS: Final = 5.0
"""How long a look may go on that has begun when the service ends."""


def _tell_nobody(_rounds: int) -> None:
    """The `report` of a service whose progress nobody watches."""


def run_fetcher(
    registry: ClusterRegistry,
    destination: str,
    *,
    worker: str | None,
    metrics_port: int | None,
    report: Callable[[int], None] = _tell_nobody,
    needs_port: bool = True,
) -> int:
    """Run the service in the foreground until a signal ends it; its exit code.

    `needs_port`: a port for metrics that is not available is refused; else it is tried again, and copying goes on.
    `report` gets the number of rounds every half second: a number that does not grow means that the service hangs.

    Raises:
        CouldNotTell: the destination does not answer. UnsafeStateTopic, AuthorizationFailed, Misconfigured.
        TwoClusters: its bootstrap servers lead to different clusters.
    """
    from tanist.fetcher.monitoring import must_be_available  # noqa: PLC0415
    from tanist.fetcher.service import Service, run_until_told  # noqa: PLC0415
    from tanist.wiring.verdicts import Verdicts  # noqa: PLC0415

    if metrics_port is not None and needs_port:
        must_be_available(metrics_port)  # before it joins the other workers, which wait for each other then
    stop = threading.Event()
    clock = SystemClock(stop)
    service = Service(_parts(registry, destination, worker or f"{host_name()}-{os.getpid()}", clock))
    verdicts = Verdicts(registry, destination, service.held, clock)
    with _monitored(service, verdicts, clock, metrics_port, needs_port=needs_port):
        failed = run_until_told(service, stop, report)
    if isinstance(failed, TanistError):
        raise failed
    return 70 if failed else 0


@contextmanager
def _monitored(
    service: Service, verdicts: Verdicts, clock: SystemClock, port: int | None, *, needs_port: bool
) -> Iterator[None]:
    """Serves the metrics of `service`, if there is a port; raises Misconfigured as `run_fetcher`."""
    from tanist.fetcher.metrics import WorkerCollector  # noqa: PLC0415
    from tanist.fetcher.monitoring import Monitoring  # noqa: PLC0415

    if port is None:
        yield
        return
    collector = WorkerCollector(lambda: service.scraped(verdicts.seen), clock)
    monitoring = Monitoring(port, collector, lambda: service.health((verdicts,)))
    if needs_port:
        monitoring.start()
    else:
        monitoring.keep_trying()
    verdicts.start()
    try:
        yield
    finally:
        verdicts.stop()
        monitoring.stop()
        verdicts.join(END_SECONDS)


def worker_store(registry: ClusterRegistry, destination: str, by: Deadline) -> closing[CompactedTopic]:
    """The state topic of a destination with the writer of a worker, which locks no mirror."""
    return closing(_store(registry.cluster(destination), STATE_TOPIC, by))


def _parts(registry: ClusterRegistry, destination: str, worker: str, clock: SystemClock) -> Parts:
    """Everything that the service needs of this destination; creates the state topics if they are missing."""
    from tanist import __version__  # noqa: PLC0415
    from tanist.fetcher.coordination import Worker  # noqa: PLC0415
    from tanist.fetcher.fence_reconciler import Guards  # noqa: PLC0415
    from tanist.fetcher.service import Parts  # noqa: PLC0415
    from tanist.kafka.adapters.membership import GroupMembership  # noqa: PLC0415

    cluster = registry.cluster(destination)
    by = clock.deadline(_START_SECONDS)
    registry.connect(destination).topics.cluster_id(by)  # raises TwoClusters: each lane might reach another one

    def store(topic: str) -> CompactedTopic:
        return _store(cluster, topic, by)

    return Parts(
        worker=Worker(id=worker, version=__version__, host=host_name(), started_at=clock.now()),
        destination=cluster.endpoint,
        resolve=lambda name: registry.cluster(name).endpoint,
        state=store(STATE_TOPIC),
        maps=store(OFFSETS_TOPIC),
        groups=store(GROUPS_TOPIC),
        guards=Guards(
            fencing=lambda spec: registry.open(spec.source, spec.source_cluster_id).fencing,
            topics=lambda spec: registry.open(spec.source, spec.source_cluster_id).topics,
            producer_fencing=registry.open(destination).producer_fencing,
            replicas=registry.open(destination).replicas,
            sources=_SourceStates(registry.cluster),
            lock=lambda mirror, operation, by: _lock(
                registry.connect(destination),
                mirror,
                operation,
                CommandContext(clock=clock, by=by, holder=f"worker {worker}"),
            ),
        ),
        duties=partial(RegistryDuties.of, registry, destination, worker, clock),
        access=registry.another(destination).access,
        membership=lambda release: GroupMembership(cluster.endpoint, STATE_TOPIC, before_release=release),
        clock=clock,
        state_partitions=STATE_PARTITIONS,
        remembered_ms=_remembered_ms(registry.connect(destination), by),
    )


@contextmanager
def _lock(destination: Cluster, mirror: MirrorName, operation: str, command: CommandContext) -> Iterator[LockedMirror]:
    """The lock of a mirror for a worker. It locks rarely: the readers that are made for it are closed with it."""
    with (
        closing(destination),
        mirror_lock(destination, mirror, Purpose(operation=operation, preemptible=True), command) as lock,
    ):
        yield lock


def _store(
    cluster: ClusterSettings, topic: str, by: Deadline, *, reads: bool = False, cluster_id: str | None = None
) -> CompactedTopic:
    """A worker's own writer on a state topic, which is created if it is missing; `reads`: only what is there."""
    from tanist.kafka.adapters.cluster import PARTITIONS  # noqa: PLC0415
    from tanist.kafka.adapters.compacted_topic import WORKER, CompactedTopic, TopicLayout  # noqa: PLC0415

    layout = TopicLayout(partitions=PARTITIONS[topic], allow_small=cluster.allow_small_state)
    writer = None if reads else WORKER
    return CompactedTopic.open(
        cluster.endpoint, topic, by, layout=layout, writer=writer, create=not reads, cluster_id=cluster_id
    )


class _SourceStates:
    """The port `SourceStates`. A source that was read once is followed, so that reading it again is cheap."""

    def __init__(self, cluster: Callable[[str], ClusterSettings]) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._followed: dict[tuple[str, str], CompactedTopic] = {}

    def read(self, spec: MirrorSpec, by: Deadline) -> StateView:
        with self._lock:
            source = (spec.source, spec.source_cluster_id)
            try:
                if source not in self._followed:
                    self._followed[source] = self._open(spec, by, reads=True)
                return self._followed[source].catch_up(by)
            except UnknownTopicOrPartition:
                return NOTHING_YET
            except TanistError:
                self._forget(source)
                raise

    def report_promotions(self, spec: MirrorSpec, promotions: Sequence[PromotionRecord], by: Deadline) -> None:
        with closing(self._open(spec, by, reads=False)) as store:
            store.append(promotions, by)

    def _open(self, spec: MirrorSpec, by: Deadline, *, reads: bool) -> CompactedTopic:
        cluster = self._cluster(spec.source)
        return _store(cluster, STATE_TOPIC, by, reads=reads, cluster_id=spec.source_cluster_id)

    def close(self) -> None:
        with self._lock:
            for source in list(self._followed):
                self._forget(source)

    def _forget(self, source: tuple[str, str]) -> None:
        if source in self._followed:
            self._followed.pop(source).close()


def _remembered_ms(cluster: Cluster, by: Deadline) -> int:
    """`producer.id.expiration.ms` of the destination; Kafka's default if it is not reported."""
    try:
        return int(cluster.configs.broker(by)[EXPIRATION])
    except (TanistError, KeyError, ValueError):
        return DEFAULT_PRODUCER_ID_EXPIRATION_MS
