"""The commands that a situation leads to, complete."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tanist.domain.filled import exact_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.checks import Mode
    from tanist.domain.next_steps.situation import MirrorSituation


def typed(at: MirrorSituation, noun: str, verb: str, *options: str) -> str:
    """A command about the mirror, as it is typed: noun, verb, mirror, its destination, and the options."""
    return shlex.join(("tanist", noun, verb, at.status.mirror, "--destination", at.destination, *options))


def plan(at: MirrorSituation, mode: Mode, *options: str) -> str:
    """Plans a failover of what is in the mirror."""
    return typed(at, "failover", "plan", "--mode", mode.value, *options)


def run(at: MirrorSituation, plan_hash: str, *options: str) -> str:
    """Runs an approved plan, or goes on with it."""
    return typed(at, "failover", "run", "--plan", plan_hash, *options)


def reverse(at: MirrorSituation, *options: str) -> str:
    """Reverses a mirror that has failed over, or completes that."""
    return typed(at, "mirrors", "reverse", *options)


def resume(at: MirrorSituation, topics: Iterable[str]) -> str:
    """Lets the mirror go on with these topics."""
    return typed(at, "mirrors", "resume", *exact_options("--topic", topics))
