"""Periodic duties: one worker does each, when it is due, and a silent source delays no mirror of another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import pytest

from tanist.domain.duties import Duty, DutyIncomplete, DutyResult
from tanist.domain.errors import MirrorLocked, Stopped, TanistError, TimedOut
from tanist.domain.metadata import Kind
from tanist.domain.names import MirrorName
from tanist.domain.records import STATE_TOPIC
from tanist.fetcher.duties import Duties, DutyTools, SourceDuties
from tanist.fetcher.totals import SyncKind, WorkerTotals
from tests.builders import a_mirror
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.state import WORKER, MemoryStateStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.ports.clock import Deadline

DONE = DutyResult("nothing to do")


@dataclass
class Runner:
    """The port `DutyRunner`: says what it was asked for, and answers what a test says."""

    answers: dict[tuple[str, Duty], DutyResult | BaseException] = field(default_factory=dict)
    asked: list[tuple[str, Duty]] = field(default_factory=list)
    closed: bool = False

    def run(self, mirror: MirrorName, duty: Duty, by: Deadline) -> DutyResult:
        assert by.at > 0
        self.asked.append((mirror, duty))
        answer = self.answers.get((mirror, duty), DONE)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


@dataclass
class World:
    """A destination with two mirrors of one source, both of whose duties are left to workers."""

    clock: JumpingClock = field(default_factory=JumpingClock)
    west: MemoryCluster = field(default_factory=lambda: MemoryCluster("west").with_topic(STATE_TOPIC))
    totals: WorkerTotals = field(default_factory=WorkerTotals)

    def __post_init__(self) -> None:
        for name in ("dr", "other"):
            spec = a_mirror(MirrorName(name), mirror_id=name, sync_metadata_seconds=30, workers_sync_groups=True)
            self.west.write(STATE_TOPIC, spec)

    def worker(self, name: str, runner: Runner, holds: Callable[[int], bool] = lambda _: True) -> SourceDuties:
        return SourceDuties(self.tools(name, runner, holds), "east")

    def tools(self, name: str, runner: Runner, holds: Callable[[int], bool] = lambda _: True) -> DutyTools:
        return DutyTools(
            worker=name,
            runner=lambda _: runner,
            state=MemoryStateStore(self.west, STATE_TOPIC, WORKER),
            state_partitions=50,
            holds=holds,
            clock=self.clock,
            totals=self.totals,
        )

    def look(self, worker: SourceDuties) -> None:
        worker.run_due(self.west.view(STATE_TOPIC))

    def runs(self, mirror: str = "dr") -> dict[Duty, tuple[int, str | None, str]]:
        found = self.west.view(STATE_TOPIC).duty_runs(MirrorName(mirror))
        return {each.duty: (each.failures, each.error, each.worker) for each in found}


ALL = [(name, duty) for name in ("dr", "other") for duty in Duty]


def test_s3_5_of_two_workers_at_once_the_owner_does_each_duty_once_an_interval() -> None:
    world, first, second = World(), Runner(), Runner()
    owns = world.worker("w1", first)
    not_its = world.worker("w2", second, lambda _: False)
    for _ in range(3):
        world.look(owns)
        world.look(not_its)
    assert (first.asked, second.asked) == (ALL, [])
    world.clock.jump(30)
    world.look(owns)
    assert first.asked[len(ALL) :] == [("dr", Duty.METADATA), ("other", Duty.METADATA)]


def test_the_next_owner_goes_on_at_the_interval_that_is_on_record() -> None:
    world, first, second = World(), Runner(), Runner()
    world.look(world.worker("w1", first))
    later = world.worker("w2", second)
    world.look(later)
    assert second.asked == []
    world.clock.jump(60)
    world.look(later)
    assert second.asked == ALL
    assert world.runs()[Duty.METADATA] == (0, None, "w2")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (TimedOut("east does not answer"), "TIMED_OUT"),
        (DutyResult("1 conflict", DutyIncomplete("orders: decide")), "SYNC_INCOMPLETE"),
        (ValueError("a bug"), "INTERNAL"),
    ],
)
def test_s3_5_a_duty_that_fails_is_counted_and_named_and_stops_no_other_one(
    answer: DutyResult | BaseException, error: str
) -> None:
    world, runner = World(), Runner({("dr", Duty.METADATA): answer})
    worker = world.worker("w1", runner)
    world.look(worker)
    world.clock.jump(60)
    world.look(worker)
    assert runner.asked == ALL * 2
    assert world.runs() == {Duty.METADATA: (2, error, "w1"), Duty.GROUPS: (0, None, "w1")}
    assert world.runs("other")[Duty.METADATA] == (0, None, "w1")
    runner.answers.clear()
    world.clock.jump(30)
    world.look(worker)
    assert world.runs()[Duty.METADATA] == (0, None, "w1")


def test_a_failover_that_lasts_was_counted_as_an_error_of_each_attempt(caplog: pytest.LogCaptureFixture) -> None:
    """The alert TanistSyncErrors fired in each of them."""
    world, runner = World(), Runner({("dr", Duty.METADATA): MirrorLocked("failover cafe is unfinished")})
    worker = world.worker("w1", runner)
    world.look(worker)
    world.clock.jump(60)
    world.look(worker)
    assert runner.asked == ALL * 2
    assert world.totals.sync_errors() == {}
    assert world.runs()[Duty.METADATA] == (0, "MIRROR_LOCKED", "w1")
    assert "duty left undone" not in caplog.text


def test_a_worker_that_cannot_write_what_it_did_does_it_not_again_at_once() -> None:
    world, runner = World(), Runner()
    worker = world.worker("w1", runner)
    seen = world.west.view(STATE_TOPIC)
    world.west.dead = True
    worker.run_due(seen)
    assert world.runs() == {}
    world.west.dead = False
    world.look(worker)
    assert runner.asked == ALL


def test_a_worker_that_is_stopped_begins_nothing_and_records_nothing() -> None:
    world, runner = World(), Runner({("dr", Duty.METADATA): Stopped("this worker is stopping")})
    worker = world.worker("w1", runner)
    with pytest.raises(Stopped):
        world.look(worker)
    worker.stop()
    world.look(worker)
    assert (runner.asked, world.runs()) == ([("dr", Duty.METADATA)], {})


def test_s3_5_each_source_has_a_thread_so_a_silent_one_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of east waits for ever in its first duty; that of north is done meanwhile."""
    monkeypatch.setattr("tanist.fetcher.duties.LOOK_SECONDS", 0.01)
    world, done = World(), Event()
    north = a_mirror(MirrorName("n"), source="north", mirror_id="n", sync_metadata_seconds=30)
    world.west.write(STATE_TOPIC, north)

    class Waiting(Runner):
        def run(self, mirror: MirrorName, duty: Duty, by: Deadline) -> DutyResult:
            if mirror != "n":
                assert stopping[0].wait(20)
                raise Stopped("this worker is stopping")
            done.set()
            return DONE

    stopping: list[Event] = []
    tools = world.tools("w1", Waiting())

    def runner(stop: Event) -> Runner:
        stopping.append(stop)
        return Waiting()

    duties = Duties(DutyTools(**{name: getattr(tools, name) for name in tools.__slots__} | {"runner": runner}))
    duties.start()
    assert done.wait(20)
    duties.stop()
    duties.join(20)
    assert not duties.is_alive()
    assert duties.died is None
    assert len(stopping) == 2
    assert all(event.is_set() for event in stopping)


def test_mirrors_that_leave_nothing_to_workers_have_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tanist.fetcher.duties.LOOK_SECONDS", 0.01)
    world, made = World(), list[Event]()
    for name in ("dr", "other"):
        world.west.write(STATE_TOPIC, a_mirror(MirrorName(name), mirror_id=name))
    tools = world.tools("w1", Runner())
    fields = {name: getattr(tools, name) for name in tools.__slots__}

    def runner(stop: Event) -> Runner:
        made.append(stop)
        return Runner()

    duties = Duties(DutyTools(**fields | {"runner": runner}))
    duties.start()
    while duties.rounds < 3:
        assert duties.is_alive()
    duties.stop()
    duties.join(20)
    assert made == []


def test_a_thread_that_dies_ends_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tanist.fetcher.duties.LOOK_SECONDS", 0.01)
    world = World()
    tools = world.tools("w1", Runner())

    def broken(_: int) -> bool:
        raise TanistError("a bug of ours")

    duties = Duties(DutyTools(**{name: getattr(tools, name) for name in tools.__slots__} | {"holds": broken}))
    duties.start()
    duties.join(20)
    assert isinstance(duties.died, TanistError)


def test_s3_17_what_a_run_has_failed_in_counts_as_an_error_of_its_kind() -> None:
    """TopicConfigMetadataSyncError and AclSyncError of KIP-1279; what a person must decide is no error."""
    world, undone = World(), DutyIncomplete("orders: refused")
    failed = frozenset({Kind.CONFIG, Kind.ACL, Kind.ACCESS})
    answers: dict[tuple[str, Duty], DutyResult | BaseException] = {
        ("dr", Duty.METADATA): DutyResult("2 failed", undone, failed),
        ("dr", Duty.GROUPS): TimedOut("east"),
        ("other", Duty.METADATA): DutyResult("1 to decide", undone),
    }
    world.look(world.worker("w", Runner(answers)))
    dr = MirrorName("dr")
    assert world.totals.sync_errors() == dict.fromkeys(
        ((dr, SyncKind.CONFIGS), (dr, SyncKind.ACLS), (dr, SyncKind.GROUPS)), 1
    )
