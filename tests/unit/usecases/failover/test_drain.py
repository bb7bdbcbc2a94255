"""Drained means: to the leader's true end, and no transaction is left that names a partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tanist.domain.approval.entries import NotPermitted
from tanist.domain.broker_errors import CoordinatorNotAvailable, TransactionalIdAuthorizationFailed
from tanist.domain.checks import Mode, Readiness
from tanist.domain.errors import Unreachable
from tanist.domain.failover.facts import LiveEnd, OpenTransaction, PartitionFacts
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, SourcePartition
from tanist.domain.records import RunStatus
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.usecases.failover.approval_gate import NotToldNow
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.steps.drain import DrainMissed
from tanist.usecases.failover.steps.fence import FenceLeaks
from tests.builders import AT, DR
from tests.fakes.failover import MemoryReplicas
from tests.fakes.logs import MemoryLogs
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld
from tests.unit.usecases.failover.runs import assert_promoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import MirrorPartition
    from tanist.ports.clock import Deadline

UNSEEN = TransactionalIdAuthorizationFailed("DESCRIBE on every transactional id")


def transaction(since: int) -> OpenTransaction:
    return OpenTransaction(AT, 77, EpochMs(since), "an-application")


def later(world: FailoverWorld, seconds: float, what: Callable[[], None]) -> None:
    """`what` happens once so much time has passed."""
    at, done = world.clock.monotonic() + seconds, list[bool]()

    def meanwhile() -> None:
        world.tick()
        if world.clock.monotonic() >= at and not done:
            done.append(True)
            what()

    world.clock.meanwhile = meanwhile


def test_what_is_above_the_watermark_is_waited_for() -> None:
    """A follower stalls: with acks=1 it has been acknowledged."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.east.ahead[AT] = 5
    later(world, 30, lambda: world.east.catch_up(AT))
    began = world.clock.monotonic()
    assert world.run(plan).record.status is RunStatus.DONE
    assert world.clock.monotonic() - began > 30
    assert_promoted(world)
    assert world.sink.kept is not None
    assert world.sink.kept.found("drain")["offsets_lost"] == 0
    assert world.sink.kept.found("drain")["ends"][str(AT)] == 15


def test_a_watermark_that_never_reaches_the_end_misses_the_drain_and_undoes_the_fence() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.east.ahead[AT] = 5
    with pytest.raises(DrainMissed, match=rf"{AT} by 5 \(not yet on all in-sync replicas\)"):
        world.run(plan)
    assert world.source_is_as_it_was()


def test_what_is_above_the_watermark_is_at_risk() -> None:
    world = FailoverWorld()
    world.east.ahead[AT] = 5
    forecast = world.plan(Mode.UNPLANNED).forecast
    assert (forecast.offsets_at_risk, dict(forecast.by_partition)) == (5, {AT: 5})


def test_a_transaction_that_has_written_nothing_is_waited_for() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.east.named = (transaction(since=1),)

    def ends() -> None:
        world.east.named = ()
        world.east.mark(AT)

    later(world, 30, ends)
    began = world.clock.monotonic()
    assert world.run(plan).record.status is RunStatus.DONE
    assert world.clock.monotonic() - began > 30


def test_a_transaction_that_never_ends_is_named_when_the_drain_is_missed() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.east.named = (transaction(since=1),)
    with pytest.raises(DrainMissed, match=f"producer 77 has had a transaction open on {AT}"):
        world.run(plan)
    assert world.source_is_as_it_was()


@pytest.mark.parametrize("copying", [True, False], ids=["copied", "not copied"])
def test_a_producer_that_tries_again_behind_the_fence_holds_nothing(copying: bool) -> None:
    """Another transaction all the time, and each spends an offset on the marker of its abort."""
    world = FailoverWorld()
    plan = world.approve().plan

    def meanwhile() -> None:
        world.tick()
        world.copying = copying
        now = world.clock.now()
        world.east.named = (transaction(since=now),)
        world.east.mark(AT)

    world.clock.meanwhile = meanwhile
    began = world.clock.monotonic()
    assert world.run(plan).record.status is RunStatus.DONE
    assert world.clock.monotonic() - began < 10
    assert_promoted(world)


def test_a_record_among_markers_is_no_rest() -> None:
    """A window of the proof begins anew with each record, wherever it lies."""
    world = FailoverWorld()
    plan = world.approve().plan

    def meanwhile() -> None:
        world.tick()
        world.east.mark(AT)
        world.east.grow(AT)
        world.east.mark(AT)

    world.clock.meanwhile = meanwhile
    with pytest.raises(FenceLeaks, match=f"{AT} kept growing"):
        world.run(plan)


def test_growth_that_cannot_be_read_yet_proves_no_fence() -> None:
    """Somebody passes the fence while a follower stalls: only the leader's true end moves."""
    world = FailoverWorld()
    plan = world.approve().plan

    def meanwhile() -> None:
        world.tick()
        world.east.ahead[AT] = world.east.ahead.get(AT, 0) + 1

    world.clock.meanwhile = meanwhile
    with pytest.raises(FenceLeaks, match=f"{AT} could not be read to the end of the log"):
        world.run(plan)
    assert world.source_is_as_it_was()


def test_transactions_that_we_may_not_see_are_accepted_by_name_and_never_in_silence() -> None:
    world = FailoverWorld()
    world.east.coordinators = UNSEEN
    names = {each.name for each in world.plan().plan.limitations}
    assert "TRANSACTIONS_UNKNOWN" in names
    assert "TRANSACTIONS_UNKNOWN" not in {each.name for each in world.plan(Mode.UNPLANNED).plan.limitations}
    assert world.run(world.approve().plan).record.status is RunStatus.DONE


def test_a_right_that_is_lost_after_the_approval_voids_it() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.east.coordinators = UNSEEN
    with pytest.raises(NotPermitted, match="TRANSACTIONS_UNKNOWN"):
        world.run(plan)


NO_COORDINATOR = CoordinatorNotAvailable("broker 2 of east")


def test_a_coordinator_that_does_not_answer_makes_no_plan_go_and_no_run_fence_anybody() -> None:
    """GO; then producers were fenced for the whole drain, and the run was undone."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.east.coordinators = NO_COORDINATOR
    found = world.plan()
    assert found.word is Readiness.UNKNOWN
    assert {each.name for each in found.plan.limitations if each.blocks} == {"TRANSACTIONS_UNKNOWN"}
    assert "TRANSACTIONS_UNKNOWN" not in {each.name for each in world.plan(Mode.UNPLANNED).plan.limitations}
    with pytest.raises(NotToldNow, match=r"TRANSACTIONS_UNKNOWN.*broker 2 of east"):
        world.run(plan, seconds=20)
    assert world.source_is_as_it_was()
    world.east.coordinators = None
    assert world.run(plan).record.status is RunStatus.DONE, "the approval is still good"


def silenced(world: FailoverWorld, point: str) -> None:
    if point == "fence:applied":
        world.east.coordinators = NO_COORDINATOR


def test_a_coordinator_that_stops_answering_behind_the_fence_is_waited_for() -> None:
    world = FailoverWorld()
    plan = world.approve().plan

    def answers() -> None:
        world.east.coordinators = None

    later(world, 30, answers)
    assert world.run(plan, partial(silenced, world)).record.status is RunStatus.DONE


def test_a_coordinator_that_never_answers_is_named_when_the_drain_is_missed() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    with pytest.raises(DrainMissed, match=r"does not report its transactions: .*broker 2 of east"):
        world.run(plan, partial(silenced, world))
    assert world.source_is_as_it_was()


def test_a_source_that_dies_while_its_open_transactions_are_asked_for_does_not_stop_the_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was taken for a destination that does not answer: no unplanned failover could be planned in that moment."""
    world = FailoverWorld()
    start, _, high = world.east.ends[AT]
    world.east.ends[AT] = (start, high - 1, high)

    def dies(*_: object) -> tuple[OpenTransaction, ...]:
        raise Unreachable("east:9092: connection reset")

    monkeypatch.setattr(MemoryReplicas, "open_transactions", dies)
    observer = Observer(clusters=world.clusters(), context=world.command())
    facts = observer.look(observer.view().topics(DR))
    assert (facts.source.transactions, facts.source.transactions_told) == ((), None)
    assert "connection reset" in facts.source.transactions_reason
    world.plan(Mode.UNPLANNED)


def end(high: int, stable: int, log: int | None, data: int | None = None) -> LiveEnd:
    return LiveEnd(
        SourceOffset(high),
        SourceOffset(stable),
        None if log is None else SourceOffset(log),
        None if data is None else SourceOffset(data),
    )


@pytest.mark.parametrize(
    ("live", "copied", "named", "drained"),
    [
        (end(10, 10, 10), 10, False, True),
        (end(10, 10, 10), 10, None, False),
        (end(10, 10, 10), 10, True, False),
        (end(10, 10, None), 10, False, False),
        (end(10, 10, 11), 10, False, False),
        (end(10, 9, 10), 10, False, False),
        (end(11, 11, 10), 10, False, False),
        (end(10, 10, 10), 9, False, False),
        (end(10, 10, 10), 11, False, False),
        (end(10, 10, 10, 8), 8, False, True),
        (end(10, 10, 10, 8), 7, False, False),
        (end(10, 10, 11, 8), 8, False, False),
        (end(10, 10, 10), None, False, False),
        (None, 10, False, False),
    ],
)
def test_what_drained_means(live: LiveEnd | None, copied: int | None, named: bool | None, drained: bool) -> None:
    seen = PartitionFacts(
        partition=AT,
        live=live,
        end=None if copied is None else DestinationOffset(copied),
        copied=None if copied is None else SourceOffset(copied),
        foreign=False,
        named=named,
    )
    assert seen.drained is drained


def test_the_leader_epoch_of_what_was_drained_is_stored_not_what_workers_had_reported() -> None:
    """They report a moment later than they copy; a survey took the older epoch for the end of the common prefix."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.east.leader_epoch = 9
    world.run(plan)
    view = world.view()
    assert [view.last_copied_epoch(world.clusters().spec, at, 10) for at in PARTITIONS] == [(9, True)] * 3


def test_an_epoch_of_an_earlier_record_is_no_certain_one() -> None:
    """Of an unplanned failover, whose source tells nothing, or of a run of an earlier version."""
    world = FailoverWorld()
    view = world.view()
    assert view.last_copied_epoch(world.clusters().spec, AT, 10) == (4, False)
    end = SourceEnd(
        SourcePartition(*AT), SourceOffset(10), SourceOffset(10), record_until=SourceOffset(10), record_epoch=6
    )
    view = world.worker.append([SourceEnds(mirror=DR, chunk=0, ends=(end,), at=EpochMs(0))], world.soon())
    assert view.last_copied_epoch(world.clusters().spec, AT, 10) == (6, True)
    assert view.last_copied_epoch(world.clusters().spec, AT, 11) == (6, False)


@pytest.mark.parametrize("moving", [PARTITIONS[:1], PARTITIONS])
@pytest.mark.parametrize("seconds", [5, 60])
def test_a_plan_within_seconds_of_a_brokers_death_said_source_down(
    monkeypatch: pytest.MonkeyPatch, moving: tuple[MirrorPartition, ...], seconds: int
) -> None:
    """The partitions that it led have another leader a moment later: that is waited for. Lasting, it is said."""
    world = FailoverWorld()
    until, ends = world.clock.monotonic() + seconds, MemoryLogs.ends

    def moved(
        self: MemoryLogs, partitions: Sequence[MirrorPartition], by: Deadline
    ) -> Mapping[MirrorPartition, LogEnds | TanistError]:
        found = dict(ends(self, partitions, by))
        if self._cluster is world.east and world.clock.monotonic() < until:
            found |= {at: Unreachable(f"the leader of {at}") for at in moving if at in found}
        return found

    monkeypatch.setattr(MemoryLogs, "ends", moved)
    made = world.plan()
    assert ("SOURCE_DOWN" in {each.name for each in made.plan.limitations}) == (seconds > 10)
    assert made.word is (Readiness.GO if seconds == 5 else Readiness.UNKNOWN)


def test_a_source_that_is_gone_is_not_waited_for() -> None:
    world = FailoverWorld()
    world.east.dead = True
    began = world.clock.monotonic()
    assert "SOURCE_DOWN" in {each.name for each in world.plan().plan.limitations}
    assert world.clock.monotonic() - began < 5
