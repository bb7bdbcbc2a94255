"""Names and numbers, each with a type of its own.

Source and destination offsets are different types, so that mypy finds code that mixes them up.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, NewType, Protocol, TypeVar
from uuid import UUID

from tanist.domain.errors import InvalidMirrorName

if TYPE_CHECKING:
    from collections.abc import Mapping

_V = TypeVar("_V")

MirrorName = NewType("MirrorName", str)
SourceOffset = NewType("SourceOffset", int)
DestinationOffset = NewType("DestinationOffset", int)
EpochMs = NewType("EpochMs", int)
"""Milliseconds since 1970, as in Kafka's timestamps."""
ProducerId = NewType("ProducerId", int)
BrokerId = NewType("BrokerId", int)

SEQUENCE_MODULUS: Final = 2**31
"""Producer sequence numbers wrap from 2^31-1 to 0 (KIP-98, DefaultRecordBatch.incrementSequence)."""

MOST_OFFSETS: Final = 2**63 - 1
"""The largest loss in offsets: an offset is an int64."""

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FORBIDDEN_SUFFIXES: Final = (".removed", ".paused")


class TopicPartition(NamedTuple):
    """A partition of a topic, of whichever cluster is asked.

    It is equal to a `SourcePartition` or `MirrorPartition` of its name: those are told apart by mypy, as offsets are.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SourcePartition(TopicPartition):
    """A partition by its name at the source of a mirror."""

    __slots__ = ()


class MirrorPartition(TopicPartition):
    """A partition by the name of its copy, at the destination of a mirror. Records are stored under it."""

    __slots__ = ()


class NameRules(Protocol):
    """What names the topics of a mirror on its other side; see `domain.renaming`."""

    def copy_of(self, topic: str) -> str | None: ...
    def source_of(self, copy: str) -> str | None: ...


class NoCopyName(ValueError):
    """A name was asked for that the other side of a mirror does not have: a bug of the caller, see `TopicNames`."""


@dataclass(frozen=True, slots=True)
class TopicNames:
    """How topics and partitions of a mirror are named on its other side. `renaming`: None: alike on both.

    Partitions are only those of the mirror. Of any topic, `copy_of` and `source_of` say whether it has a name there.
    """

    renaming: NameRules | None = None

    def copy_of(self, topic: str) -> str | None:
        """The copy of a topic of the source; None: the mirror has none of it, by its name."""
        return topic if self.renaming is None else self.renaming.copy_of(topic)

    def source_of(self, copy: str) -> str | None:
        """What a topic of the destination is a copy of; None: it is no copy, by its name."""
        return copy if self.renaming is None else self.renaming.source_of(copy)

    def topic_at_source(self, copy: str) -> str:
        """What the topic `copy` of the mirror is copied from. Raises NoCopyName: it is no copy."""
        return _named(self.source_of(copy), copy)

    def mirrored_topic(self, topic: str) -> str:
        """What `topic` of the source is copied to. Raises NoCopyName: it is not in the mirror."""
        return _named(self.copy_of(topic), topic)

    def by_copy(self, known: Mapping[str, _V]) -> dict[str, _V]:
        """What is `known` of topics of the source, by the names of their copies; without topics that have none."""
        named = ((self.copy_of(topic), each) for topic, each in known.items())
        return {copy: each for copy, each in named if copy is not None}

    def at_source(self, partition: MirrorPartition) -> SourcePartition:
        """What `partition` is copied from. Raises NoCopyName: it is in no copy."""
        if self.renaming is None:  # asked of every partition of a mirror, several times in each look
            return SourcePartition(*partition)
        return SourcePartition(self.topic_at_source(partition.topic), partition.partition)

    def mirrored(self, partition: SourcePartition) -> MirrorPartition:
        """What `partition` is copied to. Raises NoCopyName: its topic is not in the mirror."""
        return MirrorPartition(self.mirrored_topic(partition.topic), partition.partition)


def _named(found: str | None, topic: str) -> str:
    if found is None:
        raise NoCopyName(f"{topic} is no topic of the mirror")
    return found


SAME_NAMES: Final = TopicNames()
"""Of a mirror without rules: identical offsets always have equal names."""


def is_topic_name(text: str) -> bool:
    """Whether Kafka takes `text` as the name of a topic (org.apache.kafka.common.internals.Topic)."""
    return _TOPIC_NAME.fullmatch(text) is not None and text not in {".", ".."}


def mirror_name(text: str) -> MirrorName:
    """`text` as a mirror's name: topic naming rules, and not one of KIP-1279's reserved suffixes.

    Raises:
        InvalidMirrorName: with the rule that was broken.
    """
    if text in {".", ".."}:
        raise InvalidMirrorName(f"{text!r} cannot be a name, as Kafka has it of topics")
    if not _TOPIC_NAME.fullmatch(text):
        raise InvalidMirrorName(f"{text[:80]!r} is not 1 to 249 characters of letters, digits, '.', '_' and '-'")
    for suffix in _FORBIDDEN_SUFFIXES:
        if text.endswith(suffix):
            raise InvalidMirrorName(f"{text!r} ends with {suffix!r}, which is reserved")
    return MirrorName(text)


def iso_time(at: EpochMs | int) -> str:
    """A time as people read it, and as options take it: ISO 8601 in UTC, with ms.

    One that no calendar has, as a client may stamp its records, stays a number.
    """
    try:
        return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{at} ms"


def after(sequence: int, records: int) -> int:
    """The sequence number that follows a batch of `records` that began at `sequence`."""
    return (sequence + records) % SEQUENCE_MODULUS


@lru_cache(maxsize=10_000)  # asked for every partition of a worker, every second
def topic_id_of(text: str) -> UUID | None:
    """What `topic_id_text` has written; None of an empty text."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "==")) if text else None


def topic_id_text(topic_id: UUID) -> str:
    """As Kafka's tools print it: URL-safe base64 without padding (org.apache.kafka.common.Uuid)."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
