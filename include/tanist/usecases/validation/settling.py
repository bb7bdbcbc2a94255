"""Where the records of a mirror are in its copy, once it has reached what its source had when it was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.answers import known
from tanist.domain.records import OFFSETS_TOPIC
from tanist.usecases.offset_policy import offset_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.names import MirrorPartition
    from tanist.domain.offset_policy import OffsetPolicy
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.snapshot import MirrorSnapshot

SETTLE_SECONDS: Final = 15.0
"""How long a copy may take to reach the end that its source had at first."""
_PAUSE_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class SettledOffsets:
    """`ends`: of mapped offsets where the source of each partition ended before `policy` was read, if it said so."""

    policy: OffsetPolicy
    ends: Mapping[MirrorPartition, int] = field(default_factory=dict)


def settled_offsets(
    both: MirrorSnapshot, view: StateView, topics: Iterable[TopicDesired], context: CommandContext
) -> SettledOffsets:
    """The policy of a mirror. `view`: of the state topic; `topics`: those that are to be compared.

    Ranges of identical offsets are on record before their records are copied, so nobody waits. Those of mapped offsets
    are known up to where the copy goes on: a comparison ends there, so the copy has a while to reach its source.

    Raises:
        UnreadableRanges; CouldNotTell, BrokerError: the destination, or the source, does not answer.
    """
    spec, destination = both.spec, both.destination
    stored = destination.state(OFFSETS_TOPIC, context.by)
    ends = _ends(both, topics, context) if spec.is_mapped else {}
    by = context.clock.deadline(SETTLE_SECONDS)
    while True:
        policy = offset_policy(spec, destination.cluster, view, stored, context.by)
        if not _is_behind(policy, ends, view, spec) or not by.left(context.clock.monotonic()):
            return SettledOffsets(policy, ends)
        context.clock.wait(_PAUSE_SECONDS)


def _ends(both: MirrorSnapshot, topics: Iterable[TopicDesired], context: CommandContext) -> dict[MirrorPartition, int]:
    copies = {both.spec.names.at_source(at): at for topic in topics for at in topic.all_partitions()}
    found = known(both.reachable_source().ends(copies, context.by))
    return {copies[there]: each.last_stable for there, each in found.items()}


def _is_behind(policy: OffsetPolicy, ends: Mapping[MirrorPartition, int], view: StateView, spec: MirrorSpec) -> bool:
    """Whether a copy that somebody still makes may yet reach the end of its source."""
    maps = {at: policy.map_of(at) for at in ends if not view.promoted(spec.mirror, at.topic)}
    return any(each.until is not None and not each.unread and each.until < ends[at] for at, each in maps.items())
