"""What group coordinators write into `__consumer_offsets` (GroupMetadataManager; schemas in group-coordinator/common).

    key type 0, 1   group, topic, partition    a committed position: value v0 to v3, and v4 (flexible, tag 0 = topic id)
    key type 2      group                      a classic group
    key type 3, 17  group                      a KIP-848 group, a streams group (KIP-1071)
    key type 5 to 8 group (, member)           members and assignments of KIP-848 groups
    others                                     of no concern here

A tombstone deletes what its key names. Keys are never flexible; they begin with an int16, the type.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final, NamedTuple, TypeAlias

from tanist.domain.errors import CouldNotTell
from tanist.domain.names import EpochMs, SourceOffset, TopicPartition

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")

_COMMITS: Final = {0, 1}
_CLASSIC: Final = 2
_KINDS: Final = {_CLASSIC: "classic", 3: "consumer", 17: "streams"}
_OF_GROUP: Final = {6}
_OF_MEMBER: Final = {5, 7, 8}

_NEWEST_COMMIT: Final = 4
_NEWEST_GROUP: Final = 4
_FLEXIBLE: Final = 4
_WITH_LEADER_EPOCH: Final = 3
_WITH_EXPIRY: Final = 1
_WITH_STATE_TIME: Final = 2
_WITH_INSTANCE: Final = 3
_WITH_REBALANCE_TIMEOUT: Final = 1
_MORE: Final = 0x80
_LONGEST_VARINT: Final = 5


class UnreadableGroupRecord(CouldNotTell):
    name, retriable = "UNREADABLE_GROUP_RECORD", False
    operator_action = "none: the record is skipped and reported; `tanist groups sync` asks the source itself"


class LoggedCommit(NamedTuple):
    """A group will read `offset` next. `at`: ms, by the coordinator's clock."""

    group: str
    partition: TopicPartition
    offset: SourceOffset
    leader_epoch: int
    metadata: str
    at: EpochMs


class Removed(NamedTuple):
    """A position was deleted, has expired, or its topic is gone."""

    group: str
    partition: TopicPartition


class GroupSeen(NamedTuple):
    """`members` is told of classic groups only, else None."""

    group: str
    kind: str
    members: int | None


class GroupGone(NamedTuple):
    group: str
    kind: str


class Other(NamedTuple):
    """A record of `group` that does not concern committed offsets; `group` is empty where the type is not known."""

    key_type: int
    group: str
    gone: bool


GroupEvent: TypeAlias = LoggedCommit | Removed | GroupSeen | GroupGone | Other


def parse(key: bytes, value: bytes | None) -> GroupEvent:
    """The content of a record.

    Raises:
        UnreadableGroupRecord: it ends early, is not text where it should be, or has a version that came after us.
    """
    try:
        return _parse(_Fields(key), value)
    except (StructError, UnicodeDecodeError, IndexError) as broken:
        raise UnreadableGroupRecord(f"key {key[:80]!r}, value of {len(value or b'')} bytes: {broken}") from broken


def _parse(key: _Fields, value: bytes | None) -> GroupEvent:
    kind = key.i16()
    if kind in _COMMITS:
        return _position(key, value)
    if kind in _KINDS:
        group = key.text()
        key.must_end()
        return GroupGone(group, _KINDS[kind]) if value is None else _group(group, kind, _Fields(value))
    if kind in _OF_GROUP | _OF_MEMBER:
        group = key.text()
        if kind in _OF_MEMBER:
            key.text()
        key.must_end()
        return Other(kind, group, value is None)
    return Other(kind, "", value is None)


def _position(key: _Fields, value: bytes | None) -> LoggedCommit | Removed:
    group, at = key.text(), TopicPartition(key.text(), key.i32())
    key.must_end()
    if value is None:
        return Removed(group, at)
    fields = _Fields(value)
    version = fields.version(_NEWEST_COMMIT)
    offset = SourceOffset(fields.i64())
    epoch = fields.i32() if version >= _WITH_LEADER_EPOCH else -1
    metadata = fields.text(flexible=version >= _FLEXIBLE)
    committed_at = EpochMs(fields.i64())
    if version == _WITH_EXPIRY:
        fields.i64()
    if version >= _FLEXIBLE:
        fields.tags()
    fields.must_end()
    return LoggedCommit(group, at, offset, epoch, metadata, committed_at)


def _group(group: str, kind: int, fields: _Fields) -> GroupSeen:
    if kind != _CLASSIC:
        return GroupSeen(group, _KINDS[kind], None)
    version = fields.version(_NEWEST_GROUP)
    flexible = version >= _FLEXIBLE
    fields.text(flexible=flexible)  # protocol type
    fields.i32()  # generation
    fields.text(flexible=flexible)  # protocol
    fields.text(flexible=flexible)  # leader
    if version >= _WITH_STATE_TIME:
        fields.i64()
    members = fields.count(flexible=flexible)
    for _ in range(members):
        _member(fields, version, flexible=flexible)
    if flexible:
        fields.tags()
    fields.must_end()
    return GroupSeen(group, _KINDS[kind], members)


def _member(fields: _Fields, version: int, *, flexible: bool) -> None:
    fields.text(flexible=flexible)  # member id
    if version >= _WITH_INSTANCE:
        fields.text(flexible=flexible)
    fields.text(flexible=flexible)  # client id
    fields.text(flexible=flexible)  # client host
    if version >= _WITH_REBALANCE_TIMEOUT:
        fields.i32()
    fields.i32()  # session timeout
    for _ in ("subscription", "assignment"):
        fields.raw(fields.count(flexible=flexible))
    if flexible:
        fields.tags()


class _Fields:
    """Reads one key or value from the left. What does not fit raises StructError, IndexError or UnicodeDecodeError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _unpack(self, field: Struct) -> int:
        number: int = field.unpack_from(self._data, self._at)[0]
        self._at += field.size
        return number

    def i16(self) -> int:
        return self._unpack(_I16)

    def i32(self) -> int:
        return self._unpack(_I32)

    def i64(self) -> int:
        return self._unpack(_I64)

    def version(self, newest: int) -> int:
        found = self.i16()
        if not 0 <= found <= newest:
            raise IndexError(f"version {found} of its value; up to {newest} is known")
        return found

    def raw(self, size: int) -> bytes:
        """`size` bytes; none for a negative size, which stands for null."""
        stop = self._at + max(size, 0)
        if stop > len(self._data):
            raise IndexError(f"{size} bytes at byte {self._at} of {len(self._data)}")
        found = self._data[self._at : stop]
        self._at = stop
        return found

    def varint(self) -> int:
        number = 0
        for index in range(_LONGEST_VARINT):
            byte = self.raw(1)[0]
            number |= (byte & ~_MORE) << 7 * index
            if byte < _MORE:
                return number
        raise IndexError(f"an unterminated number at byte {self._at}")

    def count(self, *, flexible: bool) -> int:
        """Of entries or bytes; -1 is null."""
        return self.varint() - 1 if flexible else self.i32()

    def text(self, *, flexible: bool = False) -> str:
        """Null reads as empty."""
        return self.raw(self.varint() - 1 if flexible else self.i16()).decode()

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.raw(self.varint())

    def must_end(self) -> None:
        if self._at != len(self._data):
            raise IndexError(f"{len(self._data) - self._at} bytes too many")
