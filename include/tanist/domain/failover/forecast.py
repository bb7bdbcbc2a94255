"""What a failover would cost now: the numbers at the moment of decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.failover.limitations import at_most, at_risk

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts, OpenTransaction
    from tanist.domain.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`offsets_at_risk` is None where it cannot be told; `age_ms`: of the oldest end of the source it is made of.

    `at_most`: `offsets_at_risk`, and what each partition of a source that is silent would have taken since it was last
    seen, at its rate of before: an estimate, because nobody knows whether it grew faster.
    """

    offsets_at_risk: int | None
    at_most: int | None
    age_ms: int | None
    by_partition: tuple[tuple[TopicPartition, int], ...]
    unknown: tuple[TopicPartition, ...]
    transactions: tuple[OpenTransaction, ...]


def forecast(facts: Facts) -> Forecast:
    """Fillers and markers count as records, so the number is an upper bound of what was lost up to the last reading.

    What the source acknowledged after it is only estimated (`at_most`): limitation RECORDS_UNSEEN.
    """
    seen = [each.known.at for each in facts.partitions if each.live is None and each.known is not None]
    lost = [(each.partition, each.at_risk) for each in facts.partitions]
    lost += [(each.partition, each.offsets) for each in facts.uncopied]
    return Forecast(
        offsets_at_risk=at_risk(facts),
        at_most=at_most(facts),
        age_ms=max(0, facts.now - min(seen)) if seen else 0 if any(each.live for each in facts.partitions) else None,
        by_partition=tuple((at, offsets) for at, offsets in lost if offsets),
        unknown=tuple(at for at, offsets in lost if offsets is None),
        transactions=facts.transactions,
    )
