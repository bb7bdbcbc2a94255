"""What the old source has and the new primary has not is said by name, by the run and for as long as it is so."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.checks import Mode, Verdict
from tanist.domain.fences import FenceBefore, FencedTopic, FenceKind, FenceStatus
from tanist.domain.names import EpochMs
from tanist.domain.records import Fences, RunStatus
from tanist.usecases.command import Silence
from tanist.usecases.failover.status import checks
from tanist.usecases.failover.steps import notify_source
from tanist.usecases.failover.tools import Timeouts
from tests.builders import AT
from tests.fakes.clock import JumpingClock
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.failover.test_growth import MORE, grow

if TYPE_CHECKING:
    from tanist.domain.checks import Check


def left_behind(world: FailoverWorld) -> Check:
    found = checks(world.clusters().snapshot(), Silence(world.clock), world.command())
    return next(each for each in found if each.name == "left_behind")


def movers(world: FailoverWorld) -> Any:
    assert world.sink.kept is not None
    return world.sink.kept.found("movers")


def test_nothing_is_left_behind_where_nobody_wrote_past_the_fence() -> None:
    world = FailoverWorld()
    world.run(world.approve().plan)
    assert left_behind(world).verdict is Verdict.PASS
    assert (movers(world)["still_growing"], movers(world)["silent"], movers(world)["left_behind"]) == ([], True, {})


def test_behind_a_proved_acl_one_look_is_enough() -> None:
    """The proof was taken twice: ten seconds of each failover, while nobody could have written."""
    world = FailoverWorld()
    outcome = world.run(world.approve().plan)
    assert world.tools().patience.proof <= outcome.waited < 2 * world.tools().patience.proof


def test_somebody_whom_no_acl_binds_is_watched_once_it_has_written_past_the_fence() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="seal")
    world.east.grow(AT, 2)
    outcome = world.run(plan)
    assert movers(world)["left_behind"] == {str(AT): 2}
    assert outcome.waited >= world.tools().patience.proof


def test_without_the_proof_of_a_fence_producers_are_watched_for() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="open")
    stored = world.view()["fence/" + world.mirror]
    assert isinstance(stored, Fences)
    unproved = [replace(fence, status=FenceStatus.UNPROVED, proved_at=None) for fence in stored.topics]
    world.worker.append([replace(stored, topics=tuple(unproved))], world.soon())
    assert world.run(plan).waited >= world.tools().patience.proof


FENCE = FencedTopic(
    topic="orders",
    status=FenceStatus.PROVED,
    wanted_by="plan",
    before=FenceBefore(topic="orders", kind=FenceKind.DENY_WRITE),
    proved_at=EpochMs(1_000),
)


def shut_out(now: int, *fences: FencedTopic) -> bool:
    """Whether both topics of a run count as shut out, by what is on record."""
    context: Any = SimpleNamespace(
        clock=JumpingClock(epoch_ms=now),
        patience=Timeouts(proof=5.0),
        intent=SimpleNamespace(mirror="m", names=("orders", "more")),
        spec=SimpleNamespace(names=SimpleNamespace(topic_at_source=str)),
        session=SimpleNamespace(view=lambda: SimpleNamespace(source_fences=lambda _: fences)),
    )
    return bool(notify_source._proved_for_long(context))


def test_producers_count_as_shut_out_only_if_an_acl_has_held_each_topic_for_the_whole_window() -> None:
    more = replace(FENCE, topic="more")
    assert shut_out(6_000, FENCE, more)
    assert not shut_out(5_999, FENCE, more)
    assert not shut_out(6_000, FENCE)
    for doubtful in (
        replace(more, status=FenceStatus.UNPROVED),
        replace(more, proved_at=None),
        replace(more, before=None),
        replace(more, before=FenceBefore(topic="more", kind=FenceKind.TINY_MESSAGES)),
    ):
        assert not shut_out(6_000, FENCE, doubtful)


def test_a_source_that_does_not_tell_what_it_has_left_is_watched() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="open")
    world.east.ahead[AT] = 1
    assert world.run(plan).waited >= world.tools().patience.proof
    assert movers(world)["left_behind"] != {}


@pytest.mark.parametrize("lifted", [{"orders"}, {"payments"}, {"orders", "payments"}])
def test_a_proved_fence_that_somebody_has_lifted_since_is_no_reason_to_look_once(lifted: set[str]) -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="open")
    world.east.deny = {(topic, who) for topic, who in world.east.deny if topic not in lifted}
    assert world.run(plan).waited >= world.tools().patience.proof


def test_a_record_that_gets_in_behind_the_barrier_is_told_by_the_run_and_by_every_status_after_it() -> None:
    """The drain was over; a producer of small records passed a near fence once more."""
    world = FailoverWorld(authorizer=False)
    plan = world.approve().plan
    world.run(plan, until="seal")
    world.east.grow(AT, 2)
    assert world.run(plan).record.status is RunStatus.DONE
    assert movers(world)["left_behind"] == {str(AT): 2}
    found = left_behind(world)
    assert found.verdict is Verdict.FAIL
    assert f"{AT}: the old source has 2 offsets that the new primary does not have" in found.reason
    world.east.grow(AT)
    assert f"{AT}: the old source has 3 offsets" in left_behind(world).reason


def test_a_slow_producer_is_watched_for_as_long_as_producers_rest() -> None:
    """One look would have missed it: it writes once in a while."""
    world = FailoverWorld(authorizer=False)
    plan = world.approve().plan
    world.run(plan, until="open")
    began = world.clock.monotonic()

    def slowly() -> None:
        world.tick()
        if 1.0 < world.clock.monotonic() - began < 1.6:
            world.east.grow(AT)

    world.clock.meanwhile = slowly
    assert world.run(plan).record.status is RunStatus.DONE
    assert movers(world)["still_growing"] == [str(AT)]
    assert movers(world)["silent"] is True
    assert movers(world)["left_behind"][str(AT)] > 0
    assert world.clock.monotonic() - began >= 1.0 + world.tools().patience.proof


def test_somebody_who_never_stops_is_not_waited_for_without_end() -> None:
    world = FailoverWorld(authorizer=False)
    plan = world.approve().plan
    world.run(plan, until="open")
    began = world.clock.monotonic()

    def writes() -> None:
        world.tick()
        world.east.grow(AT)

    world.clock.meanwhile = writes
    outcome = world.run(plan)
    assert outcome.record.status is RunStatus.DONE
    assert (movers(world)["still_growing"], movers(world)["silent"]) == ([str(AT)], False)
    assert world.clock.monotonic() - began < 10
    assert outcome.waited >= world.tools().patience.proof, "writes were open all the time"


def test_markers_are_nothing_that_anybody_lacks() -> None:
    world = FailoverWorld()
    world.run(world.approve().plan)
    world.east.mark(AT)
    assert left_behind(world).verdict is Verdict.PASS


def test_a_source_that_returns_has_what_it_took_before_it_died() -> None:
    """Nobody could say so while it was dead."""
    world = FailoverWorld()
    world.copying = False
    world.east.grow(AT, 5)
    world.east.dead = True
    world.run(world.approve(Mode.UNPLANNED).plan)
    assert left_behind(world).verdict is Verdict.UNKNOWN
    world.east.dead = False
    assert f"{AT}: the old source has 5 offsets" in left_behind(world).reason


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "made anew"])
def test_a_topic_that_is_there_no_more_has_nothing_that_anybody_lacks(gone: bool) -> None:
    world = FailoverWorld()
    world.run(world.approve().plan)
    world.east.grow(AT, 5)
    if gone:
        del world.east.topics[AT.topic]
        world.east.ends.pop(AT)
    else:
        world.east.topics[AT.topic] = replace(world.east.topics[AT.topic], topic_id="another")
    assert left_behind(world).verdict is Verdict.PASS


def test_what_cannot_be_read_is_not_called_nothing() -> None:
    world = FailoverWorld()
    world.run(world.approve().plan)
    world.east.ahead[AT] = 1
    assert left_behind(world).verdict is Verdict.UNKNOWN


def test_partitions_without_a_copy_are_left_behind_with_all_they_have() -> None:
    """PARTITIONS_WITHOUT_COPY was accepted, 200 records stayed, and the check passed on 0."""
    world = FailoverWorld()
    grow(world, 200)
    assert world.run(world.approve().plan).record.status is RunStatus.DONE
    assert movers(world)["left_behind"] == {str(MORE): 200}
    found = left_behind(world)
    assert (found.verdict, found.observed) == (Verdict.FAIL, "200 offsets only at the old source")
    assert f"{MORE}: the old source has 200 offsets" in found.reason


def test_partitions_added_to_the_old_source_after_the_failover_are_left_behind() -> None:
    world = FailoverWorld(authorizer=False)
    world.run(world.approve().plan)
    assert left_behind(world).verdict is Verdict.PASS
    grow(world, 50)
    found = left_behind(world)
    assert (found.verdict, found.observed) == (Verdict.FAIL, "50 offsets only at the old source")
