"""What must be so after every step of a failover, whoever did it and however often it was killed.

A postcondition says when a step is done; an invariant says what no step may leave behind. Only what is known counts as
broken: where a cluster does not answer the steps themselves refuse to go on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode
from tanist.domain.failover.facts import is_locked, source_settled
from tanist.domain.failover.plan import NOT_SHUT_OUT, has_accepted, of_copies, plan_of, replaced_since
from tanist.domain.fences import HOLDS_PRODUCERS_OFF, FenceStatus
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.failover.facts import Facts, ObservedTopic
    from tanist.domain.failover.plan import Intent


def locked(_intent: Intent, facts: Facts) -> bool:
    """The run is on record as the one that holds the mirror."""
    return is_locked(facts)


def fenced(intent: Intent, facts: Facts) -> bool:
    """Producers of every topic are kept off the source, or what can be done about them has been done."""
    return source_settled(intent.names, intent.mode, facts)


def drained(intent: Intent, facts: Facts) -> bool:
    """Planned: every partition that is waited for is in the copy to its end. Unplanned: the budget is over."""
    if intent.mode is Mode.UNPLANNED:
        return facts.marked("drain")
    waited_for = frozenset(intent.partitions) - frozenset(intent.without_drain)
    return waited_for <= {each.partition for each in facts.partitions if each.drained}


def translated(_intent: Intent, facts: Facts) -> bool:
    """Positions of groups were translated for the last time."""
    return facts.marked("groups")


def producers_fenced(intent: Intent, facts: Facts) -> bool:
    """Every partition is behind the barrier.

    And where the topic is compacted its barrier was kept from the cleaner: only a mark tells that this was tried.
    """
    ours = {each.partition: each for each in facts.partitions}
    return facts.marked("kept") and all(
        at in ours and ours[at].producer_fenced is True for at in of_copies(intent, facts).partitions
    )


def promoted(intent: Intent, facts: Facts) -> bool:
    """Removed, counted and stopped: the fence that outlives the barrier."""
    wanted = {each.topic: each.promotion_epoch for each in intent.topics}
    seen = {each.topic for each in facts.of(wanted) if each.removed and each.promotion_epoch > wanted[each.topic]}
    stopped = {each.partition for each in facts.partitions if each.state is MirrorState.STOPPED}
    return seen == set(wanted) and stopped >= set(intent.partitions)


def configured(intent: Intent, facts: Facts) -> bool:
    """Topics have the configs of the source that the mirror kept off them."""
    names = of_copies(intent, facts).names
    return sum(seen.configs_restored is True for seen in facts.of(names)) == len(names)


def probed(_intent: Intent, facts: Facts) -> bool:
    """Every topic took a transaction that was aborted."""
    return facts.marked("canary")


def opened(intent: Intent, facts: Facts) -> bool:
    """For producers; and the mirror is shut out, where there are rights, or it was accepted that it cannot be.

    Where the mirror leaves that to people, nothing is looked at.
    """
    if not facts.grants_writers:
        return facts.marked("open")
    names = of_copies(intent, facts).names
    seen = list(facts.of(names))
    shut = facts.destination_authorizer is False or all(each.shut_out is True for each in seen)
    accepted = facts.marked("open") and has_accepted(facts.run, NOT_SHUT_OUT)
    return sum(each.writable is True for each in seen) == len(names) and (shut or accepted)


def notified(_intent: Intent, facts: Facts) -> bool:
    """The old source was notified, if it answers, and who still writes there is listed."""
    return facts.marked("movers")


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
      Not of a mirror that fences no source.
    - TWO_RUNS: a mirror has one unfinished run.
    """
    known = _Known.of(facts)
    found = [breach for topic in facts.topics for breach in _of_topic(topic, known)]
    if is_locked(facts) and facts.others_running:
        others = ", ".join(run.plan for run in facts.others_running)
        found.append(Breach("TWO_RUNS", "", f"plan {others} is unfinished as well"))
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What invariants of topics are checked by, found once for all of them.

    `replaced`: as `replaced_since`. `generations`: those that the topics had when the failover was approved; none where
    no run is known. `bare`: by topic the partitions that the mirror can still write to.
    """

    facts: Facts
    replaced: frozenset[str]
    generations: Mapping[str, int]
    bare: Mapping[str, list[str]]

    @classmethod
    def of(cls, facts: Facts) -> _Known:
        plan = plan_of(facts.run) if facts.run is not None else None
        topics = plan.intent.topics if plan is not None else ()
        bare: dict[str, list[str]] = defaultdict(list)
        for each in facts.partitions:
            if each.producer_fenced is False:
                bare[each.partition.topic].append(str(each.partition))
        return cls(
            facts=facts,
            replaced=replaced_since(facts),
            generations={each.topic: each.promotion_epoch for each in topics},
            bare=bare,
        )


def _of_topic(seen: ObservedTopic, known: _Known) -> Iterator[Breach]:
    topic, facts = seen.topic, known.facts
    if seen.source_fence is not None and seen.source_fence.status in HOLDS_PRODUCERS_OFF and seen.fence_stands is False:
        why = f"the fence of {topic} is on record as {seen.source_fence.status}, and the source has none"
        yield Breach("FENCE_GONE", topic, why, mended_by="fence")
    replaced = topic in known.replaced
    if replaced:
        why = (
            f"{topic} was deleted and re-created at the destination after the point of no return: "
            "nothing is written into the new topic"
        )
        yield Breach("TOPIC_RECREATED", topic, why)
    if not seen.removed:
        return
    if seen.promotion_epoch <= known.generations.get(topic, 0):
        yield Breach("PROMOTION_NOT_COUNTED", topic, f"{topic} has left the mirror, and no promotion is counted")
    if seen.writable is not True:
        return
    bare = known.bare.get(topic)
    if bare and not replaced:
        why = f"producers may write to {topic}, and the mirror still can to {', '.join(bare)}"
        yield Breach("WRITABLE_BEFORE_BARRIER", topic, why)
    unfenced = seen.source_fence is None or seen.source_fence.status not in _KEPT_OFF
    if is_locked(facts) and facts.fences_source and unfenced:
        what = seen.source_fence.status if seen.source_fence else "nothing"
        yield Breach("TWO_WRITABLE_SIDES", topic, f"producers may write to {topic}, its source fence is {what}")
