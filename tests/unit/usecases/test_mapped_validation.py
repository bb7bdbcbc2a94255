"""What is compared of a mirror with mapped offsets: records, up to where the map was known."""

from __future__ import annotations

import pytest

from tanist.domain import errors
from tanist.domain.anchors import anchored
from tanist.domain.log_ends import LogEnds, Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, PromotionEpoch
from tanist.domain.selection import EVERY_TOPIC
from tanist.domain.validation.bounds import ComparisonBounds
from tanist.domain.validation.job import Level, PartitionRequest
from tanist.domain.validation.result import Comparison, LogSummary, ValidatedPartition, ValidationVerdict
from tanist.usecases.reconciliation.pair import of_mirror
from tanist.usecases.validation.prepare import Prepared, ValidationRequest, prepare
from tests.builders import AT, DR, a_command
from tests.unit.usecases.mapped import RUNS, SPEC, MappedMirror

READ = Comparison(source=LogSummary(records=1), destination=LogSummary(records=1))


def a_mirror_with_a_copy(until: int = 30) -> MappedMirror:
    mirror = MappedMirror()
    mirror.copy((*RUNS[:3], OffsetRange(SourceOffset(until), RUNS[3].destination)), published=1)
    return mirror


def prepared(mirror: MappedMirror, level: Level | None = None) -> Prepared:
    return prepare(mirror.clusters(), ValidationRequest(level=level), a_command(clock=mirror.west.clock))


def asked(mirror: MappedMirror) -> PartitionRequest:
    (found,) = prepared(mirror).partitions
    return found


def bounds(request: PartitionRequest, source_end: int, copy_end: int) -> ComparisonBounds:
    return ComparisonBounds(
        request=request,
        source=LogEnds(start=0, last_stable=source_end, high_watermark=source_end),
        destination=LogEnds(start=0, last_stable=copy_end, high_watermark=copy_end),
        later=source_end,
    )


def test_records_are_compared_and_batches_are_refused_with_what_to_do() -> None:
    mirror = a_mirror_with_a_copy()
    assert prepared(mirror).level is Level.RECORDS
    assert prepared(mirror, Level.RANGES).level is Level.RANGES
    with pytest.raises(errors.Misconfigured, match=r"written anew in transactions .* --level records"):
        prepared(mirror, Level.BATCHES)


@pytest.mark.parametrize("foreign", [False, True])
def test_between_anchors_the_log_of_the_copy_says_where_its_records_are(foreign: bool) -> None:
    """If somebody else has written to it, the comparison says that it is not exact there."""
    mirror = a_mirror_with_a_copy(40)
    copied = (*RUNS[:3], OffsetRange(SourceOffset(40), DestinationOffset(44)))
    mirror.west.grow(AT, 10)
    mirror.commit(40, mirror.proof(copied[-1], copied[-1:]).metadata)
    mirror.west.write(OFFSETS_TOPIC, anchored(DR, SPEC.mirror_id, AT, copied, (copied[0], copied[-1])))
    mirror.west.control |= {(AT, n) for n in (10, 21, 43)}
    mirror.west.aborted |= set() if foreign else {(AT, 22)}
    request = asked(mirror)
    assert (request.until, request.unread) == (40, "")
    places = [request.map.locate(SourceOffset(n)) for n in (9, 10, 19, 20, 39)]
    assert foreign or places == [9, 11, 20, 23, 42]
    assert ("somebody else was there" in request.other_offsets) is foreign


def test_the_copy_has_a_while_to_reach_what_its_source_had() -> None:
    mirror = a_mirror_with_a_copy()
    clock = mirror.west.clock
    waited = clock.wait

    def copied_meanwhile(seconds: float) -> None:
        waited(seconds)
        mirror.copy((*RUNS, OffsetRange(SourceOffset(40), mirror.west.ends[AT][2])))  # type: ignore[arg-type]

    clock.wait = copied_meanwhile  # type: ignore[method-assign]
    found = asked(mirror)
    assert (found.until, found.source_end, found.runs[:4]) == (40, 40, RUNS)


def test_what_is_compared_ends_where_the_map_was_known() -> None:
    """Both logs grow meanwhile; what the source got after it was asked did not have to be copied."""
    mirror = a_mirror_with_a_copy(40)
    request = asked(mirror)
    within = bounds(request, source_end=55, copy_end=60)
    assert within.compared == (Span(0, 40), Span(0, 34))
    assert within.behind == 0
    found = ValidatedPartition(request=request, bounds=within, compared=READ)
    assert found.verdict is ValidationVerdict.EQUAL
    assert found.item()["mode"] == "mapped"


def test_what_the_source_had_and_nobody_copied_is_not_equal() -> None:
    mirror = a_mirror_with_a_copy()
    request = asked(mirror)
    within = bounds(request, source_end=55, copy_end=36)
    assert (within.compared[0], within.behind) == (Span(0, 30), 10)
    found = ValidatedPartition(request=request, bounds=within, compared=READ)
    assert (found.verdict, found.reason) == (
        ValidationVerdict.UNKNOWN,
        "10 offsets of the source are not copied yet",
    )


def test_offsets_alone_say_that_records_have_to_be_compared() -> None:
    """Behind the copy lies what an aborted attempt has left, or somebody else wrote."""
    request = asked(a_mirror_with_a_copy(40))
    found = ValidatedPartition(request=request, bounds=bounds(request, source_end=40, copy_end=36))
    assert found.reason == "2 offsets of the destination are past the end of the source: compare with --level records"


def test_a_copy_of_which_nobody_knows_how_far_it_is_is_not_equal() -> None:
    mirror = a_mirror_with_a_copy(40)
    mirror.commit(40, "a consumer's")
    request = asked(mirror)
    found = ValidatedPartition(request=request, bounds=bounds(request, source_end=40, copy_end=36), compared=READ)
    assert found.verdict is ValidationVerdict.UNKNOWN
    assert "POSITION_NOT_OURS" in found.reason
    assert "are not copied yet" not in found.reason, "nobody knows"
    assert "may not be copied: how far the copy has come is not known" in found.reason


def test_a_topic_that_was_failed_over_is_compared_up_to_its_last_copied_record() -> None:
    mirror = a_mirror_with_a_copy()
    mirror.west.write(STATE_TOPIC, PromotionEpoch(mirror=DR, topic="orders", count=1))
    request = asked(mirror)
    within = bounds(request, source_end=40, copy_end=99)
    assert within.compared == (Span(0, 30), Span(0, 34))
    found = ValidatedPartition(request=request, bounds=within, compared=READ)
    assert (found.lost, found.verdict) == (10, ValidationVerdict.DIFFERENT)


def test_a_reconciliation_pairs_all_records_of_a_mapped_mirror() -> None:
    mirror = a_mirror_with_a_copy()
    found = of_mirror(mirror.clusters(), EVERY_TOPIC, a_command(clock=mirror.west.clock))
    (pair,) = found.pairs
    assert (pair.source, pair.destination, pair.partitions, pair.exclusive) == ("orders", "orders", 1, ())
