"""Offsets that a failover would lose: counted the same way in both modes, until the point of no return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.failover.facts import is_locked
from tanist.domain.failover.source_look import unseen
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.failover.facts import Facts, PartitionFacts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import EpochMs, TopicPartition


def undrained(intent: Intent, facts: Facts) -> tuple[PartitionFacts, ...]:
    """The partitions that nobody waits for: of a planned failover those that were not being copied, else all.

    And those at whose end somebody else wrote: these never drain.
    """
    if intent.mode is Mode.UNPLANNED:
        return facts.partitions
    without = frozenset(intent.without_drain)
    return tuple(each for each in facts.partitions if each.partition in without or each.foreign)


def by_partition(intent: Intent, facts: Facts) -> tuple[tuple[TopicPartition, int | None], ...]:
    """What each partition would lose, those without a copy all they hold; None where it cannot be told.

    What is gone from the start of a copy is lost whether or not its end drains.
    """
    at_end = {each.partition: each.at_risk for each in undrained(intent, facts)}
    lost = [(each.partition, _sum((each.missing_at_start, at_end.get(each.partition, 0)))) for each in facts.partitions]
    return (*lost, *((each.partition, each.offsets) for each in facts.source.uncopied))


def at_risk(intent: Intent, facts: Facts) -> int | None:
    """Offsets that would be lost now, all partitions; None where one of them cannot tell."""
    return _sum(offsets for _, offsets in by_partition(intent, facts))


def at_least(intent: Intent, facts: Facts) -> int:
    """Offsets that would be lost now of those partitions that can tell; the others may lose any number more."""
    return sum(offsets for _, offsets in by_partition(intent, facts) if offsets)


def beyond_drain(intent: Intent, facts: Facts) -> int:
    """As `at_least`, without what an unplanned run still has to drain: partitions that answer and are copied.

    The lag of a source that answers moves all the time. It is a loss once the drain has ended.
    """
    if intent.mode is not Mode.UNPLANNED or (is_locked(facts) and facts.marked("drain")):
        return at_least(intent, facts)
    draining = {each.partition for each in facts.partitions if each.live and each.state is MirrorState.MIRRORING}
    gone = sum(each.missing_at_start or 0 for each in facts.partitions if each.partition in draining)
    return gone + sum(offsets for at, offsets in by_partition(intent, facts) if offsets and at not in draining)


def estimate(intent: Intent, facts: Facts, until: EpochMs) -> int | None:
    """Offsets at risk, and those that the source would have used from its last answer to `until`, at its last rate.

    None where a partition cannot tell. With an attested time of death nothing is counted beyond it.
    """
    counted = at_risk(intent, facts)
    since = sum(unseen(each, intent.dead_since, facts.now, until) for each in undrained(intent, facts))
    return None if counted is None else counted + since


def seen_at(counted: Sequence[PartitionFacts], facts: Facts) -> EpochMs | None:
    """When the source answered last about the partition whose last answer is the oldest; None: one has none."""
    times = [facts.now if each.live else each.known.at if each.known else None for each in counted]
    known = [at for at in times if at is not None]
    return min(known, default=facts.now) if len(known) == len(times) else None


def age_ms(counted: Sequence[PartitionFacts], facts: Facts) -> int | None:
    """How old the oldest end of the source is that is known of these partitions; None: there is none."""
    seen = [each.known.at for each in counted if each.live is None and each.known is not None]
    if seen:
        return max(0, facts.now - min(seen))
    return 0 if all(each.live for each in counted) else None


def _sum(offsets: Iterable[int | None]) -> int | None:
    each = list(offsets)
    known = [one for one in each if one is not None]
    return sum(known) if len(known) == len(each) else None
