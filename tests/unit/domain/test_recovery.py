"""Where a copy goes on: thousands of lives of one partition, and the single cases that were once wrong.

The model (mirror_model.py) has its own rules of brokers; what its workers do is decided by the product's own code.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from tanist.domain import recovery
from tanist.domain.errors import Diverged, ForeignWrite
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.recovery import LogStartGap, NotCommittedYet, ResumePoint, SourceBehind, recover_position
from tests.unit.domain.copy_broker import FOREIGN, WRITERS, Copied
from tests.unit.domain.mirror_model import ModelClusters, ModelLogReader
from tests.unit.domain.source_logs import SourceLog, Stored, write_log
from tests.unit.domain.storms import Weather, history, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.copying import Step
    from tanist.domain.log_ends import CopyEnds
    from tanist.domain.writer_identity import ProducerIds

# ── every life ends with every record once ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("weather", "seeds"),
    [
        (Weather(surplus=False), 500),
        (Weather(), 1200),
        (Weather(copy_retention=True), 500),
        (Weather(forgetful=True), 300),
        (Weather(merging=True), 500),
        (Weather(merging=True, copy_retention=True, forgetful=True), 300),
    ],
    ids=["kills", "surplus", "copy retention", "id forgotten", "merged", "merged, forgotten"],
)
@pytest.mark.parametrize("first_look", [64, 3])
def test_a_copy_that_was_killed_anywhere_holds_every_record_once_where_the_map_says(
    weather: Weather, seeds: int, first_look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills, zombies, late and lost requests, slow followers, lost leaders, markers out of nowhere: nothing shows."""
    monkeypatch.setattr(recovery, "FIRST_LOOK", first_look)
    bad = {seed: end for seed in range(seeds // 2) if (end := history(seed + seeds * first_look, weather)) != "exact"}
    assert not bad


@pytest.mark.parametrize("merging", [False, True])
@pytest.mark.parametrize("overtakes", [False, True])
def test_retention_of_the_source_may_stop_a_copy_aloud_but_never_loses_a_record_that_is_there(
    overtakes: bool, merging: bool
) -> None:
    """It can take the only record that tells a shift: then the partition fails, by name. Seldom."""
    weather = Weather(source_retention=True, overtakes=overtakes, copy_retention=True, merging=merging)
    ends = Counter(history(seed, weather) for seed in range(500))
    assert set(ends) <= {"exact", "DIVERGED", "SOURCE_BEHIND"}
    assert ends["exact"] >= 495


@pytest.mark.parametrize("first_look", [64, 3])
def test_a_foreign_record_never_stays_in_silence(first_look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it lands, even in the place of a filler, the mirror ends with its name (unless its leader lost it)."""
    monkeypatch.setattr(recovery, "FIRST_LOOK", first_look)
    ends = Counter(history(seed, Weather(foreign=True)) for seed in range(500))
    assert set(ends) <= {"FOREIGN_WRITE", "exact"}, "the judge would have named a foreign record in an exact copy"
    assert ends["FOREIGN_WRITE"] > 480


def one_life(killed_after: int, fate: str, late_by: int) -> tuple[str, bool]:
    """One kill; what was on its way is lost, lands before the next owner comes, or `late_by` moments after that."""
    rng = Random(3)
    batches = write_log(rng, 14, longest=3, hanging=False)
    world = ModelClusters(rng, SourceLog(batches, known=len(batches)))
    first, moment = world.hire().run(), 0
    while moment < killed_after:
        next(first)
        moment += 1
        if moment < killed_after:
            world.settle()
            moment += 1
    first.close()
    waiting, world.in_flight = tuple(world.in_flight), []
    if fate == "lands":
        world.in_flight = list(waiting)
        world.settle()
    second = world.hire()
    life = second.run()
    for n in range(400):
        next(life, None)
        if fate == "late" and n == late_by:
            for request in waiting:
                request.lands()
        world.settle()
        if world.failure or second.idle > 1:
            return judge(world), bool(waiting)
    return "stuck", True


def test_a_kill_at_every_single_moment_is_survived() -> None:
    """Before and after each append, filler and run; the request in flight lost, landed, or late by any time."""
    ends: dict[tuple[int, str, int], str] = {}
    for killed_after in range(1, 110):
        ends[killed_after, "lands", 0], on_its_way = one_life(killed_after, "lands", 0)
        for late_by in range(40 if on_its_way else 0):
            ends[killed_after, "late", late_by], _ = one_life(killed_after, "late", late_by)
        ends[killed_after, "lost", 0], _ = one_life(killed_after, "lost", 0)
    assert len(ends) > 600
    assert {life: end for life, end in ends.items() if end != "exact"} == {}


# ── each rule has teeth: without it, a record is lost, repeated or out of place ───────────────────────────────────


class Impatient(ModelLogReader):
    """Breaks: wait until the high watermark is the end."""

    def copy_ends(self) -> CopyEnds:
        ends = super().copy_ends()
        return ends._replace(high_watermark=ends.end)


def from_the_end(
    evidence: ModelLogReader, producer_ids: ProducerIds, suspect: DestinationOffset | None = None
) -> ResumePoint:
    """Breaks: the position follows the last data batch, not the end."""
    found = recover_position(evidence, producer_ids, suspect)
    return replace(found, position=evidence.clusters.offset_map().origin(found.end))


def as_described(
    evidence: ModelLogReader, producer_ids: ProducerIds, suspect: DestinationOffset | None = None
) -> ResumePoint:
    """Breaks: the sequence follows the log, not what the broker says of the producer."""
    return replace(recover_position(evidence, producer_ids, suspect), sequence=evidence.next_sequence() or 0)


@pytest.mark.parametrize(
    ("rule", "broken", "weather"),
    [
        ("", None, Weather(evidence=Impatient)),
        ("recover_position", from_the_end, Weather()),
        ("recover_position", as_described, Weather()),
        ("_verified", lambda *_: True, Weather()),
        ("_must_be_ours", lambda *_: None, Weather(foreign=True)),
    ],
    ids=["high watermark is the end", "last data, not the end", "sequence from the log", "verified", "foreign"],
)
def test_a_recovery_without_this_rule_is_found_out(
    rule: str, broken: Callable[..., object] | None, weather: Weather, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some life within a few hundred ends with a record lost, repeated, out of place, or foreign."""
    if broken:
        monkeypatch.setattr(recovery, rule, broken)
    assert any(
        history(seed, weather).split()[0] in {"lost", "repeated", "mistranslated", "foreign"} for seed in range(300)
    )


@dataclass(slots=True)
class ARunIsWritten(ModelLogReader):
    """While this recovery reads, an older worker writes a run ahead and appends its record; all records are equal."""

    map_first: bool = False
    early: OffsetMap | None = None

    def copy_ends(self) -> CopyEnds:
        if self.map_first and self.early is None:
            self.early = self.clusters.offset_map()
        if not self.clusters.runs:
            self.clusters.runs.append(OffsetRange(SourceOffset(2), DestinationOffset(3)))
            self.clusters.copy.produce(WRITERS.data, 2, (2,))
            self.clusters.settle()
        return ModelLogReader.copy_ends(self)

    def offset_map(self) -> OffsetMap:
        return self.early or ModelLogReader.offset_map(self)

    def same(self, copied: tuple[int, ...], originals: Sequence[tuple[int, ...]], skipped: int) -> bool:
        return len(copied) - skipped >= sum(map(len, originals))


@pytest.mark.parametrize(("map_first", "position"), [(False, 3), (True, 4)])
def test_a_map_that_is_read_before_the_log_would_skip_a_record(map_first: bool, position: int) -> None:
    """A run is written ahead of its record, so a map read after the log knows of every record that was seen there."""
    world = a_world(6, [(0,), (1,), None])
    assert recover_position(ARunIsWritten(world, map_first=map_first), WRITERS).position == position


# ── single cases, each named after what went wrong ────────────────────────────────────────────────────────────────


def a_world(source: int | list[Stored], copy: Sequence[tuple[int, ...] | None]) -> ModelClusters:
    """A source of single records (or of `source`), a copy of data batches and, where None, filler markers."""
    batches = [Stored(n, n + 1, (n,)) for n in range(source)] if isinstance(source, int) else source
    world = ModelClusters(Random(0), SourceLog(batches, known=len(batches)))
    sequence = 0
    for records in copy:
        if records is None:
            world.copy.markers(0, [world.copy.end])
        else:
            world.copy.produce(WRITERS.data, sequence, records)
            sequence += len(records)
    world.settle()
    return world


def test_an_untouched_partition_begins_at_its_beginning() -> None:
    """Nothing anywhere: position, end and sequence are 0."""
    assert recover_position(ModelLogReader(a_world(3, [])), WRITERS) == ResumePoint(
        SourceOffset(0), DestinationOffset(0), 0
    )


def test_an_end_that_the_followers_have_not_reached_is_waited_for() -> None:
    """What is not committed yet may go with its leader."""
    world = a_world(3, [(0,)])
    world.copy.produce(WRITERS.data, 1, (1,))
    with pytest.raises(NotCommittedYet, match="high watermark 1 is below the end 2"):
        recover_position(ModelLogReader(world), WRITERS)


@pytest.mark.parametrize("copy", [[(0,), None], [(0,), (1,), None, None, None]])
def test_a_surplus_marker_at_the_end_moves_no_position(copy: list[tuple[int, ...] | None]) -> None:
    """The end alone would skip as many records as there are markers too many."""
    found = recover_position(ModelLogReader(a_world(9, copy)), WRITERS)
    assert found.position == sum(records is not None for records in copy)
    assert found.end == len(copy)


def test_the_map_of_an_earlier_copy_says_nothing_of_one_that_was_made_anew() -> None:
    """Its runs would move records that are where they should be; a log that holds something may have such a map."""
    world = a_world(3, [])
    world.runs.append(OffsetRange(SourceOffset(1), DestinationOffset(2)))
    with pytest.raises(Diverged, match="deleted and re-created"):
        recover_position(ModelLogReader(world), WRITERS)
    assert recover_position(ModelLogReader(a_world(3, [None])), WRITERS).end == 1


@dataclass(slots=True)
class TheMapIsAhead(ModelLogReader):
    """Another worker writes its first records, and a run, between our looks at the empty log and at the map."""

    def offset_map(self) -> OffsetMap:
        self.clusters.copy.markers(0, [0, 1])
        self.clusters.settle()
        self.clusters.runs.append(OffsetRange(SourceOffset(1), DestinationOffset(2)))
        return ModelLogReader.offset_map(self)


def test_a_map_that_is_younger_than_our_look_at_the_empty_copy_is_not_that_of_an_earlier_one() -> None:
    with pytest.raises(NotCommittedYet, match="grew beyond"):
        recover_position(TheMapIsAhead(a_world(3, [])), WRITERS)


@dataclass(slots=True)
class LateFirstAppend(ModelLogReader):
    """A batch of the worker before us lands while the broker is asked for the next sequence."""

    def next_sequence(self) -> int | None:
        self.clusters.copy.produce(WRITERS.data, 0, (5, 6))
        return ModelLogReader.next_sequence(self)


@pytest.mark.parametrize(
    ("producer", "is_control", "ours"),
    [
        (WRITERS.data, False, True),
        (WRITERS.data, True, True),
        (WRITERS.marker, True, True),
        (WRITERS.marker, False, False),
        (WRITERS.start, False, True),
        (WRITERS.start, True, False),
        (FOREIGN, False, False),
        (FOREIGN, True, False),
    ],
)
def test_an_id_of_ours_may_write_nothing_but_its_own_kind(producer: int, is_control: bool, ours: bool) -> None:
    """A record under the id of the fillers would be visible to readers, and nobody of ours writes one."""
    world = a_world(2, [(0,)])
    world.copy.log.append(Copied(1, 2, producer, 1, is_control=is_control, records=() if is_control else (1,)))
    world.copy.high_watermark = 2
    refused = nullcontext() if ours else pytest.raises(ForeignWrite, match=f"producer id {producer}")
    with refused:
        recover_position(ModelLogReader(world), WRITERS)


def test_an_append_that_lands_while_we_look_is_not_counted_into_the_sequence_only() -> None:
    """Its sequence with the position before it made the broker take both: two records twice (4 of 300 storms)."""
    world = a_world([Stored(5, 7, (5, 6))], [])
    assert recover_position(LateFirstAppend(world), WRITERS).sequence == 0, "a log from 0 on needs not ask"
    aligned = a_world([Stored(5, 7, (5, 6))], [])
    aligned.copy.produce(WRITERS.start, 0, (-2,) * 5)
    aligned.settle()
    aligned.trim_copy(5)
    with pytest.raises(NotCommittedYet, match="grew beyond"):
        recover_position(LateFirstAppend(aligned), WRITERS)


def test_a_shifted_last_record_of_a_quiet_source_is_recognised() -> None:
    """Where the map does not know the surplus, it points behind the source's end: that was waited for, for ever."""
    found = recover_position(ModelLogReader(a_world(2, [(0,), None, (1,)])), WRITERS)
    assert (found.position, found.end, found.sequence) == (2, 3, 2)
    assert found.runs == (OffsetRange(SourceOffset(1), DestinationOffset(2)),)


def test_a_source_that_is_behind_its_copy_is_waited_for() -> None:
    """It may be a leader whose high watermark has not come up yet; nothing is copied on a guess."""
    with pytest.raises(SourceBehind):
        recover_position(ModelLogReader(a_world(2, [(0,), (1,), (2,)])), WRITERS)


@dataclass(slots=True)
class BehindAtFirst(ModelLogReader):
    """A leader of the source that shows its last record only when asked again."""

    asked: int = 0

    def source(self, position: SourceOffset) -> Sequence[Step[Copied, tuple[int, ...]]] | None:
        self.asked += 1
        if self.asked == 1:
            raise SourceBehind("not yet")
        return ModelLogReader.source(self, position)


def test_a_batch_that_verifies_at_the_second_look_keeps_its_sequence() -> None:
    """Walking back found nothing to pair, and the sequence began at 0 again."""
    found = recover_position(BehindAtFirst(a_world(3, [(0,), (1,)])), WRITERS)
    assert (found.position, found.sequence) == (2, 2)


def test_a_copy_whose_every_batch_is_shifted_is_paired_from_its_log_start() -> None:
    """Retention took what the map explains; what is left was called divergence though the source holds all of it."""
    world = a_world(12, [*[(n,) for n in range(9)], None, (9,)])
    world.trim_copy(9)
    found = recover_position(ModelLogReader(world), WRITERS)
    assert found.position == 10
    assert found.runs == (OffsetRange(SourceOffset(9), DestinationOffset(10)),)


def test_a_shift_is_found_although_the_source_lost_what_came_before_it() -> None:
    """Pairing went on from an offset that retention had taken, though nothing of the copy lies there."""
    batches = [
        Stored(0, 2, (0, 1)),
        Stored(2, 4, (2, 3), 7, is_transactional=True),
        Stored(4, 5, (4,), 7, marker="abort"),
    ]
    batches += [Stored(5, 7, (5, 6)), Stored(7, 8, (7,))]
    world = a_world(batches, [(0, 1), None, None, None, None, (5, 6)])
    world.trim_source(5)
    found = recover_position(ModelLogReader(world), WRITERS)
    assert (found.position, found.end) == (7, 8)
    assert found.runs == (OffsetRange(SourceOffset(5), DestinationOffset(6)),)


def test_a_map_that_reaches_into_what_the_source_still_has_is_no_witness() -> None:
    """The shifted batch is gone from the source; believing the map would skip the record that follows it."""
    batches = [Stored(0, 3, (0, 1, 2)), Stored(3, 6, (3, 4, 5)), Stored(6, 7, (6,)), Stored(7, 8, (7,))]
    world = a_world(batches, [(0, 1, 2), None, (3, 4, 5)])
    world.trim_source(6)
    with pytest.raises(Diverged):
        recover_position(ModelLogReader(world), WRITERS)


def test_a_batch_that_the_source_lost_in_part_is_where_the_map_says() -> None:
    """DeleteRecords cuts batches wherever it likes (Kafka Streams does all the time); a fetch below that is refused."""
    world = a_world([Stored(0, 4, (0, 1, 2, 3)), Stored(4, 9, (4, 5, 6, 7, 8))], [(0, 1, 2, 3), (4, 5, 6, 7, 8)])
    world.trim_source(6)
    found = recover_position(ModelLogReader(world), WRITERS)
    assert (found.position, found.end, found.sequence, found.start_fill) == (9, 9, 9, None)


def test_a_copy_that_retention_overtook_goes_on_at_the_sources_log_start_with_a_run_of_its_own() -> None:
    """Without it, a run that a zombie writes late for an older record would shift all that is copied from here on."""
    world = a_world(9, [(0,), (1,)])
    world.trim_source(6)
    run = OffsetRange(SourceOffset(6), DestinationOffset(6))
    found = recover_position(ModelLogReader(world), WRITERS)
    assert (found.position, found.end, found.sequence) == (6, 2, 2)
    assert (found.runs, found.start_fill) == ((run,), LogStartGap(SourceOffset(6)))
    late = OffsetMap.of([run, OffsetRange(SourceOffset(1), DestinationOffset(3))])
    assert late.locate(SourceOffset(7)) == DestinationOffset(7)


def test_shifted_data_above_a_log_start_inside_a_batch_is_not_aligned_for_ever() -> None:
    """The log already begins where the source's batch does; it was trimmed there again at every recovery."""
    batches = [Stored(0, 3, (0, 1, 2)), Stored(3, 7, (3, 4, 5, 6))]
    world = a_world(batches, [None, (0, 1, 2)])
    world.runs.append(OffsetRange(SourceOffset(0), DestinationOffset(1)))
    world.trim_source(5)
    world.trim_copy(3)
    found = recover_position(ModelLogReader(world), WRITERS)
    assert (found.position, found.end, found.sequence, found.start_fill) == (3, 4, 3, None)
    assert found.runs == (OffsetRange(SourceOffset(3), DestinationOffset(4)),)


@pytest.mark.parametrize("deleted", [0, 2, 4, 5])
def test_a_merged_batch_is_recognised_by_the_records_that_the_source_still_has(deleted: int) -> None:
    """The source has them in batches of one; its retention may have taken the first of them."""
    world = a_world(9, [(0, 1), (2, 3, 4)])
    world.trim_source(deleted)
    found = recover_position(ModelLogReader(world), WRITERS)
    assert (found.position, found.end, found.sequence, found.runs) == (5, 5, 5, ())


def test_merged_batches_that_were_shifted_are_paired_with_the_small_ones() -> None:
    found = recover_position(ModelLogReader(a_world(6, [(0,), None, (1, 2, 3), (4,)])), WRITERS)
    assert (found.position, found.end, found.sequence) == (5, 6, 5)
    assert found.runs == (OffsetRange(SourceOffset(1), DestinationOffset(2)),)


@pytest.mark.parametrize(
    ("source", "copy"),
    [
        (9, [(0, 1), (2, 8, 4)]),
        (9, [(0, 1), (2, 3, 8)]),
        ([Stored(0, 1, (0,)), Stored(1, 4, (1, 2, 3)), Stored(4, 5, (4,))], [(0,), (1, 2)]),
    ],
    ids=["in the middle", "at the end", "half a batch"],
)
def test_a_merged_batch_with_another_record_than_the_source_has_diverged(
    source: int | list[Stored], copy: list[tuple[int, ...] | None]
) -> None:
    with pytest.raises(Diverged):
        recover_position(ModelLogReader(a_world(source, copy)), WRITERS)


def test_the_time_of_our_last_batch_is_told_by_the_log_and_not_by_what_is_behind_it() -> None:
    """Brokers count from it how long they remember our id."""
    world = a_world(3, [(0,), (1,), None])
    world.copy.log[1:2] = [replace(world.copy.log[1], max_timestamp=77)]
    assert recover_position(ModelLogReader(world), WRITERS).last_timestamp == 77
    assert recover_position(ModelLogReader(a_world(3, [None])), WRITERS).last_timestamp is None


def test_a_new_copy_is_brought_to_the_batch_that_holds_the_sources_log_start() -> None:
    """DeleteRecords may cut a batch; readers of the source see its rest, and the copy takes all of it."""
    batches = [Stored(0, 4, (0, 1, 2, 3)), Stored(4, 9, (4, 5, 6, 7, 8))]
    world = a_world(batches, [])
    world.trim_source(6)
    assert recover_position(ModelLogReader(world), WRITERS) == ResumePoint(
        SourceOffset(4), DestinationOffset(0), 0, start_fill=LogStartGap(SourceOffset(4))
    )


@pytest.mark.parametrize("behind", [1, 100, 1000])
def test_a_foreign_record_under_a_long_tail_is_found_from_the_suspected_offset_on(behind: int) -> None:
    """An append that landed elsewhere than expected is reason enough to look as far back as that."""
    world = a_world(1, [(0,)])
    world.copy.foreign(1)
    world.copy.produce(WRITERS.data, 1, tuple(range(1, behind + 1)))
    world.settle()
    with pytest.raises(ForeignWrite, match="destination offsets 1 to 1 were written by producer id 4000"):
        recover_position(ModelLogReader(world), WRITERS, DestinationOffset(1))


def test_the_model_lets_in_only_what_a_broker_lets_in() -> None:
    """The judge of the judge: repetition, gap, forgetting, fences of markers."""
    copy = a_world(1, [(0,), (1,)]).copy
    assert copy.produce(WRITERS.data, 0, (0,)).base_offset == 0
    assert copy.produce(WRITERS.data, 3, (3,)).code == 45
    assert copy.markers(5, [2, 3]).code == 0
    assert copy.markers(4, [9]).code == 47
    assert copy.markers(6, [2, 3]).until == 5, "equal is accepted, lower is not, and one answer hides the difference"
    copy.forget(WRITERS.data)
    assert copy.produce(WRITERS.data, 0, (0,)).base_offset == 5
