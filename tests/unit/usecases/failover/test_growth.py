"""A failover while the source has partitions, or whole topics, that the mirror does not know of."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.approval.entries import NotPermitted
from tanist.domain.checks import Mode
from tanist.domain.errors import TimedOut
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.names import MirrorName, MirrorPartition
from tanist.domain.records import RunStatus
from tanist.domain.states import DesiredState, MirrorState
from tests.builders import DR
from tests.fakes.topics import MemoryTopics
from tests.unit.usecases.failover.in_memory import TOPICS, FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline

MORE = MirrorPartition("orders", TOPICS["orders"])


def grow(world: FailoverWorld, records: int = 200, partitions: int = MORE.partition + 1) -> None:
    world.east.side().topics.grow("orders", partitions, world.soon())
    world.east.grow(MORE, records)


def test_what_has_no_copy_is_at_risk_and_left_behind_only_by_name(world: FailoverWorld) -> None:
    """Two hundred records in a partition from before the next sync: they were lost, and it said that none are."""
    before = world.plan()
    assert "PARTITIONS_WITHOUT_COPY" not in {each.name for each in before.plan.limitations}
    grow(world)
    planned = world.plan()
    (accepted,) = [each for each in planned.plan.limitations if each.name == "PARTITIONS_WITHOUT_COPY"]
    assert not accepted.blocks
    assert "1 of orders; add them with `tanist metadata sync dr --destination west`" in accepted.detail
    assert planned.plan.hash != before.plan.hash
    assert planned.forecast.offsets_at_risk == planned.forecast.estimate == 200
    assert planned.forecast.by_partition == ((MORE, 200),)
    outcome = world.run(world.approve().plan)
    assert outcome.record.status is RunStatus.DONE
    assert json.loads(outcome.evidence.head)["forecast"]["offsets_at_risk"] == 200


def test_a_source_that_grows_after_the_approval_voids_it(world: FailoverWorld) -> None:
    """Also where somebody has accepted fewer, and where the mirror has learned of them since."""
    plan = world.approve().plan
    grow(world)
    with pytest.raises(NotPermitted, match="GROWN_SINCE_PLANNED: new: 1 of orders"):
        world.run(plan)
    plan = world.approve().plan
    grow(world, 0, MORE.partition + 3)
    with pytest.raises(NotPermitted, match="GROWN_SINCE_PLANNED: new: 2 of orders"):
        world.run(plan)


def test_a_mirror_that_takes_in_partitions_after_the_approval_voids_it(world: FailoverWorld) -> None:
    """Nobody would wait until they are drained."""
    plan = world.approve().plan
    grow(world)
    world.west.side().topics.grow("orders", MORE.partition + 1, world.soon())
    (orders,) = [each for each in world.view().topics(DR) if each.topic == "orders"]
    world.worker.append([replace(orders, partitions=MORE.partition + 1)], world.soon())
    world.observe(MirrorState.MIRRORING, MORE)
    with pytest.raises(NotPermitted, match="GROWN_SINCE_PLANNED: new: 1 of orders"):
        world.run(plan)


def test_a_silent_source_invents_nothing(world: FailoverWorld) -> None:
    """What it has more nobody can tell; that what it took is unknown is said already."""
    grow(world)
    world.east.dead = True
    assert "PARTITIONS_WITHOUT_COPY" not in world.limitations(Mode.UNPLANNED)
    assert "RECORDS_UNSEEN" in world.limitations(Mode.UNPLANNED)


def test_an_unplanned_failover_counts_them_as_lost_while_the_source_answers_in_part(world: FailoverWorld) -> None:
    grow(world)
    del world.east.ends[MirrorPartition("payments", 0)]
    limitations = world.limitations(Mode.UNPLANNED)
    assert "PARTITIONS_WITHOUT_COPY" in limitations
    assert "200 offsets of the source are not at the destination" in limitations["RECORDS_AT_RISK"]


def test_a_source_that_does_not_say_how_many_it_has_stops_a_planned_failover(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it answers everything else."""
    known = MemoryTopics.partitions

    def but_orders(self: MemoryTopics, asked: Sequence[str], by: Deadline) -> Mapping[str, int | TanistError]:
        return {**known(self, asked, by), "orders": TimedOut("no answer")}

    monkeypatch.setattr(MemoryTopics, "partitions", but_orders)
    assert (
        "orders: the source does not report its number of partitions: TIMED_OUT" in world.limitations()["SOURCE_DOWN"]
    )
    assert world.plan().blocked


# ── whole topics ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def filtered(world: FailoverWorld) -> FailoverWorld:
    world.spec = replace(world.spec, include=("orders|payments|refunds.*|__.*",), exclude=("refunds-test",))
    world.worker.append([world.spec], world.soon())
    return world


def left_behind(world: FailoverWorld, mode: Mode = Mode.PLANNED, *include: str) -> tuple[str, ...] | None:
    found = [each for each in world.plan(mode, *include).plan.limitations if each.name == "TOPICS_WITHOUT_COPY"]
    return found[0].about if found else None


def test_a_whole_topic_that_the_filters_match_is_left_behind_only_by_name(filtered: FailoverWorld) -> None:
    """It came after the last `metadata sync`: no plan, status or evidence said a word of its records."""
    world, before = filtered, filtered.approve().plan
    for topic in ("refunds", "refunds-test", "clicks", "__mirror_notes"):
        world.east.with_topic(topic, 1)
    for mode in Mode:
        assert left_behind(world, mode) == ("refunds",)
        assert not world.plan(mode).blocked
    assert (
        "refunds; add them with `tanist metadata sync dr --destination west`"
        in world.limitations()["TOPICS_WITHOUT_COPY"]
    )
    with pytest.raises(NotPermitted, match=r"TOPICS_WITHOUT_COPY.*refunds"):
        world.run(before)
    accepted = world.approve().plan
    world.east.with_topic("refunds-2", 1)
    with pytest.raises(NotPermitted, match=r"TOPICS_WITHOUT_COPY.*refunds-2"):
        world.run(accepted)
    outcome = world.run(world.approve().plan)
    assert outcome.record.status is RunStatus.DONE
    assert "TOPICS_WITHOUT_COPY" in outcome.record.plan_json


def test_a_topic_that_appears_during_a_run_stops_it_before_the_point_of_no_return(filtered: FailoverWorld) -> None:
    world, plan = filtered, filtered.approve().plan

    def appear(point: str) -> None:
        if "groups" in point and "refunds" not in world.east.topics:
            world.east.with_topic("refunds", 1)

    with pytest.raises(NotPermitted, match=r"TOPICS_WITHOUT_COPY.*refunds"):
        world.run(plan, appear)
    assert not any(each.no_return for each in world.view().failovers(DR))


def take_in(world: FailoverWorld, topic: str) -> None:
    """As `mirrors add` and `metadata sync` do."""
    (orders,) = [each for each in world.view().topics(DR) if each.topic == "orders"]
    world.worker.append([replace(orders, topic=topic, partitions=1)], world.soon())


@pytest.mark.parametrize("mode", Mode)
def test_a_mirror_that_takes_in_a_topic_after_the_approval_of_all_its_topics_voids_it(
    filtered: FailoverWorld, mode: Mode
) -> None:
    """The run went to DONE without the topic, and one added topic hid all others that have no copy."""
    world, plan = filtered, filtered.approve(mode).plan
    for topic in ("refunds", "refunds-2"):
        world.east.with_topic(topic, 1)
    take_in(world, "refunds")
    with pytest.raises(NotPermitted) as refused:
        world.run(plan)
    assert re.search(r"GROWN_SINCE_PLANNED: new in the mirror.*: refunds, then plan again", str(refused.value))
    assert re.search(r"TOPICS_WITHOUT_COPY.*: refunds-2;", str(refused.value))
    assert not world.view().failovers(DR)


def test_a_mirror_that_takes_in_a_topic_during_a_run_stops_it_before_the_point_of_no_return(
    filtered: FailoverWorld,
) -> None:
    world, plan = filtered, filtered.approve().plan

    def appear(point: str) -> None:
        if "groups" in point and world.view().topic(DR, "refunds") is None:
            take_in(world, "refunds")

    with pytest.raises(NotPermitted, match=r"GROWN_SINCE_PLANNED.*refunds"):
        world.run(plan, appear)
    assert not any(each.no_return for each in world.view().failovers(DR))


def test_a_plan_of_some_topics_stands_whatever_becomes_of_the_others(filtered: FailoverWorld) -> None:
    """Also where none of the others is left in the mirror, so that these are all."""
    world, plan = filtered, filtered.approve(Mode.PLANNED, "orders").plan
    (payments,) = [each for each in world.view().topics(DR) if each.topic == "payments"]
    for topic in ("refunds", "refunds-2"):
        world.east.with_topic(topic, 1)
    world.worker.append([replace(payments, desired=DesiredState.REMOVED)], world.soon())
    assert world.run(plan, until="fence").record.status is RunStatus.RUNNING
    take_in(world, "refunds")
    assert world.run(plan).record.status is RunStatus.DONE


def test_a_plan_of_an_older_version_does_not_say_whether_it_was_of_all_topics(filtered: FailoverWorld) -> None:
    """It is judged by the topics that are in the mirror now, as it was then."""
    made = filtered.plan().plan
    assert made.intent.whole is True
    assert filtered.plan(Mode.PLANNED, "orders").plan.intent.whole is False
    words = json.loads(made.canonical_plan)
    del words["intent"]["whole"]
    assert ApprovedPlan.read(json.dumps(words)).intent == replace(made.intent, whole=None)
    assert ApprovedPlan.read(made.canonical_plan).intent == made.intent


def test_a_new_topic_that_another_mirror_has_is_not_without_a_copy(filtered: FailoverWorld) -> None:
    filtered.east.with_topic("refunds", 1)
    (orders,) = [each for each in filtered.view().topics(DR) if each.topic == "orders"]
    filtered.worker.append([replace(orders, mirror=MirrorName("other"), topic="refunds")], filtered.soon())
    assert left_behind(filtered) is None


def test_a_topic_that_was_removed_from_the_mirror_is_not_without_a_copy(filtered: FailoverWorld) -> None:
    """Somebody decided that, and `metadata sync` does not take it in again."""
    (payments,) = [each for each in filtered.view().topics(DR) if each.topic == "payments"]
    filtered.worker.append([replace(payments, desired=DesiredState.REMOVED)], filtered.soon())
    assert left_behind(filtered) is None
    filtered.east.with_topic("refunds", 1)
    assert left_behind(filtered) == ("refunds",)


def test_who_fails_over_a_part_leaves_the_rest_on_purpose_and_costs_no_request(
    filtered: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []
    known = MemoryTopics.names

    def counted(self: MemoryTopics, by: Deadline) -> tuple[str, ...]:
        listed.append(self.cluster.name)
        return known(self, by)

    monkeypatch.setattr(MemoryTopics, "names", counted)
    filtered.east.with_topic("refunds", 1)
    assert left_behind(filtered, Mode.PLANNED, "orders") is None
    assert listed == []
    assert left_behind(filtered) == ("refunds",)
    assert listed == ["east"], "one request in each look"


def test_a_source_that_does_not_list_its_topics_does_not_answer(
    filtered: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with every other question: the mirror's new topics are not told to be none."""

    def silent(_self: MemoryTopics, _by: Deadline) -> tuple[str, ...]:
        raise TimedOut("no answer")

    filtered.east.with_topic("refunds", 1)
    monkeypatch.setattr(MemoryTopics, "names", silent)
    filtered.copying = False
    assert "TIMED_OUT" in filtered.limitations()["SOURCE_DOWN"]
    assert {"SOURCE_NOT_DRAINED", "RECORDS_UNSEEN"} <= set(filtered.limitations(Mode.UNPLANNED))
    assert left_behind(filtered, Mode.UNPLANNED) is None
