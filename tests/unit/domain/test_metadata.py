"""What becomes of each difference between a topic of a mirror and the source's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acl_entries import AclEntry
from tanist.domain.errors import TanistError, TimedOut
from tanist.domain.fences import FenceBefore, FencedTopic, FenceKind, FenceStatus
from tanist.domain.metadata import (
    Change,
    Copy,
    Decision,
    Kind,
    MayFollow,
    MetadataRules,
    OnBoth,
    Outcome,
    Share,
    TopicMetadata,
    blocked,
    decided,
)
from tanist.domain.synced.configs import EXCLUDED, following
from tanist.domain.topic_configs import plan_configs
from tanist.usecases.metadata.synced import SYNCED
from tests.builders import a_mirror, a_topic, a_view
from tests.fakes import topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.records import TopicDesired

DEFAULTS = topics.DEFAULTS | {
    "unclean.leader.election.enable": "false",
    "leader.replication.throttled.replicas": "",
}
RULES = MetadataRules(known=frozenset(DEFAULTS), replication_factor=None, fences={})
Said = tuple[str, Change, str | None, str | None, Outcome]
D, S, C, U = Outcome.DIFFERS, Outcome.SKIPPED, Outcome.CONFLICT, Outcome.UNKNOWN


def seen(partitions: int = 2, own: Mapping[str, str] | None = None) -> TopicMetadata:
    """A topic as its cluster describes it."""
    return TopicMetadata(
        topic_id="id",
        partitions=partitions,
        replication_factor=3,
        own=own or {},
        effective=DEFAULTS | dict(own or {}),
    )


def decide(
    topic: TopicDesired,
    source: TopicMetadata | TanistError | None,
    copy: TopicMetadata | TanistError | None,
    rules: MetadataRules,
    writers: tuple[AclEntry, ...] | TanistError | None = (),
) -> Decision:
    """As a sync does for one topic. `writers`: the source's ACLs for writing."""
    if stopped := blocked(topic, source, copy, rules):
        return stopped
    assert isinstance(source, TopicMetadata)
    assert not isinstance(copy, TanistError)
    both = OnBoth(source=source, copy=copy)
    mirror = MayFollow(spec=a_mirror(), view=a_view(), topics={topic.topic: topic}, rules=rules)
    shares: dict[Kind, Share] = {
        each.kind: each.decide(mirror, {topic.topic: writers if each.kind is Kind.ACL else both})[topic.topic]
        for each in SYNCED
        if each.kind is not Kind.ACCESS
    }
    return decided(topic, shares)


def configured(decision: Decision) -> Mapping[str, str | None]:
    """The configs to alter."""
    found: Mapping[str, str | None] = decision.changes.get(Kind.CONFIG, {})
    return found


def created(decision: Decision) -> Copy:
    """The topic to create."""
    found = decision.changes[Kind.TOPIC]
    assert isinstance(found, Copy)
    return found


def taken(source: TopicMetadata) -> tuple[TopicDesired, TopicMetadata]:
    """A topic of the mirror and its copy, as `mirrors add` leaves them."""
    planned = plan_configs(source.own, source.effective, known=RULES.known, replication_factor=3)
    topic = a_topic(
        "t", partitions=source.partitions, deferred_configs=planned.deferred, synced_configs=following(planned, ())
    )
    return topic, seen(source.partitions, dict(planned.now))


def differ(
    before: Mapping[str, str],
    now: Mapping[str, str],
    rules: MetadataRules = RULES,
    tampered: Mapping[str, str | None] | None = None,
) -> Decision:
    """The source had `before` set when the topic was taken, and has `now`; `tampered` was altered on the copy."""
    topic, copy = taken(seen(own=before))
    own = {**copy.own, **(tampered or {})}
    return decide(topic, seen(own=now), seen(own={k: v for k, v in own.items() if v is not None}), rules)


def said(decision: Decision) -> list[Said]:
    return [
        (row.name.removeprefix("t:"), row.change, row.source, row.destination, row.verdict) for row in decision.rows
    ]


@pytest.mark.parametrize(
    "own",
    [{}, {"retention.ms": "1", "cleanup.policy": "compact"}, {"segment.bytes": "7", "min.insync.replicas": "3"}],
)
def test_what_was_just_taken_in_does_not_differ(own: dict[str, str]) -> None:
    """Neither what is held nor what was dropped looks like a difference."""
    decision = differ(own, own)
    assert decision.rows == ()
    assert decision.wanted == decision.before
    assert not decision.changes


Case = tuple[dict[str, str], dict[str, str], dict[str, str | None], list[Said], dict[str, str | None]]
CONFIGS: dict[str, Case] = {
    "set": ({}, {"segment.bytes": "7"}, {}, [("segment.bytes", Change.SET, "7", None, D)], {"segment.bytes": "7"}),
    "changed": (
        {"segment.bytes": "7"},
        {"segment.bytes": "8"},
        {},
        [("segment.bytes", Change.SET, "8", "7", D)],
        {"segment.bytes": "8"},
    ),
    "taken away": (
        {"segment.bytes": "7"},
        {},
        {},
        [("segment.bytes", Change.RESET, None, "7", D)],
        {"segment.bytes": None},
    ),
    "set by somebody on the copy": (
        {},
        {},
        {"segment.bytes": "9"},
        [("segment.bytes", Change.NOTHING, None, "9", S)],
        {},
    ),
    "held, and changed at the source": (
        {"retention.ms": "5"},
        {"retention.ms": "6"},
        {},
        [("retention.ms", Change.REMEMBER, "6", "5", D)],
        {},
    ),
    "held, and tampered with on the copy": (
        {},
        {},
        {"retention.ms": "1000"},
        [("retention.ms", Change.SET, "604800000", "1000", D)],
        {"retention.ms": "-1"},
    ),
    "held, and reset on the copy": (
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact"},
        {"cleanup.policy": None},
        [("cleanup.policy", Change.SET, "compact", None, D)],
        {"cleanup.policy": "delete"},
    ),
    "larger records": (
        {},
        {"max.message.bytes": "2000000"},
        {},
        [
            ("max.message.bytes", Change.SET, "2000000", "1048588", D),
            ("max.message.bytes", Change.REMEMBER, "2000000", "1048588", D),
        ],
        {"max.message.bytes": "2000000"},
    ),
    "smaller records: those under way must still fit": (
        {"max.message.bytes": "2000000"},
        {"max.message.bytes": "5000"},
        {},
        [("max.message.bytes", Change.REMEMBER, "5000", "2000000", D)],
        {},
    ),
    "excluded": (
        {},
        {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"},
        {},
        [
            ("min.insync.replicas", Change.NOTHING, "2", None, S),
            ("unclean.leader.election.enable", Change.NOTHING, "true", None, S),
        ],
        {},
    ),
    "excluded, set on the copy": (
        {},
        {},
        {"min.insync.replicas": "2"},
        [("min.insync.replicas", Change.NOTHING, None, "2", S)],
        {},
    ),
    "of its own cluster": (
        {},
        {"leader.replication.throttled.replicas": "0:1"},
        {},
        [("leader.replication.throttled.replicas", Change.NOTHING, "0:1", None, S)],
        {},
    ),
    "unknown to the destination": (
        {},
        {"new.in.kafka.9": "x"},
        {},
        [("new.in.kafka.9", Change.NOTHING, "x", None, S)],
        {},
    ),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configs(case: str) -> None:
    """What is said is what is done; doing it leaves nothing to do."""
    before, now, tampered, rows, changes = CONFIGS[case]
    decision = differ(before, now, tampered=tampered)
    assert said(decision) == rows
    assert configured(decision) == changes
    assert decision.differs == any(row[4] is D for row in rows)
    assert settled(decision, seen(own=now), dict(before), tampered)


def settled(decision: Decision, source: TopicMetadata, before: dict[str, str], tampered: dict[str, str | None]) -> bool:
    """Whether the same sync again has nothing to do."""
    _, copy = taken(seen(own=before))
    own: dict[str, str | None] = {**copy.own, **tampered, **configured(decision)}
    after = seen(own={k: v for k, v in own.items() if v is not None})
    assert decision.wanted is not None
    return not decide(decision.wanted, source, after, RULES).due


def test_s3_5_a_config_set_on_the_copy_alone_is_drift_until_a_reset() -> None:
    """It was removed by the next sync. It is on record, so `status` names it without reading any config."""
    decision = differ({}, {}, tampered={"segment.bytes": "9"})
    (row,) = decision.rows
    assert row.reason.startswith("drift: ")
    assert "--reset" in row.reason
    assert not decision.differs
    assert decision.wanted is not None
    assert decision.wanted.drifted_configs == ("segment.bytes",)
    reset = differ({}, {}, replace(RULES, reset=True), {"segment.bytes": "9"})
    assert said(reset) == [("segment.bytes", Change.RESET, None, "9", D)]
    assert configured(reset) == {"segment.bytes": None}
    assert reset.wanted is not None
    assert reset.wanted.drifted_configs == ()


def test_drift_in_a_config_that_the_source_sets_later_follows_the_source_from_then_on() -> None:
    topic, copy = taken(seen())
    own = {**copy.own, "segment.bytes": "9"}
    first = decide(topic, seen(), seen(own=own), RULES).wanted
    assert first is not None
    second = decide(first, seen(own={"segment.bytes": "7"}), seen(own=own), RULES)
    assert configured(second) == {"segment.bytes": "7"}
    assert second.wanted is not None
    assert (second.wanted.drifted_configs, second.wanted.synced_configs) == ((), ("segment.bytes",))
    third = decide(second.wanted, seen(), seen(own={**own, "segment.bytes": "7"}), RULES)
    assert configured(third) == {"segment.bytes": None}


def test_which_configs_a_topic_of_an_earlier_version_has_from_the_source_is_recorded_without_a_word() -> None:
    """Where it is not known, what only the copy has may be somebody's, so it stays."""
    topic, copy = taken(seen(own={"segment.bytes": "7"}))
    topic = replace(topic, synced_configs=None)
    decision = decide(topic, seen(own={"segment.bytes": "7"}), copy, RULES)
    assert (decision.rows, decision.differs, decision.due) == ((), False, True)
    assert decision.wanted is not None
    assert decision.wanted.synced_configs == ("segment.bytes",)
    gone = decide(topic, seen(), copy, RULES)
    assert [(row.change, row.verdict) for row in gone.rows] == [(Change.NOTHING, S)]


def test_s3_5_configs_that_a_mirror_excludes_are_left_alone_instead_of_those_of_kip_1279() -> None:
    rules = replace(RULES, excluded=(r"segment\..*",))
    decision = differ({}, {"segment.bytes": "7", "min.insync.replicas": "2"}, rules)
    assert said(decision) == [
        ("min.insync.replicas", Change.SET, "2", None, D),
        ("segment.bytes", Change.NOTHING, "7", None, S),
    ]
    assert decision.rows[1].reason == "each cluster keeps its own value (--config-exclude)"
    held = differ({}, {"retention.ms": "6"}, replace(RULES, excluded=("retention.*",)))
    assert said(held) == [("retention.ms", Change.REMEMBER, "6", "604800000", D)], (
        "what a failover sets is not excluded"
    )


def test_every_config_that_kip_1279_excludes_is_left_alone() -> None:
    """Those that a mirror topic holds are held, whatever that list says."""
    known = RULES.known or frozenset()
    decision = differ({}, dict.fromkeys(EXCLUDED, "1"), replace(RULES, known=known | frozenset(EXCLUDED)))
    assert configured(decision) == {}
    assert {row.verdict for row in decision.rows if row.change is not Change.REMEMBER} == {S}
    remembered = [row.name for row in decision.rows if row.change is Change.REMEMBER]
    assert remembered == ["t:message.timestamp.type"]


PARTITIONS = {
    "grown at the source": (2, 4, 2, D, 4, 4),
    "added, but not on record yet": (2, 4, 4, D, None, 4),
    "half way": (2, 4, 3, D, 4, 4),
    "more on the copy": (2, 2, 3, C, None, 2),
    "more on both, most on the copy": (2, 4, 5, C, None, 2),
}


@pytest.mark.parametrize("case", PARTITIONS)
def test_partitions_are_added_and_never_taken_away(case: str) -> None:
    """The record follows the copy; it never promises partitions that a worker would not find."""
    recorded, source, copy, verdict, grow, after = PARTITIONS[case]
    topic, there = taken(seen(recorded))
    decision = decide(topic, seen(source), replace(there, partitions=copy), RULES)
    (row,) = decision.rows
    assert (row.verdict, row.source, row.destination) == (verdict, str(source), str(copy))
    assert decision.changes.get(Kind.PARTITIONS) == grow
    assert decision.wanted is not None
    assert decision.wanted.partitions == after


FENCES = {
    "ours": FencedTopic(
        topic="t",
        status=FenceStatus.LIFT_PENDING,
        wanted_by="p",
        before=FenceBefore(topic="t", kind=FenceKind.TINY_MESSAGES),
    ),
    "owed": FencedTopic(topic="t", status=FenceStatus.PENDING, wanted_by="p"),
    "of another mirror": None,
    "lifted, and put there again": FencedTopic(topic="t", status=FenceStatus.LIFTED, wanted_by="p"),
    "by rules": FencedTopic(
        topic="t", status=FenceStatus.PROVED, wanted_by="p", before=FenceBefore(topic="t", kind=FenceKind.DENY_WRITE)
    ),
}


@pytest.mark.parametrize("case", FENCES)
def test_a_fence_is_never_copied(case: str) -> None:
    """Neither onto the copy nor into what it gets when it takes over; the rest of the topic goes on being followed."""
    fence = FENCES[case]
    rules = replace(RULES, fences={"t": fence} if fence else {})
    decision = differ({"max.message.bytes": "5000"}, {"max.message.bytes": "78", "segment.bytes": "7"}, rules)
    assert configured(decision) == {"segment.bytes": "7"}
    assert ("max.message.bytes", Change.NOTHING, None, None, S) in said(decision)
    assert decision.wanted is not None
    assert dict(decision.wanted.deferred_configs)["max.message.bytes"] == "5000"


def test_a_lost_copy_of_a_fenced_topic_gets_the_limit_that_was_remembered() -> None:
    topic, _ = taken(seen(own={"max.message.bytes": "5000"}))
    decision = decide(topic, seen(own={"max.message.bytes": "78"}), None, RULES)
    assert created(decision).configs["max.message.bytes"] == "5000"
    assert decision.wanted == topic


def test_a_lost_copy_is_made_anew_unless_its_map_is_of_another_log() -> None:
    """Runs of the map speak of offsets that the new log does not have."""
    topic, copy = taken(seen(own={"cleanup.policy": "compact"}))
    source = seen(3, {"cleanup.policy": "compact"})
    decision = decide(topic, source, None, RULES)
    assert [(row.change, row.verdict) for row in decision.rows] == [(Change.CREATE, D)]
    assert (created(decision).partitions, dict(created(decision).configs)) == (3, dict(copy.own))
    assert decision.wanted is not None
    assert decision.wanted.partitions == 3
    stale = decide(topic, source, None, replace(RULES, mapped=frozenset({"t"})))
    assert [row.verdict for row in stale.rows] == [C]
    assert not stale.changes


def test_what_could_not_be_looked_at_is_unknown_and_what_is_another_topic_is_left() -> None:
    """Nothing is done about any of them."""
    topic, copy = taken(seen())
    trouble = TimedOut("east: describe topics")
    gone, anew = decide(topic, None, copy, RULES), decide(topic, replace(seen(4), topic_id="other"), copy, RULES)
    unknown = decide(topic, trouble, copy, RULES), decide(topic, seen(4), trouble, RULES)
    assert [row.verdict for each in (gone, anew, *unknown) for row in each.rows] == [C, C, U, U]
    assert not any(each.due or each.changes for each in (gone, anew, *unknown))


def test_what_is_left_to_each_cluster_stays_as_it_was_remembered() -> None:
    """More replicas in sync than the copy has were held off when it was taken; the source has no more say in it."""
    decision = differ({"min.insync.replicas": "4"}, {})
    assert decision.wanted == decision.before
    assert decision.wanted is not None
    assert dict(decision.wanted.deferred_configs)["min.insync.replicas"] == "4"


# ── who may write ─────────────────────────────────────────────────────────────────────────────────────────────────

EVE, BOB = AclEntry("User:eve", "*", allowed=True), AclEntry("User:bob", "10.0.0.1", allowed=False)


def test_who_may_write_at_the_source_is_remembered_and_given_to_nobody_yet() -> None:
    topic, copy = taken(seen())
    decision = decide(topic, seen(), copy, RULES, (BOB, EVE))
    (row,) = decision.rows
    assert (row.kind, row.change, row.destination) == (Kind.ACL, Change.REMEMBER, "nobody")
    assert row.source == "deny User:bob from 10.0.0.1, allow User:eve"
    assert configured(decision) == {}
    assert decision.wanted == replace(topic, deferred_acls=(BOB, EVE))
    again = decide(replace(topic, deferred_acls=(BOB, EVE)), seen(), copy, RULES, (BOB, EVE))
    assert not again.rows


def test_who_may_write_stays_remembered_while_a_fence_hides_it_or_nobody_tells() -> None:
    """Neither a fence nor a missing right is the news that nobody may write."""
    topic, copy = taken(seen())
    topic = replace(topic, deferred_acls=(EVE,))
    fenced = decide(topic, seen(), copy, RULES, None)
    blind = decide(topic, seen(), copy, RULES, TimedOut("east"))
    assert fenced.wanted == blind.wanted == topic
    assert [row.verdict for each in (fenced, blind) for row in each.rows] == [S, U]
    gone = decide(topic, seen(), copy, RULES, ())
    assert gone.wanted == replace(topic, deferred_acls=())
