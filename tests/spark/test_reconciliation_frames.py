"""From slim frames to runs, in a real session: many small logs at once, each with a known history."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from tanist.domain.names import MirrorPartition
from tanist.spark.reconciliation import frames
from tanist.spark.reconciliation.bucket_digests import SpanDigests, compared
from tanist.spark.reconciliation.digests import sort_out
from tanist.spark.reconciliation.positions import Ends, translate
from tanist.spark.reconciliation.runs import Runs, merge, merge_extras
from tanist.spark.reconciliation.source import looks_at
from tanist.spark.reconciliation.time_buckets import TimeBuckets, TimeSample
from tanist.spark.spans import LogSpan
from tests.spark.copied_logs import Copied, Fate, a_copy, skipped
from tests.spark.test_offset_pairing import FATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from pyspark.sql import DataFrame, SparkSession

    from tanist.spark.reconciliation.digests import Bucket
    from tanist.spark.reconciliation.occurrences import Longs

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # of pyspark, when it collects
]

SCHEMA = "log int, bucket long, part long, offset long, open boolean, identity long, trouble string"
IN_A_BUCKET = 12


class Records(NamedTuple):
    """Of one log."""

    offsets: Longs
    times: Longs
    identities: Longs

    @classmethod
    def of(cls, records: Mapping[int, int], times: Mapping[int, int]) -> Self:
        columns = (records, (times.get(each, offset * 10) for offset, each in records.items()), records.values())
        return cls(*(np.array(list(column), np.int64) for column in columns))


@dataclass(frozen=True)
class Bucketed:
    """Logs and their copies, cut by time."""

    source: Sequence[Records]
    destination: Sequence[Records]
    size: int = IN_A_BUCKET

    @cached_property
    def known(self) -> dict[int, TimeBuckets]:
        return {
            log: TimeBuckets.of([self._sample(side) for side in both], 2 * self.size)
            for log, both in enumerate(zip(self.source, self.destination, strict=True))
        }

    def _sample(self, records: Records) -> TimeSample:
        end = len(records.offsets)
        looks = looks_at(LogSpan(partition=MirrorPartition("t", 0), start=0, until=end), self.size)
        return TimeSample(records.times[list(looks)], np.diff([*looks, end]))

    def compared(self) -> list[Bucket]:
        return compared(self._digests(self.source), self._digests(self.destination))

    def _digests(self, logs: Sequence[Records]) -> pa.Table:
        """As several spans of each log give them."""
        return pa.concat_tables(self._rows(log, records) for log, records in enumerate(logs))

    def _rows(self, log: int, records: Records) -> pa.Table:
        tables = []
        for part in range(3):
            cut = slice(len(records.offsets) * part // 3, len(records.offsets) * (part + 1) // 3)
            digests = SpanDigests(self.known[log])
            offsets, times, identities = (column[cut] for column in records)
            digests.add(offsets, times, identities.view(np.uint64), np.zeros(len(offsets), bool), undecided=False)
            rows = digests.rows()
            tables.append(pa.table({"log": np.full(len(rows["bucket"]), log, np.int32), **rows}))
        return pa.concat_tables(tables)

    def paired(self, spark: SparkSession, buckets: Sequence[Bucket]) -> frames.PairedLogs:
        parts = frames.parts_of(buckets, self.known)
        return frames.paired(*(self._frame(spark, logs, parts) for logs in (self.source, self.destination)))

    def _frame(self, spark: SparkSession, logs: Sequence[Records], parts: Mapping[int, Longs]) -> DataFrame:
        rows = [
            (log, bucket, identity % int(parts[log][bucket]), offset, False, identity, None)
            for log, records in enumerate(logs)
            for bucket, offset, identity in zip(
                self.known[log].numbers(records.times).tolist(),
                records.offsets.tolist(),
                records.identities.tolist(),
                strict=True,
            )
            if log in parts and parts[log][bucket]
        ]
        return spark.createDataFrame(rows, SCHEMA)


def times_of(rng: Random, done: Copied) -> dict[int, int]:
    """By identity: rising with the offset, but out of order by some records, so that buckets interleave."""
    jitter = rng.choice((0, 0, 40))
    return {identity: offset * 10 + rng.randint(0, jitter) for offset, identity in done.written.items()}


def bucketed(every: Sequence[Copied], times: Sequence[Mapping[int, int]]) -> Bucketed:
    return Bucketed(
        [Records.of(done.source, of) for done, of in zip(every, times, strict=True)],
        [Records.of(done.destination, of) for done, of in zip(every, times, strict=True)],
    )


def test_buckets_tell_of_every_record_what_pairing_it_would_tell(spark: SparkSession) -> None:
    """Whatever part of the logs is paired and whatever is believed by digest: the truth for every record."""
    rng = Random(11)
    every = [a_copy(rng, rng.randint(0, 60), fate) for fate in FATES.values() for _ in range(5)]
    every += [a_copy(rng, 60, Fate()) for _ in range(5)]
    logs = bucketed(every, [times_of(rng, done) for done in every])
    buckets = logs.compared()
    reported = sort_out(buckets)
    assert 30 < len(reported.to_pair) < len(buckets) - 30, "both ways must be taken"
    found = logs.paired(spark, reported.to_pair)
    for log, done in enumerate(every):
        none = Runs.none()
        others = merge_extras([reported.extras.get(log, none), found.extras.get(log, none)])
        check(done, merge([reported.runs.get(log, none), found.runs.get(log, none)]), others)


@pytest.mark.parametrize("odd", [1, -1, 2**63 - 1, -(2**63)])
def test_a_record_with_timestamp_1_makes_no_bucket_large(odd: int) -> None:
    """The whole log lay in one bucket: one difference, and all of it was paired at once."""
    size, now = 20_000, 1_700_000_000_000
    offsets = np.arange(size)
    records = Records(offsets, np.where(offsets == 0, odd, now + offsets), offsets * 2**33)
    buckets = Bucketed([records], [records], 100).compared()
    assert all(bucket.equal for bucket in buckets)
    assert sum(bucket.source_records for bucket in buckets) == size
    assert max(bucket.source_records for bucket in buckets) <= 3 * 100
    assert len(buckets) <= 2 * size // 100


def test_times_in_any_order_make_even_buckets() -> None:
    """Of a sample of sixteen, and an hour has most of the records."""
    size, random = 100_000, np.random.default_rng(7)
    times = 1_700_000_000_000 + np.where(
        random.random(size) < 0.9, random.integers(0, 3_600_000, size), random.integers(0, 10**9, size)
    )
    offsets = np.arange(size)
    buckets = Bucketed([Records(offsets, times, offsets)], [Records(offsets + 5, times, offsets)], 1_000).compared()
    assert all(bucket.equal for bucket in buckets)
    assert max(bucket.source_records for bucket in buckets) <= size // 8
    assert 50 <= len(buckets) <= 300


def test_records_of_one_timestamp_are_paired_in_portions(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have one bucket: what it is split into tells the same, and no worker has more than a portion."""
    monkeypatch.setattr(frames, "_AT_MOST", 16)
    rng = Random(3)
    every = [a_copy(rng, 60, Fate(lost=0.1, rewinds=2, gaps=0.1)) for _ in range(4)]
    logs = bucketed(every, [dict.fromkeys(done.written.values(), 5) for done in every])
    buckets = logs.compared()
    assert len(buckets) == len(every)
    found = logs.paired(spark, buckets)
    for log, done in enumerate(every):
        check(done, merge([found.runs[log]]), merge_extras([found.extras.get(log, Runs.none())]))


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


def records_of(pairs: Sequence[tuple[int, int]]) -> Records:
    offsets, identities = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    return Records(offsets, np.zeros_like(offsets), identities)


def test_a_digest_depends_on_records_order_and_gaps_and_on_nothing_else() -> None:
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
        [*records, (50, records[-1][1])],
        [(offset + (offset > 30), identity) for offset, identity in records],
    ]
    logs = Bucketed([records_of(records)] * len(copies), [records_of(copy) for copy in copies])
    found = {bucket.log: bucket.equal for bucket in replace(logs, size=100).compared()}
    assert found == {log: log == 0 for log in range(len(copies))}


IDENTITY = {"A": 2**62 + 5, "B": -(2**61) - 7}


def equal(source: Records, copy: Records) -> bool:
    (bucket,) = Bucketed([source], [copy], size=10_000).compared()
    return bucket.equal


@pytest.mark.parametrize(("source", "copy"), [("ABBA", "BAAB"), ("AA...AA", "A.A.A.A"), ("ABBABAAB", "BAABABBA")])
def test_moves_that_make_up_for_one_another_do_not_make_a_bucket_equal(source: str, copy: str) -> None:
    """Of records that are the same in everything: positions were exact that left one out. '.' is a gap."""
    ours, theirs = (
        records_of([(offset, IDENTITY[each]) for offset, each in enumerate(log) if each != "."])
        for log in (source, copy)
    )
    assert not equal(ours, theirs)
    assert equal(ours, ours._replace(offsets=ours.offsets + 2**40))


@pytest.mark.parametrize("kinds", [2, 3, 5, 20])
def test_no_two_swaps_of_records_of_few_kinds_make_an_equal_bucket(kinds: int) -> None:
    """Of 5,426 such copies 24 were equal, and each left a record out at some position."""
    for seed in range(400):
        rng = Random(seed)
        records = [rng.randrange(kinds) + 100 for _ in range(200)]
        moved = list(records)
        for _ in range(2):
            first = rng.randrange(160)
            other = first + rng.randrange(1, 20)
            moved[first], moved[other] = moved[other], moved[first]
        if moved != records:
            source, copy = (records_of(list(enumerate(each))) for each in (records, moved))
            assert not equal(source, copy), seed
