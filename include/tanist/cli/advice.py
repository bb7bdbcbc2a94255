"""The next step after a refusal, in one line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError
from tanist.domain.names import mirror_name
from tanist.domain.next_steps.rules import next_command
from tanist.wiring.status import advise

if TYPE_CHECKING:
    from tanist.usecases.command import CommandContext
    from tanist.wiring import ClusterRegistry

ADVICE_SECONDS: Final = 8.0
"""A refusal is shown even where the next step cannot be found out, so nobody waits long for that."""
_EXPLAINED: Final = frozenset({2, 70})
"""Exit codes of a wrong command line and of a bug: no state of a mirror has caused them."""


def advice(
    refusal: TanistError, registry: ClusterRegistry, named: str | None, mirror: object, context: CommandContext
) -> str:
    """The next command about `mirror` at its destination `named`; empty: nothing is to be done, or it is not known."""
    if named is None or not isinstance(mirror, str) or refusal.exit_code in _EXPLAINED:
        return ""
    try:
        brief = replace(context, by=context.clock.deadline(ADVICE_SECONDS), dry_run=True)
        (found,) = advise(registry, registry.connect(named), mirror_name(mirror), brief)
    except TanistError:
        return ""
    return next_command(found)
