"""Records what a real MirrorMaker 2 writes, for tests without one: `python -m tests.mm2.record FOLDER [SCENARIO ...]`.

Two brokers and MM2 4.3.1 (DefaultReplicationPolicy) copy a plain, a transactional and a compacted topic while they are
written. MM2 lags, is killed with SIGKILL twice and started again, and groups commit at several distances. Each scenario
becomes one file: every record of MM2's own topics as bytes, and the truth, from both logs by their values, which are
unique: where each source record was copied to, as often as it was.
"""

from __future__ import annotations

import gzip
import itertools
import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from bench import mm2_run
from bench.load import Load
from bench.pair import DESTINATION, SOURCE, Pair, create_topic
from tanist.domain.names import MirrorPartition
from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.jars import KAFKA_VERSION
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.fetcher.logs import Row, read
from tests.kafka.fetcher.rig import RigCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from tanist_testkit.sandbox.processes import Process

PLAIN, TRANSACTIONAL, COMPACTED = "orders", "payments", "prices"
TOPICS: Final = (PLAIN, TRANSACTIONAL, COMPACTED)
HEAP_MB: Final = 384
WAVE_SECONDS: Final = 0.7
EACH: Final = {PLAIN: 220, TRANSACTIONAL: 120, COMPACTED: 90}
"""Records of one wave."""
KEYS: Final = 150
"""Of the compacted topic."""
FLUSH_SECONDS: Final = 6
"""How often MM2 commits how far it has copied (offset.flush.interval.ms)."""
LIVES: Final = (9, 3)
"""So many seconds after it has begun to copy it is killed."""
LAGS: Final = (0, 1, 25, 150, 700, 3_000)
"""A group for each: it commits so many records behind the end, every third wave."""
_DONE_SECONDS: Final = 120.0
_FLOW: Final[Mapping[str, Any]] = {
    "emit.heartbeats.enabled": "true",
    "heartbeats.replication.enabled": "true",
    "emit.heartbeats.interval.seconds": 5,
    "emit.checkpoints.interval.seconds": 1,
    "refresh.groups.interval.seconds": 1,
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": 1,
    "tasks.max": 1,
    f"{DESTINATION}.offset.flush.interval.ms": FLUSH_SECONDS * 1000,
    f"{SOURCE}.consumer.max.poll.records": 100,
    f"{SOURCE}.consumer.fetch.min.bytes": 1,
}
_BROKER: Final = {"log.cleaner.backoff.ms": "500", "log.retention.ms": "-1"}
_QUICKLY_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "4000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`on`: the cluster of the offset-syncs; `compacted`: they are cleaned while MM2 writes them."""

    name: str
    on: str = SOURCE
    compacted: bool = False

    @property
    def syncs(self) -> str:
        """The topic of offset-syncs: it is named after the other cluster."""
        return f"mm2-offset-syncs.{DESTINATION if self.on == SOURCE else SOURCE}.internal"


SCENARIOS: Final = {
    each.name: each
    for each in (Scenario(name="at-source"), Scenario(name="at-destination", on=DESTINATION, compacted=True))
}


@dataclass
class Stage:
    """Both clusters. `numbers`: how many records were written to each topic."""

    source: RigCluster
    destination: RigCluster
    pair: Pair
    scenario: Scenario
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOPICS, 0))

    def start(self) -> Process:
        load = Load(topic=",".join(TOPICS), size=0, records=0, target=0)
        location = "source" if self.scenario.on == SOURCE else "target"
        more = {**_FLOW, "offset-syncs.topic.location": location}
        return mm2_run.start(self.pair, load, more=more, heap_mb=512)

    def waves(self, number_of: int) -> None:
        """So many records more, evenly; groups commit now and then."""
        for number in range(number_of):
            self._wave(number, 1.0)
            if number % 3 == 0:
                self.commit()
            self.pair.clock.wait(WAVE_SECONDS)

    def meanwhile(self, true: Callable[[], bool]) -> None:
        """Few records more, until `true`."""
        by = self.pair.clock.deadline(_DONE_SECONDS)
        for number in itertools.count():
            if true():
                break
            assert by.left(self.pair.clock.monotonic()), self.numbers
            if number % 2 == 0 and true.__name__ != "copied":
                self._wave(number, 0.1)
            self.pair.clock.wait(WAVE_SECONDS)
        print(self.numbers, self.destination_ends(), flush=True)  # noqa: T201

    def destination_ends(self) -> int:
        """All records of all copies."""
        return sum(self.destination.end(_copy(topic)) for topic in TOPICS if self._has_copy(topic))

    def _has_copy(self, topic: str) -> bool:
        return _copy(topic).topic in self.destination.admin.list_topics(timeout=20).topics

    def _wave(self, number: int, share: float) -> None:
        """Some records more of each topic; every fifth transaction is aborted."""
        self.source.produce(_first(PLAIN), self._values(PLAIN, round(EACH[PLAIN] * share)))
        for part in range(3):
            values = self._values(TRANSACTIONAL, round(EACH[TRANSACTIONAL] * share) // 3)
            self.source.transaction(_first(TRANSACTIONAL), values, commit=(3 * number + part) % 5 != 0)
        writer = self.source.producer()
        for value in self._values(COMPACTED, round(EACH[COMPACTED] * share)):
            writer.produce(COMPACTED, value, b"%d" % (crc32(value) % KEYS), partition=0)
        assert writer.flush(20) == 0

    def _values(self, topic: str, more: int) -> list[bytes]:
        begin = self.numbers[topic]
        self.numbers[topic] += more
        return [b"%d" % number for number in range(begin, begin + more)]

    def commit(self) -> None:
        """Each group commits at its distance from the end of each topic."""
        ends = {topic: self.source.end(_first(topic)) for topic in TOPICS}
        for lag in LAGS:
            places = [TopicPartition(topic, 0, max(0, end - lag)) for topic, end in ends.items()]
            asked = ConsumerGroupTopicPartitions(f"lag-{lag}", places)
            for future in self.source.admin.alter_consumer_group_offsets([asked]).values():
                future.result(20)

    def copied(self) -> bool:
        """Whether the copy has the last record of each topic."""
        last = {topic: b"%d" % (number - 1) for topic, number in self.numbers.items()}
        rows = read(self.destination.servers, map(_copy, TOPICS), "read_committed")
        return all(last[topic] in {row.value for row in rows[_copy(topic)]} for topic in TOPICS)


def record(scenario: Scenario, folder: Path) -> Path:
    """Play `scenario` on clusters of its own; the file that was written.

    Raises:
        TanistError, KafkaException: a cluster or MM2 could not be run. AssertionError: MM2 did not copy everything.
    """
    with ExitStack() as stack:
        guardian = stack.enter_context(Guardian())
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tanist-mm2-", ignore_cleanup_errors=True)))
        guardian.remove_at_end(home)
        specs = (ClusterSpec(name=name, heap_mb=HEAP_MB, properties=_BROKER) for name in (SOURCE, DESTINATION))
        both = [SandboxCluster.new(spec, home / spec.name, guardian=guardian) for spec in specs]
        for cluster in both:
            stack.callback(cluster.close)
            cluster.launch()
        for cluster in both:
            cluster.start()
        sides = [RigCluster(cluster) for cluster in both]
        for each in sides:
            stack.callback(each.close)
        stage = Stage(sides[0], sides[1], Pair(both[0], both[1], home, guardian, SystemClock()), scenario)
        for topic in TOPICS:
            config = _QUICKLY_COMPACTED if topic == COMPACTED else {}
            create_topic(both[0], topic, 1, config, stage.pair.clock)
        if scenario.compacted:
            where = both[0] if scenario.on == SOURCE else both[1]
            create_topic(where, scenario.syncs, 1, _QUICKLY_COMPACTED, stage.pair.clock)
        _play(stage)
        return _write(stage, folder)


def _play(stage: Stage) -> None:
    """MM2 lags from the beginning. It is killed once behind a commit of its own position, and once before one."""
    stage.waves(8)
    for seconds in LIVES:
        running = stage.start()
        before = stage.destination_ends()
        stage.meanwhile(lambda: stage.destination_ends() > before)  # noqa: B023  # it is called at once
        stage.waves(round(seconds / WAVE_SECONDS))
        running.send(signal.SIGKILL)
        stage.waves(3)
    running = stage.start()
    stage.meanwhile(stage.copied)
    stage.waves(12)
    stage.meanwhile(stage.copied)
    stage.source.settle([_first(TRANSACTIONAL)])
    stage.commit()
    stage.pair.clock.wait(FLUSH_SECONDS + 4)  # its last offset-syncs, and then checkpoints of them
    stage.pair.end(running)


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────────────────────


def _write(stage: Stage, folder: Path) -> Path:
    on = stage.source if stage.scenario.on == SOURCE else stage.destination
    checkpoints, heartbeats = f"{SOURCE}.checkpoints.internal", "heartbeats"
    found = {
        "kafka": KAFKA_VERSION,
        "aliases": {"source": SOURCE, "destination": DESTINATION},
        "syncs_at": "source" if stage.scenario.on == SOURCE else "destination",
        "topics": {
            stage.scenario.syncs: _raw(on, stage.scenario.syncs),
            checkpoints: _raw(stage.destination, checkpoints),
            heartbeats: _raw(stage.destination, heartbeats),
        },
        "truth": {topic: _truth(stage, topic) for topic in TOPICS},
        "committed": {
            name: {f"lag-{lag}": _committed(side.admin, f"lag-{lag}") for lag in LAGS}
            for name, side in (("source", stage.source), ("destination", stage.destination))
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{stage.scenario.name}.json.gz"
    text = json.dumps(found, separators=(",", ":")).encode()
    file.write_bytes(gzip.compress(text, 9, mtime=0))
    print(file, file.stat().st_size, "bytes")  # noqa: T201
    return file


def _raw(side: RigCluster, topic: str) -> dict[str, Any]:
    """The topic as it is: where it ends, and of each record the offset, the time, and key and value in hexadecimal."""
    at = MirrorPartition(topic, 0)
    rows = read(side.servers, [at], "read_committed")[at]
    return {
        "end": side.end(at),
        "records": [[row.offset, row.time[1], _hex(row.key), _hex(row.value)] for row in rows],
    }


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _truth(stage: Stage, topic: str) -> dict[str, Any]:
    """`source`: runs of source offsets that have a record, aborted ones too; `visible`: without those.

    `copies`: runs (source offset, destination offset, length), in the order of the copy. A compacted source has lost
    some of its records since: their numbers tell where they were.
    """
    first, copy = _first(topic), _copy(topic)
    all_rows = read(stage.source.servers, [first], "read_uncommitted")[first]
    visible = read(stage.source.servers, [first], "read_committed")[first]
    copies = read(stage.destination.servers, [copy], "read_uncommitted")[copy]
    offsets = _offsets(topic, all_rows)
    pairs = [(offsets[row.value or b""], row.offset) for row in copies]
    return {
        "end": stage.source.end(first),
        "copy_end": stage.destination.end(copy),
        "source": _runs([(row.offset, row.offset) for row in all_rows]),
        "visible": _runs([(row.offset, row.offset) for row in visible]),
        "copies": _runs(pairs),
    }


def _offsets(topic: str, rows: Sequence[Row]) -> dict[bytes, int]:
    """By value: its source offset. Without transactions a value is the number of its record, which is its offset."""
    if topic != TRANSACTIONAL:
        assert all(row.value == b"%d" % row.offset for row in rows)
        return {b"%d" % number: number for number in range(rows[-1].offset + 1)}
    return {row.value or b"": row.offset for row in rows}


def _runs(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    runs: list[list[int]] = []
    for here, there in pairs:
        if runs and (here, there) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1][2] += 1
        else:
            runs.append([here, there, 1])
    return runs


def _committed(admin: AdminClient, group: str) -> dict[str, int]:
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {at.topic: at.offset for at in future.result(20).topic_partitions or ()}


def _first(topic: str) -> MirrorPartition:
    return MirrorPartition(topic, 0)


def _copy(topic: str) -> MirrorPartition:
    return MirrorPartition(mm2_run.copy_of(topic), 0)


if __name__ == "__main__":
    for wanted in sys.argv[2:] or SCENARIOS:
        record(SCENARIOS[wanted], Path(sys.argv[1]))
