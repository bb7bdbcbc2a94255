"""Decisions without any I/O: selection, configs, lag, verdicts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tanist.domain.compaction import Holes
from tanist.domain.errors import Misconfigured
from tanist.domain.lag import KnownEnd, lag, mode
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.selection import Selection, topic_pattern
from tanist.domain.topic_configs import WHILE_MIRRORING, altered_configs, plan_configs

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("orders", "orders-eu", "payments", "__mirror_state", "__consumer_offsets")


@pytest.mark.parametrize(
    ("include", "exclude", "found"),
    [
        ((".*",), (), ("orders", "orders-eu", "payments")),
        (("orders",), (), ("orders",)),
        (("orders.*",), (".*-eu",), ("orders",)),
        (("pay", "ments"), (), ()),
        ((), (), ()),
    ],
)
def test_selection_matches_whole_names_and_never_ours(
    include: Sequence[str], exclude: Sequence[str], found: Sequence[str]
) -> None:
    assert Selection(tuple(include), tuple(exclude)).of(NAMES) == found


@pytest.mark.parametrize(
    "text", ["", "(", "[a", "*a", "(a+)+", "(a|a)*", "(a?)*", "a*a*a*a*a*", "a?" * 20, r"(a)\1", "(?=a)a", "x" * 2000]
)
def test_what_is_no_expression_or_could_take_for_ever_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured):
        topic_pattern(text)


@pytest.mark.parametrize(
    "text", [r"orders\..*", "(orders|payments|users)", "[a-z]+-[0-9]{1,3}", r"eu\.(a|b)\..*", "(?i:orders)", "a|b*|c*"]
)
def test_ordinary_expressions_are_accepted_and_quick(text: str) -> None:
    start = time.perf_counter()
    topic_pattern(text).fullmatch("a" * 249)
    assert time.perf_counter() - start < 0.5


def test_the_worst_accepted_expression_ends_soon() -> None:
    start = time.perf_counter()
    topic_pattern("a*a*a*a*b").fullmatch("a" * 60)
    assert time.perf_counter() - start < 2


def test_literals_are_asked_for_by_name() -> None:
    assert Selection((r"eu\.orders", "plain", "any.*")).literals() == ("eu.orders", "plain")


def test_held_configs_remember_what_applies_at_the_source() -> None:
    own = {"retention.ms": "5", "segment.bytes": "7", "follower.replication.throttled.replicas": "0:1"}
    planned = plan_configs(own, {"retention.ms": "5", "cleanup.policy": "delete", "max.message.bytes": "99"})
    assert planned.now == {"segment.bytes": "7", "max.message.bytes": "99", **WHILE_MIRRORING}
    assert planned.deferred == (("cleanup.policy", "delete"), ("max.message.bytes", "99"), ("retention.ms", "5"))
    assert [name for name, _ in planned.dropped] == ["follower.replication.throttled.replicas"]


@pytest.mark.parametrize(
    "altered",
    [
        "cleanup.policy=compact",
        "compression.type=gzip",
        "message.timestamp.type=LogAppendTime",
        "retention.bytes=1",
        "retention.ms=1000",
    ],
)
def test_a_config_that_deletes_or_changes_records_of_a_mirror_topic_is_named(altered: str) -> None:
    """Records got the broker's time, or other batch bytes, and no verdict or plan said a word of it."""
    name, value = altered.split("=")
    assert altered_configs({**WHILE_MIRRORING, name: value}) == (altered,)


def test_configs_that_lose_nothing_in_silence_are_not_named() -> None:
    """The broker refuses a record out of bounds, so copying fails; a broker before 3.6 does not have the configs."""
    assert altered_configs({**WHILE_MIRRORING, "message.timestamp.after.max.ms": "1", "segment.bytes": "7"}) == ()
    assert altered_configs({"message.timestamp.type": "CreateTime"}) == ()


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete, compact"])
def test_a_mirror_topic_of_a_compacted_one_is_compacted_and_a_failover_restores_the_policy(policy: str) -> None:
    """Only where no offset is refused: there every offset must stay."""
    effective = {"cleanup.policy": policy}
    planned = plan_configs(effective, effective, holes=Holes.COPIES)
    assert planned.now["cleanup.policy"] == "compact,delete"
    assert planned.now["retention.ms"] == "-1"
    assert ("cleanup.policy", policy) in planned.deferred
    assert plan_configs(effective, effective, holes=Holes.REFUSE).now["cleanup.policy"] == "delete"


def test_compaction_of_a_mirror_topic_is_named_unless_its_source_is_compacted() -> None:
    both = {**WHILE_MIRRORING, "cleanup.policy": "delete,compact"}
    assert altered_configs(both, holes=Holes.COPIES, source_policy="compact") == ()
    assert altered_configs(both, holes=Holes.COPIES, source_policy="delete") == ("cleanup.policy=delete,compact",)
    assert altered_configs(both, holes=Holes.REFUSE, source_policy="compact") == ("cleanup.policy=delete,compact",)
    assert altered_configs(WHILE_MIRRORING, holes=Holes.COPIES, source_policy="compact") == ()


def test_configs_that_the_destination_does_not_know_are_dropped_by_name() -> None:
    planned = plan_configs({"new.fangled": "1"}, {}, known=frozenset({"retention.ms"}))
    assert planned.dropped == (("new.fangled", "the destination does not support this config"),)
    assert planned.now == {"retention.ms": "-1"}


def test_a_minimum_of_replicas_that_the_copy_does_not_have_is_held() -> None:
    effective = {"min.insync.replicas": "2"}
    planned = plan_configs(effective, effective, replication_factor=1)
    assert planned.now["min.insync.replicas"] == "1"
    assert ("min.insync.replicas", "2") in planned.deferred
    assert plan_configs(effective, effective, replication_factor=3).now["min.insync.replicas"] == "2"


at = DestinationOffset
SHIFTED = OffsetMap.of([OffsetRange(SourceOffset(10), DestinationOffset(13))])


@pytest.mark.parametrize(
    ("source", "destination", "offsets", "expected"),
    [(10, 4, OffsetMap(), 6), (10, 12, OffsetMap(), 0), (20, 15, SHIFTED, 8), (None, 4, OffsetMap(), None)],
)
def test_lag_counts_offsets_of_the_source_and_is_never_negative(
    source: int | None, destination: int, offsets: OffsetMap, expected: int | None
) -> None:
    known = None if source is None else KnownEnd(SourceOffset(source), EpochMs(0))
    assert lag(known, DestinationOffset(destination), offsets) == expected
    assert lag(known, None, offsets) is None


def test_lag_of_a_mapped_copy_counts_from_where_it_goes_on_however_long_its_log_is() -> None:
    source, runs = KnownEnd(SourceOffset(50), EpochMs(0)), [*SHIFTED.runs, OffsetRange(SourceOffset(40), at(45))]
    assert lag(source, at(47), OffsetMap.of(runs, SourceOffset(40))) == 10
    assert lag(source, at(44), OffsetMap.of(runs, SourceOffset(40))) == 10, "its last record is there, its marker not"
    assert lag(source, at(30), OffsetMap.of(runs, SourceOffset(40))) == 23, "read before the position"
    unread = OffsetMap.of(runs, SourceOffset(40), "nobody may read it")
    assert lag(source, at(47), unread) is None, "unknown is never good news"
    assert lag(source, at(0), OffsetMap(until=SourceOffset(0), unread="no position")) == 50


def test_mode_of_a_mapped_copy_is_never_identical() -> None:
    assert mode(at(0), OffsetMap(until=SourceOffset(0))) == "mapped"
    assert mode(at(9), OffsetMap.of([OffsetRange(SourceOffset(0), at(0))], SourceOffset(9))) == "mapped(+0)"
    assert mode(at(50), OffsetMap.of(SHIFTED.runs, SourceOffset(40))) == "mapped(+3)"


def test_mode_tells_the_shift_at_the_end_of_the_copy() -> None:
    assert mode(DestinationOffset(5), OffsetMap()) == "identical"
    assert mode(DestinationOffset(5), SHIFTED) == "identical"
    assert mode(DestinationOffset(20), SHIFTED) == "mapped(+3)"
    worked_off = OffsetMap.of([*SHIFTED.runs, OffsetRange(SourceOffset(30), DestinationOffset(30))])
    assert mode(DestinationOffset(40), worked_off) == "identical"
