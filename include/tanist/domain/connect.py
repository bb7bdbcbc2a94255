"""Consumer groups of Kafka Connect, which are called what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SINK_GROUP: Final = "connect-"
"""How the group of a sink connector begins; the connector's name follows (SinkUtils.consumerGroupId). It may override
`group.id`."""
SINK_CLIENT: Final = "connector-consumer-"
"""How the client id of the consumer of a sink task begins (Worker.baseConsumerConfigs). It may be overridden, too."""
HINT: Final = (
    "a sink that keeps its positions in its own system, not in Kafka, continues where that says: translate those with "
    "`tanist offsets lookup`"
)


def is_sink(group: str, client_ids: Iterable[str] = ()) -> bool:
    """Whether a group is that of a sink connector, by its name or by the client ids of its members."""
    return group.startswith(SINK_GROUP) or any(each.startswith(SINK_CLIENT) for each in client_ids)


def sink_note(group: str, client_ids: Iterable[str] = ()) -> str:
    """What people should know of a group; empty: nothing."""
    return f"sink tasks of Kafka Connect: {HINT}" if is_sink(group, client_ids) else ""
