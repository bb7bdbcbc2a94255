"""Whether a group reads the same record next on both sides, where cleaners have been at work."""

from __future__ import annotations

import pytest

from tanist.domain.errors import CorruptBatch
from tanist.domain.translation import Proof
from tanist.kafka.protocol.batch import header_of
from tanist.kafka.protocol.record_proof import Comparer, RecordFound
from tests.unit.kafka.protocol.test_refilling import BASE_TIME, CODECS, StoredBatch, Written


def found(position: int, *records: Written, codec: int) -> RecordFound:
    batch = memoryview(StoredBatch(records[0].offset, records[-1].offset + 1, list(records), codec).bytes())
    return RecordFound(position, header_of(batch), batch)


def written(offset: int, key: bytes = b"k") -> Written:
    return Written(offset, BASE_TIME, key, b"v")


@pytest.mark.parametrize("codec", CODECS)
def test_a_copy_of_the_next_record_is_that_record(codec: int) -> None:
    """A position in a hole: the source reads a whole batch behind it, the mirror topic another one, of copies."""
    source = found(5, written(8), codec=codec)
    assert Comparer().compare(source, found(5, *(written(n) for n in range(3, 8)), codec=codec))[0] is Proof.MATCH


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("at_source", "in_copy"), [(5, 11), (4, 13), (3, 9)])
def test_markers_before_the_record_at_either_side_do_not_hide_it(codec: int, at_source: int, in_copy: int) -> None:
    """Offsets of a mapped copy are its own, and transactions leave markers: the next record is the same one."""
    source = found(at_source, written(5), written(6), codec=codec)
    copy = found(in_copy, written(13), written(14), codec=codec)
    assert Comparer().compare(source, copy)[0] is Proof.MATCH


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_that_one_cleaner_has_removed_proves_nothing(codec: int) -> None:
    """The mirror topic may be cleaned further than the source."""
    assert (
        Comparer().compare(found(5, written(5), codec=codec), found(5, written(6, b"l"), codec=codec))[0] is Proof.NONE
    )


@pytest.mark.parametrize("codec", CODECS)
def test_the_next_records_differ_where_neither_log_holds_the_record_itself(codec: int) -> None:
    """The source lost 100, and its copy 200 and the copy of 102: each reads two offsets farther, another record."""
    source, copy = (
        found(100, written(102, b"b"), written(104, b"c"), codec=codec),
        found(200, written(202, b"c"), codec=codec),
    )
    assert Comparer().compare(source, copy)[0] is Proof.MISMATCH
    assert not Comparer().are_held(source, copy)
    held = found(5, written(5), codec=codec)
    assert Comparer().are_held(held, held)
    assert not Comparer().are_held(held, copy)


@pytest.mark.parametrize("codec", CODECS)
def test_two_records_at_one_place_are_a_mismatch_whatever_their_codec(codec: int) -> None:
    assert (
        Comparer().compare(found(5, written(5), codec=codec), found(5, written(5, b"l"), codec=codec))[0]
        is Proof.MISMATCH
    )


@pytest.mark.parametrize("codec", CODECS)
def test_positions_of_one_batch_in_any_order_are_compared_as_if_each_were_alone(codec: int) -> None:
    """A thousand groups lie in a few batches: each was decoded for each of them."""
    keys = [b"%d" % n for n in range(20)]
    source = found(0, *(written(n, keys[n]) for n in range(20)), codec=codec)
    halves = [found(0, *(written(100 + n, keys[n]) for n in half), codec=codec) for half in (range(9), range(9, 20))]
    comparer = Comparer()
    for n in [*range(20), *range(19, -1, -1), 7, 15, 3]:
        copy, neighbour = halves[n >= 9], n - 1 if n in {8, 19} else n + 1
        here = source._replace(position=n)
        assert comparer.compare(here, copy._replace(position=100 + n))[0] is Proof.MATCH
        assert comparer.compare(here, copy._replace(position=100 + neighbour))[0] is Proof.MISMATCH


def test_a_broken_batch_is_refused_each_time() -> None:
    whole = found(5, written(5), written(6), codec=0)
    broken = whole._replace(batch=memoryview(bytes(whole.batch[:-3]) + b"\xff\xff\xff"))
    comparer = Comparer()
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            comparer.compare(found(6, written(5), written(6, b"l"), codec=0), broken._replace(position=6))
