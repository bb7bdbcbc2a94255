"""What must be so after every step of a failover, whoever did it and however often it was killed.

A postcondition says when a step is done; an invariant says what no step may leave behind. Only what is known counts as
broken: where a cluster does not answer the steps themselves refuse to go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.failover.facts import is_locked
from tanist.domain.failover.plan import plan_of, replaced_since
from tanist.domain.fences import HOLDS_PRODUCERS_OFF, FenceStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failover.facts import Facts, ObservedTopic

_KEPT_OFF: Final = HOLDS_PRODUCERS_OFF | {FenceStatus.PENDING}


@dataclass(frozen=True, slots=True, order=True)
class Breach:
    """An invariant that does not hold. `topic`: where; empty: of the mirror.

    `mended_by`: the id of the step that does its work again because of this; empty: none does.
    """

    name: str
    topic: str
    detail: str = field(compare=False)
    mended_by: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


def check_invariants(facts: Facts) -> tuple[Breach, ...]:
    """The invariants that are known to be broken, by name and topic; empty: none is.

    - TOPIC_RECREATED: the mirror topic is still the one that it was at the point of no return.
    - WRITABLE_BEFORE_BARRIER: a topic that has left the mirror takes producers, so its old writers are shut out.
    - PROMOTION_NOT_COUNTED: a topic that has left the mirror has a generation above the one that was approved.
    - FENCE_GONE: a source fence that is on record as standing stands.
    - TWO_WRITABLE_SIDES: a topic that takes producers here has a source fence on record, one that is owed at least.
    - TWO_RUNS: a mirror has one unfinished run.
    """
    found = [breach for topic in facts.topics for breach in _of_topic(topic, facts)]
    if is_locked(facts) and facts.others_running:
        others = ", ".join(run.plan for run in facts.others_running)
        found.append(Breach("TWO_RUNS", "", f"plan {others} is unfinished as well"))
    return tuple(sorted(found))


def _of_topic(seen: ObservedTopic, facts: Facts) -> Iterator[Breach]:
    topic = seen.topic
    if seen.source_fence is not None and seen.source_fence.status in HOLDS_PRODUCERS_OFF and seen.fence_stands is False:
        why = f"the fence of {topic} is on record as {seen.source_fence.status}, and the source has none"
        yield Breach("FENCE_GONE", topic, why, mended_by="fence")
    replaced = topic in replaced_since(facts)
    if replaced:
        why = (
            f"{topic} was deleted and re-created at the destination after the point of no return: "
            "nothing is written into the new topic"
        )
        yield Breach("TOPIC_RECREATED", topic, why)
    if not seen.removed:
        return
    if seen.promotion_epoch <= _generation_before(topic, facts):
        yield Breach("PROMOTION_NOT_COUNTED", topic, f"{topic} has left the mirror, and no promotion is counted")
    if seen.writable is not True:
        return
    bare = [
        str(each.partition)
        for each in facts.partitions
        if each.partition.topic == topic and each.producer_fenced is False
    ]
    if bare and not replaced:
        why = f"producers may write to {topic}, and the mirror still can to {', '.join(bare)}"
        yield Breach("WRITABLE_BEFORE_BARRIER", topic, why)
    if is_locked(facts) and (seen.source_fence is None or seen.source_fence.status not in _KEPT_OFF):
        what = seen.source_fence.status if seen.source_fence else "nothing"
        yield Breach("TWO_WRITABLE_SIDES", topic, f"producers may write to {topic}, its source fence is {what}")


def _generation_before(topic: str, facts: Facts) -> int:
    """The generation that `topic` had when its failover was approved; where no run is known the first one."""
    plan = plan_of(facts.run) if facts.run is not None else None
    topics = plan.intent.topics if plan is not None else ()
    return next((each.promotion_epoch for each in topics if each.topic == topic), 0)
