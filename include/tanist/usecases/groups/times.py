"""Reads what the strategy `timestamp` needs of both clusters, for the positions of many partitions at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.record_times import ReadLimits, TimedPosition, UnreadLog, common_record
from tanist.domain.translators.by_timestamp import is_very_record, missing_matters, rests_on_a_later_one, with_floors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from tanist.domain.names import EpochMs, MirrorPartition, SourcePartition, TopicNames
    from tanist.domain.record_times import CommonRecord, FirstSince, TimedRecord, UnreadRecords
    from tanist.ports.clock import Deadline
    from tanist.ports.times import RecordTimes
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror

_P = TypeVar("_P")
_Q = TypeVar("_Q")
_A = TypeVar("_A")
_Ask: TypeAlias = "Callable[[Mapping[_P, Collection[_Q]], ReadLimits, Deadline], Mapping[_P, _A | TanistError]]"
"""A method of `RecordTimes`."""
_NOTHING: Final = UnreadLog(start=0, end=0, unread={}, offsets={})


def read_times(
    mirror: OpenMirror,
    wanted: Mapping[MirrorPartition, Collection[SourceOffset]],
    copies: Mapping[MirrorPartition, Span[DestinationOffset] | TanistError],
    context: CommandContext,
    limits: ReadLimits = ReadLimits(),  # noqa: B008  # frozen
) -> Mapping[MirrorPartition, Mapping[SourceOffset, TimedPosition] | TanistError]:
    """What both logs hold for the positions `wanted` of each partition, or why it could not be read.

    `copies`: where the mirror partitions end. They must have been read before this call: what lies behind their ends
    may have been copied after the source was read, and is taken as not mirrored yet.

    Raises:
        Stopped: this process is stopping.
    """
    if isinstance(mirror.source, TanistError):
        return dict.fromkeys(wanted, mirror.source)
    failed: dict[MirrorPartition, TanistError] = {}
    pairs: dict[MirrorPartition, _Pair] = {}
    for at, positions in wanted.items():
        copy = copies[at]
        if isinstance(copy, TanistError):
            failed[at] = copy
        else:
            pairs[at] = _Pair(frozenset(each for each in positions if each >= 0), copy)
    _read(mirror, mirror.source.times, _Questions(pairs, failed, limits, context.by))
    return failed | {at: with_floors(pair.positions()) for at, pair in pairs.items()}


def _read(mirror: OpenMirror, source: RecordTimes, each: _Questions) -> None:
    """In an order in which nothing that is copied meanwhile is taken for read."""
    destination, names = mirror.destination.times, mirror.spec.names
    for pair, last in each.of_copies(destination.before, lambda pair: {pair.copy.end}):
        pair.copy_last = last[pair.copy.end]
    for pair, log in each.of_source(source.unread, lambda pair: pair.wanted, names):
        pair.log = log
        pair.offsets.update(log.offsets)
    for pair, first in each.of_source(source.since, _Pair.earliest_times, names):
        pair.first = first
        pair.know(record for found in first.values() if found is not None for record in found.following)
    for pair, copied in each.of_copies(destination.since, _Pair.record_times):
        pair.copied |= copied
    for pair, before in each.of_source(source.before, _Pair.without_record, names):
        pair.before = before
        pair.know(record for record in before.values() if record is not None)
    for pair, copied in each.of_copies(destination.since, _Pair.times_before):
        pair.copied |= copied
    for pair, preceding in each.of_copies(destination.before, _Pair.behind_missing):
        pair.copied_before = preceding
    for pair, log in each.of_copies(destination.unread, _Pair.very_records):
        pair.behind = log.unread


@dataclass(frozen=True, slots=True)
class _Questions:
    """Asked of all partitions together. A partition with an error is asked for no more: it goes to `failed`."""

    pairs: dict[MirrorPartition, _Pair]
    failed: dict[MirrorPartition, TanistError]
    limits: ReadLimits
    by: Deadline

    def of_copies(
        self, ask: _Ask[MirrorPartition, _Q, _A], wanted: Callable[[_Pair], Collection[_Q]]
    ) -> Iterator[tuple[_Pair, _A]]:
        questions = {at: each for at, pair in self.pairs.items() if (each := wanted(pair))}
        return self._answered(self._answers(ask, questions))

    def of_source(
        self, ask: _Ask[SourcePartition, _Q, _A], wanted: Callable[[_Pair], Collection[_Q]], names: TopicNames
    ) -> Iterator[tuple[_Pair, _A]]:
        questions = {names.at_source(at): each for at, pair in self.pairs.items() if (each := wanted(pair))}
        return self._answered({names.mirrored(at): each for at, each in self._answers(ask, questions).items()})

    def _answers(self, ask: _Ask[_P, _Q, _A], questions: Mapping[_P, Collection[_Q]]) -> Mapping[_P, _A | TanistError]:
        """A cluster that does not answer at all, perhaps no more, is the reason of each partition."""
        try:
            return ask(questions, self.limits, self.by) if questions else {}
        except Stopped:
            raise
        except TanistError as silent:
            return dict.fromkeys(questions, silent)

    def _answered(self, answers: Mapping[MirrorPartition, _A | TanistError]) -> Iterator[tuple[_Pair, _A]]:
        for at, answer in answers.items():
            if isinstance(answer, TanistError):
                self.failed[at] = answer
                del self.pairs[at]
            else:
                yield self.pairs[at], answer


@dataclass
class _Pair:
    """What was read of one partition so far. `offsets`: of records of the source, as in `UnreadLog`."""

    wanted: frozenset[SourceOffset]
    copy: Span[DestinationOffset]
    copy_last: TimedRecord | None = None
    log: UnreadLog = _NOTHING
    offsets: dict[bytes, int] = field(default_factory=dict)
    before: Mapping[int, TimedRecord | None] = field(default_factory=dict)
    first: Mapping[EpochMs, FirstSince | None] = field(default_factory=dict)
    copied: dict[EpochMs, FirstSince | None] = field(default_factory=dict)
    copied_before: Mapping[int, TimedRecord | None] = field(default_factory=dict)
    behind: Mapping[int, UnreadRecords] = field(default_factory=dict)

    def earliest_times(self) -> set[EpochMs]:
        """The earliest timestamps that are unread."""
        return _times(each.earliest for each in self.log.unread.values())

    def record_times(self) -> set[EpochMs]:
        """Since when the copy is searched: also since each record itself, as MirrorGroupOffsetConnector does."""
        exact = [each.record for at, each in self.log.unread.items() if each.record and each.record.offset == at]
        return self.earliest_times() | _times(exact)

    def without_record(self) -> set[int]:
        """The positions at which the source has no record, or misses some that matter, or the copy has not got it."""
        return {
            at
            for at, each in self.positions().items()
            if each.unread.record is None or missing_matters(at, each) or rests_on_a_later_one(at, each)
        }

    def times_before(self) -> set[EpochMs]:
        """The same, since what precedes missing records."""
        return _times(self.before.values())

    def behind_missing(self) -> set[int]:
        """The offsets in the copy whose predecessors are compared."""
        found = [self._copied(self.log.unread[at].earliest) for at in self.before]
        return {each.record.offset for each in found if each is not None and each.record is not None}

    def very_records(self) -> set[int]:
        """The offsets in the copy from which it is read to its end: nothing that was read may come again there."""
        seen = self.positions().values()
        found = [each.copied for each in seen if is_very_record(each)]
        return {each.record.offset for each in found if each is not None and each.record is not None}

    def _copied(self, since: TimedRecord | None) -> FirstSince | None:
        """The first record of the copy as it was when its end was read."""
        found = None if since is None else self.copied.get(since.timestamp)
        if found is None or found.record is None or found.record.offset >= self.copy.end:
            return None
        return found

    def _none_copied(self, since: TimedRecord | None) -> bool:
        """Whether that was proved: what bisection does not find may be there."""
        if since is None or since.timestamp not in self.copied:
            return False
        found = self.copied[since.timestamp]
        return found is None or (found.certain and self._copied(since) is None)

    def know(self, records: Iterable[TimedRecord]) -> None:
        """Records of the source, besides those of `log`."""
        for record in records:
            self.offsets[record.digest] = max(record.offset, self.offsets.get(record.digest, record.offset))

    def positions(self) -> dict[SourceOffset, TimedPosition]:
        """What is known of each."""
        return {at: self._position(at, self.log.unread[at]) for at in self.wanted}

    def _position(self, at: SourceOffset, unread: UnreadRecords) -> TimedPosition:
        earliest, before = unread.earliest, self.before.get(at)
        copied, lowered = self._copied(earliest), self._copied(before)
        record = None if copied is None else copied.record
        return TimedPosition(
            source=Span(SourceOffset(self.log.start), SourceOffset(self.log.end)),
            copy=self.copy,
            unread=unread,
            copy_last=self.copy_last,
            none_copied=self._none_copied(earliest),
            before=before,
            first=None if earliest is None else self.first.get(earliest.timestamp),
            copied=copied,
            copied_before=None if record is None else self.copied_before.get(record.offset),
            common=self._common(copied, at, unread.until, earliest),
            lowered=lowered,
            lowered_common=self._common(lowered, at, at, before),
            behind=None if record is None else self.behind.get(record.offset),
            seed_answer=self._seed_answer(at, unread),
        )

    def _common(
        self, found: FirstSince | None, position: int, until: int, since: TimedRecord | None
    ) -> CommonRecord | None:
        if found is None or since is None:
            return None
        return common_record(self.offsets, found.following, position, until, since.timestamp)

    def _seed_answer(self, at: SourceOffset, unread: UnreadRecords) -> DestinationOffset | None:
        """It defers a position without a record of its own, and one that ListOffsets knows no record for."""
        if unread.record is None or unread.record.offset != at:
            return None
        found = self.copied.get(unread.record.timestamp)
        return None if found is None else DestinationOffset(found.offset)


def _times(records: Iterable[TimedRecord | None]) -> set[EpochMs]:
    """Those that can be searched for; a record may have none (-1)."""
    return {each.timestamp for each in records if each is not None and each.timestamp >= 0}
