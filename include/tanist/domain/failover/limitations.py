"""Can I fail over now? The limitations of a failover, derived from facts, and the verdict that they add up to.

`tanist status`, the page, the plan, the approval and the run call these functions with the same facts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode, Readiness, named
from tanist.domain.errors import Diverged, ForeignWrite
from tanist.domain.failover.commands import others_command, plan_command
from tanist.domain.failover.facts import RECENT_MS, SourceState, is_locked, is_recent, source_settled
from tanist.domain.failover.forecast import at_least, at_risk, beyond_drain, by_partition
from tanist.domain.failover.plan import NOT_DRAINED, NOT_SHUT_OUT, Intent, Plan, is_another_topic, past_return
from tanist.domain.failover.reasons import (
    damage,
    not_copied,
    of_access,
    of_detached,
    of_left_to_people,
    of_mapped,
    of_old_fences,
    of_undecided,
)
from tanist.domain.failover.reserve import of_reserve
from tanist.domain.filled import filled
from tanist.domain.limitation import Limitation
from tanist.domain.losses import TombstonesMissed
from tanist.domain.names import iso_time
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tanist.domain.failover.facts import Facts, ObservedTopic, PartitionFacts
    from tanist.domain.failover.plan import TopicIntent
    from tanist.domain.names import EpochMs, MirrorPartition

_COPYING: Final = frozenset({MirrorState.MIRRORING})
_NO_COPY: Final = frozenset({ForeignWrite.name, Diverged.name, None})
"""After these a mirror partition differs from its source; a failure without a name could be one of them."""
BEYOND_TOLERANCE: Final = "BEYOND_TOLERANCE"
SILENT_MS: Final = 30_000
"""A worker that has not reported for this long counts as dead."""
REPORT_MS: Final = 5_000
"""How often a worker reports itself."""


def make_plan(intent: Intent, facts: Facts, steps: tuple[str, ...]) -> Plan:
    """The plan of `intent`, with the limitations of `facts`. `steps`: the ids of the route, in order."""
    return Plan(intent, steps, tuple(sorted(limitations(intent, facts))))


def word(found: Iterable[Limitation]) -> Readiness:
    """The verdict that limitations add up to. A limitation that blocks for certain outweighs an unknown one."""
    every = list(found)
    blocking = [each for each in every if each.blocks]
    if any(not each.unknown for each in blocking):
        return Readiness.NO_GO
    if blocking:
        return Readiness.UNKNOWN
    return Readiness.GO if all(each.usual for each in every) else Readiness.ACCEPT


def not_copying(facts: Facts) -> tuple[MirrorPartition, ...]:
    """Partitions that a drain cannot wait for: not MIRRORING, or longer than their source."""
    halted = (each for each in facts.partitions if each.state not in _COPYING or each.source_truncated)
    return tuple(sorted(each.partition for each in halted))


def failed(intent: Intent, facts: Facts) -> tuple[PartitionFacts, ...]:
    """The FAILED partitions of `intent`, sorted by topic and partition."""
    return _in_state(intent, facts, MirrorState.FAILED)


def _in_state(intent: Intent, facts: Facts, *states: MirrorState) -> tuple[PartitionFacts, ...]:
    ours = frozenset(intent.partitions)
    found = (each for each in facts.partitions if each.partition in ours and each.state in states)
    return tuple(sorted(found, key=lambda each: each.partition))


def limitations(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """The reasons against a failover, including those that nobody can accept.

    After the point of no return only another unfinished run is one. Names, what they name and what blocks come from
    facts alone: the clock changes no more than their words, and in an unplanned failover whether they are usual.
    """
    for each in _found(intent, facts):
        detail = filled(each.detail, mirror=intent.mirror, destination=facts.destination, topics=(), plan="")
        yield replace(each, detail=detail)


def _found(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    yield from _of_runs(facts)
    if past_return(facts):
        return
    yield from _of_the_source(intent, facts)
    yield from _of_the_destination(intent, facts)
    yield from _of_topics(intent, facts)
    yield from damage(intent, facts)
    yield from _of_loss(intent, facts)
    yield from of_reserve(intent, facts)
    yield from of_undecided(intent, facts)
    yield from of_mapped(facts)
    yield from _of_groups(intent, facts)
    yield from _of_rights(intent, facts)
    yield from of_access(intent, facts)


def _of_runs(facts: Facts) -> Iterator[Limitation]:
    if facts.others_running:
        runs = (f"plan {run.plan} of {run.runner or 'nobody'}: {run.next_actions}" for run in facts.others_running)
        yield Limitation("RUN_UNFINISHED", f"another failover of this mirror is unfinished: {named(runs)}", blocks=True)


def _of_the_source(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    planned = intent.mode is Mode.PLANNED
    if facts.source.another_cluster:
        yield Limitation("ANOTHER_CLUSTER", facts.source.another_cluster, blocks=True)
    elif planned and facts.source.state is not SourceState.ALIVE:
        why = (
            f"a planned failover needs a source that answers: {facts.source.reason}; without it "
            f"`{plan_command(intent, facts.destination, source_down=True)}`"
        )
        yield Limitation("SOURCE_DOWN", why, blocks=True, unknown=True, momentary=facts.source.moves)
    elif not planned:
        yield Limitation(NOT_DRAINED, f"an unplanned failover waits for no source: {_reach(intent, facts)}", usual=True)
    yield from _of_transactions(intent, facts)


def _reach(intent: Intent, facts: Facts) -> str:
    near = f"; {why}" if (why := _near_fence(intent, facts)) else ""
    if facts.source.state is SourceState.ALIVE:
        return f"it answers, and a planned failover would drain it{near}"
    if facts.source.state is SourceState.PARTLY:
        return f"partitions that do not answer are not drained ({facts.source.reason}){near}"
    if not facts.fences_source:
        return f"producers may still reach it ({facts.source.reason})"
    return (
        "producers may still reach it, and the source fence stays pending until it answers; without an authorizer "
        f"records of a few bytes pass that fence ({facts.source.reason})"
    )


def _near_fence(intent: Intent, facts: Facts) -> str:
    if not facts.fences_source:
        return ""
    if facts.source.authorizer is False:
        return "the source has no authorizer, so records of a few bytes pass its source fence"
    near = _named(sorted(facts.source.near.intersection(intent.names)))
    return f"no ACL of the source matches {near}, so records of a few bytes pass the source fence" if near else ""


def _of_transactions(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """While a coordinator does not answer no planned run begins; one that has begun waits in its drain."""
    if intent.mode is not Mode.PLANNED:
        return
    reason = facts.source.transactions_reason
    if facts.source.transactions_told is None and facts.source.state is SourceState.ALIVE and not is_locked(facts):
        why = f"transaction coordinators of the source do not report open transactions: {reason}"
        yield Limitation("TRANSACTIONS_UNKNOWN", why, blocks=True, unknown=True, momentary=True)
    if facts.source.transactions_told is False:
        why = f"transactions without records yet cannot be seen and are not waited for ({reason})"
        yield Limitation("TRANSACTIONS_UNKNOWN", why)


def _of_the_destination(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    ours = {each.partition: each for each in facts.partitions}
    wanted = [ours[at] for at in intent.partitions if at in ours]
    missing = [at for at in intent.partitions if at not in ours and at.topic not in facts.detached]
    if offline := [*missing, *(each.partition for each in wanted if each.end is None or each.in_sync == 0)]:
        yield Limitation("DESTINATION_OFFLINE", f"no leader answers for {_named(offline)}", blocks=True, momentary=True)
    whys = []
    if blind := [each.partition for each in wanted if each.in_sync is None or each.min_in_sync is None]:
        whys.append(f"in-sync replicas are unknown for {_named(blind)}")
    if silent := [each.topic for each in facts.of(intent.names) if each.partitions is None]:  # nor is its id known
        whys.append(f"the destination does not describe {_named(silent)} (DESCRIBE_CONFIGS)")
    if whys:
        yield Limitation("DESTINATION_UNKNOWN", "; ".join(whys), blocks=True, unknown=True, momentary=True)
    short = [e.partition for e in wanted if e.in_sync and e.min_in_sync and e.in_sync < e.min_in_sync]
    if short:
        why = f"producers could not write to {_named(short)}: fewer replicas in sync than min.insync.replicas"
        yield Limitation("DESTINATION_BELOW_MIN_ISR", why, blocks=True, momentary=True)
    if facts.map_missing:
        why = "topic __mirror_offsets does not exist, so no offset can be translated: restore it"
        yield Limitation("OFFSET_MAP_MISSING", why, blocks=True)


def _of_topics(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    if not intent.topics:
        gone = f"already failed over or removed: {named(facts.left)}" if facts.left else "no topic is in the mirror"
        apart = (*facts.detached, *facts.detached_elsewhere)
        gone += f"; detached: {named(apart)}" if apart else ""
        yield Limitation("NOTHING_TO_FAIL_OVER", gone, blocks=True, unknown=not facts.left)
    expected = {each.topic: each.promotion_epoch for each in intent.topics}
    planned = {each.topic: each for each in intent.topics}
    if others := [seen.topic for seen in facts.of(expected) if _is_another(planned[seen.topic], seen)]:
        yield Limitation(
            "ANOTHER_TOPIC", f"created again, or added again, since the plan: {_named(others)}", blocks=True
        )
    if moved := [
        seen.topic for seen in facts.of(expected) if seen.promotion_epoch != expected[seen.topic] or seen.removed
    ]:
        yield Limitation("ALREADY_PROMOTED", f"{_named(moved)} left the mirror after the plan was made", blocks=True)
    ours = frozenset(intent.partitions)
    if fenced := sorted(
        each.partition for each in facts.partitions if each.producer_fenced is True and each.partition in ours
    ):
        yield Limitation("PRODUCER_FENCED", f"another failover has begun to promote {_named(fenced)}", blocks=True)
    yield from of_old_fences(intent, facts)
    if intent.without_drain:
        why = f"not being copied, so they are failed over as they are: {_named(intent.without_drain)}"
        yield Limitation("WITHOUT_DRAIN", why)
    known = frozenset(intent.without_drain)
    if broken := [at for at in not_copying(facts) if at in ours and at not in known]:
        yield Limitation(
            "PARTITION_STOPPED_COPYING",
            f"no longer copied since the plan was made, plan again: {_named(broken)}",
            blocks=True,
        )
    if missed := [each.partition for each in facts.partitions if each.tombstones_missed and each.partition in ours]:
        why = f"keys that were deleted at the source may be left in {_named(missed)}: see `tanist mirrors describe`"
        yield Limitation(TombstonesMissed.name, why)
    yield from not_copied(intent, facts)
    yield from of_detached(intent, facts)
    yield from _of_failures(intent, failed(intent, facts), facts.destination)
    yield from _of_beginnings(intent, facts)
    if intent.mode is Mode.PLANNED and not facts.workers_alive:
        yield from _without_worker(intent, facts)


def _without_worker(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """No worker copies: with a lag the drain is sure to fail, without one it may. Once all is drained: nothing."""
    waited_for = frozenset(intent.partitions) - frozenset(intent.without_drain)
    due = [each for each in facts.partitions if each.partition in waited_for]
    fenced = source_settled(intent.names, intent.mode, facts)
    if not due or (fenced and all(each.drained for each in due)):
        return
    behind = any(each.at_risk != 0 for each in due)
    how = "the source cannot be drained" if behind else "records produced until the source is fenced cannot be drained"
    yield Limitation("NO_WORKER", f"no fetcher is running, so {how}: start `tanist fetcher run`", blocks=behind)


def _of_failures(intent: Intent, broken: Sequence[PartitionFacts], destination: str) -> Iterator[Limitation]:
    """A FAILED partition ends where copying failed, and an approver may accept that by name.

    A partition that is no longer identical to its source can only be accepted in a plan of its topic alone. After a
    foreign write or a divergence an offset means another record than at the source, so committed offsets of groups
    point at other records, and the loss is counted from records that are not the source's. Such a plan must be
    possible: removing the topic is the only repair, and `tanist mirrors remove` is a failover of it.
    """
    if no_copy := [each for each in broken if each.error in _NO_COPY]:
        topics = {each.partition.topic for each in no_copy}
        among_others = topics != set(intent.names)
        others = f"plan it alone, and the other topics with `{others_command(intent, topics, destination)}`"
        how = others if among_others else "failed over as it is"
        why = f"no longer identical to the source, {how}: {_failures(no_copy)}"
        yield Limitation("PARTITION_NO_COPY", why, blocks=among_others)
    if short := [each for each in broken if each.error not in _NO_COPY and not each.source_truncated]:
        yield Limitation("PARTITION_FAILED", f"copied only up to the failure: {_failures(short)}")


def _failures(broken: Iterable[PartitionFacts]) -> str:
    return _named(f"{each.partition} ({each.error or 'no reason recorded'})" for each in broken)


def _of_beginnings(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """A planned failover can wait until copying has begun; in an unplanned one an approver accepts it by name."""
    planned = intent.mode is Mode.PLANNED
    if preparing := _in_state(intent, facts, MirrorState.PREPARING):
        why = f"copying has not begun, both logs are being compared: {_named(each.partition for each in preparing)}"
        yield Limitation("PARTITION_PREPARING", why, blocks=planned)
    if unheard := _in_state(intent, facts, MirrorState.UNKNOWN):
        why = f"no worker has reported {_named(each.partition for each in unheard)}: start `tanist fetcher run`"
        yield Limitation("PARTITION_UNKNOWN", why, blocks=planned, unknown=planned)


def _of_loss(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """The loss, counted and bound in the same way in both modes; a planned failover does not lose what it drains."""
    each = by_partition(intent, facts)
    lost, least, beyond = at_risk(intent, facts, each), at_least(intent, facts, each), beyond_drain(intent, facts, each)
    reported = f"{'at least ' if lost is None else ''}{least} offsets"
    if lost is None:
        blind = [at for at, offsets in each if offsets is None]
        yield Limitation(
            "RECORDS_AT_RISK_UNKNOWN",
            f"offsets at risk are unknown for {_named(blind)}",
            about=tuple(map(str, blind)),
            momentary=any(one.end is None or one.foreign is None or one.longer is None for one in facts.partitions),
        )
    if beyond > intent.loss_tolerance:
        why = (
            f"{'at least ' if lost is None else ''}{beyond} offsets at risk; {intent.loss_tolerance} tolerated: to "
            "accept the loss, plan again, and give `--max-loss` where the number moves"
        )
        yield Limitation(BEYOND_TOLERANCE, why, blocks=True)
    if least or intent.loss_tolerance:
        why = f"{reported} of the source are not at the destination"
        yield Limitation("RECORDS_AT_RISK", f"{why}; {intent.loss_tolerance} tolerated", usual=True)
    if intent.mode is Mode.UNPLANNED:
        yield _what_is_unseen(intent, facts)


def _what_is_unseen(intent: Intent, facts: Facts) -> Limitation:
    """Accepted by name. Only whether it is usual, which no hash has, depends on how old the last looks are."""
    old = [each for each in facts.partitions if not is_recent(each, intent.dead_since, facts.now)]
    never = [each.partition for each in old if each.known is None]
    late = [each.partition for each in old if each.known is not None]
    known = {each.partition: each.known.at for each in facts.partitions if each.known and not each.live}
    seen = [f"{at} {_ago(when, facts)} ({iso_time(when)})" for at, when in known.items()]
    whys = ["what the source accepted after its last answer is not counted"]
    if late:
        whys.append(f"not seen for more than {RECENT_MS // 1000} s when it fell silent: {_named(late)}")
    if never:
        whys.append(f"never seen: {_named(never)}")
    if seen:
        whys.append(f"last seen: {_named(seen)}")
    if facts.followed is not None and facts.followed.complete_until_ms:
        groups = facts.followed.complete_until_ms
        whys.append(f"committed offsets of groups are complete up to {iso_time(groups)}, {_ago(groups, facts)}")
    if facts.source.transactions:
        open_ones = {f"producer {each.producer_id} on {each.partition}" for each in facts.source.transactions}
        whys.append(f"open transactions hold back later records: {_named(sorted(open_ones))}")
    return Limitation("RECORDS_UNSEEN", "; ".join(whys), usual=not old)


def _ago(at: EpochMs, facts: Facts) -> str:
    return f"{max(0, facts.now - at) / 1000:.0f} s ago"


def _of_groups(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """Whether any are kept; how old they are is in RECORDS_UNSEEN. Whether the source answers changes nothing."""
    if intent.mode is Mode.PLANNED or (facts.followed is not None and facts.followed.complete_until_ms):
        return
    why = "no committed offsets of groups were kept: none can be translated unless the source answers"
    yield Limitation("GROUP_POSITIONS_OLD", why, momentary=facts.groups_unread)


def _of_rights(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    if facts.destination_authorizer is False:
        why = "the destination has no authorizer, so any client can write an approval"
        yield Limitation("UNPROTECTED", why, usual=True)
    if facts.destination_authorizer is None:
        why = "cannot determine whether the destination enforces ACLs, so approvals cannot be trusted"
        yield Limitation("RIGHTS_UNKNOWN", why, blocks=True, unknown=True, momentary=True)
    if facts.destination_authorizer and (unbound := [login.unbound for login in facts.logins if login.unbound]):
        why = "the producer fence stops the mirror's old producers, but its login can still write"
        yield Limitation(NOT_SHUT_OUT, f"{why}: {_named(sorted(unbound))}")
    yield from of_left_to_people(intent, facts)
    if facts.destination_authorizer and facts.logins_awaited:
        why = f"workers that have just started do not know their login yet: {_named(facts.logins_awaited)}"
        yield Limitation("MIRROR_LOGIN_UNKNOWN", why, blocks=True, unknown=True, momentary=True)
    if intent.mode is Mode.PLANNED and (why := _near_fence(intent, facts)):
        yield Limitation("NEAR_FENCE", why, usual=True)


def _is_another(planned: TopicIntent, seen: ObservedTopic) -> bool:
    """Whether a name means another topic now, at either cluster; an id that is unknown counts as the same one."""
    return is_another_topic(seen.copy_id, planned.copy_id) or is_another_topic(seen.source_id, planned.source_id)


def _named(things: Iterable[object]) -> str:
    return named(things, ", ")


# ── the intent of a plan ──────────────────────────────────────────────────────────────────────────────────────────


def planned_intent(intent: Intent, facts: Facts, loss_tolerance: int | None) -> Intent:
    """`intent` completed from the facts: promotion epochs, partitions without drain or copy, the forecast loss.

    `loss_tolerance`: offsets; None: the forecast.
    """
    found = {seen.topic: seen for seen in facts.topics}
    topics = tuple(
        replace(t, promotion_epoch=seen.promotion_epoch, copy_id=seen.copy_id)
        if (seen := found.get(t.topic)) is not None
        else t
        for t in intent.topics
    )
    filled = replace(
        intent,
        topics=topics,
        without_drain=not_copying(facts),
        without_copy=tuple(sorted(each.partition for each in facts.source.uncopied)),
        whole=not facts.besides,
    )
    tolerance = at_least(filled, facts) if loss_tolerance is None else loss_tolerance
    return replace(filled, loss_tolerance=tolerance)
