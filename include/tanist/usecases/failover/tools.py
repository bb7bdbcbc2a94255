"""What a run needs besides the clusters: its times, where its evidence goes, and who is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tanist.usecases.failover.moved_groups import move_groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.failover.evidence import Evidence
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.context import Timeouts
    from tanist.usecases.failover.moved_groups import GroupsMoved
    from tanist.usecases.groups.sync import SyncRequest
    from tanist.usecases.mirror import OpenMirror

    MoveGroups: TypeAlias = Callable[[OpenMirror, SyncRequest, CommandContext], GroupsMoved]


class Sink(Protocol):
    def flush(self, evidence: Evidence) -> None:
        """Write all of it, atomically."""
        ...

    def before(self) -> Evidence | None:
        """What an earlier run of the same plan has left; None: nothing."""
        ...


def _unknown(_runner: str) -> bool:
    return False


def _nowhere(_point: str) -> None:
    """Tests stop a run here."""


def _report_to_nobody(_step: str, _what: str, _reason: str) -> None:
    """For runs that nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a run needs besides the clusters. `checkpoint` is told every point where a crash would be inconvenient."""

    patience: Timeouts
    sink: Sink
    runner: str
    is_process_dead: Callable[[str], bool] = field(default=_unknown)
    """Whether another runner is certainly dead; False: not known, so its heartbeat is watched."""
    checkpoint: Callable[[str], None] = field(default=_nowhere)
    move_groups: MoveGroups = field(default=move_groups)
    """The last translation of the groups of a run."""
    report: Callable[[str, str, str], None] = field(default=_report_to_nobody)
    """Hears of each step what becomes of it, and why, where there is a reason; the same again is not told."""
