"""The settings of a mirror that say what follows its source, how often, and who does it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.duties import Duty, interval_seconds
from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.followed import is_followed
from tanist.domain.rewinds import OnRewind
from tanist.domain.selection import pattern_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.records import MirrorSpec

_LONGEST_SECONDS: Final = 7 * 24 * 3600
"""Positions of groups without members expire after that by default (`offsets.retention.minutes`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """By the fields of a spec; None: not given, so a mirror keeps what it has, and a new one has the default.

    `sync_metadata_seconds`, `workers_sync_groups`: what workers do. `sync_groups_seconds`: how often groups are synced,
    by workers or by a schedule; 0: in every run of the schedule. `config_exclude`: expressions of configs that do not
    follow the source; empty: those of KIP-1279. `group_include`, `group_exclude`: of whole names of groups.
    """

    sync_metadata_seconds: int | None = None
    sync_groups_seconds: int | None = None
    workers_sync_groups: bool | None = None
    config_exclude: tuple[str, ...] | None = None
    group_include: tuple[str, ...] | None = None
    group_exclude: tuple[str, ...] | None = None
    on_rewind: OnRewind | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The values by field."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}

    def problems(self) -> Iterator[TanistError]:
        """What is wrong without asking any cluster."""
        lists = (self.config_exclude, self.group_include, self.group_exclude)
        yield from pattern_problems(text for texts in lists for text in texts or ())
        for seconds, what in ((self.sync_metadata_seconds, "metadata"), (self.sync_groups_seconds, "groups")):
            if seconds is not None and not 0 <= seconds <= _LONGEST_SECONDS:
                yield Misconfigured(f"{seconds} s between two syncs of {what} is not 0 to {_LONGEST_SECONDS}")


def kept(existing: MirrorSpec, settings: SyncSettings) -> dict[str, Any]:
    """What a mirror has of the settings that are not given."""
    names = (each.name for each in fields(SyncSettings))
    return {name: getattr(existing, name) for name in names if name not in settings.given}


def settings_line(spec: MirrorSpec) -> str:
    """For people: the settings of a mirror that are not the default; empty: none."""
    shown = "; ".join(_said(spec))
    return f"mirror {spec.mirror}: {shown}" if shown else ""


def _said(spec: MirrorSpec) -> Iterator[str]:
    if every := interval_seconds(spec, Duty.METADATA):
        yield f"workers sync metadata every {every} s"
    if every := interval_seconds(spec, Duty.GROUPS):
        yield f"workers sync groups every {every} s"
    elif spec.sync_groups_seconds:
        yield f"groups are synced by a schedule, every {spec.sync_groups_seconds} s"
    for flag, texts in (
        ("--config-exclude", spec.config_exclude),
        ("--group-include", spec.group_include),
        ("--group-exclude", spec.group_exclude),
    ):
        if texts:
            yield f"{flag} {' '.join(texts)}"
    if spec.on_rewind is not OnRewind.HOLD:
        yield f"--on-rewind {spec.on_rewind}"


def not_of_followed(spec: MirrorSpec, settings: SyncSettings) -> Iterator[Misconfigured]:
    """Settings that a mirror cannot have whose records somebody else copies: its topics are never written to."""
    if not is_followed(spec):
        return
    for flag, given in (
        ("--sync-metadata", bool(settings.sync_metadata_seconds)),
        ("--config-exclude", bool(settings.config_exclude)),
    ):
        if given:
            yield Misconfigured(f"{flag} is for mirrors that Tanist copies: leave it out")
