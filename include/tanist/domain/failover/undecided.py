"""No failback while a tail is undecided: what the limitations of a plan say about tails that a reversal left as is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode, named
from tanist.domain.failover.plan import Limitation
from tanist.domain.tails import FindingKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent


def of_undecided(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """A planned failover is refused until somebody accepts it by name; an unplanned one names it."""
    if found := [each for each in facts.undecided if each.topic in intent.names]:
        yield Limitation(
            str(FindingKind.UNDECIDED),
            "the mirror was reversed while nobody had decided about records that only its old source had, and no "
            f"command rescues them any more: {named(found)}; read them in that cluster's log if they are needed, then "
            f"`tanist failback accept {intent.mirror} --destination {facts.destination} "
            f"--finding {FindingKind.UNDECIDED} --reason TEXT`",
            blocks=intent.mode is Mode.PLANNED,
            about=tuple(sorted({each.topic for each in found})),
        )
