"""Two hundred random histories on real brokers, a partition each, and one job over all of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.parquet as pq
import pytest

from tanist.domain.names import MirrorPartition
from tanist.domain.reconciled.placements import Standing
from tanist.domain.reconciliation.job import PositionRequest, ReconciliationJob, TopicPair
from tanist.domain.translation import Precision
from tanist.kafka.wire.requests import End
from tanist.spark.reconciliation.exclusive import Counts
from tanist.spark.reconciliation.job import reconcile
from tanist.spark.reconciliation.occurrences import NOWHERE
from tanist.spark.reconciliation.positions import Translated
from tanist.spark.reconciliation.runs import Runs, merge, merge_extras
from tests.kafka.fetcher.logs import Logs, read
from tests.kafka.fetcher.rig import Rig, RigCluster
from tests.spark.histories import DAMAGES, Damage, an_identity, as_copied
from tests.spark.oracle import Entry, Fate, History, Told, faults
from tests.spark.planted import PLANTED, START_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from confluent_kafka import Producer
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # of pyspark, when it collects
]

EACH: Final = 17
"""Histories of each damage."""
PHASES: Final = 6
KEPT: Final = {"retention.ms": "-1"}
RANDOM: Final = TopicPair("histories", "east.histories", EACH * len(DAMAGES))
KNOWN: Final = TopicPair("planted", "east.planted", len(PLANTED))
BEYOND: Final = TopicPair("open-beyond", "east.open-beyond", 1)
IN_A_BUCKET: Final = 6


@dataclass
class Plan:
    """What one partition of the source gets, block by block; from block `grows` on after the look at the copy."""

    damage: Damage
    rng: Random
    blocks: list[tuple[Fate | None, list[int]]] = field(default_factory=list)
    grows: int = PHASES
    copied: list[int] = field(default_factory=list)
    undecided: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, number: int) -> Plan:
        damage, rng = DAMAGES[name], Random(f"{name} {number}")
        plan = cls(damage, rng, grows=rng.randint(1, PHASES) if rng.random() < damage.growth else PHASES)
        opened = rng.randrange(PHASES) if rng.random() < damage.open else PHASES
        recent: list[int] = []
        for phase in range(PHASES):
            fate: Fate | None = (
                rng.choice((Fate.COMMITTED, Fate.ABORTED)) if rng.random() < damage.transactions else None
            )
            if phase >= opened and (phase == opened or rng.random() < 0.3):
                fate = Fate.OPEN
            block = []
            for _ in range(rng.randint(0, 6) if phase else 6):
                identity = an_identity(rng, len(recent))
                if recent and rng.random() < max(damage.alike, damage.uniform):
                    identity = recent[0] if damage.uniform else rng.choice(recent[-4:])
                recent.append(identity)
                block.append(identity)
            plan.blocks.append((fate, block))
        return plan

    def fates(self) -> Iterator[tuple[Fate, int]]:
        """Every record of it, in order."""
        for fate, block in self.blocks:
            for identity in block:
                yield fate or Fate.COMMITTED, identity


def send(producer: Producer, at: MirrorPartition, identities: Iterable[int]) -> None:
    """Identities that follow one another are some records apart in time: buckets interleave."""
    for identity in identities:
        when = START_MS + (identity >> 32) * 10 + identity % 32
        producer.produce(at.topic, partition=at.partition, value=b"%d" % identity, timestamp=when)


class Writer:
    """Records of every fate on one cluster; what is open stays so until the end of the test."""

    def __init__(self, side: RigCluster, name: str) -> None:
        self.plain = side.producer(enable_idempotence=True)
        self.ended, self.open = (
            side.producer(transactional_id=f"{name}-{kind}", linger_ms=0, transaction_timeout_ms=600_000)
            for kind in ("ended", "open")
        )
        self.ended.init_transactions(20)
        self.open.init_transactions(20)
        self.open.begin_transaction()
        (self.aside,) = side.create(f"{name}-aside")

    def write(self, blocks: Iterable[tuple[MirrorPartition, Fate | None, list[int]]]) -> None:
        """One block a partition."""
        by_fate = defaultdict[Fate | None, list[tuple[MirrorPartition, list[int]]]](list)
        for at, fate, identities in blocks:
            by_fate[fate].append((at, identities))
        for fate, producer in ((None, self.plain), (Fate.OPEN, self.open)):
            for at, identities in by_fate[fate]:
                send(producer, at, identities)
            assert producer.flush(30) == 0
        for fate, end in (
            (Fate.COMMITTED, self.ended.commit_transaction),
            (Fate.ABORTED, self.ended.abort_transaction),
        ):
            if any(identities for _, identities in by_fate[fate]):
                self.ended.begin_transaction()
                for at, identities in by_fate[fate]:
                    send(self.ended, at, identities)
                assert self.ended.flush(30) == 0
                end(30)

    def settle(self) -> None:
        """A transaction elsewhere: it begins when all markers of the one before are written."""
        self.ended.begin_transaction()
        send(self.ended, self.aside, [0])
        assert self.ended.flush(30) == 0
        self.ended.commit_transaction(30)

    def close(self) -> None:
        self.open.abort_transaction(30)


class World:
    """All partitions of a pair, from their plans to their histories."""

    def __init__(self, rig: Rig, pair: TopicPair) -> None:
        self.rig = rig
        names = [name for name in DAMAGES for _ in range(pair.partitions // len(DAMAGES))]
        self.plans = [Plan.of(name, number) for number, name in enumerate(names)]
        self.source = rig.source.create(pair.source, pair.partitions, config=KEPT)
        self.destination = rig.destination.create(pair.destination, pair.partitions, config=KEPT)
        self.written: Logs = {}
        self.ours, self.theirs = Writer(rig.source, pair.source), Writer(rig.destination, pair.destination)

    def begin(self) -> None:
        """What the source has, and what the copy has of it, before the first look."""
        for phase in range(PHASES):
            self._write(phase, lambda plan, phase: phase < plan.grows)
        rows = read(self.rig.source.servers, self.source, "read_uncommitted")
        for at, plan in zip(self.source, self.plans, strict=True):
            fates = list(plan.fates())
            history = History(
                source={
                    row.offset: Entry(identity, fate) for row, (fate, identity) in zip(rows[at], fates, strict=False)
                },
                end=rows[at][-1].offset + 1,
            )
            as_copied(plan.rng, history, list(history.source), plan.damage)
            plan.copied, plan.undecided = list(history.destination.values()), list(history.undecided.values())
        half = [len(plan.copied) // 2 for plan in self.plans]
        places = list(zip(self.destination, self.plans, half, strict=True))
        self.theirs.write((at, None, plan.copied[:n]) for at, plan, n in places)
        self.theirs.write((at, Fate.ABORTED, plan.copied[n : n + 2]) for at, plan, n in places if plan.damage.gaps)
        self.theirs.write((at, None, plan.copied[n:]) for at, plan, n in places)
        self.theirs.settle()
        self.theirs.write((at, Fate.OPEN, plan.undecided) for at, plan, _ in places)
        for at, plan, n in places:
            if plan.damage.trimmed and n and plan.rng.random() < plan.damage.trimmed:
                self.rig.destination.delete_before(at, plan.rng.randrange(n))

    def change(self) -> None:
        """Between the looks: the source grows, and loses its head."""
        for phase in range(PHASES):
            self._write(phase, lambda plan, phase: phase >= plan.grows)
        self.written = read(self.rig.source.servers, self.source, "read_uncommitted")
        self.ours.settle()
        stable = self.rig.source.ends(self.source, End.LAST_STABLE)
        for at, plan in zip(self.source, self.plans, strict=True):
            if plan.damage.trimmed and stable[at] and plan.rng.random() < plan.damage.trimmed:
                self.rig.source.delete_before(at, plan.rng.randrange(stable[at]))

    def _write(self, phase: int, now: Any) -> None:
        self.ours.write(
            (at, *plan.blocks[phase]) for at, plan in zip(self.source, self.plans, strict=True) if now(plan, phase)
        )

    def histories(self) -> list[History]:
        """The truth: what was written, and where ordinary readers find it."""
        committed = read(self.rig.destination.servers, self.destination, "read_committed")
        everything = read(self.rig.destination.servers, self.destination, "read_uncommitted")
        ours = read(self.rig.source.servers, self.source, "read_uncommitted")
        left = {at: {row.offset for row in rows} for at, rows in ours.items()}
        ends = self.rig.source.ends(self.source, End.HIGH_WATERMARK)
        stable = self.rig.destination.ends(self.destination, End.LAST_STABLE)
        found = []
        for at, there, plan in zip(self.source, self.destination, self.plans, strict=True):
            source = {}
            for row, (fate, identity) in zip(self.written[at], plan.fates(), strict=True):
                assert row.value == b"%d" % identity
                source[row.offset] = Entry(identity, fate, deleted=row.offset not in left[at])
            rows = [(row.offset, int(row.value or b"")) for row in everything[there]]
            found.append(
                History(
                    source=source,
                    end=ends[at],
                    destination={row.offset: int(row.value or b"") for row in committed[there]},
                    undecided={offset: identity for offset, identity in rows if offset >= stable[there]},
                    destination_end=stable[there],
                )
            )
        return found


def plant(rig: Rig, pair: TopicPair) -> None:
    """Everything of `PLANTED`, a partition each."""
    rig.source.create(pair.source, pair.partitions, config=KEPT)
    rig.destination.create(pair.destination, pair.partitions, config=KEPT)
    for side, topic in ((rig.source, pair.source), (rig.destination, pair.destination)):
        producer = side.producer(enable_idempotence=True)
        for partition, planted in enumerate(PLANTED.values()):
            for record in planted.source if side is rig.source else planted.copy:
                producer.produce(topic, partition=partition, **record.message())
        assert producer.flush(30) == 0


def leave_open(rig: Rig, pair: TopicPair, writer: Writer) -> None:
    """r0..r99, an open transaction at 100, r100..r199; copied as readers of uncommitted records do, r90..r99 twice."""
    (at,) = rig.source.create(pair.source, config=KEPT)
    (there,) = rig.destination.create(pair.destination, config=KEPT)
    every = [n << 32 for n in range(201)]
    writer.write([(at, None, every[:100])])
    writer.write([(at, Fate.OPEN, every[100:101])])
    writer.write([(at, None, every[101:])])
    producer = rig.destination.producer(enable_idempotence=True)
    send(producer, there, [*every, *every[90:100]])
    assert producer.flush(30) == 0


@dataclass(frozen=True)
class Found:
    result: dict[str, Any]
    runs: list[dict[str, Any]]
    histories: list[History]

    def partitions(self, pair: TopicPair) -> list[dict[str, Any]]:
        return [each for each in self.result["partitions"] if each["source_topic"] == pair.source]

    def positions(self, pair: TopicPair, partition: int) -> list[dict[str, Any]]:
        found = self.result["positions"]
        return [each for each in found if (each["topic"], each["partition"]) == (pair.source, partition)]


@pytest.fixture(scope="module")
def found(
    spark: SparkSession,
    sides: tuple[RigCluster, RigCluster],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Found]:
    rig, folder = Rig(*sides), tmp_path_factory.mktemp("histories")
    world = World(rig, RANDOM)
    plant(rig, KNOWN)
    leave_open(rig, BEYOND, world.ours)
    world.begin()
    changed: list[str] = []

    def report(stage: str) -> None:
        if stage.startswith("ends of the source"):
            world.change()
            changed.append(stage)

    asked = [PositionRequest(RANDOM.source, p, o) for p in range(RANDOM.partitions) for o in range(-1, 60)]
    asked += [PositionRequest(BEYOND.source, 0, offset) for offset in (50, 95, 100, 150, 201, 99_999)]
    job = ReconciliationJob(
        run="r",
        source=rig.source.cluster.endpoint(),
        destination=rig.destination.cluster.endpoint(),
        pairs=(RANDOM, KNOWN, BEYOND),
        positions=tuple(asked),
    )
    try:
        result = reconcile(spark, job, folder, report, IN_A_BUCKET)
        assert len(changed) == 1
        yield Found(result, pq.read_table(folder / "runs.parquet").to_pylist(), world.histories())
    finally:
        world.ours.close()
        world.theirs.close()


def test_nothing_that_a_job_tells_of_random_logs_is_untrue(found: Found) -> None:
    """No position leaves a record out, exact ones are, every count and every run is true; nothing is just unknown."""
    assert len(found.histories) >= 200
    wrong, judged = [], 0
    rows = defaultdict[int, list[dict[str, Any]]](list)
    for row in found.runs:
        if row["source_topic"] == RANDOM.source:
            rows[row["partition"]].append(row)
    for each, history in zip(found.partitions(RANDOM), found.histories, strict=True):
        number = each["partition"]
        if each["reason"]:
            assert not history.pairs(), each
            continue
        judged += 1
        positions = [_translated(answer) for answer in found.positions(RANDOM, number)]
        runs, extras = (
            list(_runs(rows[number], kinds)) for kinds in ({"paired", "moved", "lost"}, {"repeated", "foreign"})
        )
        counts = Counts(*(each[name] for name in Counts.__slots__))
        told = Told(merge(runs, history.last_stable), merge_extras(extras), positions, counts)
        wrong += [(number, fault) for fault in faults(history, told)]
    assert not wrong, wrong[:5]
    assert judged >= 190


def _translated(answer: Mapping[str, Any]) -> Translated:
    return Translated(
        answer["source_offset"],
        answer["destination_offset"],
        Standing(answer["standing"] or Standing.NOTHING_IN_COMMON),
        exact=answer["precision"] == Precision.EXACT,
        again=answer["again"] or 0,
    )


def _runs(rows: Iterable[Mapping[str, Any]], kinds: set[str]) -> Iterator[Runs]:
    for row in rows:
        if row["kind"] in kinds:
            places = (NOWHERE if row[name] is None else row[name] for name in ("source_offset", "destination_offset"))
            yield Runs(*(np.array([each], np.int64) for each in (*places, row["offsets"], row["records"])))


def test_each_planted_difference_is_told_by_its_name(found: Found) -> None:
    """By the counts, and in the file by its kind."""
    names = ("copied", "moved", "lost", "behind", "repeated", "foreign")
    for each, (name, planted) in zip(found.partitions(KNOWN), PLANTED.items(), strict=True):
        assert {count: each[count] for count in names if each[count]} == planted.counts, name
        kinds: dict[str, int] = defaultdict(int)
        for row in found.runs:
            if (row["source_topic"], row["partition"]) == (KNOWN.source, each["partition"]):
                kinds[row["kind"]] += row["records"]
        expected = {kind: planted.counts.get(kind, 0) for kind in ("moved", "lost", "repeated", "foreign")}
        expected["paired"] = each["copied"] - each["moved"]
        assert dict(kinds) == {kind: count for kind, count in expected.items() if count}, name


def test_a_position_before_an_open_transaction_loses_no_record_that_was_copied_beyond_it(found: Found) -> None:
    """Exact once, when the source's last stable offset counted as its end: r100..r199 would have been left out."""
    answers = [(e["destination_offset"], e["precision"], e["again"]) for e in found.positions(BEYOND, 0)]
    assert answers == [
        (50, "exact", 0),
        (100, "conservative", 5),
        (100, "conservative", 10),
        (150, "conservative", 10),
        (211, "exact", 0),
        (None, "unknown", None),
    ]
    (partition,) = found.partitions(BEYOND)
    assert {name: partition[name] for name in ("copied", "lost", "repeated", "foreign")} == {
        "copied": 100,
        "lost": 0,
        "repeated": 10,
        "foreign": 101,
    }
