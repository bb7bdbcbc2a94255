"""How the offsets of an open mirror relate now: by what is on record, and by the mirror's own positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.answers import attempt
from tanist.domain.detached import detached_here
from tanist.domain.errors import TanistError
from tanist.domain.fake_group import copied_position, group_of
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import OFFSETS_TOPIC
from tanist.ports.positions import CommittedPosition

if TYPE_CHECKING:
    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.names import MirrorPartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.positions import CommittedOf


def offset_policy(
    spec: MirrorSpec, destination: Cluster, state: StateView, offsets: StateView, by: Deadline
) -> OffsetPolicy:
    """The policy of a mirror. `state`, `offsets`: views of `__mirror_state` and `__mirror_offsets`.

    Of a mapped mirror its own positions are read, and then `__mirror_offsets` again: what has left a position by then
    is there. A position that is missing, cannot be read or is not the mirror's leaves its partition at what was
    published, with the reason.

    Raises:
        UnreadableRanges: what is published is damaged. Of a mapped mirror also as `Cluster.state`.
    """
    if not spec.is_mapped:
        return OffsetPolicy.of(offsets, spec)
    known: dict[MirrorPartition, CopiedPosition] = {}
    unread: dict[MirrorPartition, str] = {}
    for at, found in copied_positions(spec, destination, state, by).items():
        if isinstance(found, TanistError):
            unread[at] = f"where the copy goes on is unknown: {found.name}: {found.reason}"
        elif found is None and not state.promoted(spec.mirror, at.topic):
            unread[at] = f"group {group_of(spec.mirror)!r} at {spec.destination!r} has no position of the copy"
        elif found is not None:
            known[at] = found
    return OffsetPolicy.of(destination.state(OFFSETS_TOPIC, by), spec, known, unread)


def copied_positions(
    spec: MirrorSpec, destination: Cluster, state: StateView, by: Deadline, *, stable: bool = False
) -> dict[MirrorPartition, CopiedPosition | TanistError | None]:
    """Where a mapped copy goes on, of all topics that the mirror has, had, or has detached; or why that is not known.

    None: no position was committed. `stable`: a position that an open transaction is about to move is an error; else it
    is as it was before.
    """
    group = group_of(spec.mirror)
    answer = attempt(lambda: destination.positions(spec.mirror).committed([group], by, stable=stable)[group])
    return {
        at: answer if isinstance(answer, TanistError) else _position(spec, topic, at, answer)
        for topic in _topics(spec, state)
        for at in topic.all_partitions()
    }


def _topics(spec: MirrorSpec, state: StateView) -> tuple[TopicDesired, ...]:
    return (*(each.kept for each in detached_here(state, spec).values()), *state.topics(spec.mirror))


def _position(
    spec: MirrorSpec, topic: TopicDesired, at: MirrorPartition, answer: CommittedOf
) -> CopiedPosition | TanistError | None:
    found = answer.get(at)
    if not isinstance(found, CommittedPosition):
        return found
    offset, metadata = found
    return attempt(lambda: copied_position(at, offset, metadata, spec.id, topic.source_topic_id))
