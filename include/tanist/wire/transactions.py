"""A transaction without any record: what it leaves in a log are markers, which no reader ever sees."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from tanist.domain.names import BrokerId, TopicPartition
from tanist.protocol.codes import NONE, error_for
from tanist.wire.leaders import Answers, by_topic
from tanist.wire.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tanist.ports.clock import Deadline
    from tanist.wire.connection import Connection
    from tanist.wire.router import Router

_NOT_YET: Final = (CoordinatorLoading, CoordinatorNotAvailable, NotCoordinator, ConcurrentTransactions)
_PAUSE_SECONDS: Final = 0.1
_TIMEOUT_MS: Final = 15_000
_TRANSACTION: Final = 1  # FindCoordinator's key type
_FIRST_WITH_KEY_LIST: Final = 4  # KIP-699
_LAST_OF_CLIENTS: Final = 3  # newer AddPartitionsToTxn are the brokers' own


def empty_transaction(
    router: Router, transactional_id: str, partitions: Sequence[TopicPartition], by: Deadline
) -> Answers[None]:
    """Begin a transaction on `partitions` and abort it: one marker each. An error of one is told for all of them.

    Raises:
        TransactionalIdAuthorizationFailed: WRITE on the transactional id is missing. BrokerError, CouldNotTell.
    """
    connection = router.connection(_coordinator(router, transactional_id, by), by, lane="transactions")
    begun = _ask(router, lambda: _init(connection, transactional_id, by), by)
    who = (transactional_id, begun.producer_id, begun.producer_epoch)
    answers = _add(router, connection, who, partitions, by)
    if any(error is not None for error in answers.values()):
        return answers
    _ask(router, lambda: _end(connection, who, by), by)
    _ask(router, lambda: _init(connection, transactional_id, by), by)  # answers once every marker is written
    return answers


def _ask(router: Router, ask: Callable[[], Any], by: Deadline) -> Any:
    """The answer, asked again while the coordinator is not ready.

    Raises:
        BrokerError: whatever else it says.
    """
    while True:
        answer = ask()
        if answer.error_code == NONE:
            return answer
        error = error_for(answer.error_code, f"{type(answer).__name__}")
        if not isinstance(error, _NOT_YET) or by.left(time.monotonic()) == 0:
            raise error
        router.pause(_PAUSE_SECONDS, by)


def _coordinator(router: Router, transactional_id: str, by: Deadline) -> BrokerId:
    def ask() -> Any:
        connection = router.any_connection(by)
        version = connection.version(FindCoordinatorRequest, 1, 4)
        old = version < _FIRST_WITH_KEY_LIST
        keys: dict[str, Any] = {"key": transactional_id} if old else {"coordinator_keys": [transactional_id]}
        answer = connection.call(FindCoordinatorRequest(key_type=_TRANSACTION, version=version, **keys), by)
        return answer if old else answer.coordinators[0]

    found = BrokerId(_ask(router, ask, by).node_id)
    if found not in router.brokers:
        router.refresh([], by)
    return found


def _init(connection: Connection, transactional_id: str, by: Deadline) -> Any:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
        version=connection.version(InitProducerIdRequest, 1, 4),
    )
    return connection.call(request, by)


def _add(
    router: Router,
    connection: Connection,
    who: tuple[str, int, int],
    partitions: Sequence[TopicPartition],
    by: Deadline,
) -> Answers[None]:
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=who[0],
        v3_and_below_producer_id=who[1],
        v3_and_below_producer_epoch=who[2],
        v3_and_below_topics=[kind(name=topic, partitions=numbers) for topic, numbers in by_topic(partitions)],
        version=connection.version(AddPartitionsToTxnRequest, 1, _LAST_OF_CLIENTS),
    )
    while True:
        answer = connection.call(request, by)
        answers: Answers[None] = {}
        for topic in answer.results_by_topic_v3_and_below:
            for each in topic.results_by_partition:
                at = TopicPartition(topic.name, each.partition_index)
                code = each.partition_error_code
                answers[at] = None if code == NONE else error_for(code, f"a transaction on {at}")
        if not any(isinstance(error, _NOT_YET) for error in answers.values()) or by.left(time.monotonic()) == 0:
            return answers
        router.pause(_PAUSE_SECONDS, by)


def _end(connection: Connection, who: tuple[str, int, int], by: Deadline) -> Any:
    request = EndTxnRequest(
        transactional_id=who[0],
        producer_id=who[1],
        producer_epoch=who[2],
        committed=False,
        version=connection.version(EndTxnRequest, 1, 3),
    )
    return connection.call(request, by)
