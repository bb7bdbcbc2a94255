"""What we ask of consumer groups: which there are, who is in them, where they stand."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tanist.domain.broker_errors import CoordinatorLoading
from tanist.domain.errors import Stopped, TanistError, Unreachable
from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.coordinators import PATIENCE_SECONDS, ByGroup, ask_coordinators
from tanist.kafka.wire.leaders import by_topic
from tanist.kafka.wire.messages import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
)
from tanist.kafka.wire.offset_commits import commit_alone
from tanist.kafka.wire.router import share
from tanist.ports.clock import Deadline
from tanist.ports.positions import CommittedPosition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.names import BrokerId
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router

CONSUMER: Final = "consumer"
"""The type of a KIP-848 group; all others are described as classic ones."""
_CLASSIC: Final = "classic"
_FIRST_WITH_GROUP_LIST: Final = 8  # OffsetFetch, KIP-709
_FIRST_STABLE: Final = 7
_MOST_GROUPS: Final = 500
_PAUSE_SECONDS: Final = 0.1


class ListedGroup(NamedTuple):
    """`state` is empty below Kafka 2.6; `kind` is classic where the broker does not tell (below 3.8)."""

    group: str
    kind: str
    state: str


class Listing(NamedTuple):
    """`silent`: why the groups of some brokers are missing."""

    groups: dict[str, ListedGroup]
    silent: tuple[TanistError, ...]


Stored: TypeAlias = "dict[TopicPartition, CommittedPosition | TanistError]"


# ── which groups there are ────────────────────────────────────────────────────────────────────────────────────────


def list_groups(router: Router, by: Deadline) -> Listing:
    """The groups of all brokers that we may see.

    Without DESCRIBE on groups or on the cluster the answer is empty, never an error.

    Raises:
        CouldNotTell, BrokerError: no broker has answered.
    """
    router.refresh([], by)
    found: dict[str, ListedGroup] = {}
    errors: list[TanistError] = []
    brokers = list(router.brokers)
    for index, broker in enumerate(brokers):
        try:
            found |= _groups_of(router, broker, share(by, len(brokers) - index))
        except Stopped:
            raise
        except TanistError as error:
            errors.append(error)
    if len(errors) == len(brokers):
        raise errors[0] if errors else Unreachable(f"cluster {router.endpoint.name!r} has no brokers")
    return Listing(found, tuple(errors))


def _groups_of(router: Router, broker: BrokerId, by: Deadline) -> dict[str, ListedGroup]:
    patience = Deadline(min(by.at, time.monotonic() + PATIENCE_SECONDS))
    while True:
        connection = router.connection(broker, by)
        version = connection.version(ListGroupsRequest, 1, 5)
        answer = connection.call(ListGroupsRequest(states_filter=[], types_filter=[], version=version), by)
        if answer.error_code == NONE:
            return {each.group_id: _listed(each) for each in answer.groups}
        error = error_for(answer.error_code, f"{connection.peer}: its groups")
        if not isinstance(error, CoordinatorLoading) or patience.left(time.monotonic()) <= _PAUSE_SECONDS:
            raise error
        router.pause(_PAUSE_SECONDS, by)


def _listed(each: Any) -> ListedGroup:
    return ListedGroup(each.group_id, (each.group_type or _CLASSIC).lower(), each.group_state or "")


def client_ids(router: Router, groups: Mapping[str, str], by: Deadline) -> ByGroup[tuple[str, ...]]:
    """The client id of each member of each group; `groups` are their kinds by name. Share groups are left out."""
    modern = [group for group, kind in groups.items() if kind == CONSUMER]
    classic = [group for group, kind in groups.items() if kind == _CLASSIC]
    found: ByGroup[tuple[str, ...]] = {}
    if modern:
        found |= ask_coordinators(router, modern, by, _describe_modern)
    if classic:
        found |= ask_coordinators(router, classic, by, _describe_classic)
    return found


def _describe_classic(connection: Connection, groups: Sequence[str], by: Deadline) -> ByGroup[tuple[str, ...]]:
    version = connection.version(DescribeGroupsRequest, 1, 5)
    found: ByGroup[tuple[str, ...]] = {}
    for some in _chunks(groups):
        request = DescribeGroupsRequest(groups=some, include_authorized_operations=False, version=version)
        found |= {each.group_id: _members(each) for each in connection.call(request, by).groups}
    return found


def _describe_modern(connection: Connection, groups: Sequence[str], by: Deadline) -> ByGroup[tuple[str, ...]]:
    version = connection.version(ConsumerGroupDescribeRequest, 0, 1)
    found: ByGroup[tuple[str, ...]] = {}
    for some in _chunks(groups):
        request = ConsumerGroupDescribeRequest(group_ids=some, include_authorized_operations=False, version=version)
        found |= {each.group_id: _members(each) for each in connection.call(request, by).groups}
    return found


def _members(each: Any) -> tuple[str, ...] | TanistError:
    if each.error_code != NONE:
        return error_for(each.error_code, f"members of group {each.group_id!r}")
    return tuple(member.client_id for member in each.members)


# ── where they stand ──────────────────────────────────────────────────────────────────────────────────────────────


def fetch_positions(router: Router, groups: Sequence[str], by: Deadline, *, stable: bool = True) -> ByGroup[Stored]:
    """Every position of each group; none for a group that does not exist.

    `stable`: a partition that an open transaction holds has an UnstableOffsetCommit; otherwise its position is the one
    before the transaction. **Topics that we may not DESCRIBE are left out without a word** (the all-topics form of
    OffsetFetch).
    """
    return ask_coordinators(router, groups, by, partial(_fetch_positions, stable=stable))


def _fetch_positions(connection: Connection, groups: Sequence[str], by: Deadline, *, stable: bool) -> ByGroup[Stored]:
    version = connection.version(OffsetFetchRequest, 6, 9)
    if version < _FIRST_WITH_GROUP_LIST:
        return {group: _fetch_one(connection, group, version, by, stable=stable) for group in groups}
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    found: ByGroup[Stored] = {}
    for some in _chunks(groups):
        asked = [kind(group_id=group, topics=None, version=version) for group in some]
        answer = connection.call(OffsetFetchRequest(groups=asked, require_stable=stable, version=version), by)
        found |= {each.group_id: _stored(each.group_id, each) for each in answer.groups}
    return found


def _fetch_one(connection: Connection, group: str, version: int, by: Deadline, *, stable: bool) -> Stored | TanistError:
    options = {"require_stable": stable} if version >= _FIRST_STABLE else {}
    return _stored(
        group, connection.call(OffsetFetchRequest(group_id=group, topics=None, version=version, **options), by)
    )


def fetch_committed(
    connection: Connection, partitions: Mapping[str, Sequence[TopicPartition]], by: Deadline
) -> ByGroup[Stored]:
    """What is committed now in each of `partitions`, whatever a transaction is about to change (requireStable off)."""
    version = connection.version(OffsetFetchRequest, 6, 9)
    if version < _FIRST_WITH_GROUP_LIST:
        return {group: _fetch_some(connection, group, some, version, by) for group, some in partitions.items()}
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    asked = [
        kind(group_id=group, topics=_topics(kind.OffsetFetchRequestTopics, some), version=version)
        for group, some in partitions.items()
    ]
    answer = connection.call(OffsetFetchRequest(groups=asked, require_stable=False, version=version), by)
    return {each.group_id: _stored(each.group_id, each) for each in answer.groups}


def _fetch_some(
    connection: Connection, group: str, partitions: Sequence[TopicPartition], version: int, by: Deadline
) -> Stored | TanistError:
    topics = _topics(OffsetFetchRequest.OffsetFetchRequestTopic, partitions)
    return _stored(group, connection.call(OffsetFetchRequest(group_id=group, topics=topics, version=version), by))


def _topics(kind: Any, partitions: Sequence[TopicPartition]) -> list[Any]:
    return [kind(name=topic, partition_indexes=numbers) for topic, numbers in by_topic(partitions)]


def _stored(group: str, answer: Any) -> Stored | TanistError:
    """What one answer says of `group`, in one loop: it is asked for a hundred thousand positions."""
    if answer.error_code != NONE:
        return error_for(answer.error_code, f"positions of group {group!r}")
    found: dict[TopicPartition, CommittedPosition | TanistError] = {}
    for topic in answer.topics:
        name = topic.name
        for each in topic.partitions:
            if each.error_code != NONE:
                at = TopicPartition(name, each.partition_index)
                found[at] = error_for(each.error_code, f"position of group {group!r} in {at}")
            elif each.committed_offset >= 0:  # -1: a partition without a position
                at = TopicPartition(name, each.partition_index)
                found[at] = CommittedPosition(each.committed_offset, each.metadata or "")
    return found


def commit_plainly(
    router: Router, group: str, positions: Mapping[TopicPartition, CommittedPosition], by: Deadline
) -> TanistError | None:
    """Commit positions of a group without members, outside of any transaction. The first error; None: there was none.

    Nothing is fenced: of two who commit the last one counts.
    """

    def ask(connection: Connection, groups: Sequence[str], by: Deadline) -> ByGroup[bool]:
        answer = connection.call(commit_alone(connection, group, positions), by)
        codes = [each.error_code for topic in answer.topics for each in topic.partitions if each.error_code != NONE]
        return dict.fromkeys(groups, error_for(codes[0], f"positions of group {group!r}") if codes else True)

    found = ask_coordinators(router, [group], by, ask)[group]
    return found if isinstance(found, TanistError) else None


def _chunks(groups: Sequence[str]) -> Iterator[list[str]]:
    for first in range(0, len(groups), _MOST_GROUPS):
        yield list(groups[first : first + _MOST_GROUPS])
