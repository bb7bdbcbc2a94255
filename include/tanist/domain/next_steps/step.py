"""What a person is told: where a mirror is, what is missing, and the commands that go on from there."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName


class NextStage(StrEnum):
    """Where a mirror is, for whoever acts next.

    UNREACHABLE: its destination cannot be read. REVERSING: a reversal is unfinished, or approved and not begun.
    FAILING_OVER: a failover is unfinished. APPROVED: a plan is approved and has not been run. PLANNED: a plan is kept
    and not approved. SOURCE_SILENT: the source does not answer, and a failover is possible. TAILS_PENDING: the old
    source has answered, and something is left to be done about records that only it has. NOT_READY: topics are
    mirrored, and something speaks against a failover. FAILED_OVER: all topics have left the mirror, and it can be
    reversed. OLD_SOURCE_SILENT: the same, and its old source does not answer. EMPTY: no topic was ever in the mirror.
    MIRRORING: nothing is to be done. FOLLOWED: somebody else copies the mirror.
    """

    UNREACHABLE, REVERSING, FAILING_OVER, APPROVED = "UNREACHABLE", "REVERSING", "FAILING_OVER", "APPROVED"
    PLANNED, SOURCE_SILENT, TAILS_PENDING = "PLANNED", "SOURCE_SILENT", "TAILS_PENDING"
    NOT_READY, FAILED_OVER, OLD_SOURCE_SILENT = "NOT_READY", "FAILED_OVER", "OLD_SOURCE_SILENT"
    EMPTY, MIRRORING, FOLLOWED = "EMPTY", "MIRRORING", "FOLLOWED"


def ask_command(mirror: str, destination: str) -> str:
    """What asks for the next step of a mirror."""
    return shlex.join(("tanist", "next", mirror, "--destination", destination))


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """`command`: complete, it can be copied into a shell.

    `decision`: what a person decides by typing it; None: nothing, it is the way on.
    """

    command: str
    why: str
    decision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """About one mirror, as its destination has it. `missing`: what is not as it should be, in words.

    `source`: its name; empty: not known. `plan`: the hash that the first step approves or runs; empty: it does neither.
    `steps`: the first is the one to take; of several with a decision, each is one answer. Empty: nothing is to be done.
    """

    mirror: MirrorName
    destination: str
    stage: NextStage
    source: str = ""
    plan: str = ""
    missing: tuple[str, ...] = ()
    steps: tuple[NextStep, ...] = ()

    @property
    def urgency(self) -> tuple[int, str, str]:
        """Of several mirrors the least comes first: the stages in the order of `_MOST_URGENT`, then by name."""
        idle = not self.steps and not self.missing
        return len(_MOST_URGENT) if idle else _MOST_URGENT.index(self.stage), self.mirror, self.destination


_MOST_URGENT: Final = (
    NextStage.UNREACHABLE,
    NextStage.REVERSING,
    NextStage.FAILING_OVER,
    NextStage.APPROVED,
    NextStage.SOURCE_SILENT,
    NextStage.TAILS_PENDING,
    NextStage.NOT_READY,
    NextStage.PLANNED,
    NextStage.FAILED_OVER,
    NextStage.OLD_SOURCE_SILENT,
    NextStage.EMPTY,
    NextStage.MIRRORING,
    NextStage.FOLLOWED,
)
