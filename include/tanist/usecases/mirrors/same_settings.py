"""Whether a mirror that exists is the one that somebody wants to create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import MirrorExists
from tanist.usecases.mirror import same_as_pinned

if TYPE_CHECKING:
    from tanist.domain.records import MirrorSpec

_ASKED: Final = (
    "copied_by",
    "source",
    "destination",
    "include",
    "exclude",
    "offsets",
    "engine",
    "holes",
    "on_loss",
    "deny_writers",
    "replication_factor",
    "merge_small_batches",
    "rename",
    "start",
    "strategies",
    "group_include",
    "group_exclude",
    "sync_groups_seconds",
    "mm2_aliases",
    "poll_timeout_ms",
    "transaction_ms",
    "delivery",
    "fence_source",
    "grant_writers",
    "sync_metadata_seconds",
    "workers_sync_groups",
    "config_exclude",
    "on_rewind",
)


def same_settings(existing: MirrorSpec, wanted: MirrorSpec) -> MirrorSpec:
    """`existing`, if its settings are those of `wanted`."""
    for name in _ASKED:
        if (ours := getattr(wanted, name)) != (theirs := getattr(existing, name)):
            raise MirrorExists(
                f"mirror {wanted.mirror!r} exists with {name} {_describe(theirs)}, not {_describe(ours)}"
            )
    same_as_pinned(existing, wanted.source_cluster_id, wanted.destination_cluster_id)
    return existing


def _describe(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
