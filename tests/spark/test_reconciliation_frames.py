"""From slim frames to runs, in a real session: many small logs at once, each with a known history."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.spark.reconciliation import frames
from tanist.spark.reconciliation.digests import sort_out
from tanist.spark.reconciliation.positions import Ends, translate
from tanist.spark.reconciliation.runs import Runs, merge, merge_extras
from tests.spark.copied_logs import Copied, Fate, a_copy, skipped
from tests.spark.test_offset_pairing import FATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # of pyspark, when it collects
]

SLIM = "log int, offset long, time long, stamped boolean, open boolean, identity long"
IN_A_BUCKET = 12


def a_slim(spark: SparkSession, logs: Iterable[dict[int, int]], times: Iterable[Mapping[int, int]]) -> DataFrame:
    rows = [
        (log, offset, time.get(identity, offset * 10), False, False, identity)
        for log, (records, time) in enumerate(zip(logs, times, strict=True))
        for offset, identity in records.items()
    ]
    return spark.createDataFrame(rows, SLIM)


def times_of(rng: Random, done: Copied) -> dict[int, int]:
    """By identity: rising with the offset, but out of order by some records, so that buckets interleave."""
    jitter = rng.choice((0, 0, 40))
    return {identity: offset * 10 + rng.randint(0, jitter) for offset, identity in done.written.items()}


def test_buckets_tell_of_every_record_what_pairing_it_would_tell(spark: SparkSession) -> None:
    """Whatever part of the logs is paired and whatever is believed by digest: the truth for every record."""
    rng = Random(11)
    every = [a_copy(rng, rng.randint(0, 60), fate) for fate in FATES.values() for _ in range(5)]
    every += [a_copy(rng, 60, Fate()) for _ in range(5)]
    times = [times_of(rng, done) for done in every]
    source = a_slim(spark, [done.source for done in every], times)
    destination = a_slim(spark, [done.destination for done in every], times)
    ours, theirs = frames.in_buckets(source, destination, IN_A_BUCKET)
    buckets = frames.compared(ours, theirs)
    reported = sort_out(buckets)
    assert 30 < len(reported.to_pair) < len(buckets) - 30, "both ways must be taken"
    runs, extras = frames.paired(ours, theirs, reported.to_pair)
    for log, done in enumerate(every):
        none = Runs.none()
        others = merge_extras([reported.extras.get(log, none), extras.get(log, none)])
        check(done, merge([reported.runs.get(log, none), runs.get(log, none)]), others)


def test_a_record_with_timestamp_1_makes_no_bucket_large(spark: SparkSession) -> None:
    """The whole log lay in one bucket: one difference, and all of it was paired at once."""
    size, now = 20_000, 1_700_000_000_000
    for odd in (1, -1, 2**63 - 1, -(2**63)):
        rows = [(0, n, odd if n == 0 else now + n, False, False, n * 2**33) for n in range(size)]
        source = spark.createDataFrame(rows, SLIM)
        ours, theirs = frames.in_buckets(source, source, 100)
        buckets = frames.compared(ours, theirs)
        assert all(bucket.equal for bucket in buckets)
        assert sum(bucket.source_records for bucket in buckets) == size
        assert max(bucket.source_records for bucket in buckets) <= 3 * 100
        assert len(buckets) <= 2 * size // 100


def test_records_of_one_timestamp_are_paired_in_portions(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have one bucket: what it is split into tells the same, and no worker has more than a portion."""
    monkeypatch.setattr(frames, "_AT_MOST", 16)
    rng = Random(3)
    every = [a_copy(rng, 60, Fate(lost=0.1, rewinds=2, gaps=0.1)) for _ in range(4)]
    once = [dict.fromkeys(done.written.values(), 5) for done in every]
    source, destination = (
        a_slim(spark, logs, once) for logs in ([d.source for d in every], [d.destination for d in every])
    )
    ours, theirs = frames.in_buckets(source, destination, IN_A_BUCKET)
    buckets = frames.compared(ours, theirs)
    assert len(buckets) == len(every)
    runs, extras = frames.paired(ours, theirs, buckets)
    for log, done in enumerate(every):
        check(done, merge([runs[log]]), merge_extras([extras.get(log, Runs.none())]))


def check(done: Copied, runs: Runs, extras: Runs) -> None:
    truth = done.last_copies()
    assert runs.copied.records.sum() == len(truth)
    assert runs.records.sum() == len(done.source)
    assert runs.copied.records.sum() + extras.length.sum() == len(done.destination)
    positions = range(max(done.source, default=0) + 4)
    for found in translate(runs, extras, Ends(1 << 40, 1 << 40), positions):
        if found.destination is None:
            assert not truth
            continue
        assert not skipped(done, found.source, found.destination)
        if found.source in truth:
            assert found.destination == min(copy for source, copy in truth.items() if source >= found.source)


def a_bucket_each(spark: SparkSession, logs: Sequence[Sequence[tuple[int, int]]]) -> DataFrame:
    return spark.createDataFrame(
        [(log, 0, *record, False, False) for log, records in enumerate(logs) for record in records],
        "log int, bucket long, offset long, identity long, stamped boolean, open boolean",
    )


def test_a_digest_depends_on_records_order_and_gaps_and_on_nothing_else(spark: SparkSession) -> None:
    """The same records elsewhere are equal; two of them swapped, one more, one less, one gap more are not."""
    records = [(offset, Random(offset).getrandbits(64) - 2**63) for offset in range(50)]

    def swapped(first: int, second: int) -> list[tuple[int, int]]:
        order = [first if i == second else second if i == first else i for i in range(50)]
        return [(offset, records[i][1]) for offset, i in enumerate(order)]

    copies = [
        [(offset + 2**40, identity) for offset, identity in records],
        swapped(20, 21),
        swapped(0, 49),
        records[:-1],
        [*records, records[-1]],
        [(offset + (offset > 30), identity) for offset, identity in records],
    ]
    source = a_bucket_each(spark, [records] * len(copies))
    found = {bucket.log: bucket.equal for bucket in frames.compared(source, a_bucket_each(spark, copies))}
    assert found == {log: log == 0 for log in range(len(copies))}
