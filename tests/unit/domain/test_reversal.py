"""The plan of a reversal: what is refused, what an approver accepts, and what a hash binds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.acl_entries import ANYBODY, CLOSED, AclEntry, to_deny
from tanist.domain.failback.reversal import (
    Recreation,
    ReturningTopic,
    Reversal,
    cost,
    limitations,
    problems,
    problems_of_recreation,
    recreated,
    returning,
    unlike_the_plan,
    writable_limitation,
)
from tanist.domain.failback.survey import PartitionSurvey, TailCounts
from tanist.domain.limitation import Limitation
from tanist.domain.moves import left_over
from tanist.domain.names import MirrorPartition
from tanist.domain.tails import PartitionTail, TailVerdict
from tests.builders import AT

EVEN = PartitionSurvey(
    partition=AT, promotion_epoch=1, old_end=10, reserve_end=20, end=10, common_end=10, tail=TailCounts()
)
TAIL = replace(EVEN, end=14, tail=TailCounts(records=4))
OVERLAP = replace(EVEN, end=21, tail=TailCounts(records=11))
SHORT = replace(EVEN, end=7, common_end=7)
OTHER = replace(EVEN, end=9, common_end=7)
RESCUED = PartitionTail(
    partition=0, verdict=TailVerdict.TAIL, common_end=10, end=21, records=11, copied_from=0, copied_to=11
)
APP, MIRROR = "User:app", "User:mirror"


def allow(who: str) -> AclEntry:
    return AclEntry(who, "*", allowed=True)


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (EVEN, None),
        (SHORT, None),
        (replace(TAIL, on_record=RESCUED, done=True), None),
        (TAIL, "TAIL_UNDECIDED"),
        (OVERLAP, "OFFSETS_OVERLAP"),
        (OTHER, "LOG_DIVERGED"),
        (replace(EVEN, end=None), "SURVEY_NOT_FINAL"),
        (replace(EVEN, reasons=("producers may still write",)), "SURVEY_NOT_FINAL"),
        (replace(TAIL, reasons=("a transaction is open",)), "SURVEY_NOT_FINAL"),
    ],
)
def test_a_log_is_copied_to_only_where_its_end_is_final_and_free(found: PartitionSurvey, name: str | None) -> None:
    assert [each.name for each in problems([found], ())] == ([name] if name else [])
    accepted = [each.name for each in problems([found], ("TAIL_UNDECIDED",))]
    assert accepted == ([name] if name not in {None, "TAIL_UNDECIDED"} else [])


def test_an_overlap_that_is_not_final_is_reported_with_both_reasons() -> None:
    found = problems([replace(OVERLAP, reasons=("a transaction is open",))], ())
    assert [each.name for each in found] == ["OFFSETS_OVERLAP", "SURVEY_NOT_FINAL"]


def test_a_log_may_reach_up_to_the_reserve_and_one_that_lost_records_only_to_its_end() -> None:
    longer = replace(TAIL, partition=MirrorPartition("orders", 1))
    topic = returning("orders", 1, [longer, SHORT], [allow(APP), allow(MIRROR), CLOSED], [MIRROR])
    assert topic == ReturningTopic(topic="orders", promotion_epoch=1, free_from=(7, 20), denied=(APP,), ends=(7, 14))
    assert topic.markers == 6


def test_writers_are_denied_but_those_who_are_already_and_never_everybody() -> None:
    rules = [allow(APP), allow("User:other"), allow(ANYBODY), allow(MIRROR), AclEntry("User:other", "*", allowed=False)]
    assert to_deny(rules, [MIRROR]) == (APP,)


def test_what_an_approver_accepts_is_named_with_what_it_is_about() -> None:
    found = {each.name: each.about for each in limitations([TAIL, SHORT], {"old": "why"}, {"orders": "why"})}
    assert found == {
        "TAIL_STAYS_READABLE": ("orders-0",),
        "TAIL_UNDECIDED": ("orders-0",),
        "SOURCE_LOST_RECORDS": ("orders-0",),
        "TOPICS_STAY_BEHIND": ("old",),
        "MIRROR_TOPIC_WRITABLE": ("orders",),
    }
    assert list(limitations([EVEN], {}, {})) == []
    (left,) = limitations([EVEN], {}, {}, ("b", "a"))
    assert (left.name, left.about) == ("TOPICS_WITHOUT_COPY", ("a", "b"))
    past = replace(EVEN, end=14, tail=TailCounts(), source_start=14, primary_start=3)
    assert [each.name for each in limitations([past], {}, {})] == ["TAIL_EXPIRED", "PREFIX_NOT_COMPARED"]


def test_a_plan_is_read_back_as_it_was_hashed_and_binds_all_but_where_logs_end() -> None:
    topic = ReturningTopic(topic="orders", promotion_epoch=1, free_from=(7,), denied=(APP,), ends=(7,))
    plan = Reversal(
        mirror="dr",
        mirror_id="i",
        source_cluster_id="W",
        destination_cluster_id="E",
        topics=(topic,),
        limitations=(Limitation("TAIL_STAYS_READABLE", "x"),),
    )
    again = Reversal.read(plan.canonical_plan)
    assert (again.hash, again.topics) == (plan.hash, (replace(topic, ends=()),))
    assert replace(plan, topics=(replace(topic, ends=(6,)),)).hash == plan.hash
    others = (
        replace(plan, mirror_id="j"),
        replace(plan, source_cluster_id="X"),
        replace(plan, limitations=()),
        replace(plan, topics=(replace(topic, free_from=(8,)),)),
        replace(plan, topics=(replace(topic, promotion_epoch=2),)),
        replace(plan, topics=(replace(topic, denied=()),)),
    )
    assert plan.hash not in {each.hash for each in others}


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (EVEN, None),
        (SHORT, None),
        (replace(OVERLAP, on_record=RESCUED, done=True), None),
        (replace(OTHER, tail=TailCounts(records=2)), "TAIL_WOULD_BE_DELETED"),
        (replace(OTHER, tail=None), "TAIL_WOULD_BE_DELETED"),
        (OVERLAP, "TAIL_WOULD_BE_DELETED"),
        (replace(OVERLAP, on_record=RESCUED, done=True, reasons=("producers may still write",)), "SURVEY_NOT_FINAL"),
        (replace(EVEN, end=None), "SURVEY_NOT_FINAL"),
    ],
)
def test_a_log_is_deleted_only_if_nothing_in_it_is_undecided(found: PartitionSurvey, name: str | None) -> None:
    assert [each.name for each in problems_of_recreation([found])] == ([name] if name else [])


def test_a_rescued_tail_that_is_undecided_stops_a_reversal_also_where_the_old_source_has_deleted_it() -> None:
    """Quarantine alone has its records then, and no command replays them after a reversal."""
    gone = replace(TAIL, end=21, reserve_end=25, tail=TailCounts(), source_start=21, on_record=RESCUED)
    assert gone.verdict is TailVerdict.NONE
    assert [each.name for each in problems([gone], ())] == ["TAIL_UNDECIDED"]
    assert [each.name for each in problems_of_recreation([gone])] == ["TAIL_WOULD_BE_DELETED"]
    assert list(problems([gone], ("TAIL_UNDECIDED",))) == []
    (named,) = [each for each in limitations([gone], {}, {}) if each.name == "TAIL_UNDECIDED"]
    assert "11 record(s)" in named.detail
    assert list(problems([replace(gone, done=True)], ())) == []


def test_what_is_deleted_is_bound_by_the_plan_and_what_it_costs_is_named() -> None:
    recreation = Recreation(topic_id="t1", replicas=3, discarded=2, offsets=20, bytes=900)
    topic = recreated("orders", 2, 3, recreation, (APP,))
    assert (topic.free_from, topic.markers) == ((0, 0, 0), 0)
    plan = Reversal(mirror="dr", mirror_id="i", source_cluster_id="W", destination_cluster_id="E", topics=(topic,))
    (again,) = Reversal.read(plan.canonical_plan).topics
    assert again == replace(topic, recreation=replace(recreation, offsets=None, bytes=None))
    others = [
        replace(topic, recreation=each)
        for each in (None, replace(recreation, topic_id="t2"), replace(recreation, discarded=3))
    ]
    assert plan.hash not in {replace(plan, topics=(each,)).hash for each in others}
    assert replace(plan, topics=(replace(topic, recreation=replace(recreation, offsets=21)),)).hash == plan.hash
    named = {each.name: each for each in cost([topic], {})}
    assert named.keys() == {"TOPICS_COPIED_AGAIN", "RECORDS_NOT_SURVEYED"}
    assert "orders (20 offsets, 900 bytes)" in named["TOPICS_COPIED_AGAIN"].detail
    assert list(cost([replace(topic, recreation=None)], {})) == []


def test_an_approver_accepts_by_topic_that_quarantine_has_not_all_of_what_is_deleted() -> None:
    topic = recreated("orders", 2, 3, Recreation(topic_id="t1", replicas=3), (APP,))
    plan = Reversal(mirror="dr", mirror_id="i", source_cluster_id="W", destination_cluster_id="E", topics=(topic,))
    costs = tuple(cost([topic], {"orders": "offsets 0 to 3 are missing"}))
    assert [each.name for each in costs] == ["TOPICS_COPIED_AGAIN", "QUARANTINE_INCOMPLETE"]
    accepted = Reversal.read(replace(plan, limitations=costs).canonical_plan)
    assert accepted.accepted("QUARANTINE_INCOMPLETE") == {"orders"}
    assert Reversal.read(plan.canonical_plan).accepted("QUARANTINE_INCOMPLETE") == frozenset()


def test_a_cluster_that_becomes_the_source_keeps_what_is_true_of_its_logs() -> None:
    kept = ("generation/dr/t", "lineage/dr/t/1", "lost/dr/t/0", "moved/dr")
    gone = ("mirror/dr", "topic/dr/t", "partition/dr/t/0", "fence/dr", "lock/dr", "failover/dr/h", "plan/dr/h")
    assert left_over((*kept, *gone)) == gone


def test_a_topic_that_brokers_have_created_for_a_client_is_not_taken_for_the_recreated_one() -> None:
    """It has their own number of partitions, or of replicas; 0 replicas in a plan: whatever the brokers choose."""
    again = recreated("orders", 1, 2, Recreation(topic_id="id", replicas=3), ())
    assert unlike_the_plan(again, 2, 3) == ""
    assert unlike_the_plan(again, 2, 1) == "replication factor 1, not 3"
    assert unlike_the_plan(again, 1, 1) == "1 partition(s), not 2 and replication factor 1, not 3"
    free = recreated("orders", 1, 2, Recreation(topic_id="", replicas=0), ())
    assert unlike_the_plan(free, 2, 1) == ""


def test_clients_that_were_not_stopped_got_acknowledgements_at_the_old_primary_and_nobody_had_said_so() -> None:
    """Without an authorizer nothing keeps them off between the lifted fence and the mirror's first append."""
    said = writable_limitation({"orders": "the cluster has no authorizer"}).detail
    assert "a client that was not stopped gets acknowledgements there once the source fence is lifted" in said
