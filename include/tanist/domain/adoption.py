"""Adoption: a destination topic that has records is taken into a mirror, without copying them again.

That is allowed only where its log is a true prefix of the source's: up to its end both logs have the same records at
the same offsets. Copying then begins at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping


class NotAPrefix(Refused):
    name, state_explains = "DESTINATION_NOT_A_PREFIX", False
    operator_action = (
        "delete the destination topic if its records are not needed, then add it without --adopt: it is copied from "
        "the start; nothing was changed"
    )


class TailAtDestination(Refused):
    """As NotAPrefix, of a log that has records in offsets which a failover has reserved."""

    name, state_explains = "DESTINATION_HAS_A_TAIL", False
    operator_action = (
        "these records may exist nowhere else: leave the topic out with --exclude, and do not delete it before they "
        "are saved; nothing was changed"
    )


class MirrorTopicPromoted(Refused):
    name = "MIRROR_TOPIC_PROMOTED"
    operator_action = (
        "it was failed over, so it is never copied to again: see `tanist mirrors lineage`, or delete the destination "
        "topic if its records are not needed; nothing was changed"
    )


class OppositeMirror(Refused):
    name = "OPPOSITE_MIRROR"
    operator_action = (
        "it copies back once it has failed over and is reversed: `tanist next NAME` says how; nothing was changed"
    )


class OppositeMapped(OppositeMirror):
    operator_action = (
        "a mirror with mapped offsets is not reversed yet, so copy back under names that it does not copy, with "
        "--offsets mapped --rename 'back.{topic}'; nothing was changed"
    )


class CandidateLog(NamedTuple):
    """A partition to adopt. `compacted`: at the source.

    `reserved`: offsets [start, end) that are not compared, because only one of both clusters can have records there.
    `history`: what a mirror had found when it began to copy to this very log; a producer fence below is of a failover
    that was reversed since.
    """

    compacted: bool
    reserved: tuple[tuple[int, int], ...] = ()
    history: int = 0

    def compares(self, offset: int) -> bool:
        """Whether both logs must have the same at this offset."""
        return not any(start <= offset < end for start, end in self.reserved)


class LogRange(NamedTuple):
    """A partition's log: its start, its last stable offset, its high watermark and the true end of the leader's log."""

    start: int
    last_stable: int
    high_watermark: int
    end: int


@dataclass(frozen=True, slots=True)
class AdoptableLog:
    """A log that is a true prefix of its source's. `end`: where copying begins.

    `compared`: how many records were compared. `writers`: the producer ids of the batches that were read at its end,
    -1 for a producer that was not idempotent; `markers`: those of its control batches. `transactional`: some of the
    batches are part of transactions, so this mirror's engine has not written them.
    """

    end: int
    compared: int = 0
    writers: frozenset[int] = frozenset()
    markers: frozenset[int] = frozenset()
    transactional: bool = False

    @property
    def by_one_mirror(self) -> bool:
        """Whether what was read looks like the work of one mirror: one idempotent producer without transactions."""
        return len(self.writers) == 1 and min(self.writers) >= 0 and not self.transactional


def comparable_span(source: LogRange, destination: LogRange) -> tuple[int, int]:
    """The offsets that both logs have, up to the end of the destination's; empty if neither has any record there.

    Raises:
        NotAPrefix: the ends alone show that the destination's log is not a prefix, or nothing can be compared.
    """
    end = destination.end
    if destination.last_stable < destination.high_watermark:
        raise NotAPrefix(
            f"a transaction is open at the destination from offset {destination.last_stable} on: another producer "
            "writes to it"
        )
    if end > source.last_stable:
        kept = "is not committed there" if end <= source.end else "does not exist there"
        raise NotAPrefix(
            f"the first differing offset is {source.last_stable}: it {kept}, the destination ends at {end}"
        )
    start = max(source.start, destination.start)
    if start < end or destination.start == end == source.start:
        return min(start, end), end
    raise NotAPrefix(
        f"the destination has offsets {destination.start} to {end}, the source begins at {source.start}: there is no "
        "record that both still have, so nothing can be compared"
    )


class ComparedRecord(NamedTuple):
    """What two records at one offset are compared by: key, value and headers as they are stored."""

    content: bytes
    has_key: bool


def first_difference(
    source: Mapping[int, ComparedRecord], destination: Mapping[int, ComparedRecord], *, compacted: bool
) -> int | None:
    """The first offset at which the logs differ; None: they do not.

    `compacted`: of an offset that only one log has nothing is said, nor of a record without a key at the source: the
    cleaner of either takes records out, and the copy fills holes.
    """
    offsets = source.keys() & destination.keys() if compacted else source.keys() | destination.keys()
    for offset in sorted(offsets):
        ours, theirs = source.get(offset), destination.get(offset)
        if ours == theirs:
            continue
        if compacted and ours is not None and theirs is not None and theirs.has_key and not ours.has_key:
            continue
        return offset
    return None


def last_same(source: Mapping[int, ComparedRecord], destination: Mapping[int, ComparedRecord]) -> int:
    """The last offset at which both have the same record; -1: none."""
    same = (offset for offset in source.keys() & destination.keys() if source[offset] == destination[offset])
    return max(same, default=-1)
