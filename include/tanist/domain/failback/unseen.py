"""What speaks against a reversal that nobody has seen: one command plans, approves and runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Refused
from tanist.domain.failback.reversal import SOURCE_LOST_RECORDS, TAIL_STAYS_READABLE, TOPICS_STAY_BEHIND
from tanist.domain.limitation_kinds.kind import Effect
from tanist.domain.limitation_kinds.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tanist.domain.limitation import Limitation

ACCEPTABLE: Final = tuple(kind.name for kind in TABLE if Effect.ACCEPT in kind.reversal)
"""The limitations of a reversal that can be accepted by name."""
_NO_DECISION: Final = frozenset({TAIL_STAYS_READABLE, SOURCE_LOST_RECORDS, TOPICS_STAY_BEHIND})
"""Somebody has decided about the tail, what the old source lacks is copied to it, and --exclude says what stays."""


class LimitationsUnseen(Refused):
    name = "LIMITATIONS_NOT_ACCEPTED"
    operator_action = (
        "resolve them, or accept each by name with --accept; `tanist mirrors reverse NAME --dry-run` shows the plan; "
        "nothing was changed"
    )


def unseen(found: Iterable[Limitation], accepted: Collection[str]) -> tuple[Limitation, ...]:
    """Those of `found` that an approver has to see first: neither `accepted` by name nor without a decision."""
    return tuple(each for each in found if each.name not in _NO_DECISION and each.name not in accepted)
