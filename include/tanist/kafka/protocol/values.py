"""Frozen dataclasses as JSON and back: their annotations are the schema.

A field is stored under its own name, or under the one that `domain.stored_names` gives it. A field that a reader does
not know is ignored, one that the writer did not know takes its default.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, NewType, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from tanist.domain.endpoint import Secret
from tanist.domain.stored_names import stored_name

if TYPE_CHECKING:
    from collections.abc import Callable

# ── to JSON ───────────────────────────────────────────────────────────────────────────────────────────────────────


def plain(value: Any, *, reveal: bool = False) -> Any:
    """`value` as JSON can hold it. Secrets only with `reveal`: for files that nobody else can read.

    Raises:
        TypeError: it contains a secret, and `reveal` is False.
    """
    kind: Any = type(value)
    names = _names(kind)
    if names is not None:
        return {stored: plain(getattr(value, name), reveal=reveal) for stored, name in names}
    if isinstance(value, tuple):
        return [plain(item, reveal=reveal) for item in value]
    if isinstance(value, Secret):
        if not reveal:
            raise TypeError("a secret is not stored")
        return value.reveal()
    return value


@cache
def _names(kind: type) -> tuple[tuple[str, str], ...] | None:
    """Of each field the name that it is stored under, and that of its attribute; None: it is no dataclass."""
    return tuple((stored_name(field), field.name) for field in fields(kind)) if is_dataclass(kind) else None


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
    if is_dataclass(hint):
        return _dataclass(hint)
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


def _dataclass(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    readers = {stored_name(field): (field.name, reader(hints[field.name])) for field in fields(kind)}
    required = {stored_name(f) for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def read_fields(value: Any) -> Any:
        if not isinstance(value, dict):
            raise TypeError(f"{value!r} is not an object")
        if missing := sorted(required - value.keys()):
            raise ValueError(f"no {', '.join(missing)}")
        return kind(**{name: read(value[stored]) for stored, (name, read) in readers.items() if stored in value})

    return read_fields
