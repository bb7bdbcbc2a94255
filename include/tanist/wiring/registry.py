"""Every cluster of the configuration, opened when first asked for."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from tanist.domain.answers import attempt
from tanist.domain.circle import locate
from tanist.domain.errors import CouldNotTell, Misconfigured, TanistError, UnknownMirror
from tanist.domain.problems import refuse
from tanist.domain.records import STATE_TOPIC, MirrorSpec
from tanist.domain.selection import EVERY_TOPIC
from tanist.ports.clock import Deadline
from tanist.ports.cluster import Cluster, ClusterPair
from tanist.usecases import snapshot
from tanist.usecases.command import Silence
from tanist.usecases.mirror import OpenMirror, identify, spec_at
from tanist.usecases.mirrors.describe import Describer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from tanist.domain.moves import MirrorMove
    from tanist.domain.names import MirrorName
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.kafka.adapters.cluster import KafkaCluster
    from tanist.ports.clock import Clock
    from tanist.ports.logs import LogInspection, LogPairs, LogPrefixes
    from tanist.settings import ClusterSettings, Settings
    from tanist.usecases.command import CommandContext


LOOK_SECONDS: Final = 5.0
"""Time limit for a cluster to report whether it has mirrors, so that none that is down delays a search."""
_CONTACTS: Final = 16
"""Clusters that are queried in parallel, so that one that is down does not delay the others."""


class ClusterRegistry:
    """The clusters of the configuration, opened at first use and closed together."""

    def __init__(self, settings: Settings, extra: Mapping[str, ClusterSettings] | None = None) -> None:
        self.settings = settings
        self._extra = dict(extra or {})
        self._open: dict[tuple[str, str | None], KafkaCluster] = {}
        self._ports: dict[KafkaCluster, Cluster] = {}
        self._others: list[KafkaCluster] = []
        self._silence: Silence | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every cluster that was opened."""
        for cluster in dict.fromkeys((*self._open.values(), *self._others)):
            cluster.close()

    def silence(self, clock: Clock) -> Silence:
        """Clusters that have not answered, shared by all readers of this registry: they are not queried again."""
        self._silence = self._silence or Silence(clock, math.inf)
        return self._silence

    def names(self) -> tuple[str, ...]:
        """The names of the configured clusters, and of the one given by flags."""
        return tuple(sorted({*self.settings.clusters, *self._extra}))

    def cluster(self, name: str) -> ClusterSettings:
        """How to reach the cluster of that name.

        Raises:
            Misconfigured: there is no such cluster; the message names the configured ones.
        """
        return self._extra.get(name) or self.settings.cluster(name)

    def bootstrap(self, name: str) -> str | None:
        """`host:port,...` of the cluster of that name; None: it is not configured on this host."""
        try:
            return self.cluster(name).endpoint.bootstrap_servers
        except Misconfigured:
            return None

    def connect(self, name: str) -> Cluster:
        """The cluster of that name.

        Raises:
            Misconfigured: there is no such cluster; the message names the configured ones.
        """
        return self._of(name)

    def source(self, spec: MirrorSpec) -> Cluster:
        """The source of a mirror. If another cluster answers under its name, every call raises AnotherCluster.

        Raises:
            Misconfigured: there is no such cluster; the message names the configured ones.
        """
        return self._of(spec.source, spec.source_cluster_id)

    def moved_to(self, move: MirrorMove) -> Cluster:
        """The cluster that a forwarding record names. If another one answers, every call raises AnotherCluster.

        Raises:
            Misconfigured: there is no such cluster; the message names the configured ones.
        """
        return self._of(move.destination, move.cluster_id)

    def _of(self, name: str, cluster_id: str | None = None) -> Cluster:
        """The ports of a cluster, always the same ones: they share its readers of state topics."""
        cluster = self.open(name, cluster_id)
        return self._ports.setdefault(cluster, side_of(cluster))

    def open(self, name: str, cluster_id: str | None = None) -> KafkaCluster:
        """The cluster of that name with all its ports; the registry closes it. `cluster_id`: the only id accepted.

        A name may be the destination of one mirror and the source of another. Both get one object, which has one
        reader for each state topic, once a cluster with that id has answered under that name. Until then they are two,
        because nobody knows which cluster will answer.

        Raises:
            Misconfigured: there is no such cluster; the message names the configured ones.
        """
        from tanist.kafka.adapters.cluster import (  # noqa: PLC0415 -- `tanist --help` needs no client library
            KafkaCluster,
        )

        if (name, cluster_id) not in self._open:
            cluster = self.cluster(name)
            of_name = [each for (known, _), each in list(self._open.items()) if known == name]
            self._open[name, cluster_id] = next(
                (each for each in of_name if each.pin_if_known(cluster_id)), None
            ) or KafkaCluster(cluster.endpoint, small_state=cluster.allow_small_state, cluster_id=cluster_id)
        return self._open[name, cluster_id]

    def another(self, name: str) -> KafkaCluster:
        """As `open`, with connections of its own: for another thread."""
        from tanist.kafka.adapters.cluster import KafkaCluster  # noqa: PLC0415

        cluster = self.cluster(name)
        self._others.append(KafkaCluster(cluster.endpoint, small_state=cluster.allow_small_state))
        return self._others[-1]

    def again(self) -> ClusterRegistry:
        """Another registry of the same clusters, with connections of its own: for another thread, which closes it."""
        return ClusterRegistry(self.settings, self._extra)

    def open_mirror(
        self, destination: Cluster, mirror: MirrorName, context: CommandContext, *, any_copier: bool = False
    ) -> OpenMirror:
        """A mirror with both of its clusters. The source must be the cluster that the mirror pins; see `source`.

        `any_copier`: also a mirror whose records somebody else copies, for what writes to no topic of it.

        Raises:
            UnknownMirror: the destination has no such mirror. AnotherCluster: it is not the mirror's destination.
            CopiedByAnother: somebody else copies its records.
            CouldNotTell, BrokerError: the destination cannot be read.
        """
        return self.mirror(spec_at(destination, mirror, context, any_copier=any_copier), destination)

    def mirror(self, spec: MirrorSpec, destination: Cluster) -> OpenMirror:
        """The mirror with that spec; a source that is not configured on this host counts as unreachable."""
        source: Cluster | TanistError
        pair: ClusterPair | TanistError
        try:
            source = self.source(spec)
            pair = pair_of(self.open(spec.source, spec.source_cluster_id), self.open(destination.name))
        except TanistError as unknown:
            source = pair = unknown
        return OpenMirror(
            spec=spec,
            source=source,
            destination=destination,
            pair=pair,
            from_source=lambda context: self.open_mirror(self.source(spec), spec.mirror, context),
        )

    def forwarded(self, destination: Cluster, mirror: MirrorName, context: CommandContext) -> Cluster | None:
        """The cluster that a mirror has moved to from `destination`; None: it has not moved.

        Raises:
            Misconfigured: that cluster is not configured here.
        """
        move = locate(mirror, destination.state(STATE_TOPIC, context.by)).forwarding
        return None if move is None else self.connect(move.destination)

    def log_prefixes(self, source: str, destination: Cluster, cluster_id: str | None = None) -> LogPrefixes:
        """Compares the logs of a destination with those of `source`; `cluster_id`: the only id accepted of it."""
        return self.open(source, cluster_id).log_prefixes(self.open(destination.name))

    def log_pairs(self, source: str, destination: Cluster) -> LogPairs:
        """Pairs the records of copies at a destination with those of `source`."""
        return self.open(source).log_pairs(self.open(destination.name))

    def log_inspection(self, cluster: Cluster) -> LogInspection:
        """Reads who has written the logs of a cluster."""
        return self.open(cluster.name).log_inspection()

    def describer(self, destination: Cluster, selection: Selection = EVERY_TOPIC) -> Describer:
        """The describer of mirrors of `destination`."""
        return Describer(destination, self.connect, selection)

    def destinations(self, mirror: MirrorName | None, context: CommandContext) -> tuple[Cluster, ...]:
        """The clusters that have the mirror; with None those that have state topics.

        Raises:
            UnknownMirror: no cluster has it. CouldNotTell: none has it, but not all have answered.
            Misconfigured: several clusters have it, or no cluster is configured.
        """
        names = self.names()
        if not names:
            raise Misconfigured(f"no cluster is configured: {self.settings.origin}")
        with ThreadPoolExecutor(min(_CONTACTS, len(names))) as pool:
            looks = list(pool.map(lambda name: self._look(self.connect(name), mirror, context), names))
        certain = True in looks
        found = tuple(
            self.connect(name)
            for name, look in zip(names, looks, strict=True)
            if look is True or (look is None and not certain)
        )
        silent = [look for look in looks if isinstance(look, TanistError)]
        if mirror and not found:
            if silent:
                refuse(silent)
            raise UnknownMirror(f"mirror {mirror!r} is on none of {', '.join(names)}")
        if mirror and len(found) > 1:
            several = ", ".join(side.name for side in found)
            raise Misconfigured(f"several clusters have a mirror {mirror!r} ({several}): choose one with --destination")
        if not found and silent:
            refuse(silent)
        return found

    def views(self, names: Sequence[str], context: CommandContext) -> Mapping[str, StateView | TanistError | None]:
        """What is in the state topic of each of these clusters, or why that is not known; None: it has none.

        Raises:
            Misconfigured: a name is that of no cluster.
        """
        clusters = [self.connect(name) for name in names]
        with ThreadPoolExecutor(min(_CONTACTS, len(names) or 1)) as pool:
            return dict(zip(names, pool.map(lambda each: attempt(lambda: _view(each, context)), clusters), strict=True))

    def _look(self, cluster: Cluster, mirror: MirrorName | None, context: CommandContext) -> bool | TanistError | None:
        """Whether a cluster has the mirror, or any; None: a reversal that moves it to another one is unfinished."""
        try:
            _contact(cluster, context)
            if mirror is None:
                return snapshot.exists(cluster, STATE_TOPIC, context.by)
            found = locate(mirror, cluster.state(STATE_TOPIC, context.by))
        except CouldNotTell as error:
            self.silence(context.clock).keep(cluster.name, error)
            return error
        return None if found.departure else found.spec is not None


def _contact(cluster: Cluster, context: CommandContext) -> None:
    """Raises the error of a cluster that does not answer within LOOK_SECONDS."""
    brief = replace(context, by=Deadline(min(context.by.at, context.clock.deadline(LOOK_SECONDS).at)))
    identify((cluster,), brief)


def _view(cluster: Cluster, context: CommandContext) -> StateView | None:
    _contact(cluster, context)
    return cluster.stored(STATE_TOPIC, context.by)


def side_of(cluster: KafkaCluster) -> Cluster:
    """The ports of a cluster under one name."""
    return Cluster(
        name=cluster.name,
        bootstrap=cluster.bootstrap,
        topics=cluster.topics,
        configs=cluster.configs,
        logs=cluster.logs,
        replicas=cluster.replicas,
        access=cluster.access,
        acls=cluster.acls,
        fencing=cluster.fencing,
        producer_fencing=cluster.producer_fencing,
        opening=cluster.opening,
        approvals=cluster.approvals,
        positions=cluster.positions,
        open_store=cluster.open_store,
        transactions=cluster.transactions,
        deletion=cluster.deletion,
        sizes=cluster.sizes,
        times=cluster.times,
        replays=cluster.replays,
        mirrormaker=cluster.mirrormaker,
        certificates=cluster.certificates,
        small_state=cluster.small_state,
    )


def pair_of(source: KafkaCluster, destination: KafkaCluster) -> ClusterPair:
    """What compares the logs of two clusters."""
    return ClusterPair(
        proofs=source.proofs(destination),
        prefixes=source.log_prefixes(destination),
        tails=source.divergent_tails(destination),
        quarantine=source.quarantine(destination),
    )
