"""Where the common prefix of two logs ends: no record that only the old source has may lie before it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.failback.prefix import Agreement, LogWindow, NothingToCompare, WindowRecord, common_end, compare

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

C, L, E = 800, 1000, 1100
LOOK_AHEAD: Final = 64
EPOCHS: Final = {"unknown": None, "exact": C, "stale": 300}


@dataclass
class Logs:
    """Of a source and a mirror partition. `read`: how many offsets were compared."""

    source: dict[int, WindowRecord]
    primary: dict[int, WindowRecord]
    source_hidden: set[int] = field(default_factory=set)
    primary_hidden: set[int] = field(default_factory=set)
    reserves: Sequence[tuple[int, int]] = ()
    read: int = 0

    def end(self, epoch_end: int | None = None, *, copied: int = L, start: int = 0, certain: bool = False) -> int:
        def look(begin: int, end: int) -> Agreement:
            self.read += end - begin
            until = min(copied, end + LOOK_AHEAD)
            ours = window(self.source, self.source_hidden, begin, until)
            theirs = window(self.primary, self.primary_hidden, begin, until)
            return compare(ours, theirs, (begin, end), self.reserves, last=until == copied)

        return common_end(look, start, copied, epoch_end, certain=certain)


def window(records: dict[int, WindowRecord], hidden: set[int], begin: int, end: int) -> LogWindow:
    return LogWindow({o: r for o, r in records.items() if begin <= o < end}, {o for o in hidden if begin <= o < end})


def record(offset: int, of: str = "", *, time: int | None = None) -> WindowRecord:
    return WindowRecord(offset if time is None else time, f"{of}{offset}".encode())


def one_record_transactions(*, shift: int = 0) -> Logs:
    """Each offset of a record is followed by a marker. The source lost [C, L), and has others there now."""
    copied = {o: record(o) for o in range(0, L, 2)}
    lost = {o: record(o) for o in range(0, C, 2)} | {o: record(o, "other") for o in range(C + shift, E, 2)}
    return Logs(lost, copied, set(range(E)) - lost.keys(), set(range(L)) - copied.keys())


@pytest.mark.parametrize("copied", [L - 1, L])
@pytest.mark.parametrize("epoch", EPOCHS)
def test_records_of_one_record_transactions_were_counted_as_copied(epoch: str, copied: int) -> None:
    """A first window whose first offset is a marker was taken for one that has a common part: C = 936."""
    assert one_record_transactions().end(EPOCHS[epoch], copied=copied) == C


@pytest.mark.parametrize("epoch", EPOCHS)
def test_other_records_at_the_offsets_of_markers_were_counted_as_copied(epoch: str) -> None:
    """The coordinator aborted a transaction at C, so no offset has a record in both logs from there on: C = L."""
    assert C <= one_record_transactions(shift=1).end(EPOCHS[epoch]) <= C + 1


@pytest.mark.parametrize("epoch", EPOCHS)
def test_records_before_an_aborted_end_were_counted_as_copied(epoch: str) -> None:
    """No record was left in the first window, which said nothing: C = L - 1."""
    logs = one_record_transactions()
    aborted = {o for o in logs.source if 930 <= o < L}
    for offset in aborted:
        del logs.source[offset]
    logs.source_hidden |= aborted
    assert logs.end(EPOCHS[epoch]) == C


def test_a_source_that_aborted_what_was_copied_lacks_it() -> None:
    logs = one_record_transactions()
    logs.source = {o: r for o, r in logs.source.items() if o < C}
    logs.source_hidden = set(range(E)) - logs.source.keys()
    assert logs.end() == C


def heartbeats(*, stamped: bool) -> Logs:
    """All records have the same key, value and headers; from 990 on others were written, an hour later."""
    one = WindowRecord(0, b"tick", stamped)
    copied = {o: one._replace(time=o, stamped=False) for o in range(L)}
    return Logs({o: one._replace(time=o if o < 990 else o + 3_600_000) for o in range(E)}, copied)


@pytest.mark.parametrize("epoch_end", [None, 990, 300])
def test_equal_payloads_of_other_times_were_counted_as_copied(epoch_end: int | None) -> None:
    """One record with the same key and value overruled the leader epoch: C = L."""
    assert heartbeats(stamped=False).end(epoch_end) == 990


def test_times_of_log_append_time_are_not_compared() -> None:
    assert heartbeats(stamped=True).end() == L


def test_an_equal_record_does_not_overrule_the_leader_epoch_if_others_behind_it_differ() -> None:
    logs = heartbeats(stamped=True)
    logs.source[890] = WindowRecord(0, b"other", stamped=True)
    assert logs.end(880) == 880


def test_a_window_with_an_equal_record_by_chance_does_not_end_the_search() -> None:
    """A value that is written now and then is equal to the one that was lost there."""
    logs = one_record_transactions()
    for offset in (936, 938, 970):
        logs.source[offset] = logs.primary[offset]
    assert logs.end() == C


def test_the_whole_log_is_not_read_if_its_newest_window_matches() -> None:
    same = {o: record(o) for o in range(100_000)}
    logs = Logs(same, same)
    assert (logs.end(copied=100_000), logs.read) == (100_000, 64)
    logs = Logs(same | {o: record(o, "other") for o in range(99_000, 100_000)}, same)
    assert logs.end(copied=100_000) == 99_000
    assert logs.read < 8 * 1_000


def test_cleaners_of_both_logs_leave_records_that_only_one_has() -> None:
    """In the mirror partition a hole has copies of the next record, until its cleaner takes them."""
    source = {o: record(o) for o in range(0, L, 7)}
    copied = {o: record(-(-o // 7) * 7) for o in range(L - 6)}
    assert Logs(source, copied).end(copied=L - 6) == L - 6
    cleaned = {o: r for o, r in copied.items() if o % 3 == 0}
    assert Logs(source, cleaned).end(copied=L - 6) == L - 6
    assert Logs(source, cleaned).end(300, copied=L - 6) == L - 6, "an early epoch"


def test_copies_at_the_offsets_of_markers_are_not_a_difference() -> None:
    """A compacted mirror partition has them there, in either direction, also as tombstones."""
    logs = one_record_transactions()
    compacted = {o: logs.primary[o + o % 2] for o in range(L - 1)}
    compacted[501] = compacted[501]._replace(is_tombstone=True, content=b"dead")
    committed = {o: record(o) for o in range(0, L, 2)}
    markers = set(range(1, L, 2))
    assert Logs(committed, compacted, source_hidden=markers).end(copied=L - 1) == L - 1
    assert Logs(compacted, committed, primary_hidden=markers).end(copied=L - 1) == L - 1


def test_records_without_a_key_were_left_out_of_a_compacted_mirror_partition() -> None:
    source = {o: record(o) for o in range(L)}
    copied = dict(source)
    for offset in range(0, L - 1, 2):
        source[offset] = replace_key(source[offset])
        copied[offset] = copied[offset + 1]
    assert Logs(source, copied).end() == L


def replace_key(of: WindowRecord) -> WindowRecord:
    return of._replace(has_key=False, content=b"no key" + of.content)


def test_without_a_common_record_only_the_lineage_and_the_leader_epoch_are_known() -> None:
    logs = Logs({o: record(o) for o in range(990, E)}, {o: record(o) for o in range(10)})
    ends = (998, 900)
    assert (logs.end(start=995), *(logs.end(end, start=995, certain=True) for end in ends)) == (L, *ends)
    for end in ends:
        with pytest.raises(NothingToCompare, match=f"from offset {end} up to {L}") as nothing:
            logs.end(end, start=995)
        assert nothing.value.since == end, "what was copied last may be of a later epoch"
    assert Logs({o: record(o, "other") for o in range(E)}, {o: record(o) for o in range(L)}).end() == 0


def test_reserved_offsets_of_earlier_promotions_are_no_difference() -> None:
    """After a reversal the old tail stays on one side, where the other one has gap markers, or copies."""
    common = {o: record(o) for o in (*range(600), *range(900, L))}
    tail = {o: record(o, "tail") for o in range(600, 700)}
    copies: Iterable[int] = range(600, 900)
    for other in ({}, {o: record(599) for o in copies}):
        for one, two in ((common | tail, common | other), (common | other, common | tail)):
            ours, theirs = (set(range(600, 900)) - each.keys() for each in (one, two))
            logs = Logs(one, two, ours, theirs, reserves=((600, 900),))
            assert logs.end(copied=910) == 910
            assert logs.end(copied=900) == 900
            diverged = replace(logs, source=one | {o: record(o, "other") for o in range(903, E)})
            assert diverged.end() == 903
