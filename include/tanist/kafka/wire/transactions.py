"""A transaction without any record: what it leaves in a log are markers, which no reader ever sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.leaders import Answers, by_topic
from tanist.kafka.wire.messages import AddPartitionsToTxnRequest
from tanist.kafka.wire.transactional_id import NOT_YET, TransactionalId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.errors import BrokerError
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.messages import ApiMessage
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_TIMEOUT_MS: Final = 15_000
_LAST_OF_CLIENTS: Final = 3  # newer AddPartitionsToTxn are the brokers' own


def empty_transaction(
    router: Router, transactional_id: str, partitions: Sequence[TopicPartition], by: Deadline
) -> Answers[None]:
    """Begin a transaction on `partitions` and abort it: one marker each. An error of one is told for all of them.

    Raises:
        TransactionalIdAuthorizationFailed: WRITE on the transactional id is missing. BrokerError, CouldNotTell.
    """
    owned = TransactionalId(router, transactional_id, _TIMEOUT_MS)
    owned.begin(by)
    answers = _add(owned, partitions, by)
    if any(error is not None for error in answers.values()):
        return answers
    owned.end(by, commit=False)
    owned.begin(by)  # answers once every marker is written
    return answers


def _add(owned: TransactionalId, partitions: Sequence[TopicPartition], by: Deadline) -> Answers[None]:
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

    def request(connection: Connection) -> ApiMessage:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=owned.name,
            v3_and_below_producer_id=owned.producer.id,
            v3_and_below_producer_epoch=owned.producer.epoch,
            v3_and_below_topics=[kind(name=topic, partitions=numbers) for topic, numbers in by_topic(partitions)],
            version=connection.version(AddPartitionsToTxnRequest, 1, _LAST_OF_CLIENTS),
        )

    return _answers(owned.ask(request, by, _not_yet))


def _answers(answer: Any) -> Answers[None]:
    found: Answers[None] = {}
    for topic in answer.results_by_topic_v3_and_below:
        for each in topic.results_by_partition:
            at = TopicPartition(topic.name, each.partition_index)
            code = each.partition_error_code
            found[at] = None if code == NONE else error_for(code, f"a transaction on {at}")
    return found


def _not_yet(answer: Any) -> BrokerError | None:
    """Why all of them have to be asked for again."""
    return next((error for error in _answers(answer).values() if isinstance(error, NOT_YET)), None)
