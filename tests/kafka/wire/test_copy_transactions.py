"""Raw batches in transactions of ours against a real broker, while requests are lost, late, and owners taken over."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.domain.endpoint import Address
from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorPartition
from tanist.domain.transactional_append import TxnEvent, TxnPhase, after
from tanist.kafka.protocol.batch import walk
from tanist.kafka.wire.copy_transactions import CopiedBatch, CopyTransactions
from tanist.kafka.wire.requests import fetch
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist.ports.positions import CommittedPosition
from tests.kafka.fetcher.logs import read
from tests.kafka.wire.outcome import outcome
from tests.leading import leads
from tests.storm.proxy import END_TXN, INIT_PRODUCER_ID, PRODUCE, TXN_OFFSET_COMMIT, Door, Held, Proxy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist_testkit.sandbox.cluster import SandboxCluster

PARTITIONS, RECORDS = 3, 200
OF_A_TRANSACTION: Final = (PRODUCE, TXN_OFFSET_COMMIT, END_TXN, INIT_PRODUCER_ID)
_TRANSACTION_MS = 10_000


def soon(seconds: float = 20) -> Deadline:
    return Deadline(time.monotonic() + seconds)


class Copier:
    """One owner: through its door it copies whatever the table says is next."""

    def __init__(self, source: str, copy: str, router: Router, name: str, dice: Random) -> None:
        self.source, self.copy, self.dice = source, copy, dice
        self.router = router
        self.transactions = CopyTransactions(router, name, f"{name}/positions", _TRANSACTION_MS)
        self.phase, self.holds_lease = TxnPhase.TAKE_OVER, True
        self.positions: dict[int, int] = {}
        self.events: defaultdict[tuple[TxnPhase, TxnEvent], int] = defaultdict(int)

    def step(self) -> None:
        event = self._do()
        self.events[self.phase, event] += 1
        self.phase = after(self.phase, event)

    def _do(self) -> TxnEvent:  # noqa: PLR0911 -- one for each phase
        by, copied = soon(3), self.transactions
        match self.phase:
            case TxnPhase.TAKE_OVER:
                return copied.take_over(by)
            case TxnPhase.NEXT_EPOCH:
                return copied.next_epoch(by)
            case TxnPhase.RESUME:
                return self._resume(by)
            case TxnPhase.APPEND:
                return self._append(by)
            case TxnPhase.POSITIONS:
                places = {
                    MirrorPartition(self.copy, n): CommittedPosition(offset, "p")
                    for n, offset in self.positions.items()
                }
                return copied.commit_positions(places, by)
            case TxnPhase.COMMIT | TxnPhase.COMMIT_AGAIN:
                return copied.end(by, commit=True)
            case TxnPhase.ABORT:
                return copied.end(by, commit=False)
            case _:
                return TxnEvent.DONE if self.holds_lease else TxnEvent.NOT_MIRRORED

    def _resume(self, by: Deadline) -> TxnEvent:
        if not self.holds_lease:
            return TxnEvent.NOT_MIRRORED
        try:
            found = self.transactions.positions(by)
        except TanistError:
            return TxnEvent.UNANSWERED
        if any(isinstance(each, TanistError) for each in found.values()):
            return TxnEvent.REFUSED
        known = {at.partition: each.offset for at, each in found.items() if not isinstance(each, TanistError)}
        self.positions = {n: known.get(n, 0) for n in range(PARTITIONS)}
        return TxnEvent.DONE

    def _append(self, by: Deadline) -> TxnEvent:
        batches: list[CopiedBatch] = []
        try:
            fetched = fetch(self.router, {MirrorPartition(self.source, n): at for n, at in self.positions.items()}, by)
        except TanistError:
            return TxnEvent.UNANSWERED
        wanted = dict(self.positions)
        for at, answer in fetched.items():
            if isinstance(answer, TanistError):
                return TxnEvent.UNANSWERED
            for header, batch in list(walk(answer.records))[: self.dice.randrange(1, 9)]:
                if header.base_offset >= wanted[at.partition]:
                    copy = MirrorPartition(self.copy, at.partition)
                    batches.append(CopiedBatch(copy, memoryview(bytearray(batch)), header.record_count))
                    wanted[at.partition] = header.next_offset
        self.positions = wanted
        return outcome(self.transactions.append(batches, by)) if batches else TxnEvent.DONE


def router_through(cluster: SandboxCluster, door: Door) -> Router:
    host_ports = [each.rpartition(":") for each in door.bootstrap_servers.split(",")]
    bootstrap = tuple(Address(host, int(port)) for host, _, port in host_ports)
    return Router(replace(cluster.endpoint(), bootstrap=bootstrap), "tanist-test")


def values(servers: str, topic: str) -> dict[int, list[bytes | None]]:
    """What a reader of committed records reads, up to the last stable offset."""
    found = read(servers, [MirrorPartition(topic, n) for n in range(PARTITIONS)], "read_committed")
    return {at.partition: [row.value for row in rows] for at, rows in found.items()}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_whatever_is_lost_late_or_taken_over_readers_of_committed_records_see_each_once(  # noqa: C901, PLR0912, PLR0915
    clusters: Mapping[str, SandboxCluster], topic_name: str, seed: int
) -> None:
    cluster, dice = clusters["east"], Random(seed)
    servers = ",".join(map(str, cluster.endpoint().bootstrap))
    source, copy = f"{topic_name}-source", f"{topic_name}-copy"
    client = AdminClient({"bootstrap.servers": servers, "log_level": 2})
    for future in client.create_topics([NewTopic(each, PARTITIONS, 1) for each in (source, copy)]).values():
        future.result(20)
    producer = Producer({"bootstrap.servers": servers, "batch.num.messages": 3, "linger.ms": 5})
    for n in range(PARTITIONS * RECORDS):
        producer.produce(source, b"%d" % n, partition=n % PARTITIONS)
    assert producer.flush(20) == 0
    held: list[Held] = []
    with Proxy() as proxy:
        doors = [proxy.door(cluster) for _ in range(2)]
        routers = [router_through(cluster, door) for door in doors]
        for router in routers:
            for each in (source, copy):
                deadline = soon()
                while not leads(router, each, PARTITIONS, deadline):
                    router.pause(0.1, deadline)
        owners = [Copier(source, copy, routers[0], topic_name, dice)]
        until = time.monotonic() + 9
        while time.monotonic() < until:
            door = doors[(len(owners) - 1) % 2]
            if dice.random() < 0.15:
                held.append(door.hold(dice.choice(OF_A_TRANSACTION), skip=dice.randrange(3)))
            if held and dice.random() < 0.3:
                held.pop(dice.randrange(len(held))).release()
            if dice.random() < 0.05:
                door.cut()
            if dice.random() < 0.04:  # another owner; the one before is frozen, and wakes below
                owners[-1].holds_lease = False
                owners.append(Copier(source, copy, routers[len(owners) % 2], topic_name, dice))
            sleeping = [each for each in owners[:-1] if each.phase is not TxnPhase.STOPPED]
            (dice.choice(sleeping) if sleeping and dice.random() < 0.2 else owners[-1]).step()
        for late in held:
            late.release()
        for owner in owners:
            owner.holds_lease = False
        with Router(cluster.endpoint(), "tanist-test") as router:
            router.refresh([source, copy], soon())
            last = Copier(source, copy, router, topic_name, dice)
            deadline = soon(60)
            while sum(last.positions.values()) < PARTITIONS * RECORDS or last.phase is not TxnPhase.APPEND:
                last.step()
                assert deadline.left(time.monotonic()), last.events
        for router in routers:
            router.close()
    assert values(servers, copy) == values(servers, source)
    happened = {event for owner in owners for (_, event) in owner.events}
    assert happened >= {TxnEvent.DONE, TxnEvent.UNANSWERED, TxnEvent.FENCED}, "the test did something"
