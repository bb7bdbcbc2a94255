"""Producers of the source who could not write after the switch, and what changed there since the last sync.

The ACLs that are stored count, so a source that does not answer changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Mode, Verdict, named
from tanist.domain.errors import TanistError
from tanist.domain.failover.plan import Limitation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent

LOCKED_OUT: Final = "WRITERS_LOCKED_OUT"
CHANGED: Final = "SOURCE_ACLS_CHANGED"


def of_access(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """Nobody is denied by a failover silently: an approver accepts each principal by name."""
    seen = list(facts.of(intent.names))
    if shut := [f"{each.topic}: {who}" for each in seen for who in each.locked_out]:
        how = "allow them to write there (remove a DENY of the destination), or accept that they stop"
        why = f"may write at the source and could not at the destination: {named(shut, ', ')}; {how}"
        yield Limitation(LOCKED_OUT, why, about=tuple(sorted(shut)))
    changed = [f"{each.topic}: {what}" for each in seen for what in each.acls_changed]
    if changed and intent.mode is Mode.PLANNED:  # a source that answers again voids no unplanned failover by it
        how = f"`tanist metadata sync {intent.mirror} --destination {facts.destination}` takes it over"
        why = f"who may write at the source has changed since it was stored: {named(changed, ', ')}; {how}"
        yield Limitation(CHANGED, why, about=tuple(sorted(changed)))


def access_check(found: Mapping[str, Sequence[str]] | TanistError) -> Check:
    """Whether the producers of the old source may write to each failed-over topic. `found`: by topic, who may not."""
    limit = "all who could write at the old source"
    if isinstance(found, TanistError):
        observed = "the destination does not report its ACLs"
        return Check(name="access", verdict=Verdict.UNKNOWN, observed=observed, limit=limit, reason=str(found))
    shut = [f"{topic}: {who}" for topic, principals in sorted(found.items()) for who in principals]
    why = "; allow them to write (`kafka-acls.sh`; a DENY has to be removed), unless that is meant" if shut else ""
    return Check(
        name="access",
        verdict=Verdict.FAIL if shut else Verdict.PASS,
        observed=f"{len(shut)} producer(s) of the old source may not write to failed-over topics",
        limit=limit,
        age_ms=0,
        reason=named(shut, ", ") + why,
    )
