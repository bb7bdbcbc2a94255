"""The stored form of state records: a key like a path, and one versioned JSON object.

Nothing here is written per record: the dataclasses of `domain.records` and their annotations are the schema. A field
that a reader does not know is ignored, one that the writer did not know takes its default, and what cannot be read at
all becomes an `Unreadable` value: one bad record must never take the control plane down.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, NewType, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from tanist.domain.approval.entries import LONGEST_MS, Approval, Withdrawal
from tanist.domain.endpoint import Secret
from tanist.domain.names import MirrorName, TopicPartition
from tanist.domain.state_record import KINDS, StateRecord, Tombstone, since, stored_name, stored_under

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field

    from tanist.domain.approval.entries import ApprovalRequest, Entry
    from tanist.domain.names import EpochMs


# ── to JSON ───────────────────────────────────────────────────────────────────────────────────────────────────────


def plain(value: Any, *, reveal: bool = False) -> Any:
    """`value` as JSON can hold it. Secrets only with `reveal`: for files that nobody else can read.

    Raises:
        TypeError: it contains a secret, and `reveal` is False.
    """
    kind: Any = type(value)
    names = _names(kind)
    if names is not None:
        unset = {each.name for each in _later(kind) if getattr(value, each.name) == each.default}
        return {stored: plain(getattr(value, name), reveal=reveal) for stored, name, _ in names if name not in unset}
    if isinstance(value, tuple):
        return [plain(item, reveal=reveal) for item in value]
    if isinstance(value, Secret):
        if not reveal:
            raise TypeError("a secret is not stored")
        return value.reveal()
    return value


@cache
def _names(kind: type) -> tuple[tuple[str, str, bool], ...] | None:
    """Each field: the name that it is stored under, its own name, whether it has a default. None: there are none."""
    if is_dataclass(kind):
        return tuple((stored_name(f), f.name, not (f.default is f.default_factory is MISSING)) for f in fields(kind))
    return tuple((name, name, False) for name in TopicPartition._fields) if issubclass(kind, TopicPartition) else None


@cache
def _later(kind: type) -> tuple[Field[Any], ...]:
    """The fields that are stored only if they have another value than their default."""
    return tuple(each for each in fields(kind) if since(each)) if is_dataclass(kind) else ()


# ── from JSON: one reader per annotation, built once ──────────────────────────────────────────────────────────────

Reader: TypeAlias = "Callable[[Any], Any]"


@cache
def reader(hint: Any) -> Reader:
    """What reads a value of the type `hint`; it raises ValueError or TypeError where the value is of another."""
    if isinstance(hint, NewType):
        return reader(hint.__supertype__)
    if get_origin(hint) in {Union, UnionType}:
        return _optional(hint)
    if get_origin(hint) is tuple:
        return _tuple(*get_args(hint))
    if _names(hint) is not None:
        return _object(hint)
    if hint is Secret or issubclass(hint, StrEnum):
        return cast("Reader", hint)
    return _exactly(hint)


def _exactly(kind: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is not of type {kind.__name__}")
        return value

    return read


def _optional(hint: Any) -> Reader:
    (some,) = (reader(arm) for arm in get_args(hint) if arm is not type(None))
    return lambda value: None if value is None else some(value)


def _tuple(first: Any, *rest: Any) -> Reader:
    if rest == (Ellipsis,):
        item = reader(first)
        return lambda value: tuple(map(item, _listed(value)))
    items = [reader(hint) for hint in (first, *rest)]
    return lambda value: tuple(read(each) for read, each in zip(items, _listed(value), strict=True))


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _object(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    names = _names(kind) or ()
    each_field = [(stored, name, _plain_type(hints[name]), reader(hints[name])) for stored, name, _ in names]
    required = frozenset(stored for stored, _, has_default in names if not has_default)

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is not an object")
        if not required <= value.keys():
            raise ValueError(f"no {', '.join(sorted(required - value.keys()))}")
        found = {}
        for stored, name, plain_type, read_field in each_field:
            if stored in value:
                each = value[stored]
                found[name] = each if type(each) is plain_type else read_field(each)
        return kind(**found)

    return read


def _plain_type(hint: Any) -> type | None:
    """The type whose values are taken as JSON has them, without a call: a view of a large mirror has half a million.

    None: there is none.
    """
    if isinstance(hint, NewType):
        return _plain_type(hint.__supertype__)
    if get_origin(hint) in {Union, UnionType}:
        (some,) = (arm for arm in get_args(hint) if arm is not type(None))
        return _plain_type(some)
    return hint if hint in {str, int, float, bool} else None


VERSION: Final = 1
"""Major version of the JSON, unless a field of the kind has a later one: see `stored_since`.

A record is written with the lowest version that has what it says. One of a newer version than this kind has was written
by a newer Tanist, and its meaning is not ours.
"""
_json: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_parsed: Final = json.JSONDecoder().decode
"""Without the search for another encoding than that of `encode`: a view of a large mirror has tens of thousands."""


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
    return key, _json({"v": _version(record), **plain(record)}).encode()


def _version(record: StateRecord) -> int:
    kind: Any = type(record)
    used = (each for each in _later(kind) if getattr(record, each.name) != each.default)
    return max((since(each) or VERSION for each in used), default=VERSION)


@cache
def _newest(kind: type) -> int:
    """The latest version of records of this kind."""
    return max((since(each) or VERSION for each in _later(kind)), default=VERSION)


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
    stored = _parsed(value.decode())
    if not isinstance(stored, dict):
        raise TypeError("the value is not a JSON object")
    version = stored.get("v")
    if type(version) is not int or version < 1:
        raise ValueError(f"the value has no version: {version!r}")
    if version > (newest := _newest(kind)):
        raise ValueError(f"written by a newer version: {version}, this one reads up to {newest}")
    return cast("StateRecord", reader(kind)(stored))


APPROVAL_VERSION: Final = 2
"""Version 1 named no request. A reader of version 1 must not take an approval of one request as one of any."""
_READ: Final = frozenset({1, APPROVAL_VERSION})
_NO_LONGER_WRITTEN: Final = "reserve_to"
"""Where the reserve ends is decided in the run. It is still read, and binds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    v: int
    mirror: str
    plan: str
    plan_json: str = field(metadata=stored_under("shown"))
    approver: str
    reason: str
    valid_for_ms: int
    request: str = ""
    reserve_to: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        topics = (topic for topic, _ in self.reserve_to)
        _check(self.v, self.mirror, self.plan, self.plan_json, self.approver, self.reason, self.request, *topics)
        if not 0 < self.valid_for_ms <= LONGEST_MS:
            raise ValueError(f"its validity of {self.valid_for_ms} ms is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Withdrawn:
    v: int
    mirror: str
    plan: str
    withdrawn: str
    """The request; empty: the plan, whoever was asked."""
    by: str
    reason: str

    def __post_init__(self) -> None:
        _check(self.v, self.mirror, self.plan, self.withdrawn, self.by, self.reason)


def _check(version: int, *texts: str) -> None:
    if version not in _READ:
        raise ValueError(f"written by another version: {version}")
    for text in texts:
        text.encode()  # JSON can name half a character, which nothing can print or hash


def encode_approval(request: ApprovalRequest, approver: str) -> bytes:
    """The value of the record."""
    stored = _Stored(
        v=APPROVAL_VERSION,
        mirror=request.mirror,
        plan=request.plan,
        plan_json=request.plan_json,
        approver=approver,
        reason=request.reason,
        valid_for_ms=request.valid_for_ms,
        request=request.request,
    )
    words = {name: value for name, value in plain(stored).items() if name != _NO_LONGER_WRITTEN}
    return json.dumps(words, ensure_ascii=False).encode()


def encode_withdrawal(no: Withdrawal, by: str) -> bytes:
    """The value of the record."""
    stored = _Withdrawn(
        v=APPROVAL_VERSION, mirror=no.mirror, plan=no.plan, withdrawn=no.request, by=by, reason=no.reason
    )
    return json.dumps(plain(stored), ensure_ascii=False).encode()


def decode_approval(value: bytes | None, id: str, at: EpochMs) -> Entry | None:  # noqa: A002  # the approval's own word
    """The entry in a record that brokers appended at `at` (ms); None: it cannot be decoded. Never raises."""
    try:
        found: Any = json.loads(value or b"")
        if isinstance(found, dict) and "withdrawn" in found:
            no: _Withdrawn = reader(_Withdrawn)(found)
            reason = f"{no.reason} ({no.by})"
            return Withdrawal(mirror=MirrorName(no.mirror), plan=no.plan, request=no.withdrawn, reason=reason)
        stored: _Stored = reader(_Stored)(found)
    except (ValueError, TypeError, RecursionError):
        return None
    return Approval(
        id=id,
        mirror=MirrorName(stored.mirror),
        plan=stored.plan,
        plan_json=stored.plan_json,
        request=stored.request,
        approver=stored.approver,
        reason=stored.reason,
        valid_for_ms=stored.valid_for_ms,
        at=at,
        reserve_to=stored.reserve_to,
    )
