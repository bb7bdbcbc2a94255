"""What a failover would cost: the numbers at the moment of decision. They move with time, so no hash has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.checks import Mode
from tanist.domain.failover.facts import SourceState, is_final, is_locked, unseen
from tanist.domain.names import EpochMs, TopicPartition, iso_time
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.domain.failover.facts import Facts, OpenTransaction, PartitionFacts
    from tanist.domain.failover.plan import Intent


def undrained(intent: Intent, facts: Facts) -> tuple[PartitionFacts, ...]:
    """The partitions that nobody waits for: of a planned failover those that were not being copied, else all.

    And those at whose end somebody else wrote: these never drain.
    """
    if intent.mode is Mode.UNPLANNED:
        return facts.partitions
    without = frozenset(intent.without_drain)
    return tuple(each for each in facts.partitions if each.partition in without or each.foreign)


Lost: TypeAlias = "tuple[tuple[TopicPartition, int | None], ...]"
"""Offsets that each partition would lose; of one that asks several questions about them it is found once."""


def by_partition(intent: Intent, facts: Facts) -> Lost:
    """What each partition would lose, those without a copy all they hold; None where it cannot be told.

    What is gone from the start of a copy is lost whether or not its end drains.
    """
    at_end = {each.partition: each.at_risk for each in undrained(intent, facts)}
    lost = [(each.partition, _both(each.missing_at_start, at_end.get(each.partition, 0))) for each in facts.partitions]
    return (*lost, *((each.partition, each.offsets) for each in facts.source.uncopied))


def at_risk(intent: Intent, facts: Facts, lost: Lost | None = None) -> int | None:
    """Offsets that would be lost now, all partitions; None where one of them cannot tell. `lost`: `by_partition`."""
    return _sum(offsets for _, offsets in (by_partition(intent, facts) if lost is None else lost))


def at_least(intent: Intent, facts: Facts, lost: Lost | None = None) -> int:
    """Offsets that would be lost now of those partitions that can tell; the others may lose any number more."""
    return sum(offsets for _, offsets in (by_partition(intent, facts) if lost is None else lost) if offsets)


def beyond_drain(intent: Intent, facts: Facts, lost: Lost | None = None) -> int:
    """As `at_least`, without what an unplanned run still has to drain: partitions that answer and are copied.

    The lag of a source that answers moves all the time. It is a loss once the drain has ended.
    """
    lost = by_partition(intent, facts) if lost is None else lost
    if intent.mode is not Mode.UNPLANNED or (is_locked(facts) and facts.marked("drain")):
        return at_least(intent, facts, lost)
    draining = {each.partition for each in facts.partitions if each.live and each.state is MirrorState.MIRRORING}
    gone = sum(each.missing_at_start or 0 for each in facts.partitions if each.partition in draining)
    return gone + sum(offsets for at, offsets in lost if offsets and at not in draining)


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


def _both(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else start + end


def _sum(offsets: Iterable[int | None]) -> int | None:
    each = list(offsets)
    known = [one for one in each if one is not None]
    return sum(known) if len(known) == len(each) else None


APPROVAL_MS: Final = 3_600_000
"""How long an approval is valid by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`offsets_at_risk`: counted, as the source answered last; None: unknown for a partition.

    `seen_at`: the oldest last answer that it is made of, ms since 1970; None: a partition was never seen. `age_ms`: how
    old the oldest is that there is. `estimate`, `estimate_at_end`: now, and at the end of an approval given now: with
    what each silent partition would have accepted since, at its rate of then; no bound, as nobody knows whether it grew
    faster; None: unknown. `rate`: offsets per second of the partitions that do not answer. `final`: nothing can have
    come since the last answer. `last_answer`: the latest answer of the source, ms since 1970; None: none is known.
    `silent_at`: when it was first asked in vain after that; now, if nobody has told.
    """

    offsets_at_risk: int | None
    estimate: int | None
    estimate_at_end: int | None
    seen_at: EpochMs | None
    age_ms: int | None
    rate: float
    final: bool
    last_answer: EpochMs | None
    silent_at: EpochMs
    by_partition: tuple[tuple[TopicPartition, int], ...]
    unknown: tuple[TopicPartition, ...]
    transactions: tuple[OpenTransaction, ...]


def forecast(intent: Intent, facts: Facts, valid_ms: int = APPROVAL_MS) -> Forecast:
    """Gap markers and control batches count as records, so the number is more than the records that are lost.

    A planned failover drains what is copied, so only what is not counts; while the source does not answer it drains
    nothing, and says what an unplanned one would lose. `valid_ms`: how long an approval is valid.
    """
    if facts.source.state is not SourceState.ALIVE:
        intent = replace(intent, mode=Mode.UNPLANNED)
    lost, counted = by_partition(intent, facts), undrained(intent, facts)
    growing = [each for each in counted if not is_final(each, intent.dead_since)]
    answers = [at for each in facts.partitions if (at := facts.now if each.live else each.known and each.known.at)]
    vain = [at for each in facts.partitions if each.known and (at := each.known.silent_since)]
    return Forecast(
        offsets_at_risk=at_risk(intent, facts, lost),
        estimate=estimate(intent, facts, facts.now),
        estimate_at_end=estimate(intent, facts, EpochMs(facts.now + valid_ms)),
        seen_at=seen_at(counted, facts),
        age_ms=age_ms(counted, facts),
        rate=round(sum(each.known.rate for each in growing if each.known), 3),
        final=not growing,
        last_answer=max(answers, default=None),
        silent_at=max(vain, default=facts.now),
        by_partition=tuple((at, offsets) for at, offsets in lost if offsets),
        unknown=tuple(at for at, offsets in lost if offsets is None),
        transactions=facts.source.transactions,
    )


def forecast_words(cost: Forecast) -> str:
    """For people: what was counted and when; an estimate is called one. Never a bare 0."""
    at_risk = "an unknown number of" if cost.offsets_at_risk is None else cost.offsets_at_risk
    if cost.final:
        when = "now" if not cost.age_ms else f"{_seen(cost)}, when the source had ended"
        return f"{at_risk} offsets at risk, as seen {when}"
    if cost.age_ms is None:
        return f"{at_risk} offsets at risk; the source was never seen, so what it has is unknown"
    since = f"{at_risk} offsets at risk, as seen {_seen(cost)}; since then unknown"
    if cost.estimate is None or cost.estimate_at_end is None:
        return since
    counted = cost.offsets_at_risk or 0
    now, end = cost.estimate - counted, cost.estimate_at_end - counted
    return (
        f"{since}, at the rate of then ({cost.rate:.0f}/s) about {now} more by now and {end} at the end of an approval"
    )


def at_risk_words(cost: Forecast) -> str:
    """As `forecast_words`, for a cell of a table: what was counted, and about how much more there is by now."""
    if cost.offsets_at_risk is None or (not cost.final and cost.age_ms is None):
        return "unknown"
    if cost.final:
        return str(cost.offsets_at_risk)
    more = "" if cost.estimate is None else f", about {cost.estimate - cost.offsets_at_risk} more"
    return f"{cost.offsets_at_risk} seen{more or ', more unknown'}"


def silence_words(cost: Forecast, option: str) -> str:
    """For people: between which times the source died; empty: nothing is open. `option`: how one says when."""
    if cost.final or cost.last_answer is None:
        return ""
    silent = iso_time(cost.silent_at)
    return (
        f"the source answered last at {iso_time(cost.last_answer)}, and not at {silent}; it may have accepted records "
        f"in between: if you know until when, say so: {option} {silent}"
    )


def _seen(cost: Forecast) -> str:
    age = f"{(cost.age_ms or 0) / 1000:.0f} s ago"
    return f"{age} ({iso_time(cost.seen_at)})" if cost.seen_at is not None else f"{age} or never"
