"""Tails on record: what is pending after an unplanned failover."""

from __future__ import annotations

from typing import Any

from tanist.domain.checks import Verdict
from tanist.domain.failback.pending import tails_check
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.tails import (
    PartitionTail,
    PendingTail,
    ReplayProgress,
    RetentionHeld,
    TailStage,
    TailVerdict,
    TopicTails,
    commands_to_release,
    quarantine_topic,
    stored_stage,
)
from tests.builders import DR


def tails(topic: str, epoch: int, stage: TailStage, records: int = 4) -> TopicTails:
    tail = PartitionTail(partition=0, verdict=TailVerdict.TAIL, common_end=5, end=9, records=records)
    return TopicTails(
        mirror=MirrorName("dr"),
        topic=topic,
        promotion_epoch=epoch,
        cluster_id="e",
        tails=(tail,),
        stage=stage,
        at=EpochMs(0),
    )


def test_promotion_without_a_record_is_not_surveyed() -> None:
    found = stored_stage([("b", 1), ("a", 2)], [tails("a", 1, TailStage.DONE), tails("b", 1, TailStage.RESCUED)])
    assert found == (PendingTail("a", 2, TailStage.UNKNOWN), PendingTail("b", 1, TailStage.RESCUED, 4))


def a_replay(epoch: int = 1, **fields: Any) -> ReplayProgress:
    """Of a plan that is carried out."""
    plain: dict[str, Any] = {"plan": "p", "producer_id": 1, "start": 0, "begin": 5, "end": 9, "done": True}
    return ReplayProgress(
        mirror=DR, partition=MirrorPartition("a", 0), promotion_epoch=epoch, at=EpochMs(0), **plain | fields
    )


def test_a_tail_that_has_grown_since_its_replay_says_how_many_records_are_new() -> None:
    replays = [a_replay(replayed=2_000, dropped=90, earlier=8), a_replay(3, replayed=5)]
    (found,) = stored_stage([("a", 1)], [tails("a", 1, TailStage.SURVEYED, 2_102)], replays)
    assert str(found) == "a: NOT_RESCUED (4 new records; 2098 before them are decided)"
    assert a_replay(replayed=2_000, earlier=8, done=False).decided == 8


def test_check_counts_down_and_names_the_next_step() -> None:
    stages = [TailStage.SURVEYED, TailStage.UNKNOWN, TailStage.DONE]
    check = tails_check(PendingTail(f"t{n}", 1, stage, n) for n, stage in enumerate(stages))
    assert check.verdict is Verdict.FAIL
    assert check.observed.startswith("1 not surveyed, 1 not rescued, 0 not decided, 0 not replayed, of 3")
    assert "t1: NOT_SURVEYED" in check.reason
    assert "`tanist failback survey`" in check.reason
    assert tails_check([PendingTail("t", 1, TailStage.DONE, 4)]).verdict is Verdict.PASS


def test_long_names_have_quarantine_topics_of_their_own() -> None:
    names = {quarantine_topic(letter * 249) for letter in "ab"} | {quarantine_topic("a" * 230)}
    assert len(names) == 3
    assert max(map(len, names)) <= 249
    assert quarantine_topic("orders") == "__mirror_quarantine.orders"


def test_deleted_mirror_says_how_retention_is_put_back() -> None:
    before = (("cleanup.policy", "compact,delete"), ("retention.ms", None), ("retention.bytes", "5"))
    held = RetentionHeld(mirror=MirrorName("dr"), topic="orders", before=before, at=EpochMs(0))
    back, unset = commands_to_release([held], "east:9092")
    assert back.endswith("--entity-name orders --add-config 'cleanup.policy=[compact,delete],retention.bytes=[5]'")
    assert unset.endswith("--entity-name orders --delete-config retention.ms")
