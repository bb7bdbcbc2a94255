"""Who runs a takeover. The story asks for one and does not care how it is approved and run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tanist.domain.errors import ProcessFailed
from tanist_testkit.demo.commands import items_of
from tanist_testkit.demo.context import DemoContext

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tanist_testkit.demo.commands import Running
    from tanist_testkit.demo.promises import Promise

WEST: Final = ("--destination", "west")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A takeover that was planned: `plan` is the hash. `fence_proof` in seconds; None: as long as is usual."""

    mirror: str
    plan: str
    mode: str
    reason: str
    max_loss: int | None = None
    fence_proof: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """Something to look at while everything is up."""

    name: str
    place: str


class Runbook(Protocol):
    def prepare(self) -> None:
        """Returns when takeovers can be asked for. Raises TanistError."""

    def take_over(self, wanted: Wanted) -> None:
        """Has the plan approved, and runs it to its end, every step told as it happens.

        Raises:
            TanistError: it was not approved, or its end was not reached.
        """

    def promises(self) -> tuple[Promise, ...]:
        """What this way of running takeovers has promised besides, kept or not."""

    def links(self) -> tuple[Link, ...]:
        """What it has to show."""


class Typed(DemoContext):
    """By hand, with the command line."""

    def prepare(self) -> None:
        """It is there."""

    def take_over(self, wanted: Wanted) -> None:
        self.approve(wanted)
        with self.begun(wanted) as running:
            code, printed = running.end()
        if code:
            raise ProcessFailed(f"tanist failover run ended with {code}: {running.said[-1] if running.said else ''}")
        (record,) = items_of(printed)
        self.screen.note(f"{record['status']}, {record['seconds']} s of work")

    def promises(self) -> tuple[Promise, ...]:
        return ()

    def links(self) -> tuple[Link, ...]:
        return ()

    def approve(self, wanted: Wanted) -> None:
        loss = () if wanted.max_loss is None else ("--max-loss", str(wanted.max_loss))
        arguments = (*WEST, "--mode", wanted.mode, *loss, "--reason", wanted.reason)
        (approval,) = self.tanist.items("failover", "approve", wanted.mirror, wanted.plan, *arguments)
        self.screen.note(f"approved by {approval['approver']}: {wanted.reason}")

    def begun(self, wanted: Wanted) -> AbstractContextManager[Running]:
        """The run at work, to be waited for or disturbed."""
        proof = () if wanted.fence_proof is None else ("--fence-proof", f"{wanted.fence_proof}s")
        folder = str(self.evidence(wanted))
        arguments = (*WEST, "--plan", wanted.plan, *proof, "--evidence", folder)
        return self.tanist.watched("failover", "run", wanted.mirror, *arguments)

    def evidence(self, wanted: Wanted) -> Path:
        return self.environment.evidence / wanted.plan
