"""Source fences are lifted topic by topic, and one that was lifted can be set again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode, Verdict
from tanist.domain.errors import TopicNotInMirror
from tanist.domain.fences import FenceStatus
from tanist.domain.selection import Selection
from tanist.usecases.failover.fences import StillNeeded, lift, set_again
from tests.builders import DR
from tests.fakes.failover import MemoryFencing
from tests.unit.fetcher.reconciling import debts, settled
from tests.unit.usecases.failover.in_memory import TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import killer
from tests.unit.usecases.failover.test_source_fences import fences

if TYPE_CHECKING:
    from tanist.domain.fences import FencedTopic

ALL = Selection((".*",))
PAYMENTS = Selection(("payments",))


def promoted(*, authorizer: bool = True) -> FailoverWorld:
    """Both topics were failed over, and are fenced at the source."""
    world = FailoverWorld(authorizer=authorizer)
    world.run(world.approve().plan)
    return world


def lifted(world: FailoverWorld, topics: Selection = ALL) -> tuple[FencedTopic, ...]:
    return lift(world.clusters(), world.command(), of_promoted=True, topics=topics)


def writable(world: FailoverWorld) -> set[str]:
    return {topic for topic in TOPICS if world.east.may_write(topic, "app")}


def test_fences_of_several_promoted_topics_are_lifted_only_by_name() -> None:
    """The documented repair of one topic made all of them writable on both sides."""
    world = promoted()
    one = "`tanist fence lift dr --destination west --promoted --topic orders`"
    with pytest.raises(StillNeeded, match=f"orders, payments: failed over.*{one}"):
        lift(world.clusters(), world.command(), of_promoted=True)
    del world.west.topics["payments"]
    with pytest.raises(
        StillNeeded, match=r"payments not at the destination any more; .*`tanist .* --promoted --topic payments`"
    ):
        lift(world.clusters(), world.command(), of_promoted=True)
    assert writable(world) == set()
    assert [each.topic for each in lifted(world, PAYMENTS)] == ["payments"]
    assert writable(world) == {"payments"}
    lift(world.clusters(), world.command(), of_promoted=True)
    assert world.source_is_as_it_was(), "of a single one nobody has to say which it is"


def test_no_error_prints_a_command_that_lifts_the_fences_of_several_promoted_topics() -> None:
    """Without --promoted it named all of them, and of more than ten it said --topic '.*'."""
    world = promoted()
    with pytest.raises(StillNeeded) as refused:
        lift(world.clusters(), world.command(), of_promoted=False)
    assert str(refused.value).count("--topic") == 1


@pytest.mark.parametrize("topics", [Selection(("refunds",)), Selection((), ("refunds",)), Selection((), (".*",))])
def test_expressions_that_match_no_fenced_topic_lift_and_set_nothing(topics: Selection) -> None:
    world = promoted()
    for change in (lifted, lambda w, t: set_again(w.clusters(), w.command(), t)):
        with pytest.raises(TopicNotInMirror):
            change(world, topics)
    assert writable(world) == set()


def test_without_promoted_the_error_prints_the_command_for_the_topic_that_was_named() -> None:
    world = promoted()
    with pytest.raises(StillNeeded, match=r"`tanist fence lift dr --destination west --promoted --topic payments`"):
        lift(world.clusters(), world.command(), of_promoted=False, topics=PAYMENTS)


def test_a_promoted_topic_whose_fence_was_lifted_fails_the_check_with_the_command_that_sets_it() -> None:
    """It passed until somebody had written to the old source."""
    world = promoted()
    lifted(world, PAYMENTS)
    check = fences(world)
    assert (check.verdict, "1 lifted" in check.observed) == (Verdict.FAIL, True)
    assert "payments: it was failed over, and its source fence was lifted" in check.reason
    assert "`tanist fence set dr --destination west --topic payments`" in check.reason
    world.east.dead = True
    assert fences(world).verdict is Verdict.FAIL, "the record says so, whether or not the source answers"


@pytest.mark.parametrize("authorizer", [True, False])
def test_a_lifted_fence_is_set_again_and_lifting_it_restores_what_was_there_last(authorizer: bool) -> None:
    world = promoted(authorizer=authorizer)
    lifted(world)
    if not authorizer:
        found = world.east.topics["orders"]
        world.east.topics["orders"] = replace(found, configs={**found.configs, "max.message.bytes": "5000"})
    set_again(world.clusters(), replace(world.command(), dry_run=True), ALL)
    assert writable(world) == set(TOPICS)
    done = set_again(world.clusters(), world.command(), ALL)
    assert {each.status for each in done} == {FenceStatus.IN_FORCE}
    assert (writable(world), fences(world).verdict) == (set(), Verdict.PASS)
    stored = world.view().source_fences(DR)
    assert set_again(world.clusters(), world.command(), ALL) == done
    assert world.view().source_fences(DR) == stored
    lifted(world)
    assert world.east.topics["orders"].configs.get("max.message.bytes") == (None if authorizer else "5000")


def test_a_fence_that_cannot_be_set_now_is_pending_and_a_fetcher_sets_it() -> None:
    world = promoted()
    lifted(world)
    world.east.dead = True
    done = set_again(world.clusters(), world.command(), PAYMENTS)
    assert [(each.topic, each.status) for each in done] == [("payments", FenceStatus.PENDING)]
    world.east.dead = False
    assert settled(world, debts(world)) == {FenceStatus.IN_FORCE, FenceStatus.LIFTED}
    assert writable(world) == {"orders"}
    lifted(world, PAYMENTS)
    assert world.source_is_as_it_was()


def test_a_fence_that_another_client_has_lifted_is_set_again_at_once() -> None:
    world = promoted(authorizer=False)
    before = [each.before for each in world.view().source_fences(DR) if each.before]
    MemoryFencing(world.east).lift(before, world.soon())
    set_again(world.clusters(), world.command(), ALL)
    assert writable(world) == set()
    assert [each.before for each in world.view().source_fences(DR)] == before


def test_a_topic_that_is_mirrored_gets_no_fence() -> None:
    """Its producers belong at the source."""
    world = FailoverWorld()
    world.run(world.approve(Mode.PLANNED, "orders").plan)
    with pytest.raises(TopicNotInMirror, match="'payments' matches no topic that mirror 'dr' has failed over"):
        set_again(world.clusters(), world.command(), PAYMENTS)
    assert writable(world) == {"payments"}


def test_no_fence_is_set_beside_an_unfinished_run() -> None:
    world = FailoverWorld()
    with pytest.raises(Killed):
        world.run(world.approve().plan, killer(3))
    with pytest.raises(StillNeeded, match="unfinished"):
        set_again(world.clusters(), world.command(), ALL)
