"""`tanist groups snapshot`: the committed offsets of all groups of a cluster, whatever consumes there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from tanist.domain.answers import known
from tanist.domain.errors import CouldNotTell, Misconfigured, Refused, TanistError
from tanist.domain.fake_group import is_fake
from tanist.domain.names import MirrorName
from tanist.domain.problems import refuse
from tanist.domain.selection import EVERYTHING
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.mirror import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.positions import CommittedOf, CommittedPosition, GroupFacts, GroupListing
    from tanist.usecases.command import CommandContext

FORMAT: Final = "tanist-group-snapshot"
VERSION: Final = 1
"""Of the file. A reader refuses a newer one."""
WITHOUT_MIRROR: Final = MirrorName("/restore")
"""In whose name offsets are committed that belong to no mirror. No mirror can have it, so a restore fences other
restores, and no `groups sync`. Its transactional ids begin with `tanist-`, for which the login of mirrors has WRITE."""
_AT_ONCE: Final = 500
"""So many groups are read before progress is reported: as many as one request holds."""
_WITHOUT_COMMITS: Final = "share"
"""The kind of groups that have no committed offsets (KIP-932)."""


class SnapshotInvalid(Misconfigured):
    name = "GROUP_SNAPSHOT_INVALID"
    operator_action = "give a complete file that `tanist groups snapshot` has written; nothing was changed"


class SnapshotOfAnotherCluster(Refused):
    name = "GROUP_SNAPSHOT_OF_ANOTHER_CLUSTER"
    operator_action = "restore it to the cluster that it was taken of: its offsets mean nothing elsewhere"


class GroupNotInSnapshot(Refused):
    name = "GROUP_NOT_IN_SNAPSHOT"
    operator_action = "check the regular expression: it must match the whole name of a group; nothing was changed"


class NoGroupRead(CouldNotTell):
    name = "NO_GROUP_READ"
    operator_action = "see the reason, then run the same command again; no file was written"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedGroup:
    """The committed offsets of a group. `unread`: partitions whose offset could not be read, and why.

    `error`: why nothing of the group could be read; empty: it was read.
    """

    group: str
    kind: str
    positions: Mapping[TopicPartition, CommittedPosition] = field(default_factory=dict)
    unread: Mapping[TopicPartition, str] = field(default_factory=dict)
    error: str = ""

    @property
    def is_complete(self) -> bool:
        return not (self.error or self.unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """What was committed on a cluster at `taken_at`.

    `topic_ids`: of the topics with a committed offset, as far as they are known. `silent`: why the groups of some
    brokers are missing; empty: none are. `chosen`: the expressions by which groups were taken. `wanted`: by which
    some of them were chosen afterwards, with `only`.
    """

    cluster: str
    cluster_id: str
    taken_at: EpochMs
    groups: tuple[SavedGroup, ...]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    chosen: tuple[str, ...] = EVERYTHING
    wanted: tuple[str, ...] = EVERYTHING

    @property
    def count(self) -> int:
        """Of all committed offsets."""
        return sum(len(each.positions) for each in self.groups)

    @property
    def incomplete(self) -> tuple[SavedGroup, ...]:
        """Groups of which something could not be read."""
        return tuple(each for each in self.groups if not each.is_complete)

    def only(self, groups: tuple[str, ...]) -> Self:
        """Without groups whose whole names no expression matches. Raises GroupNotInSnapshot: none is left."""
        names = Chosen(groups=groups).of(each.group for each in self.groups)
        if self.groups and not names:
            raise GroupNotInSnapshot(
                f"none of the {len(self.groups)} group(s) of the file matches {' or '.join(groups)}"
            )
        return replace(self, groups=tuple(each for each in self.groups if each.group in names), wanted=groups)

    def absent(self, listing: GroupListing) -> list[str]:
        """The groups that are there now and would have been taken, sorted, of those that may have committed offsets."""
        may = {name for name, facts in listing.groups.items() if facts.kind != _WITHOUT_COMMITS}
        others = {name for name in may if not is_fake(name)} - {each.group for each in self.groups}
        return sorted(Chosen(groups=self.chosen).of(Chosen(groups=self.wanted).of(others)))


def take(
    cluster: Cluster, groups: tuple[str, ...], context: CommandContext, say: Callable[[str], None]
) -> GroupSnapshot:
    """The committed offsets of all groups whose names match an expression of `groups`, with or without members.

    A group that cannot be read is in it with the reason. Share groups are left out: they have no committed offsets.
    Groups of the positions of mirrors, too: set back, they would make a mirror copy records twice. `say` is told
    of the progress.

    Raises:
        NoGroupRead: there are groups, and none of them could be read. CouldNotTell, BrokerError: no broker answers.
    """
    (cluster_id,) = identify((cluster,), context)
    positions, taken_at = cluster.positions(WITHOUT_MIRROR), context.clock.now()
    listing = positions.listing(context.by)
    names = sorted(Chosen(groups=groups).of(listing.groups))
    kept = (name for name in names if not is_fake(name))
    wanted = [name for name in kept if listing.groups[name].kind != _WITHOUT_COMMITS]
    saved: list[SavedGroup] = []
    for some in portions(wanted, _AT_ONCE):
        answers = positions.committed(some, context.by)
        saved += [_saved(listing.groups[name], answers[name]) for name in some]
        if len(wanted) > _AT_ONCE:
            say(f"read {len(saved)} of {len(wanted)} groups")
    failed = [each for each in saved if each.error]
    if failed and len(failed) == len(saved):
        refuse([NoGroupRead(f"group {each.group!r}: {each.error}") for each in failed])
    topics = {at.topic for each in saved for at in each.positions}
    return GroupSnapshot(
        cluster=cluster.name,
        cluster_id=cluster_id,
        taken_at=taken_at,
        groups=tuple(saved),
        topic_ids=topic_ids(cluster, topics, context.by),
        silent=tuple(map(because, listing.silent)),
        chosen=groups,
    )


def topic_ids(cluster: Cluster, topics: Iterable[str], by: Deadline) -> Mapping[str, str]:
    """The ids of topics, for which DESCRIBE on them is enough; not of those that are not there or may not be seen.

    Nor of any before Kafka 2.8.

    Raises:
        CouldNotTell, BrokerError: no broker answers.
    """
    wanted = sorted(topics)
    return cluster.replicas.cluster(wanted, by).topic_ids if wanted else {}


def because(error: TanistError) -> str:
    """An error as it is stored: without what to do about it now."""
    return f"{error.name}: {error.reason}"


def portions(names: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    """`names` in order, `size` at a time."""
    return (names[first : first + size] for first in range(0, len(names), size))


def _saved(facts: GroupFacts, answer: CommittedOf | TanistError) -> SavedGroup:
    if isinstance(answer, TanistError):
        return SavedGroup(group=facts.group, kind=facts.kind, error=because(answer))
    unread = {at: because(each) for at, each in answer.items() if isinstance(each, TanistError)}
    return SavedGroup(group=facts.group, kind=facts.kind, positions=known(answer), unread=unread)
