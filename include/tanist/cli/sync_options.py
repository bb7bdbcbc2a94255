"""The options of `tanist mirrors create|alter` for what follows the source, how often, and who does it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tanist.cli.options import duration, lasting
from tanist.domain.duties import DEFAULT_GROUPS_SECONDS
from tanist.domain.errors import Misconfigured
from tanist.domain.rewinds import OnRewind
from tanist.domain.sync_settings import SyncSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

OFF: Final = "off"


def duration_or_off(text: str | float) -> float:
    """Seconds, as `duration` reads them; 0 for `off`."""
    return 0.0 if str(text).strip() in {OFF, "0", "0.0"} else duration(text)


SyncMetadataOption = Annotated[
    float | None,
    lasting(
        "--sync-metadata",
        "How often workers do what `metadata sync` does, or off",
        "off; under Airflow the DAG mirror_metadata_sync does it",
        parser=duration_or_off,
    ),
]
SyncGroupsOption = Annotated[
    float | None,
    lasting(
        "--sync-groups",
        "How often workers do what `groups sync` does, or off",
        "off; under Airflow the DAG mirror_group_offsets does it",
        parser=duration_or_off,
    ),
]
GroupIntervalOption = Annotated[
    float | None,
    lasting(
        "--group-sync-interval",
        "Time between two syncs of groups, whoever does them",
        f"every run of the DAG, {DEFAULT_GROUPS_SECONDS}s for workers",
        parser=duration_or_off,
    ),
]
ConfigExcludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config-exclude",
        metavar="REGEX",
        help="Topic configs that do not follow the source, instead of those of KIP-1279 (docs/metadata.md); "
        "repeatable.",
    ),
]
GroupIncludeOption = Annotated[
    list[str] | None,
    typer.Option("--group-include", metavar="REGEX", help="Only groups that match (default: all); repeatable."),
]
GroupExcludeOption = Annotated[
    list[str] | None, typer.Option("--group-exclude", metavar="REGEX", help="No groups that match; repeatable.")
]
OnRewindOption = Annotated[
    OnRewind | None,
    typer.Option(
        help="What becomes of a group at the destination that was set back at the source: it follows, it stays "
        "(default), or it stays and `tanist next` asks."
    ),
]


def given(texts: Sequence[str] | None) -> tuple[str, ...] | None:
    """Without the empty ones, so that a single one takes away what the mirror has; None: the option was not given."""
    return None if texts is None else tuple(filter(None, texts))


def sync_settings(
    *,
    sync_metadata: float | None,
    sync_groups: float | None,
    group_sync_interval: float | None,
    config_exclude: Sequence[str] | None,
    group_include: Sequence[str] | None,
    group_exclude: Sequence[str] | None,
    on_rewind: OnRewind | None,
) -> SyncSettings:
    """The settings that these options give.

    Raises:
        Misconfigured: two options give different intervals of groups.
    """
    interval = sync_groups or group_sync_interval
    if sync_groups and group_sync_interval not in {None, sync_groups}:
        raise Misconfigured("--sync-groups and --group-sync-interval give two intervals: give one of them")
    return SyncSettings(
        sync_metadata_seconds=_seconds(sync_metadata),
        sync_groups_seconds=_seconds(interval),
        workers_sync_groups=None if sync_groups is None else sync_groups > 0,
        config_exclude=given(config_exclude),
        group_include=given(group_include),
        group_exclude=given(group_exclude),
        on_rewind=on_rewind,
    )


def _seconds(seconds: float | None) -> int | None:
    """Whole seconds, at least one of what is not off."""
    return None if seconds is None else math.ceil(seconds)
