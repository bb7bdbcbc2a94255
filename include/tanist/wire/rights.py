"""What the login that asks may do to topics, as brokers tell it (KIP-430); of a super user that is everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import MalformedFrame, TanistError
from tanist.domain.names import TopicPartition
from tanist.protocol.codes import NONE, error_for
from tanist.wire.leaders import Answers, ask_leaders
from tanist.wire.messages import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.ports.clock import Deadline
    from tanist.wire.connection import Connection
    from tanist.wire.router import Router

_WRITE: Final = 4  # AclOperation
_NO_TOPIC_ID: Final = UUID(int=0)


def may_write(router: Router, topics: Sequence[str], by: Deadline) -> dict[str, bool | TanistError]:
    """Whether this very login may WRITE to each topic, as every broker says that leads a partition of it.

    One that grants it is enough. A topic that we may not even see is one that we may not write to. Rules reach each
    broker by itself, within milliseconds: who has just made one asks again.

    Raises:
        CouldNotTell: no broker answers.
    """
    if not topics:
        return {}
    router.refresh(topics, by)
    known = router.topics()
    partitions = [TopicPartition(name, part.partition) for name in topics for part in known[name].partitions]
    told = ask_leaders(router, dict.fromkeys(partitions), by, _ask) if partitions else {}
    return {name: _any(known[name].error, [told[at] for at in partitions if at.topic == name]) for name in topics}


def _any(error: TanistError | None, told: Sequence[bool | TanistError]) -> bool | TanistError:
    if isinstance(error, TopicAuthorizationFailed):
        return False
    if any(each is True for each in told):
        return True
    refused = [each for each in told if isinstance(each, TanistError)]
    if error is None and not told:
        return UnknownTopicOrPartition("a topic without partitions")
    return error or (refused[0] if refused else False)


def _ask(connection: Connection, partitions: Mapping[TopicPartition, None], by: Deadline) -> Answers[bool]:
    kind = MetadataRequest.MetadataRequestTopic
    names = sorted({at.topic for at in partitions})
    request = MetadataRequest(
        topics=[kind(topic_id=_NO_TOPIC_ID, name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
        version=connection.version(MetadataRequest, 8, 12),
    )
    told = {topic.name: _writes(topic) for topic in connection.call(request, by).topics}
    return {at: told[at.topic] for at in partitions if at.topic in told}


def _writes(topic: Any) -> bool | TanistError:
    error = None if topic.error_code == NONE else error_for(topic.error_code, f"topic {topic.name!r}")
    if error is not None:
        return False if isinstance(error, TopicAuthorizationFailed) else error
    told = topic.authorized_operations  # codes of AclOperation; None: not told
    return MalformedFrame(f"topic {topic.name!r}: the broker tells no rights") if told is None else _WRITE in told
