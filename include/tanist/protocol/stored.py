"""How a state record is stored: a key that reads like a path, and one versioned JSON object.

Nothing here is written per record: the dataclasses of `domain.records` and their annotations are the schema. A field
that a reader does not know is ignored, one that the writer did not know takes its default, and what cannot be read at
all becomes an `Unreadable` value: one bad record must never take the control plane down.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, Final, NewType, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from tanist.domain.records import (
    Claim,
    FailoverRun,
    Fences,
    Generation,
    GroupPosition,
    GroupsFollowed,
    MirrorSpec,
    OffsetRunWritten,
    PartitionObserved,
    SourceEnds,
    Tombstone,
    TopicDesired,
    WorkerAlive,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.records import StateRecord

VERSION: Final = 1
"""Major version of the JSON. A record of a newer one was written by a newer Tanist, and its meaning is not ours."""

KINDS: Final[Mapping[str, type[StateRecord]]] = MappingProxyType(
    {
        "mirror": MirrorSpec,
        "topic": TopicDesired,
        "generation": Generation,
        "partition": PartitionObserved,
        "ends": SourceEnds,
        "claim": Claim,
        "worker": WorkerAlive,
        "run": OffsetRunWritten,
        "group": GroupPosition,
        "groups": GroupsFollowed,
        "fence": Fences,
        "failover": FailoverRun,
    },
)
"""The first part of a key, and what lies under it. For ever: stored topics are full of them."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that this version cannot read, and why. It is reported, and otherwise as if it were not there."""

    key: str
    why: str


def encode(record: StateRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they go into the topic; a tombstone has no value."""
    key = record.key.encode()
    if isinstance(record, Tombstone):
        return key, None
    return key, json.dumps({"v": VERSION, **_plain(record)}, separators=(",", ":"), ensure_ascii=False).encode()


def decode(key: bytes, value: bytes | None) -> StateRecord | Unreadable:
    """The record that was stored under `key`. Never raises."""
    name = key.decode(errors="backslashreplace")
    if value is None:
        return Tombstone(name)
    try:
        record = _decode(name, value)
    except (ValueError, TypeError, RecursionError) as error:
        return Unreadable(name, str(error) or type(error).__name__)
    if record.key != name:
        return Unreadable(name, f"its value belongs to the key {record.key!r}")
    return record


def _decode(name: str, value: bytes) -> StateRecord:
    kind: Any = KINDS.get(name.partition("/")[0])
    if kind is None:
        raise ValueError("this version knows no records of that kind")
    stored = json.loads(value)
    if not isinstance(stored, dict):
        raise TypeError("the value is not a JSON object")
    version = stored.get("v")
    if type(version) is not int or version < 1:
        raise ValueError(f"the value has no version: {version!r}")
    if version > VERSION:
        raise ValueError(f"written by a newer version: {version}, this one reads up to {VERSION}")
    return cast("StateRecord", _reader(kind)(stored))


# ── to JSON ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


# ── from JSON: one reader per annotation, built once ──────────────────────────────────────────────────────────────

_Reader: TypeAlias = "Callable[[Any], Any]"


@cache
def _reader(hint: Any) -> _Reader:
    if isinstance(hint, NewType):
        return _reader(hint.__supertype__)
    if get_origin(hint) in {Union, UnionType}:
        return _optional(hint)
    if get_origin(hint) is tuple:
        return _tuple(*get_args(hint))
    if is_dataclass(hint):
        return _dataclass(hint)
    if issubclass(hint, StrEnum):
        return cast("_Reader", hint)
    return _exactly(hint)


def _exactly(kind: type) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not of type {kind.__name__}")
        return value

    return read


def _optional(hint: Any) -> _Reader:
    (some,) = (_reader(arm) for arm in get_args(hint) if arm is not type(None))
    return lambda value: None if value is None else some(value)


def _tuple(first: Any, *rest: Any) -> _Reader:
    if rest == (Ellipsis,):
        item = _reader(first)
        return lambda value: tuple(map(item, _listed(value)))
    items = [_reader(hint) for hint in (first, *rest)]
    return lambda value: tuple(read(each) for read, each in zip(items, _listed(value), strict=True))


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _dataclass(kind: Any) -> _Reader:
    hints = get_type_hints(kind)
    readers = {field.name: _reader(hints[field.name]) for field in fields(kind)}
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is not an object")
        if missing := sorted(required - value.keys()):
            raise ValueError(f"no {', '.join(missing)}")
        return kind(**{name: readers[name](value[name]) for name in readers if name in value})

    return read
