"""The barrier: the point of no return is on record first, then every old writer is shut out, and that is proved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.answers import answered, known, raise_first
from tanist.domain.approval.entries import NotPermitted
from tanist.domain.checks import Mode
from tanist.domain.errors import TanistError
from tanist.domain.failover.invariants import drained, fenced
from tanist.domain.failover.objections import news, only_for_now
from tanist.domain.failover.reserve import NEAR_SECONDS, reserve, unreserved_to
from tanist.domain.failover.run_lineage import of_run
from tanist.domain.failover.stored_reserves import stored_estimates, stored_gaps
from tanist.domain.lineage import TopicLineage, own_start
from tanist.domain.names import MirrorPartition
from tanist.domain.records import CopiedUpTo
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.ports.fencing import Kept
from tanist.usecases.failover.step import NotYet, must_all
from tanist.usecases.failover.steps.fence_transactions import fence_transactions
from tanist.usecases.failover.steps.lock_mirror import ensure_permissions
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent, TopicIntent
    from tanist.domain.names import DestinationOffset
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.domain.writer_identity import MarkingWriter
    from tanist.ports.clock import Deadline
    from tanist.usecases.failover.step import StepContext

    _Ends: TypeAlias = Mapping[MirrorPartition, DestinationOffset | TanistError]
    _Fence: TypeAlias = Callable[[Mapping[MirrorPartition, MarkingWriter], Deadline], _Ends]


def recorded_lineage(context: StepContext, ours: Intent) -> tuple[TopicLineage, ...]:
    """The lineage of the topics of `ours`; what is not stored yet is determined now, and stored.

    No record can be appended any more. A run that was killed in between finds the same ends in the logs.

    Raises:
        NotYet, TimedOut: a log could not be read.
    """
    held = of_run(context.session.view(), ours)
    known = {each.topic for each in held}
    missing = [topic for topic in ours.topics if topic.topic not in known]
    if not missing:
        return held
    partitions = [at for at in ours.partitions if at.topic not in known]
    writers = dict.fromkeys(partitions, context.spec.writer)
    begun = {at: topic.copy_start(at.partition) for topic in context.wanted() for at in topic.all_partitions()}
    answers = context.destination.producer_fencing.copied_ends(writers, context.by, begun)
    failed = {
        at: named(end, context.destination, f"READ on Topic {at.topic}")
        for at, end in answers.items()
        if isinstance(end, TanistError)
    }
    must_all(failed, "end(s) of copied records could not be determined")
    ends = {at: end for at, end in answers.items() if not isinstance(end, TanistError)}
    view = context.session.view()
    context.session.write([_entry(context, view, topic, ends) for topic in missing])
    return of_run(context.session.view(), ours)


def _entry(
    context: StepContext, view: StateView, topic: TopicIntent, ends: Mapping[MirrorPartition, DestinationOffset]
) -> TopicLineage:
    intent = context.intent
    earlier = view.lineage(intent.mirror, topic.topic)
    partitions = [at for number in range(topic.partitions) if (at := MirrorPartition(topic.topic, number)) in ends]
    old_ends = tuple(max(ends[at], own_start(earlier, at, intent.source_cluster_id)) for at in partitions)
    sealed = view.copied_up_to(intent.mirror, topic.topic)
    reserve_to = sealed.reserve_to if sealed is not None else ()
    targets = (reserve_to[at.partition] if at.partition < len(reserve_to) else 0 for at in partitions)
    return TopicLineage(
        mirror=intent.mirror,
        mirror_id=context.spec.mirror_id,
        topic=topic.topic,
        promotion_epoch=topic.promotion_epoch + 1,
        old_cluster_id=intent.source_cluster_id,
        new_cluster_id=intent.destination_cluster_id,
        old_ends=old_ends,
        reserve_ends=tuple(map(max, old_ends, targets)),
        topic_id=sealed.topic_id if sealed is not None else "",
        at=context.clock.now(),
    )


_RIGHT = "ALTER or CLUSTER_ACTION on Cluster kafka-cluster"
_MEASURED: Final = 1_000
"""Gap markers from which on their rate is stored."""


def reserved_lineage(
    context: StepContext, lineage: Sequence[TopicLineage], open_yet: Collection[MirrorPartition]
) -> tuple[TopicLineage, ...]:
    """The lineage after every reserve is written up to its stored end.

    A gap marker of a living worker may have landed among them: then the stored end is corrected by the log. Partitions
    that are fenced already have their reserve. A run that was killed continues to the stored ends. Behind near fences
    all reserves together take `NEAR_SECONDS`; where one ends earlier by that its stored end is corrected, too.

    Raises:
        NotYet, TimedOut: a leader did not answer.
    """
    wanted = {at: end for at, end in _ends(lineage).items() if at in frozenset(open_yet)}
    if not wanted:
        return tuple(lineage)
    begun = context.clock.monotonic()
    reached = _written(context, wanted)
    seconds = context.clock.monotonic() - begun
    corrected = [_corrected(each, reached) for each in lineage]
    changed: list[StateRecord] = [after for before, after in zip(lineage, corrected, strict=True) if before != after]
    before = {at: each.old_ends[at.partition] for each in lineage for at in wanted if at.topic == each.topic}
    written = sum(max(0, reached[at] - before[at]) for at in wanted)
    rate = int(written / seconds) if written >= _MEASURED and seconds > 0 else 0
    changed += _stored_anew(context, wanted, reached, rate)
    if changed:
        context.session.write(changed)
    return tuple(corrected)


def _stored_anew(
    context: StepContext, wanted: Mapping[MirrorPartition, int], reached: Mapping[MirrorPartition, int], rate: int
) -> Iterator[CopiedUpTo]:
    """What is on record of the reserves, with the ends of those that were cut short and the `rate`."""
    short = {at: end for at, end in wanted.items() if reached[at] < end}
    for each in _stored(context.session.view(), context.intent):
        mine = {at.partition: end for at, end in short.items() if at.topic == each.topic}
        to = [reached[MirrorPartition(each.topic, n)] if n in mine else end for n, end in enumerate(each.reserve_to)]
        missing = each.unreserved_to or (0,) * len(each.copied)
        less = tuple(mine.get(n, end) for n, end in enumerate(missing))
        new = replace(each, markers_per_second=rate or each.markers_per_second)
        if mine:
            new = replace(new, reserve_to=tuple(to), unreserved_to=less)
        if new != each:
            yield new


def reserve_gaps(view: StateView, intent: Intent) -> dict[str, str]:
    """The partitions whose reserve fell short at the point of no return, with the reason and the cost."""
    place = _destination(view, intent)
    return {at: why for each in _stored(view, intent) for at, why in stored_gaps(each, place).items()}


def reserve_estimates(view: StateView, intent: Intent) -> dict[str, str]:
    """The partitions whose reserve is complete only by an estimate, with what it covers."""
    place = _destination(view, intent)
    return {at: why for each in _stored(view, intent) for at, why in stored_estimates(each, place).items()}


def _destination(view: StateView, intent: Intent) -> str:
    spec = view.mirror(intent.mirror)
    return spec.destination if spec else ""


def _stored(view: StateView, intent: Intent) -> tuple[CopiedUpTo, ...]:
    found = (view.copied_up_to(intent.mirror, name) for name in intent.names)
    return tuple(each for each in found if each is not None)


def _ends(lineage: Sequence[TopicLineage]) -> dict[MirrorPartition, int]:
    """Where each reserve ends, of the partitions that have one."""
    return {
        MirrorPartition(each.topic, n): end
        for each in lineage
        for n, (old_end, end) in enumerate(zip(each.old_ends, each.reserve_ends, strict=True))
        if end > old_end
    }


def _written(context: StepContext, wanted: Mapping[MirrorPartition, int]) -> dict[MirrorPartition, int]:
    """The committed end of each log, at or behind the end of its reserve, or as far as the time has lasted."""
    fencing, left, reached = context.destination.producer_fencing, dict(wanted), dict[MirrorPartition, int]()
    near = context.intent.mode is Mode.PLANNED
    until = context.clock.deadline(NEAR_SECONDS)
    while left and not (near and reached and not until.left(context.clock.monotonic())):
        context.session.beat()
        context.session.confirm()
        answers = fencing.reserve(left, dict.fromkeys(left, context.spec.writer), context.by)
        failed = {at: e for at, e in answers.items() if isinstance(e, TanistError)}
        must_all(
            {at: named(error, context.destination, _RIGHT) for at, error in failed.items()},
            "reserve(s) could not be written",
        )
        reached |= {at: int(end) for at, end in answers.items() if not isinstance(end, TanistError)}
        left = {at: end for at, end in left.items() if reached[at] < end}
        context.checkpoint("seal:reserving")
    return reached


def _corrected(entry: TopicLineage, reached: Mapping[MirrorPartition, int]) -> TopicLineage:
    ends = (reached.get(MirrorPartition(entry.topic, n), end) for n, end in enumerate(entry.reserve_ends))
    return replace(entry, reserve_ends=tuple(map(max, entry.old_ends, ends)))


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
    ours = context.copies()
    partitions = set(ours.partitions)
    open_yet = [e.partition for e in facts.partitions if e.producer_fenced is not True and e.partition in partitions]
    by_kind = fence_transactions if context.spec.is_mapped else _by_markers
    done = by_kind(context, ours, open_yet)
    context.session.mark("kept")
    return done


def _by_markers(context: StepContext, ours: Intent, open_yet: Sequence[MirrorPartition]) -> Done:
    """The fence of a mirror with identical offsets."""
    fencing = context.destination.producer_fencing
    _fence(context, fencing.fence_data_producers, open_yet)
    context.checkpoint("seal:data-fenced")
    lineage = recorded_lineage(context, ours)
    context.checkpoint("seal:lineage")
    lineage = reserved_lineage(context, lineage, open_yet)
    context.checkpoint("seal:reserved")
    ends = _fence(context, fencing.fence_producers, open_yet)
    context.checkpoint("seal:sealed")
    by_marker_alone = _keep(context, ours, context.spec.writer)
    return Done(
        {
            "ends": {str(at): end for at, end in ends.items()},
            "lineage": {each.topic: {"old_ends": each.old_ends, "reserve_ends": each.reserve_ends} for each in lineage},
            "may_be_reused": reserve_gaps(context.session.view(), ours),
            "reserve_estimated": reserve_estimates(context.session.view(), ours),
            "by_marker_alone": by_marker_alone,
        }
    )


def _fence(context: StepContext, fence: _Fence, partitions: Sequence[MirrorPartition]) -> _Ends:
    """Raises NotYet or TimedOut where a partition was not fenced."""
    right = "ALTER or CLUSTER_ACTION on Cluster kafka-cluster"
    context.session.confirm()
    ends = fence(dict.fromkeys(partitions, context.spec.writer), context.by)
    failed = {at: named(end, context.destination, right) for at, end in ends.items() if isinstance(end, TanistError)}
    must_all(failed, "partition(s) could not be fenced")
    return ends


def _epochs(context: StepContext, facts: Facts) -> Mapping[MirrorPartition, int]:
    """The source's leader epoch of the last copied batch, read from a drained source.

    What workers have stored of it may be older; where the source does not tell it, that counts.
    """
    source = context.source
    if context.intent.mode is not Mode.PLANNED or isinstance(source, TanistError):
        return {}
    names = context.spec.names
    last = {
        names.at_source(each.partition): int(each.copied) - 1
        for each in facts.partitions
        if each.drained and each.copied
    }
    found = answered(lambda: source.logs.leader_epochs(last, context.clock.deadline(_EPOCH_SECONDS)))
    return {names.mirrored(at): epoch for at, epoch in known(found or {}).items()}


def _copied(context: StepContext, facts: Facts, epochs: Mapping[MirrorPartition, int]) -> list[CopiedUpTo]:
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
        ends = (copied.get(MirrorPartition(topic.topic, n)) for n in range(topic.partitions))
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


def _by_partition(topic: TopicIntent, found: Mapping[MirrorPartition, int], missing: int = 0) -> tuple[int, ...]:
    return tuple(found.get(MirrorPartition(topic.topic, n), missing) for n in range(topic.partitions))


def _keep(context: StepContext, ours: Intent, writer: MarkingWriter) -> dict[str, str]:
    """Before anybody can write, so the last value of a key is still the last one when it is repeated.

    What cannot be repeated is told, and by `tanist status` as well: there is no way back any more.
    """
    if not ours.topics:
        return {}
    partitions = _compacted(context, ours)
    context.session.confirm()
    answers = context.destination.producer_fencing.keep(dict.fromkeys(partitions, writer), context.by)
    if failed := [f"{at}: {why}" for at, why in answers.items() if isinstance(why, TanistError) and why.retriable]:
        raise NotYet(
            f"{len(failed)} producer fence(s) of compacted topics are not durable yet: {'; '.join(failed[:3])}"
        )
    if bare := [str(at) for at, kept in answers.items() if kept is Kept.BARE]:
        raise NotYet(f"{len(bare)} producer fence(s) of compacted topics are not durable yet: {', '.join(bare[:3])}")
    empty = {str(at): "the partition has no record with a key" for at, kept in answers.items() if kept is Kept.EMPTY}
    return empty | {str(at): str(why) for at, why in answers.items() if isinstance(why, TanistError)}


def _compacted(context: StepContext, ours: Intent) -> tuple[MirrorPartition, ...]:
    """Of topics that are compacted, or will be once they are configured as at the source."""
    own = context.destination.producer_fencing.compacted(ours.names, context.by)
    raise_first(own)
    held = {
        topic.topic for topic in context.wanted() if "compact" in dict(topic.deferred_configs).get(CLEANUP_POLICY, "")
    }
    return tuple(at for at in ours.partitions if at.topic in held or own[at.topic] is True)
