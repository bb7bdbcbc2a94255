"""Transactions of which a part was copied and a part lies in a divergent tail: the new primary has them in pieces.

Which parts in several partitions are of one transaction is told by their markers. Brokers stamp these with their own
clock, while producers choose the times of records. A coordinator writes the markers of a transaction to all partitions
within moments, and before its producer begins another one. Only a coordinator that could not write (a leader was away,
the cluster was killed) writes some of them much later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.checks import named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from tanist.domain.names import MirrorPartition

SKEW_MS: Final = 5_000
"""Of the clocks of the old source's brokers."""
MOMENTS_MS: Final = 2_000
"""Markers that were written farther apart do not prove that two parts are of one transaction."""
CLEARLY: Final = 2
"""Two markers belong together if each one's next nearest is more than so many times as far away."""
_OPEN: Final = 1 << 62


@dataclass(frozen=True, slots=True, order=True)
class TransactionPart:
    """The records of a committed transaction that a partition has before its tail, or in it. Offsets of the source.

    `first`: its first record there. `marker`: its commit marker, `ended`: the broker's time of that (ms), and
    `marker_epoch` its producer epoch; None while the marker is not written. `after`: the broker's time of the last
    marker of any transaction before the first record in this partition; None: there is none in what was read.
    """

    partition: MirrorPartition
    producer_id: int
    producer_epoch: int
    first: int
    in_tail: bool
    marker: int | None = None
    ended: int | None = None
    marker_epoch: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class TornTransaction:
    """A part that is in a tail, and the parts of the same transaction that were copied.

    `possible`: copied parts that may belong to it, which their markers do not decide.
    """

    tail: TransactionPart
    copied: tuple[TransactionPart, ...]
    possible: tuple[TransactionPart, ...] = ()

    def __str__(self) -> str:
        says = [f"was copied in {_places(self.copied)}"] if self.copied else []
        says += [f"may have been copied in {_places(self.possible)}"] if self.possible else []
        return (
            f"a transaction of producer id {self.tail.producer_id} has records in the tail of {self.tail.partition} "
            f"(from offset {self.tail.first} on), and {', and '.join(says)}"
        )


def torn_words(found: Collection[TornTransaction]) -> str:
    """All of them in one sentence that names the first few; empty: there are none."""
    tails = {each.tail.partition for each in found}
    head = f"{len(found)} transactions were copied in part, or may have been, and have records in {len(tails)} tail(s)"
    return f"{head}: {named(found)}" if len(found) > 1 else named(found)


def _places(parts: Iterable[TransactionPart]) -> str:
    return named((f"{each.partition} from offset {each.first} on" for each in parts), ", ")


# ── reading a partition ───────────────────────────────────────────────────────────────────────────────────────────


class TransactionBatch(NamedTuple):
    """A transactional batch. `time`: of the broker if it is a marker. `commits`: what a marker says, else None."""

    offset: int
    producer_id: int
    producer_epoch: int
    time: int
    commits: bool | None = None


def parts_of(at: MirrorPartition, common_end: int, batches: Iterable[TransactionBatch]) -> Iterator[TransactionPart]:
    """The parts of the transactions that were not aborted; two of one that has records on both sides of `common_end`.

    `batches`: of a span of the old source's log, by offset.
    """
    begun: dict[int, list[TransactionPart]] = {}
    after: int | None = None
    for batch in batches:
        if batch.commits is None:
            parts, in_tail = begun.setdefault(batch.producer_id, []), batch.offset >= common_end
            if not parts or parts[-1].in_tail != in_tail:
                began = parts[0].after if parts else after
                part = TransactionPart(at, batch.producer_id, batch.producer_epoch, batch.offset, in_tail, after=began)
                parts.append(part)
            continue
        for part in begun.pop(batch.producer_id, ()):
            if batch.commits:
                epoch = batch.producer_epoch
                yield replace(part, marker=batch.offset, ended=batch.time, marker_epoch=epoch)
        after = batch.time if after is None else max(after, batch.time)
    for parts in begun.values():
        yield from parts


# ── which of them are of one transaction ──────────────────────────────────────────────────────────────────────────


class _Piece(NamedTuple):
    """What a partition has of one transaction. `ended`: the time of its marker, the latest possible if it has none."""

    ended: int
    after: int
    copied: TransactionPart | None
    tail: TransactionPart | None
    bumped: bool
    """The producer has a new epoch after each transaction (KIP-890), so the epoch names the transaction."""


def torn(parts: Iterable[TransactionPart]) -> tuple[TornTransaction, ...]:
    """The transactions that have parts in tails, and parts that were copied, or may have.

    A pair of parts in two partitions is certainly of one transaction if it has the epoch to itself, or if their markers
    are clearly nearer to each other than to any other one. Else they may be, unless one had ended before the other one
    began.
    """
    found = []
    for producer in _by_producer(parts):
        for at, pieces in producer.items():
            others = [other for partition, other in producer.items() if partition != at]
            found += [_of_tail(piece.tail, piece, pieces, others) for piece in pieces if piece.tail is not None]
    return tuple(sorted(each for each in found if each.copied or each.possible))


def _by_producer(parts: Iterable[TransactionPart]) -> Iterator[dict[MirrorPartition, list[_Piece]]]:
    """For each producer and epoch the pieces in each partition, by the time of their markers."""
    known = set[tuple[int, int, int]]()
    grouped: dict[tuple[int, int, int], dict[MirrorPartition, dict[int | None, list[TransactionPart]]]]
    grouped = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for part in sorted(parts, key=lambda each: (each.marker is None, each)):
        bumped = (part.producer_id, part.producer_epoch, part.producer_epoch + 1)
        group = (*bumped[:2], part.producer_epoch if part.marker_epoch is None else part.marker_epoch)
        group = bumped if part.marker is None and bumped in known else group
        known.add(group)
        grouped[group][part.partition][part.marker].append(part)
    for (_, epoch, marker_epoch), partitions in grouped.items():
        yield {
            at: sorted((_piece(of, bumped=marker_epoch > epoch) for of in pieces.values()), key=lambda each: each.ended)
            for at, pieces in partitions.items()
        }


def _piece(parts: Sequence[TransactionPart], *, bumped: bool) -> _Piece:
    first = parts[0]
    return _Piece(
        ended=_OPEN if first.ended is None else first.ended,
        after=-_OPEN if first.after is None else first.after,
        copied=next((each for each in parts if not each.in_tail), None),
        tail=next((each for each in parts if each.in_tail), None),
        bumped=bumped,
    )


def _of_tail(
    tail: TransactionPart, piece: _Piece, pieces: Sequence[_Piece], others: Iterable[Sequence[_Piece]]
) -> TornTransaction:
    copied = [piece.copied] if piece.copied is not None else []
    possible = []
    for there in others:
        if (partner := _partner(piece, pieces, there)) is not None:
            copied += [partner.copied] if partner.copied is not None else []
        elif (near := _nearest_copied(piece, pieces, there)) is not None:
            possible.append(near)
    return TornTransaction(tail, tuple(sorted(copied)), tuple(sorted(possible)))


def _may_be_one(one: _Piece, other: _Piece) -> bool:
    """Whether neither had ended before the other one began, as far as brokers' clocks tell."""
    return one.ended + SKEW_MS >= other.after and other.ended + SKEW_MS >= one.after


def _partner(piece: _Piece, pieces: Sequence[_Piece], there: Sequence[_Piece]) -> _Piece | None:
    """What another partition certainly has of the transaction."""
    nearest = _clearly_nearest(piece, there)
    if nearest is None or nearest.bumped:
        return nearest
    return nearest if _clearly_nearest(nearest, pieces) is piece else None


def _clearly_nearest(piece: _Piece, there: Sequence[_Piece]) -> _Piece | None:
    if piece.bumped:
        return there[0]
    near = sorted(_neighbours(piece, there, 2), key=lambda each: abs(each.ended - piece.ended))
    distances = [abs(each.ended - piece.ended) for each in near]
    if not near or distances[0] > MOMENTS_MS:
        return None
    return near[0] if len(near) == 1 or distances[1] > CLEARLY * distances[0] else None


def _neighbours(piece: _Piece, there: Sequence[_Piece], count: int) -> list[_Piece]:
    """The next ones by the time of their markers, before and after, that may be of the same transaction."""
    index = bisect_left(there, piece.ended, key=lambda each: each.ended)
    return [each for each in there[max(0, index - count) : index + count] if _may_be_one(piece, each)]


def _nearest_copied(piece: _Piece, pieces: Sequence[_Piece], there: Sequence[_Piece]) -> TransactionPart | None:
    """The copied part that is most likely of the same transaction, if it is not certainly of another one."""
    copied = [each for each in there if each.copied is not None]
    free = [each for each in _neighbours(piece, copied, 1) if _partner(each, there, pieces) is None]
    nearest = min(free, key=lambda each: abs(each.ended - piece.ended), default=None)
    return None if nearest is None else nearest.copied
