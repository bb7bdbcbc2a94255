"""Timestamps of records, and what was read of both logs to translate a committed offset by them. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.log_ends import Span

UNREAD_BYTES: Final = 1 << 20
"""Of one partition: so much of what its groups have not read is read for its timestamps, from the end backwards."""
POLL_TIMEOUT_MS: Final = 1000
"""How long one request for records may take (`consumer.poll.timeout.ms` of MirrorGroupOffsetConnector)."""


class TimestampType(StrEnum):
    """`message.timestamp.type`, as the attributes of a batch have it: who has stamped its records."""

    CREATE, LOG_APPEND = "CreateTime", "LogAppendTime"


class TimedRecord(NamedTuple):
    """A record that is not a marker, by its offset in one log.

    `digest`: of its timestamp, key, value and headers. Where two are equal, the records are taken to be the same.
    """

    offset: int
    timestamp: EpochMs
    digest: bytes
    type: TimestampType = TimestampType.CREATE


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """`unread_bytes`: see UNREAD_BYTES; 0: only the record at each position. `poll_timeout_ms`: of a request."""

    unread_bytes: int = UNREAD_BYTES
    poll_timeout_ms: int = POLL_TIMEOUT_MS

    @classmethod
    def within(cls, poll_timeout_ms: int) -> Self:
        """With the time limit of a mirror; 0: the default."""
        return cls(poll_timeout_ms=poll_timeout_ms or POLL_TIMEOUT_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadRecords:
    """What a log holds from a position on, as far as it was read.

    `record`: the first one that readers of committed records see; None: there is none up to the end of the log.
    `missing`: the first offset below `until` that holds nothing any more: a record may have been cleaned or deleted.
    `earliest`: the first one of the least timestamp, those of aborted and open transactions included, since a copier
    may read them. `until`: all offsets below were read; `whole`: that is the end of the log.
    """

    record: TimedRecord | None
    missing: int | None
    earliest: TimedRecord | None
    until: int
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLog:
    """One log from several positions on. `end`: its high watermark. `offsets`: of all records read, by their digests.

    Of equal records, the last one.
    """

    start: int
    end: int
    unread: Mapping[int, UnreadRecords]
    offsets: Mapping[bytes, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSince:
    """The first record of a time or later.

    `offset`: as ListOffsets answers; it may be a marker's, which has the broker's time. `record`: the first one from
    there on that is late enough and that readers of committed records see; None: there is none. `certain`: all records
    from `offset` to `record` were read; otherwise it was found by bisection, and is the first one only if their
    timestamps are in order. `following`: records from `record` on that came along, in order.
    """

    offset: int
    record: TimedRecord | None
    certain: bool = True
    following: tuple[TimedRecord, ...] = ()


class CommonRecord(NamedTuple):
    """A record that both logs hold, byte for byte and with the same timestamp."""

    source: SourceOffset
    destination: DestinationOffset


class Floor(NamedTuple):
    """The largest answer for a lower position, which is safe for all positions from there on."""

    position: SourceOffset
    offset: DestinationOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPosition:
    """What was read of both logs about one committed offset.

    `source`, `copy`: where both logs began and ended; the end of the copy was read first. `copy_last`: its last record.
    `none_copied`: it has certainly none that is as late as `unread.earliest`.
    `before`: the source's last record before the position, where there is none at it, or missing ones matter, or
    `common` is a later one than `unread.record`.
    `first`: the source's first record since the timestamp of `unread.earliest`. `copied`: the same in the copy, None:
    it has none yet; `common`: a record of both logs that it rests on. `copied_before`: the copy's last record before
    that, and `lowered`: its first one since `before`, both only where there is `before`. `behind`: what the copy
    has from `copied` on, where that is the position's own record. `seed_answer`: what
    MirrorGroupOffsetConnector would commit, None: nothing. `floor`: of the lower positions.
    """

    source: Span[SourceOffset]
    copy: Span[DestinationOffset]
    unread: UnreadRecords
    copy_last: TimedRecord | None = None
    none_copied: bool = False
    before: TimedRecord | None = None
    first: FirstSince | None = None
    copied: FirstSince | None = None
    copied_before: TimedRecord | None = None
    common: CommonRecord | None = None
    lowered: FirstSince | None = None
    lowered_common: CommonRecord | None = None
    behind: UnreadRecords | None = None
    seed_answer: DestinationOffset | None = None
    floor: Floor | None = None


def common_record(
    offsets: Mapping[bytes, int], copies: Iterable[TimedRecord], position: int, until: int, since: EpochMs
) -> CommonRecord | None:
    """The lowest record of the source below `until` that is among `copies`, or one that is not behind `position`.

    `offsets`: of records of the source by their digests; all from the position up to `until` are as late as `since`.
    `copies`: records of the copy, from its first one since `since` on. The record is as late, so all copies of it are
    among them or behind them. Of copies made in order, whatever follows a record in the source follows its
    first copy. So no unread record has been copied only before the first of `copies`; but for one between the position
    and that record that the source has cleaned, whose timestamp is not known.
    """
    lowest: CommonRecord | None = None
    for copy in copies:
        offset = offsets.get(copy.digest)
        if offset is None or offset >= until or copy.timestamp < since:
            continue
        if lowest is None or offset < lowest.source:
            lowest = CommonRecord(SourceOffset(offset), DestinationOffset(copy.offset))
        if offset <= position:
            break
    return lowest
