"""Control batches: what a transaction left in the log (ControlRecordType, KIP-98; the others are KRaft's own)."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

from tanist.domain.errors import CorruptBatch
from tanist.kafka.protocol.batch import HEADER_SIZE, header_of
from tanist.kafka.protocol.varint import read_zigzag

_KEY: Final = Struct(">hh")  # version, type


class ControlType(IntEnum):
    """UNKNOWN: a type that came after us. Like every control record it takes an offset and shows nothing to readers."""

    ABORT, COMMIT = 0, 1
    LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = 2, 3, 4, 5, 6
    UNKNOWN = -1

    @classmethod
    def _missing_(cls, _value: object) -> ControlType:
        return cls.UNKNOWN


def control_type(batch: memoryview) -> ControlType:
    """What the first record of a control batch says.

    Raises:
        CorruptBatch: the batch is not a control batch, or its record has no readable key.
    """
    header = header_of(batch)
    if not header.is_control:
        raise CorruptBatch(f"batch at offset {header.base_offset}: not a control batch")
    _, at = read_zigzag(batch, HEADER_SIZE)  # length; one byte of attributes follows
    _, at = read_zigzag(batch, at + 1)  # timestamp delta
    _, at = read_zigzag(batch, at)  # offset delta
    length, at = read_zigzag(batch, at)
    if length < _KEY.size or at + length > len(batch):
        raise CorruptBatch(f"batch at offset {header.base_offset}: a control record with a key of {length} bytes")
    return ControlType(_KEY.unpack_from(batch, at)[1])
