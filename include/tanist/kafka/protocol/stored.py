"""The stored form of state records: a key like a path, and one versioned JSON object.

Nothing here is written per record: the dataclasses of `domain.records` and their annotations are the schema. A field
that a reader does not know is ignored, one that the writer did not know takes its default, and what cannot be read at
all becomes an `Unreadable` value: one bad record must never take the control plane down.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, cast

from tanist.domain.state_record import KINDS, StateRecord, Tombstone
from tanist.kafka.protocol.values import plain, reader

VERSION: Final = 1
"""Major version of the JSON. A record of a newer one was written by a newer Tanist, and its meaning is not ours."""
_json: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


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
    return key, _json({"v": VERSION, **plain(record)}).encode()


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
        raise ValueError("this version does not know records of that kind")
    stored = json.loads(value)
    if not isinstance(stored, dict):
        raise TypeError("the value is not a JSON object")
    version = stored.get("v")
    if type(version) is not int or version < 1:
        raise ValueError(f"the value has no version: {version!r}")
    if version > VERSION:
        raise ValueError(f"written by a newer version: {version}, this one reads up to {VERSION}")
    return cast("StateRecord", reader(kind)(stored))
