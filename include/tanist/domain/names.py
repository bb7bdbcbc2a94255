"""Names and numbers, each with a type of its own.

Source and destination offsets are different types, so that mypy finds code that mixes them up.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import Final, NamedTuple, NewType
from uuid import UUID

from tanist.domain.errors import InvalidMirrorName

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


class TopicNames:
    """How partitions of a mirror are named on its other side: alike on both."""

    def at_source(self, partition: MirrorPartition) -> SourcePartition:
        """What `partition` is copied from."""
        return SourcePartition(*partition)

    def mirrored(self, partition: SourcePartition) -> MirrorPartition:
        """What `partition` is copied to."""
        return MirrorPartition(*partition)


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


def topic_id_of(text: str) -> UUID | None:
    """What `topic_id_text` has written; None of an empty text."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "==")) if text else None


def topic_id_text(topic_id: UUID) -> str:
    """As Kafka's tools print it: URL-safe base64 without padding (org.apache.kafka.common.Uuid)."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
