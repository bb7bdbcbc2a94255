"""Metadata sync over clusters in memory: what is done in which order, and what stands in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain import errors
from tanist.domain.acl_entries import CLOSED, AclEntry
from tanist.domain.broker_errors import InvalidConfig
from tanist.domain.checks import Verdict
from tanist.domain.failover.periodic_health import periodic_checks
from tanist.domain.metadata import Change, Outcome
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
from tanist.domain.records import (
    OFFSETS_TOPIC,
    STATE_TOPIC,
    OffsetRangeWritten,
    PromotionEpoch,
    RunStatus,
    TopicDesired,
)
from tanist.domain.selection import Selection
from tanist.domain.states import DesiredState
from tanist.usecases.lock import Purpose, mirror_lock
from tanist.usecases.metadata import sync as sync_module
from tanist.usecases.metadata.compare import MetadataRequest, diff
from tanist.usecases.metadata.sync import MetadataSyncResult, sync
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors.create import CreateRequest as NewMirror
from tanist.usecases.mirrors.create import create
from tests.builders import DR, a_command, a_run
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.topics import MemoryTopics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.state_record import StateRecord
    from tanist.ports.clock import Deadline

RUN = a_run(plan="p1", approval="a", approver="User:x")


class Pair:
    """East mirrored to west: all of `orders.*` that is there (2 partitions each) is in."""

    def __init__(self) -> None:
        self.east = MemoryCluster("east").with_topic("orders", 2, 10).with_topic("orders-eu", 2, 10)
        self.east.with_topic("payments")
        self.west = MemoryCluster("west")
        create(NewMirror(mirror="dr", include=("orders.*",)), self.east.side(), self.west.side(), a_command())
        self.west.calls.clear()

    def write(self, *records: StateRecord, topic: str = STATE_TOPIC) -> None:
        self.west.write(topic, *records)

    def topic(self, name: str) -> TopicDesired:
        found = self.west.view(STATE_TOPIC)[f"topic/dr/{name}"]
        assert isinstance(found, TopicDesired)
        return found

    def sync(self, *include: str, dry_run: bool = False, clock: JumpingClock | None = None) -> MetadataSyncResult:
        request = MetadataRequest(mirror="dr", include=include or (".*",))
        return sync(request, self.west.side(), lambda _name: self.east.side(), a_command(clock, dry_run=dry_run))

    def verdicts(self, *include: str) -> dict[str, str]:
        return {row.name: row.verdict for row in self.sync(*include).rows}

    def grow(self, topic: str, partitions: int) -> None:
        self.east.topics[topic] = replace(self.east.topics[topic], partitions=partitions)

    def set(self, topic: str, **configs: str) -> None:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        self.east.topics[topic] = replace(self.east.topics[topic], configs=given)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_new_partitions_are_there_before_workers_hear_of_them(pair: Pair) -> None:
    """And once is enough."""
    pair.grow("orders", 4)
    assert pair.verdicts() == {"orders": Outcome.CHANGED}
    assert pair.west.calls == ["grow orders", "append topic/dr/orders"]
    assert pair.topic("orders").partitions == pair.west.topics["orders"].partitions == 4
    pair.west.calls.clear()
    assert pair.sync().rows == ()
    assert pair.west.calls == []


def test_killed_between_growing_and_recording(pair: Pair) -> None:
    """The next sync finishes the job."""
    pair.grow("orders", 4)
    pair.west.side().topics.grow("orders", 4, a_command().by)
    pair.west.calls.clear()
    assert pair.verdicts() == {"orders": Outcome.CHANGED}
    assert pair.topic("orders").partitions == 4
    assert "grow orders" not in pair.west.calls


def test_a_broken_topic_holds_up_no_other(pair: Pair) -> None:
    """Nor does one half of it hold up the other: what is recorded is what was done."""
    for name in ("orders", "orders-eu"):
        pair.grow(name, 3)
        pair.set(name, retention_ms="5")
    pair.west.denied.add(("ALTER", "orders"))
    synced = pair.sync()
    assert {(row.name, row.verdict) for row in synced.rows} == {
        ("orders", Outcome.FAILED),
        ("orders:retention.ms", Outcome.CHANGED),
        ("orders-eu", Outcome.CHANGED),
        ("orders-eu:retention.ms", Outcome.CHANGED),
    }
    (failed,) = synced.having(Outcome.FAILED)
    assert "needs ALTER on topic orders" in failed.reason
    assert (pair.topic("orders").partitions, pair.topic("orders-eu").partitions) == (2, 3)
    assert dict(pair.topic("orders").deferred_configs)["retention.ms"] == "5"


def test_a_config_that_is_refused_holds_up_no_other(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    accept = MemoryTopics.alter_configs

    def refuse(
        self: MemoryTopics, changes: Mapping[str, Mapping[str, str | None]], by: Deadline
    ) -> Mapping[str, TanistError | None]:
        refused = {topic: InvalidConfig("policy") for topic, some in changes.items() if "segment.bytes" in some}
        return refused or accept(self, changes, by)

    monkeypatch.setattr(MemoryTopics, "alter_configs", refuse)
    pair.set("orders", segment_bytes="7", max_message_bytes="2000000")
    rows = [(row.name, row.change, row.verdict) for row in pair.sync().rows]
    assert rows == [
        ("orders:max.message.bytes", Change.SET, Outcome.CHANGED),
        ("orders:segment.bytes", Change.SET, Outcome.FAILED),
        ("orders:max.message.bytes", Change.REMEMBER, Outcome.CHANGED),
    ]


def test_a_topic_that_the_filters_match_is_taken_in_and_another_is_not(pair: Pair) -> None:
    """As `mirrors add` would; one that stands in the way is named."""
    pair.east.with_topic("orders-us", 3).with_topic("orders-cn")
    pair.west.with_topic("orders-cn", 1, 99)
    rows = {row.name: row for row in pair.sync().rows}
    assert {name: (row.change, row.verdict) for name, row in rows.items()} == {
        "orders-us": (Change.ADD, Outcome.CHANGED),
        "orders-cn": (Change.NOTHING, Outcome.CONFLICT),
    }
    assert "99 offsets" in rows["orders-cn"].reason
    assert pair.west.calls == ["create orders-us", "append topic/dr/orders-us"]
    assert pair.topic("orders-us").partitions == 3
    assert "payments" not in pair.west.topics


def test_a_topic_of_another_mirror_is_its_own(pair: Pair) -> None:
    pair.east.with_topic("orders-us")
    create(NewMirror(mirror="other", include=("orders-us",)), pair.east.side(), pair.west.side(), a_command())
    (row,) = pair.sync().rows
    assert (row.name, row.verdict, row.reason) == ("orders-us", Outcome.SKIPPED, "it is in mirror 'other'")


def test_a_failover_is_never_disturbed(pair: Pair) -> None:
    """While it is on record nothing is read into a plan, nothing is changed, and its writer is not fenced."""
    pair.grow("orders", 4)
    pair.write(RUN)
    before = dict(pair.west.operators)
    with pytest.raises(errors.MirrorLocked, match="failover p1 of mirror 'dr' is unfinished"):
        pair.sync()
    with pytest.raises(errors.MirrorLocked):
        diff(MetadataRequest(mirror="dr"), pair.west.side(), lambda _name: pair.east.side(), a_command())
    assert (pair.west.calls, pair.west.operators) == ([], before)
    pair.write(replace(RUN, status=RunStatus.ABORTED))
    assert pair.verdicts() == {"orders": Outcome.CHANGED}


def test_a_failover_that_begins_while_both_sides_are_read_is_seen(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read may show its fence: the record is read after the source."""
    pair.set("orders", segment_bytes="7")
    look = MemoryTopics.describe

    def begin(self: MemoryTopics, names: list[str], by: Deadline, configs: None = None) -> object:
        if self.cluster.name == "east":
            pair.write(RUN)
        return look(self, names, by, configs)

    monkeypatch.setattr(MemoryTopics, "describe", begin)
    with pytest.raises(errors.MirrorLocked):
        pair.sync()
    assert pair.west.calls == []


def _before_the_lock(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """`happens` between what a sync has decided and its lock, as if it had been frozen there."""

    def frozen(*asked: Any) -> Any:
        happens()
        return mirror_lock(*asked)

    monkeypatch.setattr(sync_module, "mirror_lock", frozen)


def test_a_whole_failover_between_the_decision_and_the_lock_of_a_sync_leaves_the_promoted_topic_alone(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.grow("orders", 4)
    pair.set("orders", segment_bytes="7")
    pair.grow("orders-eu", 4)

    def failover() -> None:
        pair.write(replace(pair.topic("orders"), desired=DesiredState.REMOVED))
        pair.west.calls.clear()

    _before_the_lock(monkeypatch, failover)
    rows = {row.topic: row.verdict for row in pair.sync().rows}
    assert rows == {"orders": Outcome.SKIPPED, "orders-eu": Outcome.CHANGED}
    assert pair.west.calls == ["grow orders-eu", "append topic/dr/orders-eu"]
    assert pair.west.topics["orders"].partitions == 2


def test_a_sync_of_a_mirror_that_was_deleted_and_made_again_meanwhile_is_refused(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.grow("orders", 4)

    def made_again() -> None:
        pair.write(*(replace(pair.topic(name), desired=DesiredState.REMOVED) for name in ("orders", "orders-eu")))
        administer.delete("dr", pair.west.side(), a_command())
        del pair.west.topics["orders"]
        pair.grow("orders", 2)
        create(NewMirror(mirror="dr", include=("orders",)), pair.east.side(), pair.west.side(), a_command())
        pair.grow("orders", 4)
        pair.west.calls.clear()

    _before_the_lock(monkeypatch, made_again)
    with pytest.raises(errors.UnknownMirror, match="re-created under the same name"):
        pair.sync()
    assert pair.west.calls == []


def test_a_failover_that_begins_between_two_topics_stops_the_sync(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done is not put on record over its head; the rows say so, and the next sync finds it."""
    for name in ("orders", "orders-eu"):
        pair.grow(name, 3)
    grow, clock = MemoryTopics.grow, JumpingClock()

    def begin(self: MemoryTopics, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        purpose = Purpose(operation="failover p1", plan="p1")
        with mirror_lock(pair.west.side(), DR, purpose, a_command(clock)) as lock:
            lock.append([replace(RUN, mirror_id=lock.spec.mirror_id)])
        clock.wait(1)
        return grow(self, topic, partitions, by)

    monkeypatch.setattr(MemoryTopics, "grow", begin)
    synced = pair.sync(clock=clock)
    assert [row.verdict for row in synced.rows] == [Outcome.FAILED, Outcome.FAILED]
    assert all("MIRROR_LOCKED" in row.reason for row in synced.rows)
    assert [call for call in pair.west.calls if "failover" not in call] == ["grow orders"]
    monkeypatch.undo()
    pair.write(replace(RUN, status=RunStatus.ABORTED))
    assert pair.verdicts() == {"orders": Outcome.CHANGED, "orders-eu": Outcome.CHANGED}


def test_paused_and_promoted_topics_are_left_alone(pair: Pair) -> None:
    """A topic that took over is nobody's copy any more, even where the filters match it."""
    for name in ("orders", "orders-eu"):
        pair.grow(name, 4)
    desire.set_desired("dr", Selection(("orders",)), desire.paused, pair.west.side(), a_command())
    pair.write(PromotionEpoch(mirror=DR, topic="orders-eu", count=1))
    pair.west.calls.clear()
    assert pair.verdicts() == {"orders": Outcome.SKIPPED, "orders-eu": Outcome.SKIPPED}
    assert pair.west.calls == []


def test_a_source_that_was_replaced_is_followed_no_more(pair: Pair) -> None:
    """It knows of a promotion that the destination does not: what it has now is its old life."""
    pair.grow("orders", 4)
    pair.east.with_topic("orders-us").with_topic(STATE_TOPIC)
    reported = [PromotionEpoch(mirror=DR, topic=name, count=1) for name in ("orders", "orders-us")]
    pair.east.write(STATE_TOPIC, *reported)
    pair.grow("orders-eu", 3)
    assert pair.verdicts() == {
        "orders": Outcome.CONFLICT,
        "orders-us": Outcome.CONFLICT,
        "orders-eu": Outcome.CHANGED,
    }


def test_a_new_topic_behind_a_fence_of_rules_waits_until_it_is_lifted(pair: Pair) -> None:
    """While everybody is kept off nothing says who may write to the copy one day."""
    pair.east.with_topic("orders-us").rules["orders-us"] = (CLOSED,)
    (row,) = pair.sync().rows
    assert (row.topic, row.verdict) == ("orders-us", Outcome.CONFLICT)
    assert "TOPIC_FENCED" in row.reason
    assert "orders-us" not in pair.west.topics
    pair.east.rules.clear()
    assert pair.verdicts() == {"orders-us": Outcome.CHANGED}


def test_a_pause_during_a_sync_is_refused_and_the_sync_goes_on(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people ask for between the look and the record can be neither lost nor undone by it."""
    pair.grow("orders", 4)
    grow = MemoryTopics.grow

    def pause(self: MemoryTopics, topic: str, partitions: int, by: Deadline) -> TanistError | None:
        with pytest.raises(errors.MirrorLocked, match="metadata sync"):
            desire.set_desired("dr", Selection(("orders",)), desire.paused, pair.west.side(), a_command())
        return grow(self, topic, partitions, by)

    monkeypatch.setattr(MemoryTopics, "grow", pause)
    pair.sync()
    assert (pair.topic("orders").partitions, pair.topic("orders").desired) == (4, "MIRRORING")


def test_a_lost_copy_is_made_anew_unless_it_has_a_map(pair: Pair) -> None:
    del pair.west.topics["orders"], pair.west.topics["orders-eu"]
    run = OffsetRangeWritten(
        mirror=DR,
        partition=MirrorPartition("orders-eu", 0),
        source=SourceOffset(1),
        destination=DestinationOffset(2),
    )
    pair.write(run, topic=OFFSETS_TOPIC)
    assert pair.verdicts() == {"orders": Outcome.CHANGED, "orders-eu": Outcome.CONFLICT}
    assert pair.west.topics["orders"].configs["retention.ms"] == "-1"
    assert "orders-eu" not in pair.west.topics


def test_a_dry_run_changes_nothing_and_diff_says_the_same(pair: Pair) -> None:
    pair.grow("orders", 4)
    pair.east.with_topic("orders-us")
    planned = pair.sync(dry_run=True)
    compared = diff(MetadataRequest(mirror="dr"), pair.west.side(), lambda _name: pair.east.side(), a_command())
    assert planned.rows == compared.rows
    assert [row.verdict for row in planned.rows] == [Outcome.DIFFERS, Outcome.DIFFERS]
    assert pair.west.calls == []


def test_only_the_topics_that_were_asked_for(pair: Pair) -> None:
    for name in ("orders", "orders-eu"):
        pair.grow(name, 4)
    assert pair.verdicts("orders-.*") == {"orders-eu": Outcome.CHANGED}
    with pytest.raises(errors.TopicNotInMirror):
        pair.sync("payments")
    with pytest.raises(errors.Misconfigured):
        pair.sync("(")


def test_another_source_cluster_halts_the_sync(pair: Pair) -> None:
    """KIP-1279: the id of the source is looked at before anything else of it."""
    pair.east.id = "another"
    with pytest.raises(errors.AnotherCluster):
        pair.sync()
    pair.east.dead = True
    with pytest.raises(errors.Unreachable):
        pair.sync()
    assert pair.west.calls == []


def test_who_may_write_goes_on_record_when_a_topic_is_taken_and_by_every_sync() -> None:
    eve, bob = (AclEntry(f"User:{who}", "*", allowed=True) for who in ("eve", "bob"))
    east, west = MemoryCluster("east").with_topic("orders", 2, 10), MemoryCluster("west")
    east.rules["orders"] = (eve,)
    create(NewMirror(mirror="dr", include=("orders",)), east.side(), west.side(), a_command())

    def held() -> tuple[AclEntry, ...]:
        found = west.view(STATE_TOPIC)["topic/dr/orders"]
        assert isinstance(found, TopicDesired)
        return found.deferred_acls

    assert held() == (eve,)
    east.rules["orders"] = (bob, eve)
    sync(MetadataRequest(mirror="dr"), west.side(), lambda _name: east.side(), a_command())
    assert held() == (bob, eve)
    east.rules["orders"] = (CLOSED, bob)
    (row,) = sync(MetadataRequest(mirror="dr"), west.side(), lambda _name: east.side(), a_command()).rows
    assert held() == (bob, eve)
    assert (row.name, row.verdict, row.destination) == (
        "orders:WRITE",
        Outcome.SKIPPED,
        "allow User:bob, allow User:eve",
    )
    assert "as by a source fence" in row.reason


def test_without_the_right_to_see_rules_a_topic_is_not_taken_in_silence() -> None:
    east, west = MemoryCluster("east").with_topic("orders", 2, 10), MemoryCluster("west")
    east.denied.add(("DESCRIBE", "kafka-cluster"))
    with pytest.raises(errors.AuthorizationFailed, match="DESCRIBE on Cluster"):
        create(NewMirror(mirror="dr", include=("orders",)), east.side(), west.side(), a_command())


def test_drift_is_named_by_status_and_removed_by_a_reset_alone(pair: Pair) -> None:
    """S3.5: a config that somebody has set on the copy alone was removed by the next sync."""
    drifted = replace(pair.west.topics["orders"], configs={**pair.west.topics["orders"].configs, "flush.messages": "7"})
    pair.west.topics["orders"] = drifted
    assert pair.verdicts() == {"orders:flush.messages": Outcome.SKIPPED}
    assert pair.verdicts() == {"orders:flush.messages": Outcome.SKIPPED}
    assert pair.west.topics["orders"].configs["flush.messages"] == "7"
    view = pair.west.view(STATE_TOPIC)
    spec = view.mirror(DR)
    assert spec is not None
    (check,) = periodic_checks(spec, view, a_command().clock.now())
    assert (check.name, check.verdict) == ("drift", Verdict.PASS)
    assert check.observed == "1 config(s) set at the destination alone: orders:flush.messages"
    assert check.reason == "`tanist metadata sync dr --destination west --reset` removes them"
    request = MetadataRequest(mirror="dr", reset=True)
    reset = sync(request, pair.west.side(), lambda _name: pair.east.side(), a_command())
    assert [(row.name, row.verdict) for row in reset.rows] == [("orders:flush.messages", Outcome.CHANGED)]
    assert "flush.messages" not in pair.west.topics["orders"].configs
    assert periodic_checks(spec, pair.west.view(STATE_TOPIC), a_command().clock.now()) == ()


def test_a_config_that_was_set_by_a_sync_is_removed_once_the_source_has_it_no_more(pair: Pair) -> None:
    pair.set("orders", segment_bytes="7")
    assert pair.verdicts() == {"orders:segment.bytes": Outcome.CHANGED}
    assert pair.topic("orders").synced_configs == ("segment.bytes",)
    pair.set("orders")
    assert pair.verdicts() == {"orders:segment.bytes": Outcome.CHANGED}
    assert "segment.bytes" not in pair.west.topics["orders"].configs
    assert pair.topic("orders").synced_configs == ()
