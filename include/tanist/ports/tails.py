"""Divergent tails: where the log of an old source and the mirror partition that has taken over part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.failback.survey import TailCounts
    from tanist.domain.failback.torn import TransactionPart
    from tanist.domain.names import EpochMs, MirrorPartition, ProducerId
    from tanist.ports.clock import Deadline


@dataclass(frozen=True, slots=True)
class CopiedSpan:
    """What a mirror partition has of its old source: up to `end`; `last_epoch`: the source's leader epoch there, or -1.

    `certain`: whether that is the epoch of the last batch; else what was copied last may be of a later one.
    `source_end`: the old source's log end. `reserves`: of earlier promotions, the first offset of each and the one
    behind it; there each log may have records that the other one never gets.
    """

    end: int
    source_end: int
    last_epoch: int = -1
    reserves: tuple[tuple[int, int], ...] = ()
    certain: bool = False


@dataclass(frozen=True, slots=True)
class TailSpan:
    """A span of an old source's log: its tail from `common_end` up to `end`, and from `begin` on what comes before."""

    begin: int
    common_end: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCopy:
    """A tail that is copied into a quarantine partition. `begin`, `end`: offsets of the source.

    `start`: where the log of the quarantine partition ended before the first record of this tail. `producer_id`: the
    only writer of the copies of this mirror and promotion.
    """

    source: MirrorPartition
    cluster_id: str
    begin: int
    end: int
    into: MirrorPartition
    start: int
    producer_id: ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class TailDigest:
    """Of the records of a tail, in their order. `digest`: SHA-256 of their offsets, times, keys, values and headers.

    `first`, `last`: offsets at the source, None without records. `begin`: the source's offset from which they were
    read. `until`: in the quarantine partition, the offset behind the last one; -1 for the source.
    """

    records: int
    bytes: int
    first: int | None
    last: int | None
    digest: str
    begin: int = 0
    until: int = -1


class Quarantine(Protocol):
    """Topics of the new primary that keep what only the old source had."""

    def create(self, topic: str, partitions: int, by: Deadline) -> None:
        """Create the quarantine topic, unless it exists; nothing in it expires."""
        ...

    def ends(self, partitions: Iterable[MirrorPartition], by: Deadline) -> Mapping[MirrorPartition, int]:
        """Where the logs of quarantine partitions end, once everything in them is committed."""
        ...

    def new_producer_id(self, by: Deadline) -> ProducerId:
        """A producer id that nobody has written with."""
        ...

    def copy(self, tail: TailCopy, confirm: Callable[[], Deadline], by: Deadline) -> Iterator[int]:
        """Append the records of a tail that are not there yet; yields how many there are after each append.

        `confirm` is called before each append and returns until when it may be sent.
        """
        ...

    def at_source(self, tail: TailCopy, by: Deadline) -> TailDigest:
        """The records of a tail, read from the old source, which may begin behind the tail's first offset by now."""
        ...

    def rescued(self, tail: TailCopy, by: Deadline) -> TailDigest:
        """The records of a tail from `tail.begin` on, read from quarantine."""
        ...


class RescuedRecord(NamedTuple):
    """A record in quarantine. `offset`: at the old source; `time`: ms since 1970; `rest`: key, value and headers."""

    offset: int
    time: int
    key: bytes | None
    rest: bytes


class KeyWritten(NamedTuple):
    """The last record of a key in a log. `own`: whether it is one of the new primary's own records."""

    offset: int
    time: int
    rest: bytes
    own: bool


class Replayed(NamedTuple):
    """What a log has of our replayed records. `offset`: at the old source, of the last one; None: not known.

    `sequence`: how many were written; None: not known.
    """

    sequence: int | None
    offset: int | None


class Replays(Protocol):
    """Appends rescued records to the topics that they belong to, at the new primary."""

    def may_write(self, topics: Sequence[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        """Whether this login may write to each topic; it may everywhere without an authorizer."""
        ...

    def rescued(self, tail: TailCopy, by: Deadline) -> Iterator[RescuedRecord]:
        """The records of a tail in quarantine, in the order of the old source."""
        ...

    def end(self, at: MirrorPartition, by: Deadline) -> int:
        """Where a log ends, once everything in it is committed."""
        ...

    def new_producer_id(self, by: Deadline) -> ProducerId:
        """A producer id that nobody has written with."""
        ...

    def last_of_keys(
        self,
        at: MirrorPartition,
        span: tuple[int, int],
        keys: Container[bytes],
        own_from: int,
        without: Container[int],
        by: Deadline,
    ) -> Mapping[bytes, KeyWritten]:
        """Of each of `keys` the last record in a span of a log, which may begin before the log does.

        From `own_from` on lie the new primary's own records. `without`: producer ids whose records do not count.
        """
        ...

    def replayed(self, at: MirrorPartition, start: int, producer_id: int, by: Deadline) -> Replayed:
        """What there is of the records of `producer_id` from `start` on, everything committed."""
        ...

    def append(
        self, tail: TailCopy, records: Sequence[RescuedRecord], producer_id: int, sequence: int, by: Deadline
    ) -> None:
        """Append one batch to the partition that `tail` comes from; the headers say where each record comes from.

        Raises:
            OutOfOrderSequence: another number of records was written before. CouldNotTell: it may have been appended.
        """
        ...

    def current(self, of: RescuedRecord, last: KeyWritten | None, now: EpochMs) -> RescuedRecord:
        """The value that the key of a record has in the log: a copy of its last record, or else a tombstone."""
        ...


class DivergentTails(Protocol):
    """Of two clusters whose offsets are identical up to where they part. One item for each partition."""

    def common_ends(
        self, copied: Mapping[MirrorPartition, CopiedSpan], by: Deadline
    ) -> Mapping[MirrorPartition, int | TanistError]:
        """The end of the common prefix of both logs; records are compared, not only leader epochs.

        `NothingToCompare` where neither records nor a certain epoch tell it.
        """
        ...

    def counts(
        self, tails: Mapping[MirrorPartition, tuple[int, int]], by: Deadline
    ) -> Mapping[MirrorPartition, TailCounts | TanistError]:
        """What the old source has from the first offset up to the second one."""
        ...

    def transactions(
        self, spans: Mapping[MirrorPartition, TailSpan], by: Deadline
    ) -> Mapping[MirrorPartition, tuple[TransactionPart, ...] | TanistError]:
        """The parts of the old source's transactions that have records in a span, in its tail and before it.

        A span may begin before the log does. Aborted transactions are left out; one without a marker may be committed.
        """
        ...
