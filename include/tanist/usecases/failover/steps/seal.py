"""The barrier: the point of no return is on record first, then every old writer is shut out, and that is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.answers import answered, known, raise_first
from tanist.domain.checks import Mode
from tanist.domain.errors import TanistError
from tanist.domain.failover.approving import NotPermitted
from tanist.domain.failover.objections import news, only_for_now
from tanist.domain.failover.postconditions import drained, fenced
from tanist.domain.failover.reserve import reserve, unreserved_to
from tanist.domain.names import TopicPartition
from tanist.domain.records import CopiedUpTo
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.ports.producer_fencing import Kept
from tanist.usecases.failover.lineage import recorded_lineage, reserve_estimates, reserve_gaps, reserved_lineage
from tanist.usecases.failover.step import Done, NotYet, must_all
from tanist.usecases.failover.steps.hold import ensure_permissions
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent, TopicIntent
    from tanist.domain.names import DestinationOffset
    from tanist.domain.recovery import ProducerIds
    from tanist.ports.clock import Deadline
    from tanist.usecases.failover.step import StepContext

    _Ends: TypeAlias = Mapping[TopicPartition, DestinationOffset | TanistError]
    _Fence: TypeAlias = Callable[[Mapping[TopicPartition, ProducerIds], Deadline], _Ends]

LOOKED_SECONDS: Final = 3.0
"""A look that is older says what was before this process was frozen: approval, fence and drain are looked at again."""

_EPOCH_SECONDS: Final = 1.0


class CopyChanged(NotPermitted):
    name = "COPY_CHANGED"
    operator_action = "no producer is fenced yet: undo the run with `tanist failover abort`, then plan again"


def last_look(context: StepContext) -> Facts:
    """What both clusters are like now: what was seen before the step, or before somebody froze, does not count.

    Raises:
        AuthorizationFailed: this login lacks what the steps behind that point need.
        CopyChanged: something speaks against it that the approver has not accepted, such as records that were deleted
            from the copy, or more offsets at risk than are tolerated.
        NotYet: a planned failover is not fenced and drained any more, and the steps before are done again; or a cluster
            does not tell for the moment.
    """
    ensure_permissions(context.intent, context.clusters, context.command)
    facts = context.look()
    if found := news(context.approved, facts):
        said = "; ".join(f"{each.name}: {each.detail}" for each in found)
        raise NotYet(said) if only_for_now(found) else CopyChanged(said)
    if context.intent.mode is Mode.PLANNED:
        if not fenced(context.intent, facts):
            raise NotYet("producers are no longer blocked at the source")
        if not drained(context.intent, facts):
            raise NotYet("the copy is behind the source again")
    return facts


def do(context: StepContext) -> Done:
    """Asks nothing of the source behind the point of no return. What is sealed already gets nothing more."""
    facts = context.facts
    if not context.session.record.no_return:
        facts = last_look(context)
        looked = context.clock.monotonic()
        context.session.write(_copied(context, facts, _epochs(context, facts)))
        if context.clock.monotonic() - looked > LOOKED_SECONDS:
            raise NotYet(f"the clusters were last observed more than {LOOKED_SECONDS:.0f} s ago")
        context.session.save(no_return=True)
    context.checkpoint("seal:no-return")
    writers = context.spec.producer_ids
    ours = context.copies()
    partitions = set(ours.partitions)
    open_yet = [e.partition for e in facts.partitions if e.producer_fenced is not True and e.partition in partitions]
    fencing = context.destination.producer_fencing
    _fence(context, fencing.fence_data_producers, open_yet)
    context.checkpoint("seal:data-fenced")
    lineage = recorded_lineage(context, ours)
    context.checkpoint("seal:lineage")
    lineage = reserved_lineage(context, lineage, open_yet)
    context.checkpoint("seal:reserved")
    ends = _fence(context, fencing.fence_producers, open_yet)
    context.checkpoint("seal:sealed")
    by_marker_alone = _keep(context, ours, writers)
    context.session.mark("kept")
    return Done(
        {
            "ends": {str(at): end for at, end in ends.items()},
            "lineage": {each.topic: {"old_ends": each.old_ends, "reserve_ends": each.reserve_ends} for each in lineage},
            "may_be_reused": reserve_gaps(context.session.view(), ours),
            "reserve_estimated": reserve_estimates(context.session.view(), ours),
            "by_marker_alone": by_marker_alone,
        }
    )


def _fence(context: StepContext, fence: _Fence, partitions: Sequence[TopicPartition]) -> _Ends:
    """Raises NotYet or TimedOut where a partition was not fenced."""
    right = "ALTER or CLUSTER_ACTION on Cluster kafka-cluster"
    context.session.confirm()
    ends = fence(dict.fromkeys(partitions, context.spec.producer_ids), context.by)
    failed = {at: named(end, context.destination, right) for at, end in ends.items() if isinstance(end, TanistError)}
    must_all(failed, "partition(s) could not be fenced")
    return ends


def _epochs(context: StepContext, facts: Facts) -> Mapping[TopicPartition, int]:
    """The source's leader epoch of the last copied batch, read from a drained source.

    What workers have stored of it may be older; where the source does not tell it, that counts.
    """
    source = context.source
    if context.intent.mode is not Mode.PLANNED or isinstance(source, TanistError):
        return {}
    last = {each.partition: int(each.copied) - 1 for each in facts.partitions if each.drained and each.copied}
    return known(answered(lambda: source.logs.leader_epochs(last, context.clock.deadline(_EPOCH_SECONDS))) or {})


def _copied(context: StepContext, facts: Facts, epochs: Mapping[TopicPartition, int]) -> list[CopiedUpTo]:
    """As it was last seen: the first barrier adds offsets of our own. The id is that of the copy that was judged."""
    seen = {each.topic: each.copy_id for each in facts.topics}
    copied = {each.partition: each.copied for each in facts.partitions}
    reserves = reserve(context.intent, facts)
    made = reserves.partitions
    reserved = {each.partition: int(each.end or 0) for each in made if each.granted}
    missing = {each.partition: unreserved_to(each) for each in made}
    covers = {} if reserves.near else {each.partition: each.covers_ms for each in made}
    spec, now = context.spec, context.clock.now()
    found = []
    for topic in context.intent.topics:
        ends = (copied.get(TopicPartition(topic.topic, n)) for n in range(topic.partitions))
        ended = tuple(-1 if end is None else int(end) for end in ends)
        to = _by_partition(topic, reserved)
        unreserved = _by_partition(topic, missing)
        found.append(
            CopiedUpTo(
                mirror=spec.mirror,
                mirror_id=spec.mirror_id,
                topic=topic.topic,
                copied=ended,
                reserve_to=to if any(to) else (),
                unreserved_to=unreserved if any(unreserved) else (),
                covers_ms=_by_partition(topic, covers) if covers else (),
                epochs=_by_partition(topic, epochs, -1) if epochs else (),
                topic_id=seen.get(topic.topic, ""),
                at=now,
            )
        )
    return found


def _by_partition(topic: TopicIntent, found: Mapping[TopicPartition, int], missing: int = 0) -> tuple[int, ...]:
    return tuple(found.get(TopicPartition(topic.topic, n), missing) for n in range(topic.partitions))


def _keep(context: StepContext, ours: Intent, producer_ids: ProducerIds) -> dict[str, str]:
    """Before anybody can write, so the last value of a key is still the last one when it is repeated.

    What cannot be repeated is told, and by `tanist status` as well: there is no way back any more.
    """
    if not ours.topics:
        return {}
    partitions = _compacted(context, ours)
    context.session.confirm()
    answers = context.destination.producer_fencing.keep(dict.fromkeys(partitions, producer_ids), context.by)
    if failed := [f"{at}: {why}" for at, why in answers.items() if isinstance(why, TanistError) and why.retriable]:
        raise NotYet(
            f"{len(failed)} producer fence(s) of compacted topics are not durable yet: {'; '.join(failed[:3])}"
        )
    if bare := [str(at) for at, kept in answers.items() if kept is Kept.BARE]:
        raise NotYet(f"{len(bare)} producer fence(s) of compacted topics are not durable yet: {', '.join(bare[:3])}")
    empty = {str(at): "the partition has no record with a key" for at, kept in answers.items() if kept is Kept.EMPTY}
    return empty | {str(at): str(why) for at, why in answers.items() if isinstance(why, TanistError)}


def _compacted(context: StepContext, ours: Intent) -> tuple[TopicPartition, ...]:
    """Of topics that are compacted, or will be once they are configured as at the source."""
    own = context.destination.producer_fencing.compacted(ours.names, context.by)
    raise_first(own)
    held = {
        topic.topic for topic in context.wanted() if "compact" in dict(topic.deferred_configs).get(CLEANUP_POLICY, "")
    }
    return tuple(at for at in ours.partitions if at.topic in held or own[at.topic] is True)
