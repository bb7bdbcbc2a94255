"""Who has acknowledged what, what is a listed tail, and what is in quarantine: read and put together after a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tanist_testkit.verify import clients
from tanist_testkit.verify.reading import LogExtent, bounds, read
from tanist_testkit.verify.traces import Place, Trace, Traces, merged
from tests.storm.accounts import Account, Log, Reader, Tail, account, tails_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tanist.ports.clock import Clock, Deadline
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.verify.writing import Load


@dataclass(slots=True)
class Ledger:
    """Of one storm. `loads`: with the cluster that they were written to."""

    clock: Clock
    clusters: tuple[SandboxCluster, SandboxCluster]
    topics: Sequence[str]
    retried: Collection[str]
    loads: list[tuple[str, Load]] = field(default_factory=list)
    tails: set[Tail] = field(default_factory=set)
    _held: dict[str, dict[Place, Place]] = field(default_factory=dict)
    """By cluster, of each partition of a quarantine topic where its records come from."""

    def list(self, side: str, surveyed: Iterable[Mapping[str, Any]]) -> None:
        """What `tanist failback survey` has found at the old source."""
        self.tails |= set(tails_of(side, surveyed))

    def quarantined(self, at: SandboxCluster, rescued: Iterable[Mapping[str, Any]]) -> None:
        """What `tanist failback rescue` has copied."""
        held = self._held.setdefault(at.name, {})
        for each in rescued:
            if each["quarantine"]:
                held[Place(each["quarantine"], each["partition"])] = Place(each["topic"], each["partition"])

    def account(self, by: Deadline) -> Account:
        """Every record of both clusters, once nothing is written or copied any more."""
        logs = {each.name: self._log(each, by) for each in self.clusters}
        quarantines = [self._quarantine(each, by) for each in self.clusters]
        acknowledged = {
            each.name: merged([load.traces() for side, load in self.loads if side == each.name])
            for each in self.clusters
        }
        return account(logs, quarantines, self.tails, acknowledged, self.retried)

    def figures(self, found: Account) -> dict[str, int]:
        """Of the whole storm so far."""
        loads = [load for _, load in self.loads]
        return {
            "records acknowledged": found.acknowledged,
            "records acknowledged without an offset": sum(
                len(trace.unplaced) for load in loads for trace in load.traces().values()
            ),
            "records refused": sum(load.refused for load in loads),
            "records unanswered": sum(load.unanswered for load in loads),
            "records aborted": sum(load.aborted for load in loads),
            "records compared on both clusters": found.verdict.records,
            "records in listed tails": found.only_once,
            "records in quarantine": found.quarantined,
            "missing": found.missing,
            "lost, repeated, reordered or misplaced": found.verdict.differences.total + found.repeated + found.astray,
            "offsets with two records": found.clashes,
        }

    def _log(self, cluster: SandboxCluster, by: Deadline) -> Log:
        servers = cluster.bootstrap_servers
        places = clients.places(servers, self.topics, by, self.clock)
        logs = bounds(servers, places, by, self.clock)
        found, reader = self._read(servers, logs, by)
        return Log(cluster.cluster_id, found, reader.origins)

    def _quarantine(self, cluster: SandboxCluster, by: Deadline) -> Log:
        """By the partitions that the records come from."""
        held = self._held.get(cluster.name, {})
        if not held:
            return Log(cluster.cluster_id, {}, {})
        found, reader = self._read(
            cluster.bootstrap_servers, bounds(cluster.bootstrap_servers, held, by, self.clock), by
        )
        origins = {held[place]: each for place, each in reader.origins.items()}
        return Log(cluster.cluster_id, {held[place]: trace for place, trace in found.items()}, origins)

    def _read(self, servers: str, logs: Mapping[Place, LogExtent], by: Deadline) -> tuple[Traces, Reader]:
        reader = Reader()
        found = read(servers, logs, committed=True, by=by, clock=self.clock, digest_of=reader.identity)
        return {place: Trace(trace.offsets, trace.digests) for place, trace in found.items()}, reader
