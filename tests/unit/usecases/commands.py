"""Commands as use cases see them."""

from __future__ import annotations

from tanist.usecases.command import CommandContext
from tests.fakes.clock import JumpingClock


def a_run(clock: JumpingClock | None = None, *, dry_run: bool = False) -> CommandContext:
    clock = clock or JumpingClock()
    return CommandContext(clock=clock, by=clock.deadline(30), dry_run=dry_run)
