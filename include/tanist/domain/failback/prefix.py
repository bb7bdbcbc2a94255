"""Where the common prefix of an old source's log and the mirror partition ends: decided by records, from the end on.

Offsets of one log may lack a counterpart in the other one without any divergence: each cleaner works by itself, and in
the mirror partition of a compacted topic the offsets of removed records, of markers and of aborted records hold copies
of the next record (docs/mirroring.md). A window of offsets ends the search only if records in it are equal.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import CouldNotTell

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

FIRST_WINDOW: Final = 64
"""Offsets compared at the end of the prefix; four times as many each time where no record is equal."""
LARGEST_WINDOW: Final = 65_536


class WindowRecord(NamedTuple):
    """`time`: as a consumer gets it, ms since 1970; `stamped`: by the broker (LogAppendTime), which is not copied.

    `content`: of key, value and headers, or a digest of them.
    """

    time: int
    content: bytes
    stamped: bool = False
    has_key: bool = True
    is_tombstone: bool = False

    def same(self, other: WindowRecord) -> bool:
        """Whether both are copies of one record, as far as that can be seen."""
        return self.content == other.content and (self.stamped or other.stamped or self.time == other.time)


class LogWindow(NamedTuple):
    """What a log has in a span. `hidden`: offsets of markers and aborted records; no cleaner has been there."""

    records: Mapping[int, WindowRecord]
    hidden: Collection[int]


class Agreement(NamedTuple):
    """Of both logs in a window. `equal`: whether they have an equal record before the first difference.

    `difference`: the first offset at which they differ.
    """

    equal: bool
    difference: int | None


NOTHING_SEEN: Final = Agreement(equal=False, difference=None)


def compare(
    source: LogWindow,
    primary: LogWindow,
    span: tuple[int, int],
    reserves: Sequence[tuple[int, int]] = (),
    *,
    last: bool,
) -> Agreement:
    """What both logs have in `span`; what the windows have behind it tells copies for holes from other records.

    Args:
        source: of the old source.
        primary: of the mirror partition.
        span: the first offset, and the one behind the last.
        reserves: of earlier promotions. There each log may have records that the other one never gets.
        last: nothing follows the windows in the common part.
    """
    ours, theirs = _Window(source, last=last), _Window(primary, last=False)
    equal = False
    for offset in sorted(source.records.keys() | primary.records.keys()):
        if not span[0] <= offset < span[1] or _is_reserved(offset, reserves):
            continue
        one, other = source.records.get(offset), primary.records.get(offset)
        if one is not None and other is not None and one.same(other):
            equal = True
        elif _differs(offset, ours, theirs) or _differs(offset, theirs, ours):
            return Agreement(equal, offset)
    return Agreement(equal, None)


class _Window:
    def __init__(self, found: LogWindow, *, last: bool) -> None:
        self.records, self.hidden = found.records, found.hidden
        self._following = dict(pairwise(sorted(found.records)))
        self._last = last

    def may_be_copy(self, offset: int) -> bool:
        """Whether the record may be a copy for a hole: of the next record, or a tombstone."""
        record = self.records[offset]
        following = self._following.get(offset)
        if record.is_tombstone:
            return True
        return not self._last if following is None else record.same(self.records[following])


def _differs(offset: int, ours: _Window, theirs: _Window) -> bool:
    """Whether what `ours` has at `offset` cannot be there if `theirs` has the same history."""
    record, other = ours.records.get(offset), theirs.records.get(offset)
    if record is None:
        return False
    if other is None:
        return offset in theirs.hidden and not ours.may_be_copy(offset)
    left_out = record.has_key and not other.has_key and ours.may_be_copy(offset)
    left_out_there = other.has_key and not record.has_key and theirs.may_be_copy(offset)
    return not (left_out or left_out_there)


def _is_reserved(offset: int, reserves: Sequence[tuple[int, int]]) -> bool:
    return any(begin <= offset < end for begin, end in reserves)


class NothingToCompare(CouldNotTell):
    """`since`: the offset from which on no record is left in both logs, and no leader epoch tells what was copied."""

    name, retriable = "NOTHING_TO_COMPARE", False
    operator_action = (
        "`tanist mirrors reverse NAME --recreate REGEX` copies the topic again; `tanist failback accept NAME --finding "
        "TAIL_NOT_COMPARED --reason TEXT` accepts it"
    )

    def __init__(self, since: int, bound: int) -> None:
        super().__init__(
            f"no record that both logs have is left from offset {since} up to {bound}, and the leader epoch of what "
            "was copied last is not on record: not compared"
        )
        self.since = since


def common_end(
    look: Callable[[int, int], Agreement], start: int, bound: int, epoch_end: int | None, *, certain: bool = False
) -> int:
    """The end of the common prefix, `bound` at most.

    Args:
        look: compares both logs from one offset up to another one.
        start: where both logs have begun.
        bound: where the shorter one ends, of what was copied.
        epoch_end: where the old source's log ends the leader epoch of what was copied last, None if that is unknown.
            The epoch that was stored may be an earlier one: then records agree at this offset and behind it.
        certain: that epoch is the one of the last copied batch.

    Raises:
        NothingToCompare: it may be an earlier one, and no record behind its end is left in both logs.
    """
    common = _agree_until(look, start, bound)
    if epoch_end is None or not 0 <= epoch_end < common:
        return common
    agree = _agree_from(look, max(start, epoch_end), common)
    if agree:
        return common
    if agree is None and not certain:
        raise NothingToCompare(epoch_end, common)
    return _agree_until(look, start, epoch_end)


def _agree_until(look: Callable[[int, int], Agreement], start: int, bound: int) -> int:
    """The first difference below `bound`, or `bound`.

    The search ends at a window that has an equal record and no difference. Without any it ends where both logs begin.
    """
    found, low, size = bound, bound, FIRST_WINDOW
    while start < low:
        begin = max(start, low - size)
        seen = look(begin, low)
        if seen.difference is not None:
            found = seen.difference
        elif seen.equal:
            break
        size = FIRST_WINDOW if seen.equal else min(size * 4, LARGEST_WINDOW)
        low = begin
    return found


def _agree_from(look: Callable[[int, int], Agreement], begin: int, end: int) -> bool | None:
    """Whether the first window from `begin` on that tells anything has equal records only; None: there is none."""
    size = FIRST_WINDOW
    while begin < end:
        until = min(end, begin + size)
        seen = look(begin, until)
        if seen.equal or seen.difference is not None:
            return seen.difference is None
        begin, size = until, min(size * 4, LARGEST_WINDOW)
    return None
