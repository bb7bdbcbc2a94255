"""Whether a mirror that exists is the one that somebody wants to create."""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from tanist.domain.errors import MirrorExists
from tanist.domain.records import MirrorSpec
from tanist.usecases.mirror import same_as_pinned

_ALLOCATED: Final = frozenset(
    {"mirror", "mirror_id", "data_id", "marker_id", "start_id", "transactional_id", "created_at"}
)
_OF_ITS_OWN: Final = frozenset({"source_cluster_id", "destination_cluster_id", "max_start_fill"})
"""Pinned, which has errors of its own, or only altered."""


def same_settings(existing: MirrorSpec, wanted: MirrorSpec) -> MirrorSpec:
    """`existing`, if its settings are those of `wanted`."""
    settings = (each.name for each in fields(MirrorSpec) if each.name not in _ALLOCATED | _OF_ITS_OWN)
    for name in sorted(settings, key=lambda each: each != "copied_by"):  # which explains the others
        if (ours := getattr(wanted, name)) != (theirs := getattr(existing, name)):
            raise MirrorExists(
                f"mirror {wanted.mirror!r} exists with {name} {_describe(theirs)}, not {_describe(ours)}"
            )
    same_as_pinned(existing, wanted.source_cluster_id, wanted.destination_cluster_id)
    return existing


def _describe(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
