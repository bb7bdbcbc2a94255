"""What a failover leaves to do is done as soon as it can be, by one worker, and exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import TopicAuthorizationFailed
from tanist.domain.checks import Mode, Verdict
from tanist.domain.errors import MirrorProducerFenced, SourceReplaced, TimedOut
from tanist.domain.failover.past_checks import fences_check
from tanist.domain.fences import STRAY, FenceStatus, restored_fence
from tanist.domain.names import EpochMs, MirrorName, ProducerId
from tanist.domain.promotions import copy_blocked_reason, still_promoted
from tanist.domain.records import (
    STATE_TOPIC,
    Fences,
    PromotionEpoch,
)
from tanist.domain.selection import Selection
from tanist.domain.state_view import NOTHING_YET, fold
from tanist.domain.states import MirrorState
from tanist.fetcher.assignment import Report
from tanist.fetcher.fence_reconciler import ANSWER_SECONDS
from tanist.fetcher.planning import Moment, Owned, next_observed
from tanist.fetcher.producer_fences import SEAL_AGAIN_SECONDS
from tanist.usecases.command import CommandContext, Silence
from tanist.usecases.failover import abort
from tanist.usecases.failover.fences import lift
from tanist.usecases.failover.status import checks
from tanist.usecases.lock import Purpose, mirror_lock
from tests.builders import DR, a_partition, a_topic
from tests.fakes.failover import MemoryFencing
from tests.unit.fetcher.reconciling import Sources, aborted, burnt, debts, late_fence, settled
from tests.unit.usecases.failover.in_memory import DATA, PARTITIONS, TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, killer

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("authorizer", [True, False])
def test_a_returning_source_is_fenced_from_a_snapshot_that_was_stored_before(authorizer: bool) -> None:
    world = burnt(authorizer=authorizer)
    worker = debts(world)
    assert settled(world, worker) == {FenceStatus.PENDING}
    world.east.dead = False
    assert all(world.east.may_write(topic, "app") for topic in TOPICS)
    assert settled(world, worker) == {FenceStatus.IN_FORCE}
    assert not any(world.east.may_write(topic, "app") for topic in TOPICS)
    assert all(each.before is not None for each in world.view().source_fences(DR))
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    assert world.source_is_as_it_was()


def lost_fences(world: FailoverWorld) -> None:
    """As `tanist state restore` writes it, from an export that is older than the failover."""
    fences = world.view()[f"fence/{DR}"]
    assert isinstance(fences, Fences)
    world.west.write(STATE_TOPIC, replace(fences, topics=tuple(restored_fence(topic, None) for topic in TOPICS)))


@pytest.mark.parametrize("authorizer", [True, False])
def test_a_fence_that_a_lost_failover_has_set_already_can_be_lifted(authorizer: bool) -> None:
    """It was taken for a setting of somebody else, which is never lifted."""
    world = burnt(authorizer=authorizer)
    world.east.dead = False
    worker = debts(world)
    assert settled(world, worker) == {FenceStatus.IN_FORCE}
    lost_fences(world)
    assert settled(world, worker) == {FenceStatus.IN_FORCE}
    assert not any(world.east.may_write(topic, "app") for topic in TOPICS)
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    assert world.source_is_as_it_was()


def test_a_source_that_took_over_again_since_an_export_is_not_fenced() -> None:
    """It is the live primary: at a restoration `--without-source` nobody asked it."""
    world = burnt()
    lost_fences(world)
    world.east.dead = False
    for entry in world.view().lineage(DR):
        old, new, epoch = entry.new_cluster_id, entry.old_cluster_id, entry.promotion_epoch + 1
        back = replace(entry, promotion_epoch=epoch, old_cluster_id=old, new_cluster_id=new)
        world.east.write(STATE_TOPIC, back)
    assert settled(world, debts(world)) == {FenceStatus.PENDING}
    assert all(world.east.may_write(topic, "app") for topic in TOPICS)
    assert all("took over again after the export" in each.reason for each in world.view().source_fences(DR))


def test_a_topic_that_was_failed_over_without_a_fence_on_record_is_never_green() -> None:
    """A restoration had written none, and the check said `0 pending of 0`."""
    check = fences_check((), {}, {"orders"}, FailoverWorld().spec)
    assert check.verdict is Verdict.FAIL
    assert "orders: it was failed over, and no source fence is on record" in check.reason
    assert fences_check((), {}, (), FailoverWorld().spec).verdict is Verdict.PASS


def test_a_worker_that_does_not_own_the_mirror_leaves_its_debts_alone() -> None:
    world = burnt()
    world.east.dead = False
    assert settled(world, debts(world, owns=False)) == {FenceStatus.PENDING}


def test_a_fence_that_could_not_be_lifted_is_lifted_later() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("fence:applied")))
    world.east.dead = True
    abort.abort(world.clusters(), world.tools(), world.command())
    world.east.dead = False
    assert not world.source_is_as_it_was()
    assert settled(world, debts(world)) == {FenceStatus.LIFTED}
    assert world.source_is_as_it_was()


def test_nothing_is_settled_while_a_run_is_under_way() -> None:
    world = FailoverWorld()
    world.east.dead = True
    plan = world.approve(Mode.UNPLANNED).plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("after:fence") - 2))
    world.east.dead = False
    assert settled(world, debts(world)) <= {FenceStatus.PENDING}


def test_fences_of_partitions_that_a_worker_has_got_since_are_renewed_at_once() -> None:
    """It had looked before it owned any, and looked again a quarter of an hour later."""
    world, owned = burnt(), set[int]()
    worker = debts(world, holds=owned.__contains__)
    settled(world, worker)
    world.west.epochs.clear()
    owned |= set(range(50))
    settled(world, worker)
    assert not any(world.zombie(at) for at in PARTITIONS)


def test_a_barrier_that_brokers_forgot_is_put_up_again() -> None:
    world = burnt()
    world.west.epochs.clear()
    world.clock.jump(SEAL_AGAIN_SECONDS)
    settled(world, debts(world))
    assert not any(world.zombie(at) for at in PARTITIONS)


def reported(world: FailoverWorld) -> set[int]:
    east = world.east.view(STATE_TOPIC)
    return {east.promotions(DR, topic) for topic in TOPICS}


def test_a_returning_source_is_told_that_it_was_replaced_and_then_left_alone() -> None:
    world = burnt()
    sources = Sources(world)
    worker = debts(world, sources)
    settled(world, worker)
    assert reported(world) == {0}
    assert not world.east.view(STATE_TOPIC).lineage(DR)
    world.east.dead = False
    for _ in range(3):
        settled(world, worker)
    assert reported(world) == {1}
    assert world.east.view(STATE_TOPIC).lineage(DR) == world.view().lineage(DR) != ()
    asked = sources.asked
    settled(world, worker)
    assert sources.asked == asked


def test_what_a_source_was_told_already_never_goes_down() -> None:
    world = FailoverWorld()
    later = [PromotionEpoch(mirror=DR, topic=topic, count=7) for topic in TOPICS]
    world.east.write(STATE_TOPIC, *later)
    world.east.topics[STATE_TOPIC] = world.west.topics[STATE_TOPIC]
    world.run(world.approve().plan)
    settled(world, debts(world))
    assert reported(world) == {7}


def test_an_old_life_is_barred_and_the_life_that_was_counted_is_not() -> None:
    """A state topic from before the failover, beside a source that was told of it."""
    world = FailoverWorld()
    before = world.view()
    reported = fold(NOTHING_YET, [PromotionEpoch(mirror=DR, topic="orders", count=1)])
    old = copy_blocked_reason(before, reported, DR, "orders")
    assert isinstance(old, SourceReplaced)
    assert "'orders'" in old.reason
    assert "promotion 1" in old.reason
    assert copy_blocked_reason(before, reported, DR, "payments") is None
    world.run(world.approve().plan)
    assert isinstance(copy_blocked_reason(world.view(), reported, DR, "orders"), MirrorProducerFenced)
    again = replace(before.topics(DR)[0], promotion_epoch=1)
    assert copy_blocked_reason(fold(world.view(), [again]), reported, DR, "orders") is None


# ── what workers make of a promotion ──────────────────────────────────────────────────────────────────────────────


def test_promoted_is_said_of_what_left_the_mirror_and_of_nothing_else() -> None:
    world = FailoverWorld()
    assert not any(world.view().promoted(DR, topic) for topic in TOPICS)
    world.run(world.approve(Mode.PLANNED, "orders").plan)
    assert world.view().promoted(DR, "orders")
    assert not world.view().promoted(DR, "payments")


def test_a_promotion_that_is_read_before_its_wish_is_no_new_wish() -> None:
    """Records of one transaction lie in several partitions of the state topic, and are read in any order."""
    world = FailoverWorld()
    before = world.view()
    world.run(world.approve().plan)
    at, topic = PARTITIONS[0], before.topics(DR)[0]
    stopped = world.view().observed(DR, at)
    mine = Owned(world.spec, topic, at, 0)
    assert stopped is not None
    assert next_observed(mine, stopped, Report(), 9, Moment(EpochMs(1), 1.0)) is None


def test_what_a_worker_writes_late_does_not_undo_a_promotion() -> None:
    world = FailoverWorld()
    world.run(world.approve().plan)
    for row, state in ((900, MirrorState.FAILED), (300, MirrorState.STOPPING), (100, MirrorState.PREPARING)):
        late = a_partition(state, partition=PARTITIONS[0], row=row, claim_epoch=99, at=EpochMs(1))
        after = fold(world.view(), [late]).observed(DR, PARTITIONS[0])
        assert after is not None
        assert after.state is MirrorState.STOPPED
    assert not world.west.append(PARTITIONS[0], DATA, 0)


# ── what stands at the source, and what is on record ──────────────────────────────────────────────────────────────


def test_a_fence_that_lands_after_the_abort_is_reported_and_can_be_lifted() -> None:
    """The record said lifted, status said GO, `fence lift` refused, and no worker acted."""
    world, worker = aborted(), None
    late_fence(world)
    assert not world.source_is_as_it_was()
    worker = debts(world)
    assert settled(world, worker) == {FenceStatus.LIFTED}, "it may be somebody's own: nobody takes it away"
    assert {each.reason for each in world.view().source_fences(DR)} == {STRAY}
    check = fences_check(world.view().source_fences(DR), {}, (), world.spec)
    assert (check.verdict, "tanist fence lift" in check.reason) == (Verdict.FAIL, True)
    lift(world.clusters(), world.command(), of_promoted=False)
    assert world.source_is_as_it_was()
    settled(world, worker)
    lifted = world.view().source_fences(DR)
    gone = dict.fromkeys((each.topic for each in lifted), False)
    assert fences_check(lifted, gone, (), world.spec).verdict is Verdict.PASS


def test_a_fence_of_a_topic_that_took_over_is_put_up_again_where_somebody_lifted_it() -> None:
    """With a console at the source: without its fence both sides can be written to."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    before = [each.before for each in world.view().source_fences(DR) if each.before]
    MemoryFencing(world.east).lift(before, world.soon())
    assert all(world.east.may_write(topic, "app") for topic in TOPICS)
    assert settled(world, debts(world)) == {FenceStatus.IN_FORCE}
    assert not any(world.east.may_write(topic, "app") for topic in TOPICS)


def test_a_fence_that_was_lifted_by_the_command_stays_lifted() -> None:
    world = FailoverWorld()
    world.run(world.approve().plan)
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    assert settled(world, debts(world)) == {FenceStatus.LIFTED}
    assert world.source_is_as_it_was()


def test_a_source_fence_is_changed_under_the_lock_of_its_mirror_only() -> None:
    """While a command is at work on the mirror the worker stands back, and comes again."""
    world = burnt()
    world.east.dead = False
    command = CommandContext(clock=world.clock, by=world.soon())
    with mirror_lock(world.west.side(), DR, Purpose(operation="mirrors alter"), command):
        assert settled(world, debts(world)) == {FenceStatus.PENDING}
    assert settled(world, debts(world)) == {FenceStatus.IN_FORCE}


def test_status_names_a_fence_that_landed_after_the_abort_before_any_worker_has_looked() -> None:
    """It said GO while every producer of the source was refused."""
    world = aborted()
    assert "SOURCE_FENCED" not in names(world)
    late_fence(world)
    assert "SOURCE_FENCED" in names(world)
    lift(world.clusters(), world.command(), of_promoted=False)
    assert "SOURCE_FENCED" not in names(world)


def names(world: FailoverWorld) -> set[str]:
    return {limitation.name for limitation in world.plan().plan.limitations}


# ── what holds up nothing else ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("refused", TOPICS)
def test_a_fence_that_cannot_be_put_up_holds_up_no_other(refused: str) -> None:
    """Its topic was deleted at the source, for instance: every other one of the mirror stayed open for ever."""
    world = burnt(authorizer=False)
    world.east.dead = False
    world.east.drop(refused)
    settled(world, debts(world))
    (other,) = set(TOPICS) - {refused}
    assert {each.topic: each.status for each in world.view().source_fences(DR)} == {
        refused: FenceStatus.PENDING,
        other: FenceStatus.IN_FORCE,
    }
    assert not world.east.may_write(other, "app")


def test_a_fence_that_cannot_be_lifted_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = aborted_by_a_dead_source()
    real = MemoryFencing._lift
    refusal = TopicAuthorizationFailed("orders")
    monkeypatch.setattr(
        MemoryFencing, "_lift", lambda self, before: refusal if before.topic == "orders" else real(self, before)
    )
    settled(world, debts(world))
    assert {each.topic: each.status for each in world.view().source_fences(DR)} == {
        "orders": FenceStatus.LIFT_PENDING,
        "payments": FenceStatus.LIFTED,
    }


def aborted_by_a_dead_source() -> FailoverWorld:
    """The source died before the abort could lift its fences; it is back."""
    world = FailoverWorld()
    with pytest.raises(Killed):
        world.run(world.approve().plan, killer(PLANNED.index("fence:applied")))
    world.east.dead = True
    abort.abort(world.clusters(), world.tools(), world.command())
    world.east.dead = False
    return world


@pytest.mark.parametrize("made", [burnt, aborted_by_a_dead_source])
def test_a_source_that_hangs_delays_a_round_once_whatever_it_is_asked(
    made: Callable[[], FailoverWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mirror of it took another eight seconds, and every barrier's renewal came that much later."""
    world = made()
    world.east.dead = False
    others = [replace(world.spec, mirror=MirrorName(f"dr{n}"), mirror_id="") for n in range(3)]
    fences = next(each for each in world.view().values() if isinstance(each, Fences))
    world.worker.append([*others, *(replace(fences, mirror=each.mirror) for each in others)], world.soon())

    def hang() -> None:
        world.clock.jump(ANSWER_SECONDS)
        raise TimedOut("east:9092")

    monkeypatch.setattr(world.east, "answer", hang)
    worker = debts(world)
    for _ in range(2):
        began = world.clock.monotonic()
        worker.reconcile_all(world.view())
        assert world.clock.monotonic() - began == ANSWER_SECONDS, "and the next round asks again"


def test_a_promotion_writes_nothing_into_the_copy_that_another_mirror_has_now() -> None:
    """Its topic was deleted at the destination, and taken in again by a mirror of another name."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    world.west.drop("orders")
    world.west.with_topic("orders", 2)
    other = replace(world.spec, mirror=MirrorName("dr2"), mirror_id="two", data_id=ProducerId(27))
    desired = a_topic(mirror=other.mirror, mirror_id="two", source_topic_id="id-of-orders", partitions=2)
    world.worker.append([other, desired], world.soon())
    before = dict(world.west.ends)
    settled(world, debts(world))
    assert {at: end for at, end in world.west.ends.items() if at.topic == "orders"} == {
        at: end for at, end in before.items() if at.topic == "orders"
    }
    assert [each.topic for each in still_promoted(world.view(), DR, {})] == ["payments"]
    found = {each.name: each for each in checks(world.clusters().snapshot(), Silence(world.clock), world.command())}
    assert found["barrier"].verdict is Verdict.PASS, found["barrier"]
    assert found["openings"].verdict is Verdict.PASS, found["openings"]
