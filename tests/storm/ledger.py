"""Who has acknowledged what, what is a listed tail, and what is in quarantine: read and put together after a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tanist_testkit.verify import clients
from tanist_testkit.verify.reading import LogExtent, bounds, read
from tanist_testkit.verify.traces import Place, Trace, Traces, merged
from tests.storm.accounts import Account, Log, Reader, Tail, account, of_compacted, tails_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tanist.ports.clock import Clock, Deadline
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.verify.writing import Load


@dataclass(slots=True)
class Ledger:
    """Of one storm. `loads`: with the cluster that they were written to."""

    clock: Clock
    clusters: tuple[SandboxCluster, SandboxCluster]
    topics: Sequence[str]
    compacted: Sequence[str]
    loads: list[tuple[str, Load]] = field(default_factory=list)
    tails: set[Tail] = field(default_factory=set)
    gone: set[Tail] = field(default_factory=set)
    """Tails of topics that were deleted at the old source and copied again: their records are in quarantine only."""
    terms: dict[Place, set[int]] = field(default_factory=dict)
    """Where the records of each new primary begin."""
    _held: dict[str, dict[Place, Place]] = field(default_factory=dict)
    """By cluster, of each partition of a quarantine topic where its records come from."""

    def list(self, side: str, surveyed: Sequence[Mapping[str, Any]]) -> None:
        """What `tanist failback survey` has found at the old source."""
        self.tails |= set(tails_of(side, surveyed))
        for row in surveyed:
            self.terms.setdefault(Place(row["topic"], row["partition"]), set()).add(int(row["reserve_end"]))

    def copied_again(self, side: str, topics: Collection[str]) -> None:
        """The logs of these topics at the old source have gone, and so have their tails."""
        self.gone |= {each for each in self.tails if each.side == side and each.place.topic in topics}
        self.tails -= self.gone

    def quarantined(self, at: SandboxCluster, rescued: Iterable[Mapping[str, Any]]) -> None:
        """What `tanist failback rescue` has copied."""
        held = self._held.setdefault(at.name, {})
        for each in rescued:
            if each["quarantine"]:
                held[Place(each["quarantine"], each["partition"])] = Place(each["topic"], each["partition"])

    def account(self, by: Deadline) -> Account:
        """Every record of both clusters, once nothing is written or copied any more."""
        logs = {each.name: self._log(each, self.topics, by) for each in self.clusters}
        quarantines = [self._quarantine(each, by) for each in self.clusters]
        acknowledged = {
            each.name: merged([load.traces() for side, load in self.loads if side == each.name])
            for each in self.clusters
        }
        terms = {place: sorted(begins) for place, begins in self.terms.items()}
        found = account(logs, quarantines, self.tails, acknowledged, terms, self.gone)
        found.wrong += self._compacted(by, found)
        return found

    def _compacted(self, by: Deadline, found: Account) -> Iterator[str]:
        """What is wrong with the compacted topics; how many records and keys they have goes to `found`."""
        logs = {each.name: self._log(each, self.compacted, by) for each in self.clusters}
        for place in sorted({place for log in logs.values() for place in log.traces}):
            latest = {side: log.latest.get(place, {}) for side, log in logs.items()}
            known = [
                {
                    key: each
                    for key, each in writer.latest[place].items()
                    if not self._has_gone(side, place, each.offset)
                }
                for side, load in self.loads
                for writer in load.writers
                if place in writer.latest
            ]
            found.keys += len(latest[self.clusters[0].name])
            yield from of_compacted(latest, known, place)

    def _has_gone(self, side: str, place: Place, offset: int) -> bool:
        return any((each.side, each.place) == (side, place) and offset in each for each in self.gone)

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
            "keys of compacted topics compared": found.keys,
            "records that a producer wrote twice, counted on each cluster": found.again,
            "records in listed tails": found.only_once,
            "records in quarantine": found.quarantined,
            "missing": found.missing,
            "lost, repeated, reordered or misplaced": found.verdict.differences.total + found.repeated + found.astray,
            "offsets with two records": found.clashes,
        }

    def _log(self, cluster: SandboxCluster, topics: Sequence[str], by: Deadline) -> Log:
        servers = cluster.bootstrap_servers
        places = clients.places(servers, topics, by, self.clock)
        logs = bounds(servers, places, by, self.clock)
        found, reader = self._read(servers, logs, by)
        return Log(cluster.cluster_id, found, reader.origins, reader.latest)

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
