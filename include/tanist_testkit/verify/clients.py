"""Ordinary clients, as anybody would write them: the demo's users, and its checker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports them without saying so
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from tanist_testkit.verify.traces import Place
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from confluent_kafka.cimpl import NewTopic

    from tanist.ports.clock import Clock, Deadline

_QUIET: Final = {"log_level": 2}
"""Brokers are killed on purpose here: librdkafka would tell of every connection."""
_ASK_SECONDS: Final = 5.0
NO_AUTHORIZER: Final = "none, the cluster has no authorizer"


def settings(bootstrap: str, **more: Any) -> dict[str, Any]:
    """Librdkafka's configuration; keys have '_' for '.'."""
    return _QUIET | {"bootstrap.servers": bootstrap} | {key.replace("_", "."): value for key, value in more.items()}


def consumer(
    bootstrap: str, *, group: str = "checker", committed: bool = True, without_position: str = "error"
) -> Consumer:
    """Reads every byte checked by its CRC; nothing is committed by itself. `committed`: the isolation level."""
    return Consumer(
        settings(
            bootstrap,
            group_id=group,
            isolation_level="read_committed" if committed else "read_uncommitted",
            enable_auto_commit=False,
            auto_offset_reset=without_position,
            enable_partition_eof=True,
            check_crcs=True,
            fetch_wait_max_ms=100,
            queued_max_messages_kbytes=32 * 1024,
            fetch_error_backoff_ms=100,
        )
    )


def create_topics(bootstrap: str, topics: Iterable[NewTopic], by: Deadline, clock: Clock, **more: Any) -> None:
    """New topics; returns when they are known to be there. `more`: as in `settings`.

    Raises:
        TimedOut: not within the deadline.
        KafkaException: the cluster refused.
    """
    admin = AdminClient(settings(bootstrap, **more))
    wanted = list(topics)
    for future in admin.create_topics(wanted, request_timeout=by.left(clock.monotonic())).values():
        future.result()
    names = {topic.topic for topic in wanted}
    until(lambda: names <= _led(admin), by, clock, lambda: f"topics {', '.join(sorted(names))} have no leaders yet")


def _led(admin: AdminClient) -> set[str]:
    topics = admin.list_topics(timeout=_ASK_SECONDS).topics.values()
    return {str(topic.topic) for topic in topics if all(part.leader >= 0 for part in topic.partitions.values())}


def delete_before(bootstrap: str, offsets: Mapping[Place, int]) -> None:
    """Deletes the records before these offsets: the logs start there.

    Raises:
        KafkaException: the cluster refused.
    """
    admin = AdminClient(settings(bootstrap))
    wanted = [TopicPartition(place.topic, place.partition, offset) for place, offset in offsets.items()]
    for future in admin.delete_records(wanted).values():
        future.result()


def settings_of(bootstrap: str, topic: str) -> dict[str, str]:
    """Every setting of a topic, defaults too, as one reads them.

    Raises:
        KafkaException: the cluster refused.
    """
    admin = AdminClient(settings(bootstrap))
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = admin.describe_configs([resource], request_timeout=_ASK_SECONDS).values()
    return {name: f"{entry.value} ({entry.source})" for name, entry in future.result().items()}


def rules_of(bootstrap: str, topic: str) -> str:
    """Every ACL under which a topic falls, as one reads them.

    Raises:
        KafkaException: the cluster refused.
    """
    admin = AdminClient(settings(bootstrap))
    anybody: Any = None
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.MATCH,
        anybody,
        anybody,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    try:
        found = admin.describe_acls(wanted, request_timeout=_ASK_SECONDS).result()
    except KafkaException as refused:
        if refused.args[0].code() != KafkaError.SECURITY_DISABLED:
            raise
        return NO_AUTHORIZER
    return "; ".join(sorted(map(str, found))) or "none"


def places(bootstrap: str, topics: Iterable[str], by: Deadline, clock: Clock) -> tuple[Place, ...]:
    """Every partition of `topics`, in order.

    Raises:
        TimedOut: a topic is not there.
    """
    admin = AdminClient(settings(bootstrap))
    names = list(topics)
    late = f"{bootstrap} does not tell the partitions of {', '.join(names)}"
    return until(lambda: _partitions(admin, names), by, clock, lambda: late)


def _partitions(admin: AdminClient, names: list[str]) -> tuple[Place, ...] | None:
    try:
        topics = admin.list_topics(timeout=_ASK_SECONDS).topics
    except KafkaException:
        return None
    if any(name not in topics for name in names):
        return None
    return tuple(Place(name, number) for name in sorted(names) for number in sorted(topics[name].partitions))
