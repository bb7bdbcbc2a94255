"""What is written to `__mirror_groups`, from what was read: only changes, never anything stale."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.copier import Copier
from tanist.domain.names import EpochMs, MirrorName, SourceOffset, SourcePartition
from tanist.domain.records import GroupPosition
from tanist.domain.state_record import StateRecord, Tombstone
from tanist.domain.state_view import NOTHING_YET, StateView, fold
from tanist.fetcher.group_sources import Answered, GroupOffsetCache
from tanist.kafka.protocol.group_log import GroupEvent, GroupSeen, LoggedCommit, Removed
from tests.builders import AT_SOURCE, a_mirror

OTHER = SourcePartition("elsewhere", 0)
NOW = EpochMs(1_000)
SPEC = a_mirror(MirrorName("m"), source_cluster_id="E", destination_cluster_id="W")


def book(*events: GroupEvent) -> GroupOffsetCache:
    made = GroupOffsetCache(SPEC)
    made.topics = frozenset({"orders"})
    for order, event in enumerate(events):
        made.take(event, order)
    return made


def moved(offset: int, group: str = "g", at: SourcePartition = AT_SOURCE) -> LoggedCommit:
    return LoggedCommit(group, at, SourceOffset(offset), -1, "", EpochMs(offset * 10))


def offsets(records: list[StateRecord]) -> list[int | str]:
    return [record.offset if isinstance(record, GroupPosition) else "gone" for record in records]


def test_only_the_last_word_of_topics_of_the_mirror() -> None:
    read = book(moved(1), moved(2), moved(9, at=OTHER))
    assert offsets(read.changes(NOTHING_YET)) == [2]
    read.topics |= {"elsewhere"}
    assert sorted(map(str, offsets(read.differences(NOTHING_YET, whole=True)))) == ["2", "9"]


def test_what_is_there_already_is_not_written_again() -> None:
    read = book(moved(1))
    view = fold(NOTHING_YET, read.changes(NOTHING_YET))
    assert read.changes(view) == []
    assert read.differences(view, whole=True) == []


def test_a_kind_that_is_told_later() -> None:
    read = book(moved(1))
    read.written()
    read.take(GroupSeen("g", "consumer", None), 5)
    (record,) = read.changes(NOTHING_YET)
    assert isinstance(record, GroupPosition)
    assert record.kind == "consumer"


def test_removed_positions_are_tombstones() -> None:
    view = fold(NOTHING_YET, book(moved(1)).changes(NOTHING_YET))
    assert offsets(book(moved(1), Removed("g", AT_SOURCE)).changes(view)) == ["gone"]
    assert book(moved(1), Removed("g", AT_SOURCE)).changes(NOTHING_YET) == [], "it was never written"


def test_a_book_that_is_not_whole_takes_nothing_away() -> None:
    view = fold(NOTHING_YET, book(moved(1, "old")).changes(NOTHING_YET))
    assert offsets(book(moved(2)).differences(view, whole=False)) == [2]
    assert sorted(map(str, offsets(book(moved(2)).differences(view, whole=True)))) == ["2", "gone"]


def test_a_zombies_late_write_is_not_the_last_word() -> None:
    early, late = book(moved(1)), book(moved(1), moved(5))
    view = fold(fold(NOTHING_YET, late.changes(NOTHING_YET)), early.changes(NOTHING_YET))
    assert offsets(list(view.values())) == [5]


def test_a_log_that_was_made_anew() -> None:
    """Its records are younger although they lie earlier: the old one is taken away first."""
    view = fold(NOTHING_YET, book(*[moved(n) for n in range(9)]).changes(NOTHING_YET))
    records = book(moved(3)).differences(view, whole=True)
    assert [isinstance(records[0], Tombstone), offsets(records)] == [True, ["gone", 3]]
    assert offsets(list(fold(view, records).values())) == [3]


# ── asked instead of read ─────────────────────────────────────────────────────────────────────────────────────────


def after_answer(read: GroupOffsetCache, view: StateView, answer: Answered) -> StateView:
    read.record_answer(answer, NOW)
    return fold(view, read.changes(view))


def test_asking_keeps_what_could_not_be_told() -> None:
    """A group that does not answer, a topic that we may not see: no answer is no deletion."""
    read = book()
    everything = Answered(
        {"g": ("classic", {AT_SOURCE: SourceOffset(4)}), "h": ("consumer", {AT_SOURCE: SourceOffset(6)})}
    )
    view = after_answer(read, NOTHING_YET, everything)
    assert sorted(map(str, offsets(list(view.values())))) == ["4", "6"]
    assert after_answer(read, view, Answered({"g": ("classic", {})}, frozenset({"h"}), frozenset({"orders"}))) == view
    assert offsets(list(after_answer(read, view, Answered({}, frozenset({"h"}))).values())) == [6]


def test_a_position_that_has_not_moved_keeps_its_time() -> None:
    """Also when the worker is a new one, and when the log was read before."""
    view = fold(NOTHING_YET, book(moved(4)).changes(NOTHING_YET))
    assert after_answer(book(), view, Answered({"g": ("classic", {AT_SOURCE: SourceOffset(4)})})) == view


def test_whoever_begins_to_ask_keeps_what_was_written_and_can_no_longer_be_seen() -> None:
    """What is certainly gone goes; and a book from before the log was read does not bring old positions back."""
    old = book()
    after_answer(old, NOTHING_YET, Answered({"g": ("classic", {AT_SOURCE: SourceOffset(1)})}))
    view = fold(NOTHING_YET, book(GroupSeen("g", "consumer", None), moved(4), moved(6, "h")).changes(NOTHING_YET))
    for read in (book(), old):
        read.remember(view)
        read.record_answer(Answered({}, frozenset({"g"})), NOW)
        assert offsets(read.differences(view, whole=True)) == ["gone"]
        assert list(fold(view, read.differences(view, whole=True)).values()) == [
            record for record in view.values() if "/g/" in record.key
        ]


# ── a mirror that somebody else copies ────────────────────────────────────────────────────────────────────────────


def test_positions_of_groups_that_the_mirror_leaves_out_are_not_stored() -> None:
    read = GroupOffsetCache(replace(SPEC, copied_by=Copier.MM2, group_include=("g.*",), group_exclude=("g-old",)))
    read.topics = frozenset({"orders"})
    for order, group in enumerate(("g", "g-old", "other")):
        read.take(moved(order, group), order)
    for records in (read.changes(NOTHING_YET), read.differences(NOTHING_YET, whole=True)):
        assert [each.group for each in records if isinstance(each, GroupPosition)] == ["g"]
    assert read.groups() == 1


def test_it_is_known_in_which_topics_groups_have_positions() -> None:
    read = book(moved(1), moved(9, at=OTHER), Removed("g", OTHER))
    assert read.positioned == {"orders", "elsewhere"}
    after = GroupOffsetCache(SPEC)
    after.remember(fold(NOTHING_YET, read.changes(NOTHING_YET)))
    assert after.positioned == {"orders"}
