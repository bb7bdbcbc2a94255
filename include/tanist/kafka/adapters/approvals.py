"""The topic of approvals: the port `Approvals`."""

from __future__ import annotations

import getpass
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Producer, TopicPartition

from tanist.domain.approval.entries import (
    APPROVALS_TOPIC,
    UNPROTECTED,
    Approval,
    NoApproverTopic,
    UnsafeApproverTopic,
    approvals,
    signature,
)
from tanist.domain.broker_errors import TopicAlreadyExists, TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import AuthorizationFailed, CouldNotTell, TanistError, TimedOut
from tanist.domain.logins import USER, PrincipalUnknown, nameless
from tanist.domain.names import EpochMs
from tanist.domain.names import TopicPartition as At
from tanist.domain.records import STATE_TOPIC
from tanist.kafka.adapters import rules
from tanist.kafka.adapters.access import login_of
from tanist.kafka.adapters.bounds import LogBoundsReader
from tanist.kafka.adapters.compacted_topic import MIN_IN_SYNC, REPLICAS
from tanist.kafka.adapters.librdkafka import (
    TIMED_OUT,
    UNREACHABLE,
    ConnectionErrorTracker,
    Operation,
    configuration,
    translate,
)
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.protocol.stored import decode_approval, encode_approval, encode_withdrawal
from tanist.kafka.wire.requests import describe_producers
from tanist.kafka.wire.router import share
from tanist.ports.topics import NewTopic, TopicFacts

if TYPE_CHECKING:
    from confluent_kafka import Message

    from tanist.domain.approval.entries import ApprovalRequest, Entry, Withdrawal
    from tanist.kafka.wire.requests import ActiveProducer
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
}
_POLL: Final = 0.2
_STATE: Final = At(STATE_TOPIC, 0)
"""The state topic to which operators' commands write."""
_LOOK: Final = "check the topic before approving again"
_FORGETFUL: Final = "approvals need unlimited retention and broker timestamps"


class KafkaApprovals:
    """Owned by one thread. The topic has one partition, so its records have one order."""

    def __init__(self, router: Router, *, allow_small: bool = False) -> None:
        self._endpoint, self._allow_small = router.endpoint, allow_small
        self._topics = KafkaTopics(router)
        self._router = router
        self._errors = ConnectionErrorTracker(router.endpoint)

    def principal(self, by: Deadline) -> str:
        if not rules.has_authorizer(self._router, by):
            return f"{UNPROTECTED}:{getpass.getuser()}"
        principal = login_of(self._endpoint).principal
        if principal is None:
            raise PrincipalUnknown(nameless(self._endpoint.name))
        return principal.removeprefix(USER)

    def exists(self, by: Deadline) -> bool:
        facts = self._facts(by)
        if isinstance(facts, TanistError) and not isinstance(facts, UnknownTopicOrPartition):
            raise facts
        return isinstance(facts, TopicFacts)

    def create(self, by: Deadline) -> None:
        replicas = min(REPLICAS, len(self._topics.brokers(by))) if self._allow_small else REPLICAS
        configs = {**CONFIGS, "min.insync.replicas": str(MIN_IN_SYNC if replicas >= REPLICAS else 1)}
        new = NewTopic(name=APPROVALS_TOPIC, partitions=1, replication_factor=replicas, configs=configs)
        error = self._topics.create([new], by)[APPROVALS_TOPIC]
        if error and not isinstance(error, TopicAlreadyExists):
            raise error

    def all(self, by: Deadline) -> tuple[Entry, ...]:
        self._must_be_sane(by)
        bounds = LogBoundsReader(self._router, APPROVALS_TOPIC, 1)
        start, end = bounds.starts(by)[0], bounds.ends(by)[0]
        found = (_entry(message) for message in self._read(start, end, by))
        return tuple(entry for entry in found if entry is not None)

    def brokers_time(self, by: Deadline) -> EpochMs | None:
        """The latest commit marker that the leaders report: a marker has the broker's time, a record its writer's."""
        ends = [
            each.last_timestamp
            for each in self._writers(by)
            if each.coordinator_epoch >= 0 and each.transaction_start < 0
        ]
        return EpochMs(max(ends)) if ends else None

    def append(self, request: ApprovalRequest, by: Deadline) -> Approval:
        self._must_be_sane(by)
        signed = signature(self.principal(by), request.on_behalf_of)
        written: Message | None = None
        silent: TanistError = CouldNotTell(f"{APPROVALS_TOPIC} has the approval at an unknown offset: {_LOOK}")
        try:
            written = self._write(encode_approval(request, signed), share(by, 2))
        except TimedOut as why:
            silent = why
        if written is None:  # it may be in the topic all the same
            if (found := self._found(request, signed, by)) is None:
                raise silent
            return found
        try:
            mine = [each for each in approvals(self.all(by)) if each.id == _id(written)]
        except TanistError as unread:
            return _acknowledged(written, str(unread))
        return mine[0] if mine else _acknowledged(written, "the topic ends before it")

    def _found(self, request: ApprovalRequest, signed: str, by: Deadline) -> Approval | None:
        """The approval that answers `request` and was written as `signed`; None: the topic has none, or is not read."""
        said = (request.mirror, request.plan, request.request, request.reason, signed)
        try:
            known = approvals(self.all(by))
        except TanistError:
            return None
        ours = [each for each in known if (each.mirror, each.plan, each.request, each.reason, each.approver) == said]
        return ours[-1] if ours else None

    def withdraw(self, no: Withdrawal, by: Deadline) -> None:
        self._must_be_sane(by)
        self._write(encode_withdrawal(no, self.principal(by)), by)

    # ── the topic ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _facts(self, by: Deadline) -> TopicFacts | TanistError:
        return self._topics.describe([APPROVALS_TOPIC], by)[APPROVALS_TOPIC]

    def _must_be_sane(self, by: Deadline) -> None:
        facts = self._facts(by)
        if isinstance(facts, UnknownTopicOrPartition):
            raise NoApproverTopic(self._endpoint.name, self._endpoint.bootstrap_servers)
        if isinstance(facts, TanistError):
            raise facts
        flaws = [f"{name}={facts.configs.get(name)}" for name in CONFIGS if not _fits(name, facts.configs.get(name))]
        if flaws or facts.partitions != 1:
            raise UnsafeApproverTopic(
                f"topic {APPROVALS_TOPIC}: {', '.join(flaws) or 'several partitions'}: {_FORGETFUL}"
            )

    def _writers(self, by: Deadline) -> tuple[ActiveProducer, ...]:
        while True:
            found = describe_producers(self._router, [_STATE], by)[_STATE]
            if not isinstance(found, TanistError):
                return found
            if isinstance(found, TopicAuthorizationFailed):
                raise AuthorizationFailed(
                    f"reading broker timestamps needs READ on topic {STATE_TOPIC}: {found.reason}"
                )
            if not found.retriable or by.left(time.monotonic()) <= _POLL:
                raise found
            self._router.pause(_POLL, by)

    def _read(self, start: int, end: int, by: Deadline) -> list[Message]:
        doing = Operation(f"read topic {APPROVALS_TOPIC}", f"READ on topic {APPROVALS_TOPIC}")
        options = {
            "group_id": "tanist-reader-approvals",  # librdkafka wants one; it is never joined
            "enable_auto_commit": False,
            "enable_partition_eof": True,
            "auto_offset_reset": "error",
        }
        consumer = Consumer(configuration(self._endpoint, "approvals", self._errors, **options))
        found: list[Message] = []
        position = start
        try:
            consumer.assign([TopicPartition(APPROVALS_TOPIC, 0, start)])
            while position < end:
                message = consumer.poll(_POLL)
                if login_error := self._errors.login_error(doing):
                    raise login_error
                if not by.left(time.monotonic()):
                    raise TimedOut(f"{doing.what} of {self._endpoint.name}: read up to {position} of {end}")
                if message is None:
                    continue
                position = max(position, (message.offset() or 0) + (message.error() is None))
                if (error := message.error()) is None:
                    found.append(message)
                elif not _passes(error):
                    raise translate(error, doing, self._endpoint)
        finally:
            consumer.close()
        return found

    def _write(self, value: bytes, by: Deadline) -> Message | None:
        """The record as brokers acknowledged it; None: it was appended, but no broker reported where."""
        doing = Operation("approve", f"WRITE on topic {APPROVALS_TOPIC}, which only approvers have")
        options = {"acks": "all", "enable_idempotence": True, "linger_ms": 0}
        producer = Producer(configuration(self._endpoint, "approvals", self._errors, **options))
        ended: list[tuple[KafkaError | None, Message]] = []
        producer.produce(APPROVALS_TOPIC, value, partition=0, on_delivery=lambda e, m: ended.append((e, m)))
        while not ended and by.left(time.monotonic()):
            producer.poll(_POLL)
            if login_error := self._errors.login_error(doing):
                raise login_error
        if not ended:
            producer.purge()
            raise TimedOut(f"{doing.what}: not acknowledged, {_LOOK}")
        error, message = ended[0]
        if error:
            raise translate(error, doing, self._endpoint)
        return None if message.offset() is None else message


def _acknowledged(written: Message, unread: str) -> Approval:
    """What is in the topic, by the brokers' acknowledgement, which has their time (LogAppendTime)."""
    _, at = written.timestamp()
    found = decode_approval(written.value(), _id(written), EpochMs(at))
    assert isinstance(found, Approval)  # noqa: S101  # it was encoded as one
    return replace(found, unread=unread)


def _id(message: Message) -> str:
    return f"{message.partition()}-{message.offset()}"


def _fits(name: str, found: str | None) -> bool:
    return found == CONFIGS[name] or (found is None and name in {"cleanup.policy", "retention.bytes"})


def _passes(error: KafkaError) -> bool:
    passing = TIMED_OUT | UNREACHABLE | {KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED}  # noqa: SLF001
    return error.code() in passing or error.retriable()


def _entry(message: Message) -> Entry | None:
    """A record that cannot be decoded, or has no LogAppendTime, neither approves nor withdraws anything."""
    kind, at = message.timestamp()
    if kind != TIMESTAMP_LOG_APPEND_TIME:
        return None
    return decode_approval(message.value(), _id(message), EpochMs(at))
