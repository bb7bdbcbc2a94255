"""The object around every JSON answer: its names are a contract (docs/reference/commands.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.problems import each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import EpochMs

SCHEMA_VERSION: Final = 1


def envelope(
    items: Sequence[Mapping[str, Any]], at: EpochMs, errors: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The one object that every answer is."""
    return {"schema_version": SCHEMA_VERSION, "as_of_ms": at, "items": items, "errors": errors}


def error_items(refusal: TanistError) -> tuple[dict[str, str], ...]:
    """The items of `errors` for `refusal`."""
    return tuple({"name": p.name, "reason": p.reason, "action": p.action} for p in each(refusal))
