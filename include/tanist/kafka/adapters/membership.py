"""Who owns which slices: the port `Membership`, by Kafka's own group protocol.

Why nobody else can own a slice before `confirmed_at + lease_seconds`:

- A slice goes to another member in one of two ways: the coordinator gives us up, or we give the slice back.
- The coordinator gives a member up one session timeout after the last request of it that it accepted, never earlier
  (a new coordinator starts that time anew). About every second we commit a dummy offset. A commit that is answered
  without error was accepted with our member id and generation after `confirmed_at`, which was taken before it was
  sent; so we are a member until `confirmed_at` + session timeout at least, by any clock that is not much slower than
  ours. The lease ends `MARGIN_SECONDS` earlier.
- A slice that we are asked to give back is taken from the ownership, `before_release` is told, and what was decided
  just before gets `RELEASE_SECONDS` to leave, all inside the revoke callback: only then does librdkafka join again, and
  only then can the coordinator hand the slice on.
- A member that does not join a rebalance in time is given up although its commits are accepted. That time is
  `max.poll.interval.ms`; librdkafka joins by itself unless our thread is stuck in a callback, and then it confirms
  nothing either.
- A process that was frozen finds `holds_until` in the past: monotonic time went on. (It does not while a whole virtual
  machine is suspended: there the epochs of the claims are what protects.)
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tanist.domain.rights import FETCHER_GROUP
from tanist.kafka.adapters.librdkafka import (
    TIMED_OUT,
    UNREACHABLE,
    ConnectionErrorTracker,
    Operation,
    cause,
    configuration,
    translate,
)
from tanist.ports.membership import Ownership

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.endpoint import Endpoint
    from tanist.ports.clock import Deadline

SESSION_SECONDS: Final = 8.0
MARGIN_SECONDS: Final = 2.0
RELEASE_SECONDS: Final = 0.2
"""How long a request may take from the check of the lease to the socket, at most, when slices are given back."""

_HEARTBEAT_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 60.0
_PROOF_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 5.0
_TICK: Final = 0.1
_NEVER: Final = -math.inf
_EXPELLED: Final = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID}
"""Answers to a proof that mean that we are no member. ILLEGAL_GENERATION only means that a rebalance overtook it."""
_PASSING: Final = (
    TIMED_OUT
    | UNREACHABLE
    | {
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True)
class _Proof:
    """A commit on its way: when it was sent (monotonic s), as which member, and after how many losses."""

    at: float
    member: str
    losses: int


class GroupMembership:
    """A member of the fetchers' group. Owned by one thread; `before_release` is called in that thread, inside `poll`.

    It never reads: every partition that it is given is paused at once.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        topic: str,
        *,
        group: str = FETCHER_GROUP,
        client: str = "fetcher",
        session_seconds: float = SESSION_SECONDS,
        before_release: Callable[[Ownership], None] = lambda _: None,
    ) -> None:
        self._endpoint, self._topic = endpoint, topic
        self._before_release = before_release
        self._lease = session_seconds - MARGIN_SECONDS
        self._state_partitions: frozenset[int] = frozenset()
        self._confirmed_at = _NEVER
        self._losses = 0
        self._expelled = False
        self._changed = False
        self._proof: _Proof | None = None
        self._asked_at = _NEVER
        self._errors = ConnectionErrorTracker(endpoint)
        self._doing = Operation(f"be a member of group {group}", f"READ on group {group} and on topic {topic}")
        options = {
            "group_id": group,
            "partition_assignment_strategy": "cooperative-sticky",
            "session_timeout_ms": int(session_seconds * 1000),
            "heartbeat_interval_ms": int(_HEARTBEAT_SECONDS * 1000),
            "max_poll_interval_ms": int(_JOIN_SECONDS * 1000),
            "socket_timeout_ms": int(_ANSWER_SECONDS * 1000),
            "enable_auto_commit": False,
            "enable_auto_offset_store": False,
        }
        settings = configuration(endpoint, client, self._errors, **options)
        self._consumer = Consumer({**settings, "on_commit": self._answered})
        self._consumer.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)

    def poll(self, by: Deadline) -> Ownership:
        """What is held; returns early when that has changed.

        Raises:
            AuthenticationFailed, AuthorizationFailed, UnknownTopicOrPartition: there is no use in going on.
        """
        self._changed = False
        while not self._changed and (left := by.left(time.monotonic())) > 0:
            self._prove()
            message = self._consumer.poll(min(left, _TICK))
            if message is not None and (error := message.error()):
                self._judge(error)
            if login_error := self._errors.login_error(self._doing):
                raise login_error
        return self._ownership()

    def leave(self) -> None:
        """Give everything back at once, and leave the group."""
        self._consumer.close()
        self._state_partitions, self._confirmed_at, self._expelled = frozenset(), _NEVER, False

    def _ownership(self) -> Ownership:
        return Ownership(frozenset() if self._expelled else self._state_partitions, self._confirmed_at, self._lease)

    def _judge(self, error: KafkaError) -> None:
        if error.code() not in _PASSING and not error.retriable():
            raise translate(error, self._doing, self._endpoint)

    # ── callbacks, inside poll and close ──────────────────────────────────────────────────────────────────────────

    def _assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        for partition in given:
            partition.offset = 0  # never read, so nothing needs to be looked up
        consumer.incremental_assign(given)
        consumer.pause(given)
        self._state_partitions |= {partition.partition for partition in given}
        self._changed = True

    def _revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        self._state_partitions -= {partition.partition for partition in taken}
        self._changed = True
        self._before_release(self._ownership())
        threading.Event().wait(RELEASE_SECONDS)
        consumer.incremental_unassign(taken)

    def _lose(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        """We are no member any more: others may own all of it already."""
        self._losses += 1
        self._state_partitions = frozenset()
        self._forfeit(expelled=False)
        consumer.incremental_unassign(lost)

    def _forfeit(self, *, expelled: bool) -> None:
        self._expelled, self._confirmed_at, self._changed = expelled, _NEVER, True
        self._before_release(self._ownership())

    # ── the proof ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _prove(self) -> None:
        now = time.monotonic()
        if not self._state_partitions or self._proof or now < self._asked_at + _PROOF_SECONDS:
            return
        self._asked_at = now
        self._proof = _Proof(now, self._consumer.memberid(), self._losses)
        dummy = TopicPartition(self._topic, min(self._state_partitions), 0)
        try:
            self._consumer.commit(offsets=[dummy], asynchronous=True)
        except KafkaException as exception:
            self._proof = None
            self._judge(cause(exception))

    def _answered(self, error: KafkaError | None, committed: list[TopicPartition]) -> None:
        proof, self._proof = self._proof, None
        error = error or next((partition.error for partition in committed if partition.error), None)
        if error is None:
            if proof and self._still(proof):
                self._changed |= self._expelled or self._confirmed_at == _NEVER
                self._expelled, self._confirmed_at = False, proof.at
                self._errors.alive()
        elif error.code() in _EXPELLED and proof and self._still(proof):
            self._forfeit(expelled=True)  # librdkafka hears of it with its next heartbeat

    def _still(self, proof: _Proof) -> bool:
        """Whether we are the member that asked; a commit of nobody is accepted too, by a group that is empty."""
        return bool(proof.member) and proof.losses == self._losses and proof.member == self._consumer.memberid()
