"""The position of a mirror as the committed offset of a group at the destination that has no member (KIP-656).

It is committed in the transaction of the records before it, under the destination's topic and partition. Any consumer
that joins the group, and any reset by hand, moves it: so each commit carries a proof, and an offset without one is
never used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import PartitionBroken
from tanist.domain.mapped_runs import OffsetRangesWritten, decoded, encoded, without_records
from tanist.domain.names import DestinationOffset, ProducerId, SourceOffset, topic_id_text
from tanist.domain.offset_map import OffsetRange

if TYPE_CHECKING:
    from uuid import UUID

    from tanist.domain.names import MirrorName, MirrorPartition

MOST_BYTES: Final = 4_096
"""The default of `offset.metadata.max.bytes`; a proof is far shorter."""
_MOST_SHOWN: Final = MOST_BYTES * 3 // 4
_PROOF: Final = re.compile(
    r"tanist (?P<mirror>\S+) (?P<topic>\S*) (?P<end>\d+) (?P<count>\d+) (?P<runs>\S*)"
    r"(?: (?P<size>\d+)(?: (?P<producer>\d+))?)?"
)
NO_PRODUCER: Final = ProducerId(-1)
"""Everything was appended in transactions."""
_NAME: Final = re.compile(r"tanist-[^/]+/(positions|copied)")
_AGAIN: Final = "copy the topic again from its start (`tanist mirrors remove --keep-copy`, docs/mirroring.md)"


class PositionNotOurs(PartitionBroken):
    name = "POSITION_NOT_OURS"
    operator_action = (
        "somebody else has committed in the group of the mirror's own positions: end the consumer that has joined it, "
        f"{_AGAIN}"
    )


class MirrorPositionLost(PartitionBroken):
    name = "POSITION_LOST"
    operator_action = (
        "the group of the mirror's own positions was deleted: `tanist mirrors alter --delivery at-least-once` copies "
        f"again what it may have lost, and can be taken back once the topic is copied; or {_AGAIN}"
    )


class MirrorTruncated(PartitionBroken):
    name = "MIRROR_TRUNCATED"
    operator_action = f"the destination has lost records that were copied: {_AGAIN}"


@dataclass(frozen=True, slots=True)
class CopiedPosition:
    """Where a copy goes on: the next source offset, and what proves it.

    `mirror_id`, `source_topic_id`: of what is copied; brokers older than 2.8 have no topic ids, it is empty then.
    `end`: of the copy, behind the marker of the transaction that committed it. `count`: of the transactions of this
    partition; it only grows. `runs`: the last ranges of the offset map that are published, from where on the source had
    no record then, and all that are not. `size`: bytes of the copy that the latter are about.
    `producer_id`: who may have appended behind `end` outside of transactions. Those records of the source are appended
    again, so what lies behind `end` and is this producer's is a first copy that the map does not name.
    """

    position: SourceOffset
    mirror_id: str
    source_topic_id: str
    end: DestinationOffset
    count: int
    runs: tuple[OffsetRange, ...] = ()
    size: int = 0
    producer_id: ProducerId = NO_PRODUCER

    @property
    def metadata(self) -> str:
        """As it is committed beside the offset."""
        producer = "" if self.producer_id == NO_PRODUCER else f" {self.producer_id}"
        size = f" {self.size}{producer}" if self.size or producer else ""
        return f"tanist {self.mirror_id} {self.source_topic_id} {self.end} {self.count} {encoded(self.runs)}{size}"


def published(mirror: MirrorName, at: MirrorPartition, copied: CopiedPosition, mirror_id: str) -> OffsetRangesWritten:
    """All ranges beside a position, and the position itself as the last one, so that the map needs no position more."""
    runs = (*(run for run in copied.runs if run.source < copied.position), OffsetRange(copied.position, copied.end))
    return OffsetRangesWritten(
        mirror=mirror,
        mirror_id=mirror_id,
        partition=at,
        source=runs[0].source,
        until=copied.position,
        ranges=encoded(runs),
        size=copied.size,
    )


def group_of(mirror: MirrorName) -> str:
    """The name of the group; '/' is in no mirror's name."""
    return f"tanist-{mirror}/positions"


def shown_group(mirror: MirrorName) -> str:
    """The group at the source in which tools see how far the mirror is.

    Not the one above: where the source is the destination of another mirror of this name, that one counts.
    """
    return f"tanist-{mirror}/copied"


def shown(copied: CopiedPosition, topic_id: UUID | None) -> str:
    """What is committed beside a position in `shown_group`. `topic_id`: of the mirror topic; None: it has none.

    With the id it proves that the copy which is there now had come so far. Ranges that are too many are left out.
    """
    if topic_id is None:
        return ""
    few = copied if len(copied.metadata) <= _MOST_SHOWN else replace(copied, runs=without_records(copied.runs))
    return f"{topic_id_text(topic_id)} {few.metadata}"


def shown_position(
    at: MirrorPartition, offset: int, metadata: str, topic_id: UUID | None, *ids: str
) -> CopiedPosition | None:
    """What a position in `shown_group` says of the copy that is there now; None: it says nothing of it.

    `ids`: as `copied_position` has them. Whatever it says was committed once, and perhaps more was since.

    Raises:
        UnreadableRanges: as `decoded`.
    """
    of, _, proof = metadata.partition(" ")
    if topic_id is None or of != topic_id_text(topic_id):
        return None
    try:
        return copied_position(at, offset, proof, *ids)
    except PositionNotOurs:
        return None


def any_shown_position(offset: int, metadata: str) -> CopiedPosition | None:
    """The same, of whatever mirror and mirror topic. Raises UnreadableRanges: as `decoded`."""
    return any_position(offset, metadata.partition(" ")[2])


def is_fake(group: str) -> bool:
    """Whether a group is that of a mirror's own positions: no consumer's, so it is in no mirror and no snapshot."""
    return _NAME.fullmatch(group) is not None


def copied_position(
    at: MirrorPartition, offset: int, metadata: str, mirror_id: str, source_topic_id: str
) -> CopiedPosition:
    """What a committed offset says, by the metadata beside it.

    Raises:
        PositionNotOurs: it was committed by somebody else, by another mirror, or for an earlier topic of that name.
        UnreadableRanges: as `decoded`.
    """
    found = any_position(offset, metadata)
    if found is None:
        raise PositionNotOurs(f"{at}: offset {offset} was committed without a proof of this mirror")
    if (found.mirror_id, found.source_topic_id) != (mirror_id, source_topic_id):
        raise PositionNotOurs(
            f"{at}: offset {offset} is of mirror {found.mirror_id} and source topic {found.source_topic_id}, not of "
            f"{mirror_id} and {source_topic_id}"
        )
    return found


def any_position(offset: int, metadata: str) -> CopiedPosition | None:
    """The same, of whatever mirror; None: there is no proof beside it. Raises UnreadableRanges: as `decoded`."""
    proof = _PROOF.fullmatch(metadata)
    if proof is None:
        return None
    return CopiedPosition(
        SourceOffset(offset),
        proof["mirror"],
        proof["topic"],
        DestinationOffset(int(proof["end"])),
        int(proof["count"]),
        decoded(proof["runs"]),
        size=int(proof["size"] or 0),
        producer_id=ProducerId(int(proof["producer"] or NO_PRODUCER)),
    )
