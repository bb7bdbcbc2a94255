"""A planned failover that ends with the reversal of the mirror: whether that can be, and what speaks against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.failback.reversal import writable_limitation
from tanist.usecases.mirrors.writers import writable

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.domain.failover.plan import Intent, Limitation
    from tanist.domain.records import TopicDesired
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


def must_be_reversible(mode: Mode, wanted: Collection[TopicDesired], known: Collection[TopicDesired]) -> None:
    """Raises Misconfigured unless it is a planned failover of all topics of the mirror."""
    if mode is not Mode.PLANNED:
        raise Misconfigured(
            "--reverse is for planned failovers: after an unplanned one `tanist failback survey` comes first"
        )
    if left := sorted({each.topic for each in known} - {each.topic for each in wanted}):
        raise Misconfigured(
            f"--reverse needs all topics of the mirror, which has one direction: {', '.join(left[:5])} would stay"
        )


def of_reversal(clusters: OpenMirror, intent: Intent, command: CommandContext) -> tuple[Limitation, ...]:
    """The limitations of the reversal that are known before the failover; none while the source does not answer."""
    source = clusters.source
    if isinstance(source, TanistError):
        return ()
    own = source.opening.principal()
    found = writable(source, intent.names, {own} if own else set(), command.by)
    return (writable_limitation(found),) if found else ()
