"""Decides for each batch that was fetched from the source: append, fill or refuse.

Committed data is appended as it is. Every offset that the source uses for something invisible to READ_COMMITTED
consumers (control markers, aborted data) is filled with one marker per offset, so that both logs agree offset by
offset. A batch that cannot be copied without breaking that is refused with a named error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from tanist.domain.errors import CompactionHole, Diverged, PartitionBroken
from tanist.domain.names import DestinationOffset, SourceOffset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


class Batch(Protocol):
    """The fields of a record batch header that a decision needs."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def record_count(self) -> int: ...
    @property
    def is_dense(self) -> bool: ...


class AbortedTransaction(NamedTuple):
    """An aborted transaction, as a READ_COMMITTED fetch lists it: all batches of this id from here to its marker."""

    producer_id: int
    first_offset: int


H = TypeVar("H", bound=Batch)
Payload = TypeVar("Payload")


@dataclass(frozen=True, slots=True)
class Append(Generic[H, Payload]):
    """A batch to append as a whole."""

    header: H
    payload: Payload

    @property
    def start(self) -> SourceOffset:
        return SourceOffset(self.header.base_offset)

    @property
    def until(self) -> SourceOffset:
        return SourceOffset(self.header.next_offset)


@dataclass(frozen=True, slots=True)
class Fill:
    """Source offsets from `start` up to, not including, `until` that hold nothing visible to consumers."""

    start: SourceOffset
    until: SourceOffset


@dataclass(frozen=True, slots=True)
class Refuse:
    """The partition cannot be copied from here on."""

    error: PartitionBroken


Step: TypeAlias = "Append[H, Payload] | Fill | Refuse"


def decide(
    position: SourceOffset,
    batches: Iterable[tuple[H, Payload]],
    aborted: Sequence[AbortedTransaction],
    ends_abort: Callable[[Payload], bool],
    *,
    holes: bool = False,
) -> Iterator[Step[H, Payload]]:
    """The steps that copy `batches`, which were fetched READ_COMMITTED at `position`.

    Steps are contiguous: each starts where the one before ended. `ends_abort` says of a control batch whether it is
    an ABORT marker. Adjacent gaps become one Fill. The first Refuse is the last step.

    `holes`: the log is or was compacted. Then missing offsets are gaps, and an Append may lack records, or begin
    before `position`: the records from there on are to be copied.

    Raises:
        PartitionBroken: what the iteration of `batches` raises (a corrupt batch) passes through.
    """
    at, gap_from = position, position
    open_aborts: set[int] = set()
    upcoming = sorted(aborted, key=lambda a: a.first_offset, reverse=True)
    for header, payload in batches:
        following = SourceOffset(header.next_offset)
        if following <= at:
            continue
        while upcoming and upcoming[-1].first_offset < following:
            open_aborts.add(upcoming.pop().producer_id)
        unseen = header.is_control or (header.is_transactional and header.producer_id in open_aborts)
        if holes:
            unseen = unseen or not header.record_count
            at = SourceOffset(max(at, header.base_offset))
        elif broken := _refusal(header, at, unseen=unseen):
            yield from _gap(gap_from, at)
            yield Refuse(broken)
            return
        if header.is_control and header.producer_id in open_aborts and ends_abort(payload):
            open_aborts.discard(header.producer_id)
        if not unseen:
            yield from _gap(gap_from, at)
            yield Append(header, payload)
            gap_from = following
        at = following
    yield from _gap(gap_from, at)


def _gap(start: SourceOffset, until: SourceOffset) -> Iterator[Fill]:
    if start < until:
        yield Fill(start, until)


def _refusal(header: Batch, at: SourceOffset, *, unseen: bool) -> PartitionBroken | None:
    if header.base_offset > at:
        return CompactionHole(f"source offsets {at} to {header.base_offset - 1} are missing")
    if unseen:
        return None  # of a gap any part may be missing, also its beginning: it shows no record
    if header.base_offset < at:
        return Diverged(f"the source's batch at {header.base_offset} begins before the position {at}")
    if not header.is_dense:
        return CompactionHole(f"the batch at source offset {header.base_offset} lacks records")
    return None


def markers_to_write(until: SourceOffset, end: DestinationOffset) -> int:
    """Markers to write when a gap of the source ends at `until` and the copy ends at `end`.

    Covers partial and lost fills. A mirror partition that is ahead gets fewer markers until it is not.
    """
    return max(0, until - end)
