"""What a failover would cost now: the numbers at the moment of decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.failover import loss

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts, OpenTransaction
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`offsets_at_risk` is None where it cannot be told; `age_ms`: of the oldest end of the source it is made of.

    `estimate`: `offsets_at_risk`, and what each partition of a source that is silent would have taken since it was last
    seen, at its rate of before. It is no bound: nobody knows whether it grew faster. None: nobody has looked lately.
    """

    offsets_at_risk: int | None
    estimate: int | None
    age_ms: int | None
    by_partition: tuple[tuple[TopicPartition, int], ...]
    unknown: tuple[TopicPartition, ...]
    transactions: tuple[OpenTransaction, ...]


def forecast(intent: Intent, facts: Facts) -> Forecast:
    """Gap markers and control batches count as records, so the number is more than the records that are lost.

    A planned failover drains what is copied, so only what is not counts. What the source acknowledged after it was last
    seen is only estimated: limitation RECORDS_UNSEEN.
    """
    lost = loss.by_partition(intent, facts)
    return Forecast(
        offsets_at_risk=loss.at_risk(intent, facts),
        estimate=loss.estimate(intent, facts),
        age_ms=loss.age_ms(intent, facts),
        by_partition=tuple((at, offsets) for at, offsets in lost if offsets),
        unknown=tuple(at for at, offsets in lost if offsets is None),
        transactions=facts.source.transactions,
    )


def forecast_words(cost: Forecast) -> str:
    """For people. An estimate is called one, with the age of what it rests on."""
    at_risk = "an unknown number of" if cost.offsets_at_risk is None else cost.offsets_at_risk
    seen = "never seen" if cost.age_ms is None else f"as seen {cost.age_ms} ms ago"
    if cost.estimate is None:
        return f"{at_risk} offsets at risk, {seen}; later writes are unknown"
    since = f"; estimated by now: {cost.estimate}" if cost.estimate != cost.offsets_at_risk else ""
    return f"{at_risk} offsets at risk, {seen}{since}"
