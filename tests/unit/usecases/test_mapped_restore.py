"""A mirror with mapped offsets whose state was lost: its map, and what its logs show of a failover since."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tanist.domain.adoption import MirrorTopicPromoted
from tanist.domain.fake_group import shown, shown_group
from tanist.domain.log_writers import LogWriters, WrittenSpan
from tanist.domain.mapped_runs import records_of
from tanist.domain.offset_map import BEFORE_ALL
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, OffsetMode
from tanist.domain.restored_ranges import RestoredRanges
from tanist.domain.saved_state import SavedState
from tanist.domain.states import DesiredState
from tanist.domain.writer_identity import transactional_id_prefix
from tanist.ports.clock import Deadline
from tanist.ports.fencing import ProducerFence
from tanist.ports.topics import TopicFacts
from tanist.usecases.mirrors.create import CreateRequest
from tanist.usecases.state.found_state import RebuildTools
from tanist.usecases.state.rebuild import rebuild
from tanist.usecases.state.rebuild_mapped import MappedMirrorNotRebuilt, OwnPositions
from tanist.usecases.state.restore import RestoredMirror, RestoreTools, nowhere, restore
from tests.builders import AT, DR, a_command
from tests.unit.usecases.mapped import RUNS, MappedMirror

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tanist.domain.names import MirrorPartition, SourcePartition
    from tanist.domain.offset_map import AnchoredSpan, OffsetRange
    from tanist.domain.writer_identity import WriterIdentity
    from tanist.usecases.state.rebuild import Rebuilt

SOON = Deadline(1e12)
END = 34
"""Where the copied records end, in destination offsets."""


@dataclass
class Logs:
    """The ports `LogInspection` and `ProducerFencing`, as far as a restoration asks them: one log."""

    end: int = END
    last: tuple[WrittenSpan, ...] = ()
    asked: list[WriterIdentity] = field(default_factory=list)

    def writers(self, partitions: Collection[MirrorPartition], by: Deadline) -> dict[MirrorPartition, LogWriters]:
        return dict.fromkeys(partitions, LogWriters(start=0, end=self.end, last=self.last))

    def proof(
        self, writers: Mapping[MirrorPartition, WriterIdentity], by: Deadline
    ) -> dict[MirrorPartition, ProducerFence]:
        self.asked += writers.values()
        return dict.fromkeys(writers, ProducerFence.OPEN)


def a_span(base: int, *, control: bool = False, transactional: bool = True) -> WrittenSpan:
    return WrittenSpan(base, base + 1, 5, 0, control, transactional)


def saved(mirror: MappedMirror) -> SavedState:
    records = {topic: tuple(mirror.west.view(topic).values()) for topic in (STATE_TOPIC, OFFSETS_TOPIC)}
    return SavedState(cluster="west", cluster_id=mirror.west.id, exported_at=mirror.west.clock.now(), records=records)


def lose(mirror: MappedMirror) -> None:
    for topic in (STATE_TOPIC, OFFSETS_TOPIC):
        mirror.west.states.pop(topic, None)
        mirror.west.folded.pop(topic, None)
        mirror.west.topics.pop(topic)


def restored(mirror: MappedMirror, state: SavedState, logs: Logs) -> RestoredMirror:
    """After all state topics were lost."""
    lose(mirror)
    anyone: Any = logs
    side = replace(mirror.destination(), producer_fencing=anyone)
    tools = RestoreTools(
        source_of=lambda _: mirror.east.side(), moved_to=lambda _: mirror.east.side(), inspection=anyone
    )
    (found,) = restore(state, side, tools, a_command(clock=mirror.west.clock))
    return found


def test_what_was_published_of_the_map_is_saved_and_restored() -> None:
    mirror = MappedMirror()
    mirror.copy(published=3)
    found = restored(mirror, saved(mirror), Logs())
    assert (found.waiting(), found.warnings, dict(found.promoted)) == (("orders",), (), {})
    assert (mirror.map_now().runs, mirror.map_now().until, mirror.map_now().unread) == (RUNS, 30, "")


def test_what_was_published_since_the_export_is_missed_and_not_guessed() -> None:
    mirror = MappedMirror()
    mirror.copy(published=2)
    state = saved(mirror)
    mirror.publish(RUNS[1:3])
    mirror.commit(30, mirror.proof(RUNS[3], RUNS[2:]).metadata)
    restored(mirror, state, Logs())
    found = mirror.map_now()
    assert (found.runs, found.until) == (RUNS, 30)
    assert [(each.start, each.until) for each in found.unwalked if each.is_lost] == [(RUNS[1], RUNS[2])]


def test_records_of_others_behind_the_copied_ones_are_a_failover_since_the_export() -> None:
    mirror = MappedMirror()
    mirror.copy()
    logs = Logs(end=END + 3, last=(a_span(END, control=True), a_span(END + 1, transactional=False)))
    found = restored(mirror, saved(mirror), logs)
    assert found.promoted["orders"].why == "orders-0: somebody else wrote at offset 35, behind its copied records"
    assert not found.waiting()
    (entry,) = mirror.state().lineage(DR)
    assert (entry.old_ends, entry.reserve_ends) == ((END,), (END,))
    copied = mirror.state().copied_up_to(DR, "orders")
    assert copied is not None
    assert copied.copied == (-1,), "a destination offset is none of the source's"


def test_who_is_asked_about_is_the_owner_of_a_transactional_id() -> None:
    mirror = MappedMirror()
    mirror.copy()
    logs = Logs()
    restored(mirror, saved(mirror), logs)
    assert [str(getattr(each, "transactional_id", "")).startswith("tanist-dr-m-") for each in logs.asked] == [True]


@pytest.mark.parametrize("last", [(a_span(END, control=True),), (a_span(END), a_span(END + 1, control=True))])
def test_what_may_be_a_fence_or_an_aborted_transaction_is_left_to_a_person(last: tuple[WrittenSpan, ...]) -> None:
    mirror = MappedMirror()
    mirror.copy()
    found = restored(mirror, saved(mirror), Logs(end=END + 2, last=last))
    assert (found.waiting(), dict(found.promoted)) == (("orders",), {})
    (warning,) = found.warnings
    assert "behind 34, where its copied records end, lies an aborted transaction or a failover's fence" in warning


def test_a_mirror_whose_positions_are_lost_too_is_left_to_a_person() -> None:
    mirror = MappedMirror()
    mirror.copy()
    state = saved(mirror)
    mirror.groups.groups.clear()
    (warning,) = restored(mirror, state, Logs()).warnings
    assert "no position of the mirror says how far it was copied" in warning


@pytest.mark.parametrize("end", [END, END + 1])
def test_a_copy_that_has_not_begun_behind_records_of_others_is_none_that_may_have_been_failed_over(end: int) -> None:
    """Its topic had records when it was added (`--into-existing`), and the log has ended there since."""
    mirror = MappedMirror()
    topic = mirror.state().topic(DR, "orders")
    assert topic is not None
    mirror.west.write(STATE_TOPIC, replace(topic, copy_starts=(END,)))
    assert len(restored(mirror, saved(mirror), Logs(end=end)).warnings) == (end > END)


@dataclass
class Paired:
    """The port `LogPairs`: what both logs say of whatever is asked."""

    answer: str = ""
    asked: list[AnchoredSpan] = field(default_factory=list)

    def ranges(
        self, at: MirrorPartition, there: SourcePartition, span: AnchoredSpan, by: Deadline
    ) -> RestoredRanges | str:
        self.asked.append(span)
        if self.answer:
            return self.answer
        found = RestoredRanges(RUNS[:1])
        for run, following in pairwise(run for run in RUNS if run.source <= span.until.source):
            found.paired(run, records_of(run, following))
        return found


def rebuilt(
    mirror: MappedMirror,
    paired: Paired,
    logs: Logs | None = None,
    checkpoint: Callable[[str], None] = nowhere,
    **options: Any,
) -> Rebuilt:
    """After all state topics were lost, or as `options` has it of the request."""
    prefixes: Any = None
    inspection: Any = logs or Logs()
    tools = RebuildTools(prefixes=prefixes, inspection=inspection, paired=paired, checkpoint=checkpoint)
    request = CreateRequest(mirror=DR, include=("orders",), **options)
    return rebuild(request, mirror.east.side(), mirror.destination(), tools, a_command(clock=mirror.west.clock))


def a_lost_mirror(*riding: OffsetRange) -> MappedMirror:
    """A mirror whose state is lost, and with it what was published of the map before `riding`."""
    mirror = MappedMirror()
    mirror.copy()
    topic_id = mirror.east.side().topics.describe(["orders"], mirror.west.clock.deadline(5))["orders"]
    assert isinstance(topic_id, TopicFacts)
    proof = mirror.proof(RUNS[3], riding or RUNS[2:], source_topic_id=topic_id.topic_id)
    mirror.commit(30, proof.metadata)
    lose(mirror)
    return mirror


def test_a_rebuilt_mirror_is_the_one_of_its_positions_and_stopped() -> None:
    mirror, paired = a_lost_mirror(), Paired()
    done = rebuilt(mirror, paired)
    assert (done.spec.mirror_id, done.spec.offsets, done.spec.delivery) == ("m-1", OffsetMode.MAPPED, "exactly-once")
    assert done.spec.transactional_id == transactional_id_prefix(DR, "m-1")
    (topic,) = done.topics
    assert (topic.desired, topic.restored) == (DesiredState.PAUSED, True)
    found = OffsetPolicy.of(mirror.west.view(OFFSETS_TOPIC), done.spec)
    assert found.map_of(AT).runs == RUNS[:3]
    assert [(each.start, each.until) for each in paired.asked] == [(BEFORE_ALL, RUNS[2])]
    assert not rebuilt(mirror, paired).changed


@pytest.mark.parametrize("point", ["topics", "configs", "offsets"])
def test_a_rebuild_that_was_killed_is_completed_by_the_same_command(point: str) -> None:
    mirror, whole = a_lost_mirror(), a_lost_mirror()

    def dies(reached: str) -> None:
        if reached == point:
            raise Dead

    with pytest.raises(Dead):
        rebuilt(mirror, Paired(), checkpoint=dies)
    done = rebuilt(mirror, paired := Paired())
    assert done.changed
    assert bool(paired.asked) is (point != "offsets"), "what is published already is not read again"
    rebuilt(whole, Paired())
    assert dict(mirror.west.view(OFFSETS_TOPIC)) == dict(whole.west.view(OFFSETS_TOPIC))


class Dead(BaseException):
    """The process is gone."""


def test_what_both_logs_do_not_tell_is_left_to_lower_bounds_and_named() -> None:
    done = rebuilt(mirror := a_lost_mirror(), Paired("the source begins at 3: older records are gone"))
    assert any(
        "positions before source offset 20 are translated to a lower bound: the source" in w for w in done.warnings
    )
    assert not mirror.west.view(OFFSETS_TOPIC).offset_ranges(done.spec)


def test_positions_that_have_all_ranges_need_no_log() -> None:
    paired = Paired()
    rebuilt(a_lost_mirror(*RUNS), paired)
    assert not paired.asked


def test_records_of_others_behind_the_positions_refuse_a_rebuild() -> None:
    logs = Logs(end=END + 1, last=(a_span(END, transactional=False),))
    with pytest.raises(MirrorTopicPromoted, match="somebody else wrote at offset 34"):
        rebuilt(a_lost_mirror(), Paired(), logs)


def test_positions_of_an_earlier_source_topic_refuse_a_rebuild() -> None:
    mirror = a_lost_mirror()
    mirror.commit(30, mirror.proof(RUNS[3], RUNS, source_topic_id="another").metadata)
    with pytest.raises(MappedMirrorNotRebuilt, match="deleted and created again"):
        rebuilt(mirror, Paired())


def test_what_was_written_back_to_the_source_tells_the_mirror_where_its_own_group_is_lost_too() -> None:
    """Workers find the positions again; until then nothing is known of how far it was copied."""
    mirror = a_lost_mirror()
    (position,) = OwnPositions.of(DR, mirror.east.side(), mirror.destination(), SOON).committed.values()
    mirror.source_groups.commit(shown_group(DR), AT, 30, shown(position, uuid4()))
    mirror.groups.groups.clear()
    done = rebuilt(mirror, paired := Paired())
    assert (done.spec.mirror_id, paired.asked) == ("m-1", [])
    assert any("no position of the mirror says how far it was copied" in each for each in done.warnings)


def test_without_any_position_a_mapped_mirror_is_not_known() -> None:
    mirror = a_lost_mirror()
    mirror.groups.groups.clear()
    with pytest.raises(MappedMirrorNotRebuilt, match="has a position of a mirror 'dr' with mapped offsets"):
        rebuilt(mirror, Paired(), offsets=OffsetMode.MAPPED)
