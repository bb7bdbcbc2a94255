"""The records of MirrorMaker 2's own topics as bytes (connect/mirror: OffsetSync, Checkpoint, Heartbeat of 4.3.1).

    offset-sync   key topic, partition i32             value upstream offset i64, downstream offset i64
    checkpoint    key group, topic, partition i32      value version i16 = 0, upstream i64, downstream i64, metadata
    heartbeat     key source alias, target alias       value version i16 = 0, timestamp i64

Big-endian; a text is its length as int16 and UTF-8, never null. An offset-sync has no version. MM2 writes no
tombstones; they, and what is not as above, are values here, not errors: one broken record must not hide the others.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.mirrormaker.records import (
    Checkpoint,
    CheckpointDeleted,
    Heartbeat,
    HeartbeatDeleted,
    OffsetSync,
    SyncsDeleted,
    Undecodable,
)
from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition, SourceOffset, SourcePartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.mirrormaker.records import CheckpointEvent, HeartbeatEvent, SyncEvent

_T = TypeVar("_T")

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_VERSION: Final = 0
"""Of checkpoints and heartbeats; there never was another one up to 4.3."""


def offset_sync(key: bytes | None, value: bytes | None) -> SyncEvent:
    """An offset-sync; its key has the topic's name at the source."""
    return _decoded(lambda: _offset_sync(_Reader(key), value))


def checkpoint(key: bytes | None, value: bytes | None) -> CheckpointEvent:
    """A checkpoint; its key has the topic's name at the destination."""
    return _decoded(lambda: _checkpoint(_Reader(key), value))


def heartbeat(key: bytes | None, value: bytes | None) -> HeartbeatEvent:
    """A heartbeat."""
    return _decoded(lambda: _heartbeat(_Reader(key), value))


def _decoded(decode: Callable[[], _T]) -> _T | Undecodable:
    try:
        return decode()
    except _NotAsWritten as why:
        return Undecodable(str(why))
    except StructError:
        return Undecodable("it ends early")
    except UnicodeDecodeError:
        return Undecodable("a name is not UTF-8")


def _offset_sync(key: _Reader, value: bytes | None) -> OffsetSync | SyncsDeleted:
    at = SourcePartition(key.text(), key.number(_I32))
    key.must_end()
    if value is None:
        return SyncsDeleted(at)
    fields = _Reader(value)
    found = OffsetSync(at, SourceOffset(fields.offset()), DestinationOffset(fields.offset()))
    fields.must_end()
    return found


def _checkpoint(key: _Reader, value: bytes | None) -> Checkpoint | CheckpointDeleted:
    group, at = key.text(), MirrorPartition(key.text(), key.number(_I32))
    key.must_end()
    if value is None:
        return CheckpointDeleted(group, at)
    fields = _Reader(value)
    fields.version()
    upstream, downstream = SourceOffset(fields.offset()), DestinationOffset(fields.offset())
    found = Checkpoint(group, at, upstream, downstream, fields.text())
    fields.must_end()
    return found


def _heartbeat(key: _Reader, value: bytes | None) -> Heartbeat | HeartbeatDeleted:
    source, target = key.text(), key.text()
    key.must_end()
    if value is None:
        return HeartbeatDeleted(source, target)
    fields = _Reader(value)
    fields.version()
    found = Heartbeat(source, target, EpochMs(fields.number(_I64)))
    fields.must_end()
    return found


class _NotAsWritten(ValueError):
    """A value that MM2 does not write."""


class _Reader:
    """Reads a key or a value from the left. Raises StructError, UnicodeDecodeError or _NotAsWritten."""

    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise _NotAsWritten("it has no key")
        self._data, self._at = data, 0

    def number(self, field: Struct) -> int:
        found: int = field.unpack_from(self._data, self._at)[0]
        self._at += field.size
        return found

    def offset(self) -> int:
        found = self.number(_I64)
        if found < 0:
            raise _NotAsWritten(f"offset {found}")
        return found

    def version(self) -> None:
        found = self.number(_I16)
        if found != _VERSION:
            raise _NotAsWritten(f"version {found}, which MirrorMaker 2 has never written")

    def text(self) -> str:
        size = self.number(_I16)
        if size < 0:
            raise _NotAsWritten("a name is missing")
        stop = self._at + size
        if stop > len(self._data):
            raise StructError
        found = self._data[self._at : stop].decode()
        self._at = stop
        return found

    def must_end(self) -> None:
        if self._at != len(self._data):
            raise _NotAsWritten("it is too long")
