"""The records at both offsets of a translation, read as raw batches over `kafka.wire`: the port `Proofs`."""

from __future__ import annotations

import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.errors import TanistError
from tanist.domain.translation import Proof
from tanist.kafka.adapters.log_reader import UnreadSpan, parts_of
from tanist.kafka.protocol import record_proof
from tanist.kafka.wire.requests import End, list_offsets
from tanist.ports.clock import Deadline
from tanist.ports.positions import ProofResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import TopicPartition
    from tanist.kafka.protocol.record_proof import RecordFound
    from tanist.kafka.wire.router import Router
    from tanist.ports.positions import Pair

_Place: TypeAlias = "tuple[TopicPartition, int]"
_Read: TypeAlias = "dict[_Place, RecordFound | str]"
"""The record at a position, or why there is none."""

CHUNK: Final = 64 << 10
"""Bytes of the first read. A larger first batch is returned whole (KIP-74); adjacent positions share a read."""
MOST_READS: Final = 32
"""Of one position, across markers and aborted records."""
_PHASES: Final = 3
"""Where the logs begin, where they end, and what they have: equal parts of the time."""


class KafkaProofs:
    """Between two clusters. Owned by one thread; both are read at the same time, so their routers are two."""

    def __init__(self, source: Router, destination: Router) -> None:
        self._source = _Log(source, "the source")
        self._destination = _Log(destination, "the copy")

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        here: set[_Place] = {(pair.at_source, int(pair.source)) for pair in pairs}
        there: set[_Place] = {(pair.at, int(pair.destination)) for pair in pairs}
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._source.read, here, by)
            copies = self._destination.read(there, by)
            originals = reading.result()
        comparer = record_proof.Comparer()
        found = {pair: _judge(pair, originals, copies, comparer) for pair in sorted(pairs)}
        return {pair: found[pair] for pair in pairs}


def _judge(pair: Pair, originals: _Read, copies: _Read, comparer: record_proof.Comparer) -> ProofResult:
    original, copy = originals[pair.at_source, pair.source], copies[pair.at, pair.destination]
    if isinstance(original, str):
        return ProofResult(Proof.NONE, original)
    if isinstance(copy, str):
        return ProofResult(Proof.NONE, copy)
    try:
        proof, why = comparer.compare(original, copy)
        at_both = proof is not Proof.MISMATCH or comparer.are_held(original, copy)
    except TanistError as broken:
        return ProofResult(Proof.NONE, broken.reason)
    return ProofResult(proof, why, at_both)


class _Log:
    """One of the two clusters."""

    def __init__(self, router: Router, name: str) -> None:
        self._router = router
        self._name = name

    def read(self, places: set[_Place], by: Deadline) -> _Read:
        """The record at each position; never raises. A leader that is stuck costs the other partitions no answer."""
        wanted: dict[TopicPartition, list[int]] = defaultdict(list)
        for at, position in sorted(places):
            wanted[at].append(position)
        found: _Read = {}
        try:
            spans = self._spans(list(wanted), by)
            unread: list[tuple[TopicPartition, list[int], int]] = []
            for at, positions in wanted.items():
                inside, end, outside = _sorted_out(at, positions, spans[at], self._name)
                found |= outside
                if inside:
                    unread.append((at, inside, end))
            for index, (at, inside, end) in enumerate(unread):
                found |= self._partition(at, inside, end, _share(by, len(unread) - index))
        except TanistError as silent:
            for place in places:
                found.setdefault(place, f"{self._name} does not answer: {silent.reason}")
        return found

    def _spans(
        self, partitions: Sequence[TopicPartition], by: Deadline
    ) -> dict[TopicPartition, tuple[int, int] | TanistError]:
        starts = list_offsets(self._router, dict.fromkeys(partitions, End.EARLIEST), _share(by, _PHASES))
        known = {at: End.LAST_STABLE for at in partitions if not isinstance(starts[at], TanistError)}
        ends = starts | list_offsets(self._router, known, _share(by, _PHASES - 1))
        return {at: _span(starts[at], ends[at]) for at in partitions}

    def _partition(self, at: TopicPartition, positions: Sequence[int], end: int, by: Deadline) -> _Read:
        """Positions in ascending order, all below `end`; each read serves all positions in its range."""
        found: _Read = {}
        try:
            for position in positions:
                if (at, position) not in found:
                    self._from(at, position, positions, end, found, by)
        except TanistError as error:
            for position in positions:
                found.setdefault((at, position), f"{self._name} did not return it: {error.reason}")
        return found

    def _from(
        self, at: TopicPartition, position: int, positions: Sequence[int], end: int, found: _Read, by: Deadline
    ) -> None:
        parts = parts_of(self._router, at, UnreadSpan(position, end), by, first_bytes=CHUNK)
        for part in islice(parts, MOST_READS):
            seen = record_proof.visible(part.records, part.aborted)
            for each in positions:
                if part.begin <= each < part.until and (hit := seen.find(each)):
                    found[at, each] = hit
            if (hit := seen.find(position)) is not None:
                found[at, position] = hit
                return
        found[at, position] = f"{self._name} has no visible record after it"


def _share(by: Deadline, of: int) -> Deadline:
    """The first of so many equal parts of the time that is left; what it does not need is left to the others."""
    now = time.monotonic()
    return Deadline(now + by.left(now) / of)


def _span(start: int | TanistError, end: int | TanistError) -> tuple[int, int] | TanistError:
    if isinstance(start, TanistError):
        return start
    return end if isinstance(end, TanistError) else (start, end)


def _sorted_out(
    at: TopicPartition, positions: Sequence[int], span: tuple[int, int] | TanistError, name: str
) -> tuple[list[int], int, _Read]:
    """The positions that may have a record, the end of the log that they lie below, and why the others have none."""
    if isinstance(span, TanistError):
        return [], 0, {(at, position): f"{name} does not report its offsets: {span.reason}" for position in positions}
    start, end = span
    early: _Read = {(at, p): f"{name} begins at {start}: the record was deleted" for p in positions if p < start}
    late: _Read = {(at, p): f"at the end of {name}" for p in positions if p >= end}
    return [p for p in positions if start <= p < end], end, early | late
