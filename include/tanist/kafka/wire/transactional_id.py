"""A transactional id at its coordinator: taken over, begun again, ended (KIP-98, KIP-360)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tanist.domain.broker_errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
)
from tanist.domain.errors import ConnectionLost, Unreachable
from tanist.domain.names import BrokerId
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.wire.coordinators import PATIENCE_SECONDS
from tanist.kafka.wire.messages import EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest
from tanist.ports.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.errors import BrokerError, CouldNotTell
    from tanist.kafka.wire.connection import Connection
    from tanist.kafka.wire.messages import ApiMessage
    from tanist.kafka.wire.router import Router

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
            version=connection.version(InitProducerIdRequest, 3, 4),
        )

    def end(self, by: Deadline, *, commit: bool) -> None:
        """Decide: the markers follow. Repeating it changes nothing.

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

        self.ask(request, by)

    def ask(
        self,
        request: Callable[[Connection], ApiMessage],
        by: Deadline,
        error_of: Callable[[Any], BrokerError | None] | None = None,
    ) -> Any:
        """What the coordinator answers; asked again while it is not ready, or for a moment while it is lost.

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
