"""The bytes of a real MirrorMaker 2 4.3.1 that lagged, was killed and started again, held against both logs.

`tests/mm2/record.py` has made the files, and says what was played.
"""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.mirrormaker import folding
from tanist.domain.mirrormaker.history import Mm2Partition, kept, lives
from tanist.domain.mirrormaker.sync_store import NoAnswer, OffsetSyncStore
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, SourcePartition, TopicNames
from tanist.domain.records import MirrorSpec
from tanist.domain.translation import Exact, Unknown
from tanist.domain.translators.by_mm2 import translate
from tanist.kafka.protocol.mirrormaker import heartbeat
from tanist.usecases.command import CommandContext
from tanist.usecases.groups.mm2 import Mm2Setting, read_mm2
from tanist.usecases.mirror import OpenMirror
from tests.builders import a_mirror
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster, nowhere, pair_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tanist.domain.mirrormaker.records import OffsetSync

FILES = sorted((Path(__file__).parents[2] / "mm2" / "recorded").glob("*.json.gz"))
TOPICS = ("orders", "payments", "prices")


class DefaultNames(TopicNames):
    """As DefaultReplicationPolicy names copies."""

    def at_source(self, partition: MirrorPartition) -> SourcePartition:
        return SourcePartition(partition.topic.removeprefix("source."), partition.partition)

    def mirrored(self, partition: SourcePartition) -> MirrorPartition:
        return MirrorPartition(f"source.{partition.topic}", partition.partition)


@dataclass(frozen=True)
class Truth:
    """`copies`: offsets there and here. `visible`: source offsets that readers of committed records see."""

    end: int
    copy_end: int
    copies: tuple[tuple[int, int], ...]
    visible: frozenset[int]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Truth:
        copies = tuple((there + n, here + n) for here, there, count in found["copies"] for n in range(count))
        visible = frozenset(here + n for here, _, count in found["visible"] for n in range(count))
        return cls(found["end"], found["copy_end"], copies, visible)

    def until(self, end: int) -> Truth:
        """As it was when the copy ended there."""
        return Truth(self.end, end, tuple(each for each in self.copies if each[0] < end), self.visible)

    @cached_property
    def lowest(self) -> tuple[list[int], list[int]]:
        """Source offsets, ascending, and for each the highest offset from which all records from it on are read."""
        last = {here: there for there, here in self.copies if here in self.visible}
        offsets = sorted(last)
        bounds, lowest = [0] * len(offsets), self.copy_end
        for index in range(len(offsets) - 1, -1, -1):
            lowest = min(lowest, last[offsets[index]])
            bounds[index] = lowest
        return offsets, bounds

    def most(self, position: int) -> int:
        """The highest destination offset that skips nothing for `position`."""
        offsets, bounds = self.lowest
        index = bisect_left(offsets, position)
        return bounds[index] if index < len(bounds) else self.copy_end

    def again(self, position: int, offset: int) -> int:
        """How many records a group at `position` has read already and reads again from `offset` on."""
        return sum(1 for there, here in self.copies if there >= offset and here < position and here in self.visible)


class Recorded:
    """One file, behind the ports of two clusters in memory."""

    def __init__(self, file: Path) -> None:
        self.found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
        self.truth = {topic: Truth.of(each) for topic, each in self.found["truth"].items()}
        self.east, self.west = MemoryCluster("source"), MemoryCluster("destination")
        for topic, truth in self.truth.items():
            self.east.with_topic(topic, end=truth.end)
            self.west.with_topic(f"source.{topic}", end=truth.copy_end)
        self.cleaned = self.found["syncs_at"] == "destination"
        """Whether its topic of offset-syncs was compacted while it was written."""
        for topic in self.found["topics"]:
            where = self.east if topic.startswith("mm2-") and self.found["syncs_at"] == "source" else self.west
            where.with_topic(topic, cleanup_policy="compact").raw_records[topic] = list(self.raw(topic))

    def raw(self, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
        for _, _, key, value in self.found["topics"][topic]["records"]:
            yield (
                None if key is None else bytes.fromhex(key),
                None if value is None else bytes.fromhex(value),
            )

    def read(self) -> Mapping[str, Mm2Partition]:
        """By topic of the source."""
        clock = JumpingClock()
        spec = a_mirror(source="source", destination="destination")
        sides = {"source": self.east.side(), "destination": self.west.side()}
        mirror = OpenMirror(spec=spec, **sides, pair=pair_with(proofs=Nothing()), from_source=nowhere)
        wanted = [MirrorPartition(f"source.{topic}", 0) for topic in TOPICS]
        context = CommandContext(clock=clock, by=clock.deadline(60))
        return {
            at.topic.removeprefix("source."): each
            for at, each in read_mm2(mirror, wanted, context, Mm2Setting()).items()
        }


class Nothing:
    """The port `Proofs`: nothing can be compared."""

    def compare(self, pairs: Iterable[object], by: object) -> Mapping[object, object]:
        return {}


@pytest.fixture(params=FILES, ids=lambda file: file.name.partition(".")[0])
def recorded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr(MirrorSpec, "names", property(lambda _: DefaultNames()))
    return Recorded(request.param)


def span(end: int) -> Span[DestinationOffset]:
    return Span(DestinationOffset(0), DestinationOffset(end))


def test_every_record_of_a_real_one_is_decoded_and_it_was_killed_and_started_again(recorded: Recorded) -> None:
    known = recorded.read()
    for topic, each in known.items():
        assert each.syncs, (topic, each.missing)
        assert 5 <= len(each.checkpoints) <= 6, "groups"
        assert not any("skipped" in note for note in each.notes)
        assert any("last heartbeat" in note for note in each.notes)
    for truth in recorded.truth.values():
        seen = {here for _, here in truth.copies}
        assert len(seen) < len(truth.copies) or truth.copies[0][1] > 0, "MM2 has copied again what it had copied"
    rewinds = [note for each in known.values() for note in each.notes if "go backwards" in note]
    assert bool(rewinds) is not recorded.cleaned, "the cleaner removes what tells of it, too"
    beats = folding.heartbeats(heartbeat(*each) for each in recorded.raw("heartbeats"))
    assert set(beats.found) == {("source", "destination")}


def test_no_position_skips_a_record_and_no_answer_falls(recorded: Recorded) -> None:
    for topic, known in recorded.read().items():
        truth, highest, unknown = recorded.truth[topic], 0, 0
        for position in range(truth.end + 3):
            found = translate(SourceOffset(position), known, span(truth.copy_end))
            if isinstance(found, Unknown):
                unknown += 1
                continue
            assert highest <= found.offset <= truth.most(position), (topic, position, found)
            highest = found.offset
            if isinstance(found, Exact):
                assert truth.again(position, found.offset) == 0, (topic, position)
        assert unknown <= known.syncs[0].upstream
        assert (len(known.syncs) == 2) is recorded.cleaned, "the newest of the cleaned segments, and the last segment"


def test_nor_at_any_time_while_it_was_copying(recorded: Recorded) -> None:
    """As if MM2 had died for good after each of its offset-syncs: also while it copied again what it had copied."""
    for topic, known in recorded.read().items():
        for number in range(1, len(known.written), 5):
            syncs = known.written[:number]
            truth = recorded.truth[topic].until(syncs[-1].downstream + 1)
            then = kept(syncs, span(truth.copy_end))
            farthest = max(each.upstream for each in syncs)
            for position in range(0, farthest + 200, 37):
                found = translate(SourceOffset(position), then, span(truth.copy_end))
                if not isinstance(found, Unknown):
                    assert found.offset <= truth.most(position), (topic, number, position, found)


def test_we_are_never_behind_mirrormaker_where_it_skips_nothing(recorded: Recorded) -> None:
    for topic, known in recorded.read().items():
        truth, store, better = recorded.truth[topic], OffsetSyncStore.replayed(known.written), 0
        for position in range(0, truth.end + 3, 3):
            theirs = store.translate(SourcePartition(topic, 0), SourceOffset(position))
            ours = translate(SourceOffset(position), known, span(truth.copy_end))
            if isinstance(theirs, NoAnswer):
                continue
            assert theirs <= truth.most(position), "MM2 has caught up, so it is right, too"
            assert not isinstance(ours, Unknown)
            assert ours.offset >= theirs, (topic, position)
            better += ours.offset > theirs
        assert better > truth.end // 12 or recorded.cleaned, topic


def test_a_replay_of_its_store_is_what_the_running_one_has_written(recorded: Recorded) -> None:
    """Of groups near the end. Farther behind, the running store had syncs that it or the cleaner has removed since."""
    same = different = 0
    for topic, known in recorded.read().items():
        store = OffsetSyncStore.replayed(known.written)
        for checkpoint in known.checkpoints.values():
            replayed = store.translate(SourcePartition(topic, 0), checkpoint.upstream)
            if replayed == checkpoint.downstream:
                same += 1
            else:
                different += 1
                assert isinstance(replayed, NoAnswer) or replayed < checkpoint.downstream
    assert (same, different) == ((9, 8) if recorded.cleaned else (17, 1))


def test_how_many_records_are_read_again_by_its_answer_and_by_ours(recorded: Recorded) -> None:
    """What MM2 has committed at the destination (`sync.group.offsets.enabled`), beside our translation of the same.

    From a topic that was compacted all the time only positions near the end can be translated: MM2 has their
    checkpoints from the time when it still had the syncs. They are what MM2 answers, not evidence.
    """
    theirs = ours = unknown = 0
    for topic, known in recorded.read().items():
        truth = recorded.truth[topic]
        for group, positions in recorded.found["committed"]["source"].items():
            committed = recorded.found["committed"]["destination"][group].get(f"source.{topic}", 0)
            found = translate(SourceOffset(positions[topic]), known, span(truth.copy_end))
            if isinstance(found, Unknown):
                unknown += 1
                continue
            assert committed <= found.offset, (topic, group)
            theirs += truth.again(positions[topic], committed)
            ours += truth.again(positions[topic], found.offset)
    assert (theirs, ours, unknown) == ((69, 69, 9) if recorded.cleaned else (4_087, 365, 0))


def test_the_lives_of_the_task_are_told_apart_by_its_syncs(recorded: Recorded) -> None:
    """Where a record was copied twice, there is a new life; nowhere else."""
    for topic, known in recorded.read().items():
        found = lives(known.written)
        truth = recorded.truth[topic]
        assert found.resets == 0
        begins: list[OffsetSync] = [life[0] for life in found.all[1:]]
        for begin in begins:
            before = [here for there, here in truth.copies if there < begin.downstream]
            assert before
            assert max(before) >= begin.upstream, (topic, begin)
