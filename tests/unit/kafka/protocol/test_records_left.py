"""Two logs that their cleaners have cleaned differently, compared by the records that both still have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.kafka.protocol.batch import assembled, header_of
from tanist.kafka.protocol.compression import compressed
from tanist.kafka.protocol.records_left import contradiction, records_left, surplus_before
from tests.unit.kafka.protocol.batches import LOG_APPEND_TIME, encode_batch, encode_record

if TYPE_CHECKING:
    from collections.abc import Mapping

SAME = OffsetMap()


def log(
    values: Mapping[int, bytes], *, key: bytes | None = b"k", attributes: int = 0, time: int = 0
) -> list[memoryview]:
    """One batch of nine offsets, of which a cleaner has left some."""
    body = b"".join(encode_record(offset, key, value, time) for offset, value in values.items())
    header = header_of(memoryview(encode_batch([b"v"] * 9)))
    header = header._replace(record_count=len(values), attributes=attributes)
    return [assembled(header, compressed(attributes & 7, body))[1]]


def test_what_only_one_log_has_says_nothing() -> None:
    assert contradiction(log({1: b"a", 3: b"b"}), log({2: b"c", 3: b"b", 8: b"d"}), SAME) is None
    assert contradiction([], log({1: b"a"}), SAME) is None
    assert contradiction(log({}), log({1: b"a"}, attributes=3), SAME) is None


def test_another_value_or_time_at_one_offset_is_a_contradiction() -> None:
    assert contradiction(log({1: b"a", 3: b"b"}), log({1: b"a", 3: b"x"}, attributes=4), SAME) == 3
    assert contradiction(log({3: b"b"}), log({3: b"b"}, time=1), SAME) == 3


def test_offsets_are_compared_through_the_map() -> None:
    shifted = OffsetMap((OffsetRange(SourceOffset(1), DestinationOffset(3)),))
    assert contradiction(log({3: b"a", 5: b"b"}), log({1: b"a", 3: b"b"}), shifted) is None
    assert contradiction(log({3: b"a"}), log({1: b"b"}), shifted) == 1


def test_times_are_not_compared_where_the_source_has_stamped_its_own() -> None:
    """Its cleaner writes the broker's time into the records that it leaves."""
    assert contradiction(log({3: b"b"}), log({3: b"b"}, time=1, attributes=LOG_APPEND_TIME), SAME) is None
    assert contradiction(log({3: b"x"}), log({3: b"b"}, time=1, attributes=LOG_APPEND_TIME), SAME) == 3


def test_a_record_without_a_key_was_left_out_of_a_compacted_copy() -> None:
    assert contradiction(log({3: b"next"}), log({3: b"b"}, key=None), SAME) is None
    assert contradiction(log({3: b"a"}, key=None), log({3: b"b"}, key=None), SAME) == 3


def test_an_emptied_batch_has_no_records_whatever_its_codec() -> None:
    header = header_of(memoryview(encode_batch([b"v"])))._replace(record_count=0, attributes=3)
    assert list(records_left(*assembled(header, b""))) == []


def test_surplus_offsets_of_a_copy_are_counted_by_its_last_record() -> None:
    copied = log({4: b"not the last", 7: b"last"})
    assert surplus_before(copied, log({5: b"last"}), SAME, 2) == 2
    assert surplus_before(copied, log({4: b"not the last", 5: b"last", 7: b"last"}), SAME, 8) == 2
    shifted = OffsetMap((OffsetRange(SourceOffset(0), DestinationOffset(1)),))
    assert surplus_before(copied, log({5: b"last"}), shifted, 2) == 1


def test_a_surplus_that_more_markers_than_were_written_would_make_is_none() -> None:
    assert surplus_before(log({7: b"last"}), log({5: b"last"}), SAME, 1) is None
    assert surplus_before(log({7: b"last"}), log({8: b"last"}), SAME, 8) is None


def test_a_record_that_the_source_has_twice_does_not_tell_the_surplus() -> None:
    """It was the larger one: a record of the copy would have been taken for an earlier one of its source."""
    assert surplus_before(log({7: b"last"}), log({4: b"last", 5: b"last"}), SAME, 3) is None
    assert surplus_before(log({7: b"last"}), log({4: b"last", 5: b"last"}), SAME, 2) == 2


def test_a_record_that_the_source_does_not_have_tells_no_surplus() -> None:
    assert surplus_before(log({7: b"last"}), log({5: b"other"}), SAME, 8) is None
    assert surplus_before(log({7: b"last"}), log({5: b"last"}, time=1), SAME, 8) is None
    assert surplus_before(log({}), log({5: b"last"}), SAME, 8) is None
