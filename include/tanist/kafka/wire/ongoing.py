"""Transactions as the coordinators of a cluster know them, also those that have written nothing yet (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from tanist.domain.broker_errors import (
    CoordinatorNotAvailable,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.messages import DescribeTransactionsRequest, ListTransactionsRequest
from tanist.kafka.wire.router import share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.names import BrokerId
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_TOPIC: Final = "__transaction_state"
_NAMING: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""The states in which a transaction names partitions that still get a marker (TransactionState)."""
_GONE: Final = 105  # TRANSACTIONAL_ID_NOT_FOUND: forgotten since it was listed


class Ongoing(NamedTuple):
    """`since`: when it began, in ms by its coordinator's clock. `state`: of Kafka's TransactionState."""

    transactional_id: str
    producer_id: int
    since: int
    partitions: frozenset[TopicPartition]
    producer_epoch: int = -1
    state: str = "Ongoing"


def transactional_producers(router: Router, by: Deadline) -> dict[str, int]:
    """The producer id of each transactional id that a coordinator knows, whatever its state. Raises as below."""
    return {
        each.transactional_id: each.producer_id
        for connection, share_of in _each_coordinator(router, by)
        for each in _listed(connection, (), share_of)
    }


def ongoing_transactions(router: Router, by: Deadline) -> tuple[Ongoing, ...]:
    """Everything that names partitions now, of all coordinators.

    Raises:
        TransactionalIdAuthorizationFailed: we may not see all. ListTransactions leaves out in silence what we may not
            DESCRIBE, so a name that nobody has is asked about first; a DENY for single names is not found that way.
        UnsupportedVersion: brokers below 3.0 do not tell. CouldNotTell, BrokerError: a coordinator does not answer.
    """
    return tuple(each for connection, of in _each_coordinator(router, by) for each in _ongoing(connection, of))


def _each_coordinator(router: Router, by: Deadline) -> Iterator[tuple[Connection, Deadline]]:
    """A connection to each, with its share of the time."""
    before = _coordinators(router, by)
    _must_see_all(router.any_connection(by), by)
    brokers = sorted({broker for broker, _ in before})
    for index, broker in enumerate(brokers):
        connection = router.connection(broker, share(by, len(brokers) - index))
        yield connection, share(by, len(brokers) - index)
    if before != _coordinators(router, by):
        raise CoordinatorNotAvailable("coordinators moved during the request, so a transaction may have been missed")


def _must_see_all(connection: Connection, by: Deadline) -> None:
    (found,) = _describe(connection, [str(uuid4())], by)
    if found.error_code == TransactionalIdAuthorizationFailed.code:
        raise TransactionalIdAuthorizationFailed(f"{connection.peer}: DESCRIBE on every transactional id")


def _coordinators(router: Router, by: Deadline) -> list[tuple[BrokerId, int]]:
    """Who leads each partition of the coordinators' log, and in which epoch; nobody where there is no such log yet.

    All brokers where we may not see that topic.
    """
    router.refresh([_TOPIC], by)
    topic = router.topics()[_TOPIC]
    if isinstance(topic.error, UnknownTopicOrPartition):
        return []
    if isinstance(topic.error, TopicAuthorizationFailed):
        return [(broker, -1) for broker in sorted(router.brokers)]
    if topic.error is not None:
        raise topic.error
    leaders = [(each.leader, each.leader_epoch) for each in topic.partitions if each.leader is not None]
    if len(leaders) < len(topic.partitions):
        raise CoordinatorNotAvailable(f"a partition of {_TOPIC} has no leader, so its transactions are unknown")
    return leaders


def _listed(connection: Connection, states: Sequence[str], by: Deadline) -> Sequence[Any]:
    """The transactional ids of a coordinator. No states: all of them."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=[],
        version=connection.version(ListTransactionsRequest, 0, 0),
    )
    answer = connection.call(request, by)
    if answer.error_code != NONE:
        raise error_for(answer.error_code, f"{connection.peer}: transactions")
    found: Sequence[Any] = answer.transaction_states
    return found


def _ongoing(connection: Connection, by: Deadline) -> Iterator[Ongoing]:
    names = [each.transactional_id for each in _listed(connection, _NAMING, by)]
    for each in _describe(connection, names, by) if names else ():
        if each.error_code not in {NONE, _GONE}:
            raise error_for(each.error_code, f"{connection.peer}: transaction {each.transactional_id!r}")
        if each.error_code == NONE and each.transaction_state in _NAMING:
            partitions = frozenset(TopicPartition(t.topic, n) for t in each.topics for n in t.partitions)
            yield Ongoing(
                each.transactional_id,
                each.producer_id,
                each.transaction_start_time_ms,
                partitions,
                each.producer_epoch,
                each.transaction_state,
            )


def _describe(connection: Connection, names: Sequence[str], by: Deadline) -> Sequence[Any]:
    version = connection.version(DescribeTransactionsRequest, 0, 0)
    request = DescribeTransactionsRequest(transactional_ids=list(names), version=version)
    found: Sequence[Any] = connection.call(request, by).transaction_states
    return found
