"""Commands as use cases see them."""

from __future__ import annotations

from tanist.usecases.sides import Run
from tests.fakes.clock import JumpingClock


def a_run(clock: JumpingClock | None = None, *, dry_run: bool = False) -> Run:
    clock = clock or JumpingClock()
    return Run(clock=clock, by=clock.deadline(30), dry_run=dry_run)
