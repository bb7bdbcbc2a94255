"""How the offsets of an open mirror relate now: by what is on record, and by the mirror's own positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.anchors import expanded, known
from tanist.domain.answers import attempt
from tanist.domain.detached import detached_here
from tanist.domain.errors import TanistError
from tanist.domain.fake_group import copied_position, group_of
from tanist.domain.names import DestinationOffset
from tanist.domain.offset_map import LOST
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.records import OFFSETS_TOPIC
from tanist.ports.positions import CommittedPosition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import MirrorPartition, SourceOffset
    from tanist.domain.offset_map import AnchoredSpan, OffsetRange
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
    positions: dict[MirrorPartition, CopiedPosition] = {}
    unread: dict[MirrorPartition, str] = {}
    for at, found in copied_positions(spec, destination, state, by).items():
        if isinstance(found, TanistError):
            unread[at] = f"where the copy goes on is unknown: {found.name}: {found.reason}"
        elif found is None and not state.promoted(spec.mirror, at.topic):
            unread[at] = f"group {group_of(spec.mirror)!r} at {spec.destination!r} has no position of the copy"
        elif found is not None:
            positions[at] = found
    return OffsetPolicy.of(destination.state(OFFSETS_TOPIC, by), spec, positions, unread)


def detailed(
    policy: OffsetPolicy,
    destination: Cluster,
    wanted: Mapping[MirrorPartition, Collection[SourceOffset] | None],
    by: Deadline,
) -> OffsetPolicy:
    """`policy`, exact at all positions of `wanted`; of a partition with None at all of them.

    Where anchors are all that is known, the log of the copy is read from one to the next: once for all positions
    between the two. What cannot be read, or lacks records that were copied, stays as it is, with the reason.
    """
    spans = {at: _spans(policy, at, positions) for at, positions in wanted.items()}
    asked = sorted(at for at, some in spans.items() if some)
    if not asked:
        return policy
    ends = attempt(lambda: destination.logs.ends(asked, by))
    found: dict[MirrorPartition, dict[AnchoredSpan, tuple[OffsetRange, ...] | str]] = {}
    for at in asked:
        copy = ends if isinstance(ends, TanistError) else ends[at]
        found[at] = {span: _walked(destination, at, span, copy, by) for span in spans[at]}
    return policy.walked(found)


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


def _spans(
    policy: OffsetPolicy, at: MirrorPartition, positions: Collection[SourceOffset] | None
) -> tuple[AnchoredSpan, ...]:
    if positions is None:
        return policy.map_of(at).unwalked
    found = (policy.map_of(at).unwalked_at(position) for position in positions)
    return tuple(dict.fromkeys(span for span in found if span is not None))


def _walked(
    destination: Cluster, at: MirrorPartition, span: AnchoredSpan, copy: LogEnds | TanistError, by: Deadline
) -> tuple[OffsetRange, ...] | str:
    if span.is_lost:
        return LOST
    if span.is_known:
        return known(span)
    if isinstance(copy, TanistError):
        return copy.reason
    start = max(span.start.destination, DestinationOffset(copy.start))
    if start >= span.until.destination:
        return f"the mirror partition begins at {copy.start}: older records are gone"
    walk = attempt(lambda: destination.logs.walk(at, (start, span.until.destination), by))
    return walk.reason if isinstance(walk, TanistError) else expanded(span, walk, start)


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
