"""What clients ask of a broker every day, asked once: Java has loaded the classes of it then."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports them without saying so
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tanist.kafka.protocol.client_config import client_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tanist.domain.endpoint import Endpoint
    from tanist.ports.clock import Deadline

_TOPIC: Final = "rehearsal"
_COPY: Final = "rehearsal-compacted"
_SECONDS: Final = 5.0


def rehearse(endpoint: Endpoint, by: Deadline) -> None:
    """Each act once, as far as there is time; one that is refused or late costs nothing but its classes."""
    config = client_config(endpoint) | {"log_level": 0, "error_cb": lambda _error: None}
    for act in (_make_topics, _write, _write_transactions, _read, _describe, _guard, _unmake):
        if by.left(time.monotonic()) > _SECONDS:
            with contextlib.suppress(Exception):  # an archive without these classes is one all the same
                act(config)


def _done(answers: Mapping[Any, Any]) -> None:
    for each in answers.values():
        each.result(_SECONDS)


def _make_topics(config: dict[str, Any]) -> None:
    admin = AdminClient(config)
    _done(admin.create_topics([NewTopic(_TOPIC, 2, 1), NewTopic(_COPY, 1, 1, config={"cleanup.policy": "compact"})]))
    _done(admin.create_partitions([NewPartitions(_TOPIC, 3)]))
    larger = ConfigEntry("max.message.bytes", "2000000", incremental_operation=AlterConfigOpType.SET)
    topic = ConfigResource(ConfigResource.Type.TOPIC, _TOPIC, incremental_configs=[larger])
    _done(admin.incremental_alter_configs([topic]))


def _write(config: dict[str, Any]) -> None:
    for how in ({"acks": "all", "enable.idempotence": True}, {"acks": "1", "compression.type": "lz4"}):
        producer = Producer(config | how)
        for topic in (_TOPIC, _COPY):
            producer.produce(topic, b"value", key=b"key", partition=0)
        producer.flush(_SECONDS)


def _write_transactions(config: dict[str, Any]) -> None:
    producer, reader = Producer(config | {"transactional.id": _TOPIC}), Consumer(config | {"group.id": _TOPIC})
    producer.init_transactions(_SECONDS)
    ends: tuple[Callable[[float], object], ...] = (producer.commit_transaction, producer.abort_transaction)
    for end in ends:
        producer.begin_transaction()
        producer.produce(_TOPIC, b"value", partition=1)
        position = TopicPartition(_TOPIC, 1, 1)
        producer.send_offsets_to_transaction([position], reader.consumer_group_metadata(), _SECONDS)
        end(_SECONDS)
    reader.close()


def _read(config: dict[str, Any]) -> None:
    for protocol in ("classic", "consumer"):
        how = {"group.id": f"{_TOPIC}-{protocol}", "group.protocol": protocol, "auto.offset.reset": "earliest"}
        reader = Consumer(config | how)
        reader.subscribe([_TOPIC])
        reader.poll(_SECONDS)
        with contextlib.suppress(KafkaException):
            reader.commit(asynchronous=False)
        reader.close()


def _describe(config: dict[str, Any]) -> None:
    admin, at = AdminClient(config), TopicPartition(_TOPIC, 0)
    admin.list_topics(timeout=_SECONDS)
    _done(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, _TOPIC)]))
    _done(admin.list_offsets({at: OffsetSpec.latest()}))  # type: ignore[no-untyped-call]
    admin.list_consumer_groups(request_timeout=_SECONDS).result(_SECONDS)
    _done(admin.describe_consumer_groups([f"{_TOPIC}-classic", f"{_TOPIC}-consumer"]))
    _done(admin.delete_records([TopicPartition(_TOPIC, 0, 1)]))


def _guard(config: dict[str, Any]) -> None:
    admin = AdminClient(config)
    who = (ResourcePatternType.LITERAL, "User:mirror", "*", AclOperation.WRITE, AclPermissionType.DENY)
    _done(admin.create_acls([AclBinding(ResourceType.TOPIC, _TOPIC, *who)]))


def _unmake(config: dict[str, Any]) -> None:
    admin = AdminClient(config)
    _done(admin.delete_consumer_groups([f"{_TOPIC}-classic"]))
    _done(admin.delete_topics([_TOPIC, _COPY]))
