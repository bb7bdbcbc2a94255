"""Transactions: one without records, whose markers no reader ever sees, and what brokers say of those that are open."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from tanist.domain.broker_errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from tanist.domain.errors import ConnectionLost, Unreachable
from tanist.domain.names import BrokerId, TopicPartition
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.coordinators import PATIENCE_SECONDS
from tanist.kafka.wire.leaders import Answers, by_topic
from tanist.kafka.wire.messages import (
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from tanist.kafka.wire.router import share
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.domain.errors import BrokerError, CouldNotTell
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.messages import ApiMessage
    from tanist.kafka.wire.router import Router


INIT_PRODUCER_ID: Final = (3, 4)  # 3 tells who has begun last (KIP-360)
NOT_YET: Final = (CoordinatorLoading, CoordinatorNotAvailable, NotCoordinator, ConcurrentTransactions)
"""Waited out until the deadline: a coordinator that loads or moves, a transaction that is still ending."""
_MOVED: Final = (CoordinatorNotAvailable, NotCoordinator)
_PAUSE_SECONDS: Final = 0.02
_TRANSACTION: Final = 1  # FindCoordinator's key type
_FIRST_WITH_KEY_LIST: Final = 4  # KIP-699
_LANE: Final = "transactions"


class Producer(NamedTuple):
    """Both -1: not initialised yet."""

    id: int = -1
    epoch: int = -1


_LAST_OF_CLIENTS: Final = 3  # newer AddPartitionsToTxn are the brokers' own


class TransactionalId:
    """Owned by one thread. Of several owners only the one that has begun last can go on; the others are fenced."""

    def __init__(self, router: Router, name: str, timeout_ms: int) -> None:
        """`timeout_ms`: so long after the last one died its transaction is aborted by the brokers."""
        self.router = router
        self.name = name
        self.producer = Producer()
        self._timeout_ms = timeout_ms
        self._coordinator: BrokerId | None = None

    def take_over(self, by: Deadline) -> None:
        """Begin, whoever else has begun: every other owner is fenced, what it left open is aborted."""
        self.producer = Producer()
        self.begin(by)

    def begin(self, by: Deadline) -> None:
        """Get a producer epoch that was never used; answers once every marker of the last transaction is written.

        The first call takes over. Later ones go on as the same owner.

        Raises:
            ProducerFenced, InvalidProducerEpoch: there is another owner by now (KIP-360).
            TransactionalIdAuthorizationFailed: WRITE on the transactional id is missing. BrokerError, CouldNotTell.
        """
        answer = self.ask(self._init, by)
        self.producer = Producer(answer.producer_id, answer.producer_epoch)

    def _init(self, connection: Connection) -> ApiMessage:
        return InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            version=connection.version(InitProducerIdRequest, *INIT_PRODUCER_ID),
        )

    def add(self, partitions: Sequence[TopicPartition], by: Deadline) -> Answers[TopicPartition, None]:
        """Take partitions into the transaction, before anything is appended to them. An error of one is told for all.

        Raises:
            ProducerFenced, InvalidProducerEpoch: there is another owner. BrokerError, CouldNotTell.
        """
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

        def request(connection: Connection) -> ApiMessage:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer.id,
                v3_and_below_producer_epoch=self.producer.epoch,
                v3_and_below_topics=[kind(name=topic, partitions=numbers) for topic, numbers in by_topic(partitions)],
                version=connection.version(AddPartitionsToTxnRequest, 1, _LAST_OF_CLIENTS),
            )

        return _answers(self.ask(request, by, _not_yet))

    def end(self, by: Deadline, *, commit: bool, once: bool = False) -> None:
        """Decide: the markers follow. Repeating it changes nothing. `once`: it is not repeated here.

        Raises:
            ProducerFenced, InvalidProducerEpoch: it was aborted, by another owner or for its age.
            InvalidTxnState: it was decided the other way before; or nothing was added to it. BrokerError, CouldNotTell.
        """

        def request(connection: Connection) -> ApiMessage:
            return EndTxnRequest(
                transactional_id=self.name,
                producer_id=self.producer.id,
                producer_epoch=self.producer.epoch,
                committed=commit,
                version=connection.version(EndTxnRequest, 1, 3),
            )

        self.ask(request, by, once=once)

    def unmarked(self, by: Deadline) -> frozenset[TopicPartition]:
        """The partitions that still get a marker of the transaction that was decided.

        Raises:
            BrokerError, CouldNotTell: its coordinator does not tell.
        """
        found = _named(self.connection(by), [self.name], by)
        return frozenset(at for each in found if each.state != _OPEN for at in each.partitions)

    def ask(
        self,
        request: Callable[[Connection], ApiMessage],
        by: Deadline,
        error_of: Callable[[Any], BrokerError | None] | None = None,
        *,
        once: bool = False,
    ) -> Any:
        """What the coordinator answers; asked again while it is not ready, or for a moment while it is lost.

        `once`: not where its answer was lost.

        Raises:
            BrokerError: whatever else it says.
        """
        reported = error_of or self._error
        lost_by: Deadline | None = None
        while True:
            try:
                connection = self.connection(by)
                answer = connection.call(request(connection), by)
            except (ConnectionLost, Unreachable) as lost:
                lost_by = self._lost(lost, lost_by, by)
                if once:
                    raise
            else:
                error = reported(answer)
                if error is None:
                    return answer
                if not isinstance(error, NOT_YET) or by.left(time.monotonic()) == 0:
                    raise error
                if isinstance(error, _MOVED):
                    self._coordinator = None
            self.router.pause(_PAUSE_SECONDS, by)

    def _error(self, answer: Any) -> BrokerError | None:
        context = f"{type(answer).__name__} for transactional id {self.name!r}"
        return None if answer.error_code == NONE else error_for(answer.error_code, context)

    def _lost(self, error: CouldNotTell, patience: Deadline | None, by: Deadline) -> Deadline:
        """Until when it may stay lost."""
        if self._coordinator is not None:
            self.router.drop(self._coordinator)
            self._coordinator = None
        patience = patience or Deadline(min(by.at, time.monotonic() + PATIENCE_SECONDS))
        if patience.left(time.monotonic()) == 0:
            raise error
        return patience

    def connection(self, by: Deadline) -> Connection:
        """To the coordinator, looked up if it is not known; the first look-up of a cluster makes its topic."""
        if self._coordinator is None:
            self._coordinator = self._find(by)
        return self.router.connection(self._coordinator, by, channel=_LANE)

    def _find(self, by: Deadline) -> BrokerId:
        while True:
            connection = self.router.any_connection(by)
            version = connection.version(FindCoordinatorRequest, 1, 4)
            old = version < _FIRST_WITH_KEY_LIST
            keys: dict[str, Any] = {"key": self.name} if old else {"coordinator_keys": [self.name]}
            answer = connection.call(FindCoordinatorRequest(key_type=_TRANSACTION, version=version, **keys), by)
            found = answer if old else answer.coordinators[0]
            if found.error_code == NONE:
                self.router.learn_broker(BrokerId(found.node_id), found.host, found.port)
                return BrokerId(found.node_id)
            error = error_for(found.error_code, f"coordinator of transactional id {self.name!r}")
            if not isinstance(error, NOT_YET) or by.left(time.monotonic()) == 0:
                raise error
            self.router.pause(_PAUSE_SECONDS, by)


_TIMEOUT_MS: Final = 15_000


def empty_transaction(
    router: Router, transactional_id: str, partitions: Sequence[TopicPartition], by: Deadline
) -> Answers[TopicPartition, None]:
    """Begin a transaction on `partitions` and abort it: one marker each. An error of one is told for all of them.

    Raises:
        TransactionalIdAuthorizationFailed: WRITE on the transactional id is missing. BrokerError, CouldNotTell.
    """
    owned = TransactionalId(router, transactional_id, _TIMEOUT_MS)
    owned.begin(by)
    answers = owned.add(partitions, by)
    if any(error is not None for error in answers.values()):
        return answers
    owned.end(by, commit=False)
    owned.begin(by)  # answers once every marker is written
    return answers


def _answers(answer: Any) -> Answers[TopicPartition, None]:
    found: Answers[TopicPartition, None] = {}
    for topic in answer.results_by_topic_v3_and_below:
        for each in topic.results_by_partition:
            at = TopicPartition(topic.name, each.partition_index)
            code = each.partition_error_code
            found[at] = None if code == NONE else error_for(code, f"a transaction on {at}")
    return found


def _not_yet(answer: Any) -> BrokerError | None:
    """Why all of them have to be asked for again."""
    return next((error for error in _answers(answer).values() if isinstance(error, NOT_YET)), None)


_TOPIC: Final = "__transaction_state"
_OPEN: Final = "Ongoing"
_NAMING: Final = (_OPEN, "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
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
    return _named(connection, names, by) if names else iter(())


def _named(connection: Connection, names: Sequence[str], by: Deadline) -> Iterator[Ongoing]:
    """Those of `names` whose transaction names partitions now."""
    for each in _describe(connection, names, by):
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
