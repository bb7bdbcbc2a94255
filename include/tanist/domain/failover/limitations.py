"""Everything that speaks against a failover, now; and whether an approval still permits it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode
from tanist.domain.errors import Diverged, ForeignWrite
from tanist.domain.failover.facts import SourceState
from tanist.domain.failover.plan import NOT_SHUT_OUT, ROUTES, Limitation, Plan, TopicIntent, past_return
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tanist.domain.failover.approving import Approval
    from tanist.domain.failover.facts import Facts, PartitionFacts
    from tanist.domain.failover.plan import Approved, Intent
    from tanist.domain.names import EpochMs, TopicPartition

_COPYING: Final = frozenset({MirrorState.MIRRORING})
_NO_COPY: Final = frozenset({ForeignWrite.name, Diverged.name, None})
"""With these a log is no copy of its source any more; a failure without a name could be one of them."""
_MOST_NAMED: Final = 5


def make_plan(intent: Intent, facts: Facts) -> Plan:
    return Plan(intent, ROUTES[intent.mode], tuple(sorted(limitations(intent, facts))))


def not_copying(facts: Facts) -> tuple[TopicPartition, ...]:
    """Partitions that nobody can wait for: paused, failed, never started."""
    return tuple(sorted(each.partition for each in facts.partitions if each.state not in _COPYING))


def failed(intent: Intent, facts: Facts) -> tuple[PartitionFacts, ...]:
    """The partitions of `intent` that FAILED, by name."""
    ours = frozenset(intent.partitions)
    found = (each for each in facts.partitions if each.partition in ours and each.state is MirrorState.FAILED)
    return tuple(sorted(found, key=lambda each: each.partition))


def at_risk(facts: Facts) -> int | None:
    """Offsets that would be lost now, all partitions; None where one of them cannot tell."""
    return _sum([*(each.at_risk for each in facts.partitions), *(each.offsets for each in facts.uncopied)])


def at_most(facts: Facts) -> int | None:
    """And with what the source has probably taken since it was last seen; None where a partition cannot tell."""
    return _sum([*(each.at_most(facts.now) for each in facts.partitions), *(each.offsets for each in facts.uncopied)])


def _sum(offsets: Iterable[int | None]) -> int | None:
    each = list(offsets)
    known = [one for one in each if one is not None]
    return sum(known) if len(known) == len(each) else None


def limitations(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """Reasons against, those that nobody can accept among them. After the point of no return there are none."""
    if past_return(facts):
        return
    yield from _of_the_source(intent, facts)
    yield from _of_the_destination(intent, facts)
    yield from _of_topics(intent, facts)
    if intent.mode is Mode.UNPLANNED:
        yield from _of_loss(intent, facts)
    yield from _of_rights(facts)


def _of_the_source(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    if intent.mode is Mode.PLANNED and facts.source is not SourceState.ALIVE:
        why = f"a planned failover needs a living source: {facts.source_reason}"
        yield Limitation("SOURCE_DOWN", why, blocks=True)
    if intent.mode is Mode.PLANNED and facts.transactions_told is False:
        yield Limitation(
            "TRANSACTIONS_UNKNOWN",
            f"a transaction that has written nothing yet would not be waited for ({facts.transactions_reason})",
        )
    if intent.mode is Mode.UNPLANNED and facts.source is SourceState.ALIVE:
        yield Limitation("SOURCE_ALIVE", "every partition of the source answers: fail over planned", blocks=True)
    if intent.mode is Mode.UNPLANNED and facts.source is SourceState.SILENT:
        yield Limitation(
            "SOURCE_UNREACHABLE",
            f"producers may still reach it: the fence is owed until it answers ({facts.source_reason})",
        )
    if intent.mode is Mode.UNPLANNED and facts.source is SourceState.PARTLY:
        yield Limitation("SOURCE_PARTLY_DOWN", f"what does not answer is not drained ({facts.source_reason})")


def _of_the_destination(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    ours = {each.partition: each for each in facts.partitions}
    wanted = [ours[at] for at in intent.partitions if at in ours]
    missing = [at for at in intent.partitions if at not in ours]
    if offline := [*missing, *(each.partition for each in wanted if each.end is None or each.in_sync == 0)]:
        yield Limitation("DESTINATION_OFFLINE", f"no leader answers for {_named(offline)}", blocks=True)
    if blind := [each.partition for each in wanted if each.in_sync is None or each.min_in_sync is None]:
        yield Limitation("DESTINATION_UNKNOWN", f"replicas in sync are not known of {_named(blind)}", blocks=True)
    short = [e.partition for e in wanted if e.in_sync and e.min_in_sync and e.in_sync < e.min_in_sync]
    if short:
        yield Limitation("DESTINATION_BELOW_MIN_ISR", f"nobody could write to {_named(short)}", blocks=True)


def _of_topics(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    expected = {each.topic: each.generation for each in intent.topics}
    if moved := [seen.topic for seen in facts.of(expected) if seen.generation != expected[seen.topic] or seen.removed]:
        yield Limitation("ALREADY_PROMOTED", f"{_named(moved)} left the mirror since it was planned", blocks=True)
    ours = frozenset(intent.partitions)
    if fenced := sorted(each.partition for each in facts.partitions if each.sealed is True and each.partition in ours):
        yield Limitation("PRODUCER_FENCED", f"another failover has begun to promote {_named(fenced)}", blocks=True)
    if intent.without_drain:
        yield Limitation("WITHOUT_DRAIN", f"not being copied, taken over as they are: {_named(intent.without_drain)}")
    known = frozenset(intent.without_drain)
    broken = [at for at in not_copying(facts) if at in ours and at not in known]
    if broken:
        yield Limitation("PARTITION_STOPPED_COPYING", f"since it was planned: {_named(broken)}", blocks=True)
    yield from _of_growth(intent, facts)
    yield from _of_failures(intent, failed(intent, facts))
    if intent.mode is Mode.PLANNED and not facts.workers_alive and any(each.at_risk != 0 for each in facts.partitions):
        yield Limitation("NO_WORKER", "nobody copies, so it cannot drain: start `tanist fetcher run`")


def _of_growth(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """What the source has more is left behind by name, or not at all; the plan counts partitions as it was shown."""
    sync = f"`tanist metadata sync {intent.mirror}` takes them in"
    if behind := intent.without_copy:
        why = f"the source has partitions that are not mirrored, and they stay behind: {_counted(behind)}; {sync}"
        yield Limitation("PARTITIONS_WITHOUT_COPY", why)
    told = {*intent.partitions, *behind}
    seen = [*(each.partition for each in facts.partitions), *(each.partition for each in facts.uncopied)]
    if since := sorted(at for at in seen if at.topic in intent.names and at not in told):
        yield Limitation("GROWN_SINCE_PLANNED", f"{_counted(since)}; {sync}, then plan again", blocks=True)


def _counted(partitions: Iterable[TopicPartition]) -> str:
    return _named(f"{count} of {topic}" for topic, count in Counter(at.topic for at in partitions).items())


def _of_failures(intent: Intent, broken: Sequence[PartitionFacts]) -> Iterator[Limitation]:
    """What FAILED ends where it failed, and an approver may accept that by name.

    A log that is no copy any more can only be accepted by itself, never in passing among topics that are copies: behind
    a foreign write or a divergence no offset means what it meant at the source, so positions of groups point at other
    records, and the loss is counted from records that are not the source's. By itself it must be possible: removing
    such a topic is the only way out, and `tanist mirrors remove` is a failover of it.
    """
    if no_copy := [each for each in broken if each.error in _NO_COPY]:
        among_others = {each.partition.topic for each in no_copy} != set(intent.names)
        how = "choose the other topics by --topic, and these by themselves" if among_others else "taken over as it is"
        why = f"no copy of the source any more, {how}: {_failures(no_copy)}"
        yield Limitation("PARTITION_NO_COPY", why, blocks=among_others)
    if short := [each for each in broken if each.error not in _NO_COPY]:
        yield Limitation("PARTITION_FAILED", f"copied up to its failure and no further: {_failures(short)}")


def _failures(broken: Iterable[PartitionFacts]) -> str:
    return _named(f"{each.partition} ({each.error or 'for a reason that is not on record'})" for each in broken)


def _of_loss(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    lost = at_risk(facts)
    if lost is None:
        yield Limitation("RECORDS_AT_RISK_UNKNOWN", "the last ends of the source are not known of every partition")
    elif lost:
        yield Limitation("RECORDS_AT_RISK", f"{lost} offsets of the source are not in the copy")
    if any(each.live is None for each in facts.partitions):
        yield Limitation(
            "RECORDS_UNSEEN",
            f"what the source took after it was last seen nobody has counted: at the rate of before, {_at_most(facts)}",
        )
    if lost is not None and lost > intent.loss_tolerance:
        yield Limitation(
            "BEYOND_TOLERANCE", f"{lost} offsets at risk, {intent.loss_tolerance} are tolerated", blocks=True
        )
    if facts.transactions:
        names = {f"producer {each.producer_id} on {each.partition}" for each in facts.transactions}
        yield Limitation("OPEN_TRANSACTIONS", f"they hold back the records of others: {_named(sorted(names))}")


def _at_most(facts: Facts) -> str:
    most = at_most(facts)
    return "it cannot be told" if most is None else f"{most} offsets are lost at most"


def _of_rights(facts: Facts) -> Iterator[Limitation]:
    if facts.destination_authorizer is False:
        yield Limitation("UNPROTECTED", "the destination has no authorizer: anybody could have approved this")
    if facts.destination_authorizer is None:
        yield Limitation("RIGHTS_UNKNOWN", "whether the destination protects approvals could not be told", blocks=True)
    if facts.destination_authorizer and (unbound := [login.unbound for login in facts.logins if login.unbound]):
        why = "the barrier keeps its old producers off, and its login may go on writing"
        yield Limitation(NOT_SHUT_OUT, f"{why}: {_named(sorted(unbound))}")
    if facts.source_authorizer is False:
        yield Limitation("NEAR_FENCE", "the source has no authorizer: records of a few bytes pass its fence")


def _named(things: Iterable[object]) -> str:
    texts = [str(thing) for thing in things]
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return ", ".join(texts[:_MOST_NAMED]) + more


def planned_intent(intent: Intent, facts: Facts, loss_tolerance: int | None) -> Intent:
    """`intent` with what only the facts can fill in: generations, whom nobody waits for, the loss that is forecast."""
    generations = {seen.topic: seen.generation for seen in facts.topics}
    topics = tuple(
        TopicIntent(topic=t.topic, partitions=t.partitions, generation=generations.get(t.topic, t.generation))
        for t in intent.topics
    )
    forecast = at_risk(facts) or 0 if intent.mode is Mode.UNPLANNED else 0
    return replace(
        intent,
        topics=topics,
        without_drain=not_copying(facts),
        without_copy=tuple(sorted(each.partition for each in facts.uncopied)),
        loss_tolerance=forecast if loss_tolerance is None else loss_tolerance,
    )


# ── does an approval still permit it? ─────────────────────────────────────────────────────────────────────────────


def objections(
    approval: Approval, approved: Approved, facts: Facts, now: EpochMs, told: EpochMs | None
) -> tuple[Limitation, ...]:
    """Why `approval` does not permit going on; empty: go. Progress and good news keep it, bad news void it.

    `now` is what our clock says, `told` what brokers have put down last: an approval is as old as the later says.
    """
    fresh = limitations(approved.intent, facts)
    found = [each for each in fresh if each.blocks or each.name not in approved.limitations]
    if approved.steps != tuple(step.id for step in ROUTES[approved.intent.mode]):
        found.append(Limitation("ANOTHER_ROUTE", "it was planned by another version of Tanist", blocks=True))
    theirs = max(approval.at, told or approval.at)
    if (latest := max(now, theirs)) >= approval.expires_at:
        found.append(Limitation("APPROVAL_EXPIRED", f"it was valid until {approval.expires_at}, now is {latest} (ms)"))
    if now < theirs - approval.SKEW_MS:
        found.append(Limitation("CLOCK_BEHIND", f"the brokers' clock said {theirs} (ms) before, ours says {now}"))
    return tuple(sorted(found))
