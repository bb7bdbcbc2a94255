"""The positions of a mirror with mapped offsets, as the group at its destination has them: how far the copy is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.answers import attempt
from tanist.domain.broker_errors import UnstableOffsetCommit
from tanist.domain.errors import TanistError
from tanist.domain.fake_group import copied_position, group_of
from tanist.domain.names import MirrorPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.ports.positions import CommittedOf, CommittedPosition
    from tanist.usecases.command import CommandContext

_UNSTABLE_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.1
"""A transaction of a worker has a position pending for some milliseconds, between its commit and its last marker."""


def copied_positions(
    spec: MirrorSpec, view: StateView, destination: Cluster, context: CommandContext, topics: Collection[str]
) -> dict[MirrorPartition, CopiedPosition | TanistError]:
    """Of each partition of `topics` that has one; the reason where it cannot be read, or was not committed by us.

    `view`: of the state topic of the destination. Of a mirror with identical offsets there are none.
    """
    if not spec.is_mapped or not topics:
        return {}
    found = _stable(spec, destination, context, topics)
    if isinstance(found, TanistError):
        return {
            at: found for topic in view.topics(spec.mirror) if topic.topic in topics for at in topic.all_partitions()
        }
    source_ids = {each.topic: each.source_topic_id for each in view.topics(spec.mirror) if each.topic in topics}
    return {
        (at := MirrorPartition(*each)): _read(spec, at, answer, source_ids[each.topic])
        for each, answer in found.items()
        if each.topic in source_ids
    }


def unread(positions: Mapping[MirrorPartition, CopiedPosition | TanistError], at: MirrorPartition) -> bool:
    """Whether there may be a position that is not known. A partition without one has copied nothing yet."""
    return isinstance(positions.get(at), TanistError)


def _stable(
    spec: MirrorSpec, destination: Cluster, context: CommandContext, topics: Collection[str]
) -> CommittedOf | TanistError:
    """Everything in the group; what is pending in `topics` is waited for a while."""
    group = group_of(spec.mirror)
    positions = destination.positions(spec.mirror)

    def ask() -> CommittedOf | TanistError:
        return attempt(lambda: positions.committed([group], context.by)[group])

    found = ask()
    for _ in range(_UNSTABLE_TRIES):
        if isinstance(found, TanistError) or not _is_pending(found, topics):
            break
        if not context.by.left(context.clock.monotonic()):
            break
        context.clock.wait(_PAUSE_SECONDS)
        found = ask()
    return found


def _is_pending(found: CommittedOf, topics: Collection[str]) -> bool:
    return any(isinstance(each, UnstableOffsetCommit) and at.topic in topics for at, each in found.items())


def _read(
    spec: MirrorSpec, at: MirrorPartition, answer: CommittedPosition | TanistError, source_id: str
) -> CopiedPosition | TanistError:
    if isinstance(answer, TanistError):
        return answer
    return attempt(lambda: copied_position(at, answer.offset, answer.metadata, spec.id, source_id))
