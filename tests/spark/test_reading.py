"""The reader of raw batches, and how its work is cut: without Spark."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import TimedOut
from tanist.domain.log_ends import LogEnds, Span
from tanist.domain.names import MirrorPartition, ProducerId
from tanist.domain.validation.bounds import ComparisonBounds
from tanist.domain.validation.job import PartitionRequest
from tanist.domain.validation.result import Comparison, LogSummary, ValidatedPartition
from tanist.kafka.protocol.batch import HEADER_SIZE
from tanist.spark.reading import read
from tanist.spark.spans import WORTH_A_TASK, LogSpan, cut
from tests.spark.forging import written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka.fetcher.rig import Rig


def test_every_batch_is_read_by_exactly_one_task(rig: Rig, topic_name: str) -> None:
    """Wherever a log is cut, also inside batches; and by whoever reads the first part the one that `start` is in."""
    [at] = rig.create(topic_name)
    written(rig.source, at)
    for cuts in ((0, 50), (0, 1, 50), (0, 10, 20, 50), (3, 14, 15, 16, 47, 50)):
        found = []
        for start, until in pairwise(cuts):
            span = LogSpan(partition=at, start=start, until=until, first=start == cuts[0])
            found += [each.header.base_offset for answer in read(rig.source.router, span) for each in answer]
        assert found == [0, 10, 20, 30, 40], cuts


def test_it_is_told_what_a_reader_of_committed_records_sees(rig: Rig, topic_name: str) -> None:
    """Markers and aborted data are read, and told from data, wherever the reading begins."""
    [at] = rig.create(topic_name)
    rig.source.transaction(at, [b"kept"])
    rig.source.transaction(at, [b"aborted", b"too"], commit=False)
    rig.source.settle([at])  # its marker may come after the answer
    rig.source.produce(at, [b"plain"])
    end = rig.source.end(at)
    for start in range(end):
        span = LogSpan(partition=at, start=start, until=end)
        seen = [each.header.base_offset for answer in read(rig.source.router, span) for each in answer if each.seen]
        assert seen == [offset for offset in (0, 5) if offset >= start], start


def test_reading_beyond_the_end_ends_with_a_reason(rig: Rig, topic_name: str) -> None:
    """The log may have been truncated meanwhile: nobody waits for ever."""
    [at] = rig.create(topic_name)
    made = written(rig.source, at, 1)
    answers = read(rig.source.router, LogSpan(partition=at, start=0, until=11), patience=0.5)
    [whole] = next(answers)
    assert bytes(whole.batch[HEADER_SIZE:]) == bytes(made[0][HEADER_SIZE:])
    with pytest.raises(TimedOut, match="no data arrives before 11"):
        next(answers)


def test_of_a_log_with_history_only_later_batches_must_be_of_one_producer() -> None:
    """And what lies in a reserve, which the other cluster cannot have, counts on neither side."""
    span = LogSpan(
        partition=MirrorPartition("t", 0), start=0, until=30, only=ProducerId(7), only_from=20, skipped=((10, 15),)
    )
    counted = {(at, who) for at in (0, 9, 10, 14, 15, 19, 20, 29) for who in (7, 8) if span.counts(at, who)}
    assert counted == {(at, who) for at in (0, 9, 15, 19) for who in (7, 8)} | {(20, 7), (29, 7)}


def sizes(tasks: Iterable[tuple[LogSpan, ...]]) -> list[int]:
    return [sum(span.until - span.start for span in task) for task in tasks]


@pytest.mark.parametrize("seed", range(20))
def test_work_is_cut_into_few_tasks_of_about_the_same_size(seed: int) -> None:
    """Nothing twice, nothing left out, and no task for nothing."""
    random = Random(seed)
    spans = [
        LogSpan(partition=MirrorPartition("t", n), start=start, until=start + random.choice((0, 1, 100, 3_000_000)))
        for n in range(random.randint(1, 50))
        for start in [random.randint(0, 1000)]
    ]
    tasks = cut(spans, 8)
    total = sum(span.until - span.start for span in spans)
    assert len(tasks) <= min(8, -(-total // WORTH_A_TASK)) or not total
    assert sum(sizes(tasks)) == total
    assert max(sizes(tasks), default=0) <= 2 * total / max(1, len(tasks)) + 1
    covered = sorted((span.partition, n) for task in tasks for span in task for n in (span.start, span.until))
    assert {at for at, _ in covered} == {span.partition for span in spans if span.start < span.until}


def bounds(  # noqa: PLR0913  # what bounds are made of, named
    start: int,
    stable: int,
    copy_start: int,
    copy_end: int,
    *,
    later: int = 0,
    promoted: bool = False,
    reserve: tuple[int | None, int | None] = (None, None),
) -> ComparisonBounds:
    at, (old_end, reserve_end) = MirrorPartition("t", 0), reserve
    return ComparisonBounds(
        request=PartitionRequest(partition=at, promoted=promoted, old_end=old_end, reserve_end=reserve_end),
        source=LogEnds(start=start, last_stable=stable, high_watermark=stable),
        destination=LogEnds(start=copy_start, last_stable=copy_end, high_watermark=copy_end),
        later=later or stable,
    )


@pytest.mark.parametrize(
    ("given", "source", "copy", "odd"),
    [
        (bounds(0, 10, 0, 10), (0, 10), (0, 10), (0, 0, 0)),
        (bounds(5, 10, 3, 10), (5, 10), (5, 10), (0, 0, 0)),
        (bounds(0, 10, 4, 10), (0, 10), (4, 10), (4, 0, 0)),
        (bounds(0, 10, 4, 10, promoted=True), (4, 10), (4, 10), (4, 0, 0)),
        (bounds(0, 10, 0, 7), (0, 7), (0, 7), (0, 3, 0)),
        (bounds(0, 10, 0, 15, later=20), (0, 15), (0, 15), (0, 0, 0)),
        (bounds(0, 10, 0, 15, later=12), (0, 12), (0, 15), (0, 0, 3)),
        (bounds(0, 10, 0, 99, promoted=True), (0, 10), (0, 10), (0, 0, 0)),
        (bounds(0, 10, 0, 99, promoted=True, reserve=(7, 20)), (0, 7), (0, 7), (0, 0, 0)),
        (bounds(0, 5, 0, 99, promoted=True, reserve=(7, 20)), (0, 5), (0, 5), (0, 0, 0)),
        (bounds(0, 0, 0, 0), (0, 0), (0, 0), (0, 0, 0)),
    ],
)
def test_the_bounds_of_a_comparison(
    given: ComparisonBounds, source: tuple[int, int], copy: tuple[int, int], odd: tuple[int, int, int]
) -> None:
    """Both ranges, and what is not in them: missing at the start, not copied yet, behind the source's end."""
    ours, theirs = Span(*source), Span(*copy)
    assert given.compared == (ours, theirs)
    assert (given.missing_at_start, given.behind, given.past_end) == odd


@pytest.mark.parametrize(
    ("source_end", "only_old_source", "reused", "verdict"),
    [(5, 0, 0, "EQUAL"), (7, 0, 0, "EQUAL"), (10, 3, 0, "EQUAL"), (20, 13, 0, "EQUAL"), (23, 13, 3, "DIFFERENT")],
)
def test_what_only_the_old_source_can_have_is_explained_and_what_was_used_twice_is_a_difference(
    source_end: int, only_old_source: int, reused: int, verdict: str
) -> None:
    within = bounds(0, source_end, 0, 99, promoted=True, reserve=(7, 20))
    read = LogSummary(batches=1, records=1)
    found = ValidatedPartition(
        request=within.request, bounds=within, compared=Comparison(source=read, destination=read)
    )
    assert (found.only_old_source, found.reused, found.verdict) == (only_old_source, reused, verdict)
    assert ("reserved for the old source" in found.reason) is bool(only_old_source)
    assert {"only_old_source": only_old_source, "reused": reused}.items() <= found.item().items()
