"""The one place that introduces adapters to use cases."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from platform import node as host_name
from typing import TYPE_CHECKING, Any, Final, Self

from tanist.domain.checks import Check, Verdict
from tanist.domain.errors import CouldNotTell, Misconfigured, TanistError, UnknownMirror
from tanist.domain.problems import refuse
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, SLICES, STATE_TOPIC, MirrorSpec
from tanist.usecases import sides
from tanist.usecases.groups.contacts import GroupContacts, SourceContacts
from tanist.usecases.mirrors.create import EXPIRATION
from tanist.usecases.mirrors.describe import Describer
from tanist.usecases.sides import Run, Side
from tanist.wire.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from tanist.clusters.compacted_topic import CompactedTopic
    from tanist.domain.names import MirrorName
    from tanist.domain.records import StateRecord
    from tanist.fetcher.service import Parts
    from tanist.ports.clock import Deadline
    from tanist.ports.positions import Positions, Proofs
    from tanist.protocol.stored import Unreadable
    from tanist.settings import ClusterSettings, Settings

PARTITIONS: Final = {STATE_TOPIC: SLICES, OFFSETS_TOPIC: 1, GROUPS_TOPIC: 1}
PACKAGES: Final = ("tanist", "confluent-kafka", "kafka-python", "crc32c", "typer")
DEFAULT_PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
_START_SECONDS: Final = 30.0
_BURST_SECONDS: Final = 0.3
_CONTACTS: Final = 16
"""Clusters that are looked at side by side: a dead one takes its time alone."""


class World:
    """Every cluster of the configuration, opened when first asked for, and closed together."""

    def __init__(self, settings: Settings, extra: Mapping[str, ClusterSettings] | None = None) -> None:
        self.settings = settings
        self._extra = dict(extra or {})
        self._open: dict[str, Side] = {}
        self._group_contacts: list[Positions | Proofs] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> None:
        for side in self._open.values():
            for port in (side.topics, side.configs, side.logs, side.access):
                port.close()
        for contact in self._group_contacts:
            contact.close()

    def names(self) -> tuple[str, ...]:
        """Clusters of the configuration, and the one that flags have named."""
        return tuple(sorted({*self.settings.clusters, *self._extra}))

    def cluster(self, name: str) -> ClusterSettings:
        """How the cluster of that name is reached.

        Raises:
            Misconfigured: naming those that there are.
        """
        return self._extra.get(name) or self.settings.cluster(name)

    def bootstrap(self, name: str) -> str | None:
        """Where the cluster of that name is reached from this host; None: it is not configured here."""
        found = self._extra.get(name) or self.settings.clusters.get(name)
        return ",".join(map(str, found.endpoint.bootstrap)) if found else None

    def connect(self, name: str) -> Side:
        """The cluster of that name.

        Raises:
            Misconfigured: naming those that there are.
        """
        if name not in self._open:
            self._open[name] = _side(name, self.cluster(name))
        return self._open[name]

    def group_contacts(self, spec: MirrorSpec, destination: Side) -> GroupContacts:
        """What asks both ends of a mirror about consumer groups; a source that is not configured here is silent."""
        from tanist.clusters.positions import KafkaPositions  # noqa: PLC0415
        from tanist.clusters.record_proofs import KafkaProofs  # noqa: PLC0415

        there = self.cluster(destination.name).endpoint
        try:
            here = self.cluster(spec.source).endpoint
            source: SourceContacts | TanistError = SourceContacts(
                side=self.connect(spec.source), positions=KafkaPositions(here), proofs=KafkaProofs(here, there)
            )
        except TanistError as unknown:
            source = unknown
        contacts = GroupContacts(destination=destination, positions=KafkaPositions(there), source=source)
        self._group_contacts += contacts.ports()
        return contacts

    def describer(self, destination: Side, include: Sequence[str] = (".*",)) -> Describer:
        """What describes mirrors of `destination`."""
        return Describer(destination, self.connect, tuple(include))

    def destinations(self, mirror: MirrorName | None, run: Run) -> tuple[Side, ...]:
        """The clusters that answer with such a mirror; without a name those that have state topics of ours.

        Raises:
            UnknownMirror: none has it. CouldNotTell: none has it, but not all have answered.
            Misconfigured: several have it, or there is no cluster to ask.
        """
        names = self.names()
        if not names:
            raise Misconfigured(f"no cluster is configured: {self.settings.origin}")
        with ThreadPoolExecutor(min(_CONTACTS, len(names))) as pool:
            looks = list(pool.map(lambda name: self._look(self.connect(name), mirror, run), names))
        found = tuple(self.connect(name) for name, look in zip(names, looks, strict=True) if look is True)
        silent = [look for look in looks if isinstance(look, TanistError)]
        if mirror and not found:
            if silent:
                refuse(silent)
            raise UnknownMirror(f"{mirror!r} on none of {', '.join(names)}")
        if mirror and len(found) > 1:
            several = ", ".join(side.name for side in found)
            raise Misconfigured(f"{several} have a mirror {mirror!r}: say which with --destination")
        if not found and silent:
            refuse(silent)
        return found

    def _look(self, side: Side, mirror: MirrorName | None, run: Run) -> bool | TanistError:
        try:
            sides.identify((side,), run)
            if mirror is None:
                return sides.exists(side, STATE_TOPIC, run.by)
            return isinstance(sides.read(side, STATE_TOPIC, run.by).get(f"mirror/{mirror}"), MirrorSpec)
        except CouldNotTell as error:
            return error


def _side(name: str, cluster: ClusterSettings) -> Side:
    from tanist.clusters.access import KafkaAccess  # noqa: PLC0415 -- `tanist --help` needs no client library
    from tanist.clusters.configs import KafkaConfigs  # noqa: PLC0415
    from tanist.clusters.logs import KafkaLogs  # noqa: PLC0415
    from tanist.clusters.topics import KafkaTopics  # noqa: PLC0415

    endpoint = cluster.endpoint
    return Side(
        name=name,
        bootstrap=",".join(map(str, endpoint.bootstrap)),
        topics=KafkaTopics(endpoint),
        configs=KafkaConfigs(endpoint),
        logs=KafkaLogs(endpoint),
        access=KafkaAccess(endpoint),
        open_store=_Opener(cluster),
        small_state=cluster.allow_small_state,
    )


@dataclass(frozen=True, slots=True)
class _Opener:
    """Opens the state topics of one cluster."""

    cluster: ClusterSettings

    def __call__(self, topic: str, mirror: MirrorName | None, by: Deadline, *, create: bool = False) -> CompactedTopic:
        from tanist.clusters.compacted_topic import CompactedTopic, TopicLayout, operator_of  # noqa: PLC0415

        return CompactedTopic.open(
            self.cluster.endpoint,
            topic,
            by,
            layout=TopicLayout(partitions=PARTITIONS[topic], allow_small=self.cluster.allow_small_state),
            writer=operator_of(mirror) if mirror else None,
            create=create,
        )


# ── the state topics as they are stored ───────────────────────────────────────────────────────────────────────────


def dump(world: World, destination: Side, prefix: str, run: Run) -> Iterator[dict[str, Any]]:
    """Every record of the state topics whose key begins with `prefix`, by key; unreadable ones with their reason."""
    opener = _Opener(world.cluster(destination.name))
    for topic in PARTITIONS:
        if not sides.exists(destination, topic, run.by):
            continue
        with opener(topic, None, run.by) as store:
            records = [_stored(record) for record in store.catch_up(run.by).values()]
            records += [_stored(unreadable) for unreadable in store.problems()]
        yield from sorted((r for r in records if r["key"].startswith(prefix)), key=lambda r: str(r["key"]))


def follow(world: World, destination: Side, prefix: str, run: Run) -> Iterator[dict[str, Any]]:
    """Every record of the state topics in the order read, tombstones too, then live ones for ever."""
    from tanist.clusters.bounds import Bounds  # noqa: PLC0415
    from tanist.clusters.tail import Tail  # noqa: PLC0415

    endpoint = world.cluster(destination.name).endpoint
    tails = []
    for topic, count in PARTITIONS.items():
        if not sides.exists(destination, topic, run.by):
            continue
        with closing(Bounds(endpoint, topic, count)) as bounds:
            tails.append(Tail(endpoint, topic, bounds.starts(run.by)))
    try:
        while True:
            for tail in tails:
                items = (_stored(record) for record in tail.burst(_BURST_SECONDS).records)
                yield from (item for item in items if item["key"].startswith(prefix))
    finally:
        for tail in tails:
            tail.close()


def _stored(record: StateRecord | Unreadable) -> dict[str, Any]:
    """A record as people see it: its key, and its value as it is stored."""
    from tanist.protocol.stored import Unreadable, encode  # noqa: PLC0415

    if isinstance(record, Unreadable):
        return {"key": record.key, "value": None, "unreadable": record.why}
    key, value = encode(record)
    return {"key": key.decode(), "value": None if value is None else json.loads(value)}


# ── this host ─────────────────────────────────────────────────────────────────────────────────────────────────────


def host_checks(world: World) -> tuple[Check, ...]:
    """What `tanist doctor` can say without asking a cluster."""
    configured = ", ".join(world.names())
    return (
        *(_package(name) for name in PACKAGES),
        _java(),
        Check(
            name="configuration",
            verdict=Verdict.PASS if configured else Verdict.FAIL,
            observed=f"{world.settings.origin}: {configured or 'no clusters'}",
            reason="" if configured else "name your clusters in tanist.toml, or `tanist sandbox up`",
        ),
    )


def _package(name: str) -> Check:
    try:
        return Check(name=f"package {name}", verdict=Verdict.PASS, observed=version(name))
    except PackageNotFoundError:
        return Check(name=f"package {name}", verdict=Verdict.FAIL, observed="missing", reason=f"pip install {name}")


def _java() -> Check:
    from tanist.sandbox.java import java  # noqa: PLC0415

    try:
        found = java()
    except TanistError as error:
        return Check(
            name="java",
            verdict=Verdict.FAIL,
            observed="missing",
            reason=f"{error.reason}; only sandbox and Spark need it",
        )
    return Check(name="java", verdict=Verdict.PASS, observed=found)


def run_fetcher(world: World, destination: str, *, worker: str | None, metrics_port: int | None) -> int:
    """Run the service in the foreground until a signal ends it; its exit code.

    Raises:
        CouldNotTell: the destination does not answer. UnsafeStateTopic, AuthorizationFailed, Misconfigured.
    """
    from tanist.fetcher.metrics import serve  # noqa: PLC0415
    from tanist.fetcher.service import Service, run_until_told  # noqa: PLC0415

    stop = threading.Event()
    service = Service(_parts(world, destination, worker or f"{host_name()}-{os.getpid()}", SystemClock(stop)))
    if metrics_port is not None:
        serve(service, metrics_port)
    failed = run_until_told(service, stop)
    if isinstance(failed, TanistError):
        raise failed
    return 70 if failed else 0


def _parts(world: World, destination: str, worker: str, clock: SystemClock) -> Parts:
    """What the service needs of this destination, opened; the state topics are made if nobody has yet."""
    from tanist import __version__  # noqa: PLC0415
    from tanist.clusters.compacted_topic import WORKER, CompactedTopic, TopicLayout  # noqa: PLC0415
    from tanist.clusters.membership import GroupMembership  # noqa: PLC0415
    from tanist.fetcher.coordination import Worker  # noqa: PLC0415
    from tanist.fetcher.service import Parts  # noqa: PLC0415

    cluster = world.cluster(destination)
    by = clock.deadline(_START_SECONDS)

    def store(topic: str) -> CompactedTopic:
        layout = TopicLayout(partitions=PARTITIONS[topic], allow_small=cluster.allow_small_state)
        return CompactedTopic.open(cluster.endpoint, topic, by, layout=layout, writer=WORKER, create=True)

    return Parts(
        worker=Worker(id=worker, version=__version__, host=host_name(), started_at=clock.now()),
        destination=cluster.endpoint,
        resolve=lambda name: world.cluster(name).endpoint,
        state=store(STATE_TOPIC),
        maps=store(OFFSETS_TOPIC),
        groups=store(GROUPS_TOPIC),
        membership=lambda release: GroupMembership(cluster.endpoint, STATE_TOPIC, before_release=release),
        clock=clock,
        slices=SLICES,
        remembered_ms=_remembered_ms(world.connect(destination), by),
    )


def _remembered_ms(side: Side, by: Deadline) -> int:
    """How long the destination remembers a producer id, as far as it tells; Kafka's default otherwise."""
    try:
        return int(side.configs.broker(by)[EXPIRATION])
    except (TanistError, KeyError, ValueError):
        return DEFAULT_PRODUCER_ID_EXPIRATION_MS
