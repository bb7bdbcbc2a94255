"""The topics of a mirror that somebody else copies, as both clusters have them now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanist.domain.answers import attempt
from tanist.domain.errors import TanistError
from tanist.domain.followed import FollowedTopics, TopicsSeen, copies_of, paired, sources_of
from tanist.domain.owners import Owners
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.mirror import same_as_pinned

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.ports.clock import Deadline
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.snapshot import ClusterSnapshot, MirrorSnapshot


def followed(mirror: OpenMirror, context: CommandContext) -> FollowedTopics:
    """The topics of the source that are in the mirror, and their copies. A silent source is a fact here, no error.

    Then the topics of the destination tell what is in it. Needs DESCRIBE on the topics of both clusters.

    Raises:
        what the destination answers if it cannot be read.
    """
    return followed_in(mirror.snapshot(), context)


def followed_in(both: MirrorSnapshot, context: CommandContext) -> FollowedTopics:
    """As `followed`, from a snapshot."""
    spec, here = both.spec, both.destination
    there = attempt(lambda: _at_source(both, context))
    if isinstance(there, TanistError):
        wanted = sources_of(spec, here.topic_names(context.by))
    else:
        wanted = copies_of(spec, there.partitions)
    copies = _seen(here, wanted.values(), context.by)
    owners = Owners.besides(here.state(STATE_TOPIC, context.by), spec.mirror)
    taken = {copy: owner.in_full for copy in wanted.values() if (owner := owners.of(copy)) is not None}
    return paired(wanted, there, copies, taken)


def _at_source(both: MirrorSnapshot, context: CommandContext) -> TopicsSeen:
    source, by = both.reachable_source(), context.first_contact()
    same_as_pinned(both.spec, source.cluster_id(by), None)
    return _seen(source, copies_of(both.spec, source.topic_names(by)), by)


def _seen(cluster: ClusterSnapshot[Any], topics: Collection[str], by: Deadline) -> TopicsSeen:
    seen = cluster.registry(sorted(topics), by)
    return TopicsSeen(partitions=seen.partitions, ids=seen.topic_ids)
