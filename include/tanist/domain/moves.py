"""A mirror that changes its direction moves: its state is at its destination, and that is another cluster then.

The old destination keeps a forwarding record. Between MOVING and MOVED the new destination gets the mirror's state and
the same record, so a command that was killed anywhere in between is completed by the next one, from either cluster.
Until the state is there, the reversal can be withdrawn: then the old source becomes what it was before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import AclEntry
from tanist.domain.acl_rules import swapped
from tanist.domain.errors import UnknownMirror
from tanist.domain.fences import FencedTopic
from tanist.domain.names import EpochMs, MirrorName, ProducerId
from tanist.domain.state_record import KINDS, MirrorRecord, RecordPolicy, stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.records import MirrorSpec


class MoveStatus(StrEnum):
    """MOVING: stored before anything is changed. MOVED: the new destination has the mirror.

    WITHDRAWING: what was changed is being put back, as the reversal cannot be completed. WITHDRAWN: that is done.
    """

    MOVING, MOVED = "MOVING", "MOVED"
    WITHDRAWING, WITHDRAWN = "WITHDRAWING", "WITHDRAWN"


UNFINISHED: Final = frozenset({MoveStatus.MOVING, MoveStatus.WITHDRAWING})


@stored("moved", "mirror", policy=RecordPolicy(stays=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorMove(MirrorRecord):
    """At the old destination of a mirror: which cluster is its destination now, or becomes it.

    While it is MOVING, it is also at the new destination, from the moment at which that has the mirror's state.
    `destination`: the connection; `cluster_id`: where it leads. `plan_json`: the approved plan of the reversal, word
    for word, from which an interrupted one is completed. `producer_ids`: of the mirror here, in its old direction; none
    in a record of an earlier version. `used`: the approvals of earlier reversals from here, which were withdrawn.
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
    reason: str = ""
    used: tuple[str, ...] = ()

    @property
    def approvals_used(self) -> tuple[str, ...]:
        """The approvals that no other reversal may use: `used`, then the one of this reversal."""
        return (*self.used, self.approval)


@stored("returning", "mirror", "topic", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBefore(MirrorRecord):
    """At the old destination: a topic of the old source before its reversal; deleted once that is done or withdrawn.

    `topic_id`: at the old source, empty: it had no such topic. `ends`: by partition, where its log ended when it was
    surveyed. `configs`: what the topic itself had of the configs that the reversal sets; None: it had none. `shut`: the
    mirror's principals that were denied exactly WRITE by name, on exactly this topic. `given`: the ACLs that an earlier
    failover had created on it, which the reversal deletes.
    """

    mirror: MirrorName
    topic: str
    topic_id: str
    ends: tuple[int, ...]
    configs: tuple[tuple[str, str | None], ...] = ()
    shut: tuple[str, ...] = ()
    given: tuple[AclEntry, ...] = ()
    mirror_id: str = ""


@stored("kept_fence", "mirror", "cluster_id", policy=RecordPolicy(compared=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFences(MirrorRecord):
    """The source fences at one cluster of a mirror whose topics a reversal has left behind there."""

    mirror: MirrorName
    cluster_id: str
    topics: tuple[FencedTopic, ...] = ()
    at: EpochMs
    mirror_id: str = ""


class MirrorMoved(UnknownMirror):
    """The mirror has another destination now."""

    name = "MIRROR_MOVED"

    def __init__(self, move: MirrorMove, here: str) -> None:
        super().__init__(
            f"mirror {move.mirror!r} moved from {here!r} to {move.destination!r} when it was reversed: use "
            f"--destination {move.destination}"
        )
        self.destination = move.destination


def opposite(spec: MirrorSpec) -> MirrorSpec:
    """`spec` with source and destination swapped."""
    return replace(
        spec,
        source=spec.destination,
        destination=spec.source,
        source_cluster_id=spec.destination_cluster_id,
        destination_cluster_id=spec.source_cluster_id,
        acl_principals=swapped(spec.acl_principals),
    )


def left_over(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys of a mirror that a cluster has no use for once it is its source: all but what is true of its logs."""
    kinds = {kind for kind, declared in KINDS.items() if declared.policy.stays}
    return tuple(key for key in keys if key.partition("/")[0] not in kinds)
