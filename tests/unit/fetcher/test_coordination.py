"""The coordination thread over stores in memory."""

from __future__ import annotations

import logging
import socket
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.errors import Unreachable
from tanist.domain.names import BrokerId, EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.records import STATE_TOPIC, SmallBatches, WorkerAlive
from tanist.domain.small_batches import GONE_MS
from tanist.domain.source_ends import EndsConfirmed, SourceEnds
from tanist.domain.state_record import StateRecord, Tombstone
from tanist.domain.states import DesiredState, Finding, MirrorState
from tanist.fetcher import coordination as coordination_module
from tanist.fetcher.assignment import FetcherThreadKey, PartitionKey, Report
from tanist.fetcher.claims import Claims
from tanist.fetcher.coordination import Coordination, Worker
from tanist.fetcher.fetcher_threads import FetcherThreads
from tanist.fetcher.planning import assigned, next_observed
from tanist.fetcher.source_ends import Contact, source_ends
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.ports import free_ports
from tests.builders import a_mirror, a_partition, a_topic
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.membership import MemoryGroup, MemoryMembership
from tests.fakes.state import WORKER, MemoryStateStore
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline

M, NOW = MirrorName("m"), EpochMs(0)
WISHES: tuple[StateRecord, ...] = (
    a_mirror(M, created_at=NOW),
    a_topic(mirror=M, source_topic_id="", changed_at=NOW),
)


def no_lane(*_: object) -> NoReturn:
    raise AssertionError("no leader is known, so no lane can be")


@pytest.fixture
def dead() -> Endpoint:
    return Endpoint(name="east", bootstrap=(Address("127.0.0.1", free_ports(1)[0]),))


@pytest.fixture
def silent() -> Iterator[Endpoint]:
    """Whose connections are made and never answered, as by a broker that is frozen."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield Endpoint(name="east", bootstrap=(Address("127.0.0.1", listener.getsockname()[1]),))


@pytest.fixture
def coordination(dead: Endpoint) -> Iterator[Coordination]:
    """At work on a topic whose source does not answer."""
    with coordinating(dead, *WISHES) as thread:
        yield thread


@contextmanager
def coordinating(source: Endpoint, *wishes: StateRecord) -> Iterator[Coordination]:
    cluster, clock = MemoryCluster(), SystemClock()
    cluster.write(STATE_TOPIC, *wishes)
    state = MemoryStateStore(cluster, STATE_TOPIC, WORKER)
    claims = Claims("w1", state, clock)
    thread = Coordination(
        worker=Worker(id="w1", version="1", host="h", started_at=NOW),
        state=state,
        membership=MemoryMembership(MemoryGroup(4, clock), claims.renew),
        claims=claims,
        threads=FetcherThreads(no_lane, clock),
        resolve=lambda _: source,
        state_partitions=4,
        clock=clock,
    )
    thread.start()
    yield thread
    thread.stop()
    thread.join(20)
    assert thread.died is None


def test_a_source_that_does_not_answer_is_in_the_log_with_its_reason(
    coordination: Coordination, dead: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """As a warning: what the operator reads there is all that he has while the state topic is away."""
    caplog.set_level(logging.INFO)

    def reported() -> list[logging.LogRecord]:
        return [record for record in caplog.records if hasattr(record, "error") and "orders-0" in str(vars(record))]

    until(reported, 30)
    record = vars(reported()[0])
    assert (record["levelno"], record["error"]) == (logging.WARNING, "UNREACHABLE")
    assert str(dead.bootstrap[0].port) in record["reason"]


def test_twelve_sources_that_do_not_answer_hold_up_no_round(silent: Endpoint) -> None:
    """Each held one up for five seconds, and with it the lease and all partitions of the sources that do answer."""
    wishes: list[StateRecord] = []
    for n in range(12):
        mirror = a_mirror(MirrorName(f"m{n}"), created_at=NOW)
        wishes += [mirror, a_topic(mirror=mirror.mirror, topic=f"t{n}", source_topic_id="", changed_at=NOW)]
    with coordinating(silent, *wishes) as thread:
        until(lambda: len(thread._leaders) == 12, 5)
        before = thread.rounds
        until(lambda: thread.rounds >= before + 5, 6)
        until(lambda: all(each.error is not None for each in thread._leaders.values()), 15)
        before = thread.rounds
        until(lambda: thread.rounds >= before + 5, 6)


class Threads:
    """Those that copy: none does. `applied`: how often everything was derived."""

    def __init__(self) -> None:
        self.applied, self.moved = 0, False

    def apply(self, _wanted: object) -> None:
        self.applied += 1

    def reports(self) -> dict[PartitionKey, Report]:
        return {}

    def stale(self, _mirror: str) -> bool:
        return self.moved


class Paused:
    """A worker whose only topic is paused, round by round."""

    def __init__(self) -> None:
        self.clock, self.threads = JumpingClock(), Threads()
        self.state = state = MemoryStateStore(MemoryCluster(), STATE_TOPIC, WORKER)
        held = a_partition(MirrorState.PAUSED, mirror=M, partition=MirrorPartition("orders", 0), at=NOW)
        self.wish(DesiredState.PAUSED, a_mirror(M, created_at=NOW), held)
        claims = Claims("w1", state, self.clock)
        threads: Any = self.threads
        self.coordination = Coordination(
            worker=Worker(id="w1", version="1", host="h", started_at=NOW),
            state=state,
            membership=MemoryMembership(MemoryGroup(4, self.clock), claims.renew),
            claims=claims,
            threads=threads,
            resolve=unreachable,
            state_partitions=4,
            clock=self.clock,
        )
        self.derived(10, every=2.0)  # its claims, and that the source does not answer, are on record

    def wish(self, desired: DesiredState, *more: StateRecord) -> None:
        topic = a_topic(mirror=M, source_topic_id="", desired=desired, changed_at=NOW)
        self.state.append([topic, *more], self.clock.deadline(5))

    def derived(self, rounds: int, every: float = 0.2) -> int:
        """How often everything was derived in so many rounds."""
        before = self.threads.applied
        for _ in range(rounds):
            self.clock.jump(every)
            self.coordination._round()
        return self.threads.applied - before


def unreachable(_: str) -> NoReturn:
    raise Unreachable("no route")


def test_where_nothing_is_on_its_way_everything_is_derived_once_a_second() -> None:
    """Five times a second, for 2,000 idle partitions, was a fifth of a core."""
    assert Paused().derived(20) == 4


def test_a_wish_is_followed_in_the_next_round_and_so_is_what_comes_of_it() -> None:
    worker = Paused()
    worker.derived(1, every=1.0)
    worker.wish(DesiredState.MIRRORING)
    assert worker.derived(2) == 2


def test_a_leader_that_moved_is_followed_in_the_next_round() -> None:
    worker = Paused()
    worker.derived(1, every=1.0)
    worker.threads.moved = True
    assert worker.derived(3) == 3


class Answering:
    """A source whose leaders are known, and do not move."""

    error, looks, is_waiting, mirror_id = None, 1, False, a_mirror(M).mirror_id

    closed = interrupted = 0

    def __init__(self, *_: object) -> None: ...
    def look(self, *_: object, **__: object) -> None: ...

    def close(self) -> None:
        self.closed += 1

    def interrupt(self) -> None:
        self.interrupted += 1

    def report(self, _: object) -> None: ...

    def contact(self, _: object) -> Contact:
        return Contact(NOW)

    def thread_key(self, spec: MirrorSpec, _: object) -> FetcherThreadKey:
        return FetcherThreadKey(spec.mirror, BrokerId(1), 0)


class Reporting(Threads):
    """Threads that report the same as before, until a test says otherwise."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self.found = {PartitionKey(M, MirrorPartition("orders", n)): self.aligned(5) for n in range(partitions)}

    @staticmethod
    def aligned(offset: int) -> Report:
        return Report(
            finding=Finding.ALIGNED,
            position=SourceOffset(offset),
            source_high_watermark=SourceOffset(offset),
            source_last_stable=SourceOffset(offset),
            observed_at=EpochMs(offset),
        )

    def reports(self) -> dict[PartitionKey, Report]:
        return self.found


def mirroring(monkeypatch: pytest.MonkeyPatch, partitions: int) -> tuple[Paused, Any]:
    """A worker whose source answers, and the threads that copy so many partitions of it."""
    monkeypatch.setattr(coordination_module, "SourceLeaders", Answering)
    worker, threads = Paused(), Reporting(partitions)
    worker.coordination._leaders.clear()
    worker.coordination._threads = cast("Any", threads)
    states = [a_partition(MirrorState.MIRRORING, mirror=M, partition=key.partition, at=NOW) for key in threads.found]
    topic = a_topic(mirror=M, source_topic_id="", partitions=partitions, changed_at=NOW)
    worker.state.append([topic, *states], worker.clock.deadline(5))
    return worker, threads


def test_nothing_is_derived_of_partitions_that_have_reported_nothing_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3.8: of 10,000 idle ones, once a second, that was a third of a core."""
    derived, ends = list[Any](), list[Any]()

    def noting(mine: Any, *how: Any) -> Any:
        derived.append(mine)
        return next_observed(mine, *how)

    def noting_ends(mine: Any, *how: Any) -> Any:
        ends.extend(mine)
        return source_ends(mine, *how)

    monkeypatch.setattr(coordination_module, "next_observed", noting)
    monkeypatch.setattr(coordination_module, "source_ends", noting_ends)
    worker, threads = mirroring(monkeypatch, 40)
    worker.derived(20)
    assert {each.partition.partition for each in derived} == set(range(40))
    derived.clear()
    ends.clear()
    worker.derived(20)
    assert (derived, ends) == ([], [])
    key = PartitionKey(M, MirrorPartition("orders", 7))
    threads.found = threads.found | {key: Reporting.aligned(6)}
    worker.derived(20)
    assert [each.partition for each in derived] == [key.partition]
    assert key.partition in [each.partition for each in ends]
    assert len(ends) < 40, "only those of its state partition"
    fourth = worker.state.view().observed(M, MirrorPartition("orders", 3))
    assert fourth is not None
    worker.state.append([replace(fourth, reason="as a person has it")], worker.clock.deadline(5))
    worker.derived(20)
    assert [each.partition.partition for each in derived] == [7, 3]


def test_partitions_are_assigned_again_when_an_earlier_version_has_gone_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every 30 s, to see that, was a hundredth of a core for 10,000 idle partitions."""
    worker, _ = mirroring(monkeypatch, 4)
    spec = replace(a_mirror(M, created_at=NOW), merge_small_batches=SmallBatches.AUTO)
    old = WorkerAlive(worker="w0", version="0.1", host="h", started_at=NOW, at=worker.clock.now())
    worker.state.append([spec, old], worker.clock.deadline(5))
    worker.derived(20)
    calls = list[object]()

    def noting(*how: Any) -> Any:
        calls.append(how)
        return assigned(*how)

    monkeypatch.setattr(coordination_module, "assigned", noting)
    worker.derived(10, every=GONE_MS / 10_000 - 10)
    assert (calls, {each.merges for each in worker.coordination.assigned.values()}) == ([], {False})
    worker.derived(10, every=20.0)
    assert (len(calls), {each.merges for each in worker.coordination.assigned.values()}) == (1, {True})


def test_the_ends_of_a_source_at_rest_are_written_once_and_then_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is remembered: without that each look would write all ends again."""
    (worker, threads), written = mirroring(monkeypatch, 4), list[StateRecord]()
    append = worker.state.append

    def noting(records: Sequence[StateRecord], by: Deadline) -> StateView:
        written.extend(each for each in records if isinstance(each, SourceEnds | EndsConfirmed))
        return append(records, by)

    monkeypatch.setattr(worker.state, "append", noting)
    for _ in range(60):
        now = worker.clock.now()
        threads.found = {
            key: replace(report, observed_at=now, caught_up_at=now) for key, report in threads.found.items()
        }
        worker.derived(5)
    confirmed = [each for each in written if isinstance(each, EndsConfirmed)]
    ends = [each for each in written if isinstance(each, SourceEnds)]
    assert len(ends) == len({each.chunk for each in ends}), "each state partition once"
    assert len(confirmed) >= 4 * len(ends)
    [latest] = {each.at for each in worker.state.view().source_ends(M)}
    assert worker.clock.now() - latest < 15_000


@pytest.mark.parametrize("looked", [False, True])
def test_growth_is_counted_from_the_report_before_also_in_a_round_after_a_look_at_the_leaders(
    monkeypatch: pytest.MonkeyPatch, looked: bool
) -> None:
    """A source that is down is looked at twice a second: the answers of the healthy ones were forgotten each time."""
    worker, threads = mirroring(monkeypatch, 8)
    first = next(iter(threads.found))

    def answered(high: int) -> None:
        """By the first partition now, by the others nine seconds ago."""
        now = worker.clock.now()
        times = {key: now if key == first else EpochMs(now - 9_000) for key in threads.found}
        threads.found = {
            key: replace(
                Reporting.aligned(high if key == first else 5), observed_at=times[key], caught_up_at=times[key]
            )
            for key in threads.found
        }

    for _ in range(30):
        worker.clock.jump(1.0)
        answered(5)
        worker.coordination._round()
    assert any(isinstance(each, EndsConfirmed) for each in worker.state.view().values())
    if looked:
        monkeypatch.setattr(Answering, "looks", 2)
    worker.clock.jump(1.0)
    answered(105)
    worker.coordination._round()
    rates = [end.rate for each in worker.state.view().source_ends(M) for end in each.ends if end.high_watermark == 105]
    assert rates == [100.0]


def test_a_mirror_that_was_made_again_by_its_name_looks_at_its_source_now() -> None:
    worker, asked = Paused(), list[str]()

    def noting(name: str) -> NoReturn:
        asked.append(name)
        raise Unreachable("no route")

    worker.coordination._resolve = noting
    again = replace(a_mirror(M), source="north", source_cluster_id="n", mirror_id="another")
    topic = a_topic(mirror=M, mirror_id="another", source_topic_id="", desired=DesiredState.PAUSED, changed_at=NOW)
    worker.state.append([again, topic], worker.clock.deadline(5))
    [before] = worker.coordination._leaders.values()
    closed = list[object]()
    before.close = lambda: closed.append(before)  # type: ignore[method-assign]
    worker.derived(3, every=2.0)
    assert (set(asked), closed) == ({"north"}, [before])


@pytest.mark.parametrize("merges", [SmallBatches.AUTO, SmallBatches.OFF])
@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_that_has_lost_all_its_partitions_copies_none(
    monkeypatch: pytest.MonkeyPatch, merges: SmallBatches, *, fails: bool
) -> None:
    """It went on beside the worker that has them now: nothing was left of which it could be seen."""
    worker, threads = mirroring(monkeypatch, 4)
    worker.state.append([replace(a_mirror(M, created_at=NOW), merge_small_batches=merges)], worker.clock.deadline(5))
    worker.derived(10, every=2.0)
    assert len(worker.coordination.assigned) == 4
    applied = list[Any]()
    monkeypatch.setattr(threads, "apply", applied.append)
    monkeypatch.setattr(cast("Any", worker.coordination._membership)._group, "share", lambda _: frozenset())
    if fails:  # in the round in which it has lost them
        down = Unreachable("west: connection refused")
        monkeypatch.setattr(Threads, "stale", lambda *_: False)
        monkeypatch.setattr(worker.coordination, "_write_down", _raising(down))
    worker.derived(1, every=2.0)
    assert (worker.coordination.claimed, worker.coordination.assigned, applied[-1]) == (frozenset(), {}, {})


def _raising(why: Unreachable) -> Callable[[object], NoReturn]:
    def fails(_: object) -> NoReturn:
        raise why

    return fails


def test_a_worker_that_ends_waits_for_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, _ = mirroring(monkeypatch, 4)
    worker.derived(5)
    [leaders] = worker.coordination._leaders.values()
    worker.coordination.stop()
    assert cast("Answering", leaders).interrupted == 1


def test_the_source_of_a_mirror_that_was_deleted_is_looked_at_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, _ = mirroring(monkeypatch, 4)
    worker.derived(5)
    [leaders] = worker.coordination._leaders.values()
    worker.state.append([Tombstone(a_mirror(M).key)], worker.clock.deadline(5))
    worker.derived(5)
    assert (worker.coordination._leaders, cast("Answering", leaders).closed) == ({}, 1)
    assert worker.coordination.assigned == {}
    worker.state.append([a_mirror(M, created_at=NOW)], worker.clock.deadline(5))
    worker.derived(5)
    assert len(worker.coordination.assigned) == 4
