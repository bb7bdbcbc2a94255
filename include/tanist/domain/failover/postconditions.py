"""What is true once a step is done, by the facts alone: when these say so, not when a task once succeeded.

Each is a function of the intent and of one look at both clusters. What leaves no trace that a look could find is a mark
in the run's own record. Topics that were re-created since the point of no return are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.failover.facts import fence_settled, is_locked
from tanist.domain.failover.plan import NOT_SHUT_OUT, has_accepted, of_copies
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent


def locked(_intent: Intent, facts: Facts) -> bool:
    """The run is on record as the one that holds the mirror."""
    return is_locked(facts)


def fenced(intent: Intent, facts: Facts) -> bool:
    """Producers of every topic are kept off the source, or what can be done about them has been done."""
    seen = list(facts.of(intent.names))
    return len(seen) == len(intent.names) and all(fence_settled(each, intent.mode) for each in seen)


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
    """For producers; and the mirror is shut out, where there are rights, or it was accepted that it cannot be."""
    names = of_copies(intent, facts).names
    seen = list(facts.of(names))
    shut = facts.destination_authorizer is False or all(each.shut_out is True for each in seen)
    accepted = facts.marked("open") and has_accepted(facts.run, NOT_SHUT_OUT)
    return sum(each.writable is True for each in seen) == len(names) and (shut or accepted)


def notified(_intent: Intent, facts: Facts) -> bool:
    """The old source was notified, if it answers, and who still writes there is listed."""
    return facts.marked("movers")
