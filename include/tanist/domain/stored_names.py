"""The names under which dataclass fields are stored or printed as JSON, if their Python names differ.

Names in stored topics and released JSON never change; Python names may. A field without a name of its own is
stored under its Python name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field
    from typing import Any

_STORED_UNDER: Final = "stored_under"


def stored_under(name: str) -> Mapping[str, str]:
    """Metadata of a dataclass field: `name` is its stored name, whatever its Python name.

    A name that was released never changes.
    """
    return {_STORED_UNDER: name}


def stored_name(field: Field[Any]) -> str:
    """The name under which `field` is stored."""
    return str(field.metadata.get(_STORED_UNDER, field.name))
