"""A limitation of a plan: what speaks against it, and what that means for an approver."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Limitation:
    """A reason against. The name is what an approver accepts; the detail is what they read.

    `blocks`: nobody can accept it. `unknown`: it blocks because it could not be found out, not because it is known.
    `usual`: every failover of its kind has it, or it is bound by a number, so it leaves the verdict GO.
    `about`: what it names, one by one, where an approver accepts no more than that; empty: the name alone.
    `momentary`: a cluster has not told for the moment; a run waits for the answer, it is no reason to void an approval.
    """

    name: str
    detail: str = field(compare=False)
    blocks: bool = field(default=False, compare=False)
    unknown: bool = field(default=False, compare=False)
    usual: bool = field(default=False, compare=False)
    about: tuple[str, ...] = field(default=(), compare=False)
    momentary: bool = field(default=False, compare=False)
