"""How a source fence is lifted without us: Kafka's own tools, one line for each topic."""

from __future__ import annotations

import pytest

from tanist.domain.fences import (
    FenceBefore,
    FencedTopic,
    FenceKind,
    FenceStatus,
    commands_to_lift,
    ended_since,
    not_lifted,
)
from tanist.domain.names import EpochMs


def fence(topic: str, status: FenceStatus, before: FenceBefore | None = None) -> FencedTopic:
    return FencedTopic(topic=topic, status=status, wanted_by="p1", before=before)


@pytest.mark.parametrize("status", FenceStatus)
def test_every_fence_that_is_not_on_record_as_lifted_would_be_orphaned(status: FenceStatus) -> None:
    """A snapshot may have become a fence, a pending one may become one: only a lifted one is none."""
    orphaned = not_lifted([fence("orders", status)])
    assert bool(orphaned) is (status is not FenceStatus.LIFTED)


def test_a_fence_of_acls_is_lifted_by_removing_exactly_its_rule() -> None:
    """The rule of this topic and of User:* from anywhere, by its literal name; no other rule matches."""
    before = FenceBefore(topic="orders", kind=FenceKind.DENY_WRITE)
    (command,) = commands_to_lift([fence("orders", FenceStatus.PROVED, before)], "east:9092", "admin.properties")
    assert command == (
        "kafka-acls.sh --bootstrap-server east:9092 --command-config admin.properties --remove --force"
        " --deny-principal 'User:*' --deny-host '*' --operation Write --topic orders --resource-pattern-type literal"
    )


@pytest.mark.parametrize(
    ("own", "change"), [(None, "--delete-config max.message.bytes"), ("5000", "--add-config max.message.bytes=5000")]
)
def test_a_near_fence_is_lifted_to_what_the_topic_had(own: str | None, change: str) -> None:
    """A topic without a setting of its own gets none: the cluster's default may change later."""
    before = FenceBefore(topic="orders", kind=FenceKind.TINY_MESSAGES, max_message_bytes=own)
    assert commands_to_lift([fence("orders", FenceStatus.IN_FORCE, before)], "a:1,b:2") == (
        f"kafka-configs.sh --bootstrap-server a:1,b:2 --alter --entity-type topics --entity-name orders {change}",
    )


def test_what_was_there_before_the_fence_stays_and_what_never_came_needs_nothing() -> None:
    """Both are comments of a shell, so that all lines can be pasted; a lifted fence is not named at all."""
    had = FenceBefore(topic="b", kind=FenceKind.DENY_WRITE, had_deny=True)
    fences = [
        fence("a", FenceStatus.PENDING),
        fence("b", FenceStatus.PROVED, had),
        fence("c", FenceStatus.LIFTED, FenceBefore(topic="c", kind=FenceKind.DENY_WRITE)),
    ]
    assert commands_to_lift(fences, "east:9092") == (
        "# a: the source never answered, so no source fence was set",
        "# b: DENY WRITE for User:* existed before the source fence and stays",
    )


PROOF = EpochMs(1_000)


def proved(status: FenceStatus = FenceStatus.PROVED, kind: FenceKind = FenceKind.DENY_WRITE) -> FencedTopic:
    before = FenceBefore(topic="orders", kind=kind)
    asked = None if status is FenceStatus.PROVED else EpochMs(5_000)
    return FencedTopic(
        topic="orders", status=status, wanted_by="cafe", before=before, proved_at=PROOF, lift_asked_at=asked
    )


@pytest.mark.parametrize("status", [FenceStatus.PROVED, FenceStatus.LIFT_PENDING, FenceStatus.PENDING])
def test_a_proved_fence_ends_the_log_of_a_source_that_died_before_it_was_lifted(status: FenceStatus) -> None:
    """Also once an unplanned run has made it pending: its own step forgot the proof that its plan had shown."""
    assert ended_since(proved(status), EpochMs(4_999), stands=None) == PROOF


def test_a_source_that_has_answered_since_a_lift_was_asked_for_may_have_accepted_more() -> None:
    assert ended_since(proved(FenceStatus.LIFT_PENDING), EpochMs(5_001), stands=None) is None
    assert ended_since(proved(FenceStatus.LIFT_PENDING), EpochMs(4_000), stands=True) is None, "it answers now"
    assert ended_since(proved(FenceStatus.LIFTED), EpochMs(4_000), stands=None) is None


def test_no_near_fence_and_none_that_was_taken_away_ends_a_log() -> None:
    assert ended_since(proved(kind=FenceKind.TINY_MESSAGES), EpochMs(4_000), stands=True) is None
    assert ended_since(proved(), EpochMs(4_000), stands=False) is None
    assert ended_since(None, EpochMs(4_000), stands=None) is None
