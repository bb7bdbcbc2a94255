"""What the recovery of a partition reads first of both logs, read of many partitions at once.

Each of these reads costs a round trip where a partition is read alone: 50 ms to a source in another datacenter, for
each of the thousands of partitions of a worker that has died. They are expected, not certain: what recovery wants
besides them it reads by itself, as the rest of a tail that is larger than FIRST_READ, and one that it does not want
changes nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tanist.domain.answers import answered
from tanist.domain.errors import TanistError
from tanist.domain.names import DestinationOffset
from tanist.domain.recovery import FIRST_LOOK, tail_start
from tanist.kafka.protocol.batch import walk, whole_bytes
from tanist.kafka.protocol.frames import FetchedPartition, FetchLimits, Isolation
from tanist.kafka.wire import requests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.log_ends import CopyEnds
    from tanist.domain.names import MirrorPartition, SourceOffset
    from tanist.domain.writer_identity import MarkingWriter
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

FIRST_READ: Final = 64 << 10  # bytes; a first batch that is larger comes whole (KIP-74)

FirstReads: TypeAlias = "dict[tuple[Router, int, Isolation], FetchedPartition]"
"""By cluster, offset and isolation of the request: the answers for one partition."""


class CopyFound(NamedTuple):
    """What is known of a copy before its log is read. `ends`: of what the mirror has written; `origin`: by its map.

    `source_start`: where the source's log starts. `holes`: cleaners take records out of both logs.
    """

    ends: CopyEnds
    origin: Callable[[DestinationOffset], SourceOffset]
    writer: MarkingWriter
    source_start: SourceOffset
    holes: bool


def first_reads(
    routers: tuple[Router, Router], copies: Mapping[MirrorPartition, CopyFound], by: Deadline
) -> Mapping[MirrorPartition, FirstReads]:
    """The end of each copy, and the source from where recovery compares it: two requests to each leader.

    `routers`: of source and destination. Not there: a copy without records, and what had no room in an answer.

    Raises:
        Unreachable, TimedOut, and the like: a cluster does not answer.
    """
    source, destination = routers
    starts = {at: tail_start(copy.ends, FIRST_LOOK) for at, copy in copies.items() if copy.ends.start < copy.ends.end}
    tails = _fetched(destination, starts, Isolation.READ_UNCOMMITTED, by)
    begun = {at: answered(partial(_compared_from, tail, copies[at])) for at, tail in tails.items()}
    begins = {at: each for at, each in begun.items() if each is not None}
    originals = _fetched(source, begins, Isolation.READ_COMMITTED, by)
    found: dict[MirrorPartition, FirstReads] = {}
    for at, tail in tails.items():
        found[at] = {(destination, starts[at], Isolation.READ_UNCOMMITTED): tail}
        if at in originals:
            found[at][source, begins[at], Isolation.READ_COMMITTED] = originals[at]
    return found


def _fetched(
    router: Router, offsets: Mapping[MirrorPartition, int], isolation: Isolation, by: Deadline
) -> dict[MirrorPartition, FetchedPartition]:
    """The answers that hold a whole batch at least."""
    limits = FetchLimits(max_wait_ms=0, isolation=isolation)
    answers = requests.fetch(router, offsets, by, limits, FIRST_READ) if offsets else {}
    return {at: each for at, each in answers.items() if not isinstance(each, TanistError) and whole_bytes(each.records)}


def _compared_from(tail: FetchedPartition, copy: CopyFound) -> SourceOffset | None:
    """Where the source is read first: where the last batch of the copy begins there, by the map; with holes the first.

    None: `tail` has no batch that was copied, or not the last one.

    Raises:
        CorruptBatch, UnsupportedBatch: recovery finds it, too, and says so.
    """
    headers = [header for header, _ in walk(tail.records) if header.base_offset < copy.ends.end]
    copied = [each.base_offset for each in headers if copy.writer.has_copied(each.producer_id, control=each.is_control)]
    if not copied or (headers[-1].next_offset < copy.ends.end and not copy.holes):
        return None
    begun = copy.origin(DestinationOffset(copied[0 if copy.holes else -1]))
    return max(begun, copy.source_start) if copy.holes else begun
