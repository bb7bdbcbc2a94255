"""A mirror that changes its direction moves: its state is at its destination, and that is another cluster then.

The old destination keeps a forwarding record. Between its two forms the new destination gets the mirror's state, so a
command that was killed anywhere in between is completed by the next one, from either cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import UnknownMirror
from tanist.domain.lineage import TopicLineage
from tanist.domain.losses import LostOffsets
from tanist.domain.names import EpochMs, MirrorName, ProducerId
from tanist.domain.records import PromotionEpoch
from tanist.domain.state_record import MirrorRecord, stored

if TYPE_CHECKING:
    from collections.abc import Iterable


class MoveStatus(StrEnum):
    """MOVING: stored before anything is changed. MOVED: the new destination has the mirror."""

    MOVING, MOVED = "MOVING", "MOVED"


@stored("moved", "mirror")
@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMove(MirrorRecord):
    """At the old destination of a mirror: which cluster is its destination now, or becomes it.

    `destination`: the connection; `cluster_id`: where it leads. `plan_json`: the approved plan of the reversal, word
    for word, from which an interrupted one is completed. `producer_ids`: of the mirror here, in its old direction; none
    in a record of an earlier version.
    """

    mirror: MirrorName
    destination: str
    cluster_id: str
    status: MoveStatus
    plan: str
    plan_json: str
    approval: str
    approver: str
    at: EpochMs
    mirror_id: str = ""
    producer_ids: tuple[ProducerId, ...] = ()


class MirrorMoved(UnknownMirror):
    """The mirror has another destination now."""

    name = "MIRROR_MOVED"

    def __init__(self, move: MirrorMove, here: str) -> None:
        super().__init__(
            f"mirror {move.mirror!r} moved from {here!r} to {move.destination!r} when it was reversed: use "
            f"--destination {move.destination}"
        )
        self.destination = move.destination


_STAYS: Final = tuple(f"{kind.stored_as}/" for kind in (PromotionEpoch, TopicLineage, LostOffsets, MirrorMove))


def left_over(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys of a mirror that a cluster has no use for once it is its source: all but what is true of its logs."""
    return tuple(key for key in keys if not key.startswith(_STAYS))
