"""What a failover would cost: the numbers at the moment of decision. They move with time, so no hash has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode
from tanist.domain.failover import loss
from tanist.domain.failover.facts import SourceState
from tanist.domain.failover.source_look import is_final, iso_time
from tanist.domain.names import EpochMs

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts, OpenTransaction
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import TopicPartition

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

    A planned failover drains what is copied, so only what is not counts. `valid_ms`: how long an approval is valid.
    """
    lost, counted = loss.by_partition(intent, facts), loss.undrained(intent, facts)
    is_down = intent.mode is Mode.PLANNED and facts.source.state is not SourceState.ALIVE
    unheard = facts.partitions if is_down else counted
    growing = [each for each in unheard if not is_final(each, intent.dead_since)]
    answers = [at for each in facts.partitions if (at := facts.now if each.live else each.known and each.known.at)]
    vain = [at for each in facts.partitions if each.known and (at := each.known.silent_since)]
    return Forecast(
        offsets_at_risk=loss.at_risk(intent, facts),
        estimate=loss.estimate(intent, facts, facts.now),
        estimate_at_end=loss.estimate(intent, facts, EpochMs(facts.now + valid_ms)),
        seen_at=loss.seen_at(unheard, facts),
        age_ms=loss.age_ms(unheard, facts),
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
