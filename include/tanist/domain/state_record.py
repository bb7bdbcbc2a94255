"""How a record of the state topics is declared: once, and key, partition, codec, names and owner follow from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import quote

from tanist.domain.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import Field

    from tanist.domain.names import MirrorName


_STORED_UNDER: Final = "stored_under"


def stored_under(name: str) -> Mapping[str, str]:
    """Metadata of a dataclass field: `name` is its stored name, whatever its Python name.

    A name that was released never changes.
    """
    return {_STORED_UNDER: name}


_SINCE: Final = "stored_since"


def stored_since(version: int) -> Mapping[str, int]:
    """Metadata of a field that is stored only if it has another value than its default.

    Such a record has at least this major version, so readers of an earlier one leave it alone; 1: all read it.
    """
    return {_SINCE: version}


def since(field: Field[Any]) -> int | None:
    """The version of `stored_since`; None: the field is always stored."""
    found = field.metadata.get(_SINCE)
    return None if found is None else int(found)


def stored_name(field: Field[Any]) -> str:
    """The name under which `field` is stored."""
    return str(field.metadata.get(_STORED_UNDER, field.name))


_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_SEED: Final = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Murmur2 as `org.apache.kafka.common.utils.Utils.murmur2` computes it, as an unsigned 32 bit number."""
    h = _SEED ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    if tail := data[whole:]:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=1 << 18)
def state_partition_of(mirror: MirrorName, partition: TopicPartition, partitions: int) -> int:
    """The partition of the state topic whose owner copies this partition."""
    key = f"{mirror}/{partition.topic}/{partition.partition}"
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
"""Texts that `quote` does not change: nearly all names. A fast path, because every record that is read needs a key."""


class Placement(Enum):
    """Which partition of its topic a record goes to."""

    FIRST = "partition 0"
    HASHED = "murmur2 of the key behind the kind"
    NUMBERED = "the number behind the kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPolicy:
    """What becomes of the records of a kind; every kind states it.

    `saved`: `tanist state export` writes them; not what is of the moment. `compared`: only people and transitions
    change them, so a restore is refused where the cluster has another one. `moves`: a reversal takes them to the
    mirror's new destination as they are. `stays`: they are true of the logs of the old destination, so a reversal
    leaves them there.
    """

    saved: bool = True
    compared: bool = False
    moves: bool = False
    stays: bool = False


class StateRecord:
    """A record of a state topic. Subclasses are frozen dataclasses that `stored` declares."""

    __slots__ = ()

    stored_as: ClassVar[str] = ""
    key_fields: ClassVar[tuple[str, ...]] = ()
    """The stored names of the fields that make up the key, in their order."""
    key_attributes: ClassVar[tuple[str, ...]] = ()
    """The Python names of the same fields."""
    placement: ClassVar[Placement] = Placement.FIRST
    policy: ClassVar[RecordPolicy] = RecordPolicy()

    @property
    def key(self) -> str:
        """Reads like a path; its first part is the kind."""
        return "/".join([self.stored_as, *[_part(getattr(self, name)) for name in self.key_attributes]])


class MirrorRecord(StateRecord):
    """A record that belongs to a mirror: it contains the name and the id of its mirror.

    A name can be used again, an id cannot, so no record of an earlier mirror is taken for one of the current mirror.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        mirror: MirrorName
        mirror_id: str


_Record = TypeVar("_Record", bound=type[StateRecord])
KINDS: Final[dict[str, type[StateRecord]]] = {}
"""Record classes by the first part of their keys, which is stored and never changes."""


def stored(
    kind: str, *key_fields: str, policy: RecordPolicy, placement: Placement = Placement.FIRST
) -> Callable[[_Record], _Record]:
    """Declare a record: stored under `kind` and the values of `key_fields` (stored names), in that order."""

    def declare(record: _Record) -> _Record:
        declared: Any = record
        names = {stored_name(field): field.name for field in fields(declared)}
        record.key_attributes = tuple(names[name] for name in key_fields)
        record.stored_as, record.key_fields, record.placement, record.policy = kind, key_fields, placement, policy
        KINDS[kind] = record
        return record

    return declare


@dataclass(frozen=True, slots=True)
class Tombstone(StateRecord):
    """Deletes the record of a key."""

    of: str

    @property
    def key(self) -> str:
        return self.of


def _part(value: object) -> str:
    """One part of a key: a partition is two path elements; other texts are quoted."""
    if isinstance(value, TopicPartition):
        return f"{value.topic}/{value.partition}"
    if not isinstance(value, str):
        return str(value)
    return value if _UNRESERVED(value) else quote(value, safe="")


def mirror_of(key: str) -> str | None:
    """The name of the mirror that the record of `key` belongs to; None: it does not belong to a mirror."""
    kind, *parts = key.split("/")
    declared = KINDS.get(kind)
    if declared is None or not parts or declared.key_fields[:1] != ("mirror",):
        return None
    return parts[0]


def partition_of(key: str, partitions: int) -> int:
    """The partition, in a topic with `partitions` partitions, of the record of `key` or its tombstone."""
    kind, _, rest = key.partition("/")
    declared = KINDS.get(kind)
    match declared.placement if declared else Placement.FIRST:
        case Placement.HASHED:
            return (murmur2(rest.encode()) & 0x7FFFFFFF) % partitions
        case Placement.NUMBERED if rest.isdecimal():
            return int(rest) % partitions
        case _:
            return 0
