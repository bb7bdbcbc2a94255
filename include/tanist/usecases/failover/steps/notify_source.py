"""The old source is told, and watched until nobody writes there. After writes are open: nobody waits for this."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.answers import attempt
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell, TanistError, TimedOut
from tanist.domain.failback.pending import last_tails
from tanist.domain.failover.run_lineage import of_run
from tanist.domain.fences import FenceKind, FenceStatus
from tanist.domain.growth import growth
from tanist.domain.promotions import unreported
from tanist.domain.records import STATE_TOPIC
from tanist.domain.tails import TailStage
from tanist.usecases.command import SOURCE_SECONDS
from tanist.usecases.failover.steps.fence import Watch
from tanist.usecases.failover.steps.record_promotion import generations
from tanist.usecases.mirror import same_as_pinned
from tanist.usecases.runs.runner import Done
from tanist.usecases.snapshot import SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.fences import FenceBefore
    from tanist.domain.names import SourcePartition, TopicPartition
    from tanist.domain.promotions import PromotionRecord
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import ClusterSeen
    from tanist.usecases.failover.step import StepContext


NOT_ON_RECORD = "how far it was copied at the failover is not recorded"


def left_behind(
    spec: MirrorSpec, view: StateView, source: SourceSnapshot, by: Deadline
) -> dict[SourcePartition, int | TanistError]:
    """Offsets that the source's logs have behind what was copied, of each partition that took over; markers are none.

    What was rescued, decided and replayed as decided does not count.

    Of partitions that the source has more, which were never mirrored: all that it has.
    A topic that is gone there, or was made anew, has nothing that could be lacking.

    Raises:
        CouldNotTell, BrokerError: the source does not answer. AnotherCluster: its connection leads elsewhere.
    """
    topics = view.removed(spec.mirror)
    names = {topic.topic: spec.names.topic_at_source(topic.topic) for topic in topics}
    seen = source.registry(sorted(names.values()), by)
    same_as_pinned(spec, seen.cluster_id, None)
    found: dict[SourcePartition, int | TanistError] = {}
    copied: dict[SourcePartition, int] = {}
    decided = _decided(view, spec)
    for topic in topics:
        if _gone(topic, names[topic.topic], seen):
            found |= dict.fromkeys(map(spec.names.at_source, topic.all_partitions()), 0)
            continue
        ends = view.copied_up_to(spec.mirror, topic.topic)
        for at in map(spec.names.at_source, topic.all_partitions()):
            end = -1 if ends is None or at.partition >= len(ends.copied) else ends.copied[at.partition]
            if end < 0:
                found[at] = CouldNotTell(f"{at}: {NOT_ON_RECORD}")
            else:
                copied[at] = max(end, decided.get(at, 0))
    more = growth(
        (topic for topic in topics if not _gone(topic, names[topic.topic], seen)), seen.partitions, spec.names
    ).partitions
    return found | _without_copy(more, source, by) | _behind(copied, source, by)


def _decided(view: StateView, spec: MirrorSpec) -> dict[SourcePartition, int]:
    """Up to which offset the tails of the last promotions are done."""
    done = [of for of in last_tails(view, spec.mirror) if of.stage is TailStage.DONE]
    return {spec.names.at_source(of.partition_of(tail)): tail.end for of in done for tail in of.tails}


def _without_copy(
    partitions: Sequence[SourcePartition], source: SourceSnapshot, by: Deadline
) -> dict[SourcePartition, int | TanistError]:
    """Of partitions that were never mirrored, left behind by name or added since, everything they still have counts."""
    starts = source.ends(partitions, by) if partitions else {}
    errors = {at: each for at, each in starts.items() if isinstance(each, TanistError)}
    begins = {at: each.start for at, each in starts.items() if not isinstance(each, TanistError)}
    return errors | _behind(begins, source, by)


def _gone(topic: TopicDesired, name: str, seen: ClusterSeen) -> bool:
    """`name`: at the source."""
    if isinstance(seen.partitions[name], UnknownTopicOrPartition):
        return True
    now = seen.topic_ids.get(name)
    return now is not None and now != topic.source_topic_id


def _behind(
    copied: Mapping[SourcePartition, int], source: SourceSnapshot, by: Deadline
) -> dict[SourcePartition, int | TanistError]:
    ends = source.true_ends(copied, by) if copied else {}
    more = {at: (copied[at], end) for at, end in ends.items() if not isinstance(end, TanistError) and end > copied[at]}
    only_control = source.only_control(more, by) if more else {}
    found: dict[SourcePartition, int | TanistError] = {}
    for at, end in ends.items():
        markers = only_control.get(at, True)
        if isinstance(end, TanistError):
            found[at] = end
        elif isinstance(markers, TanistError):
            found[at] = markers
        else:
            found[at] = 0 if markers else end - copied[at]
    return found


_LOOK_SECONDS: Final = 0.5
_WINDOWS: Final = 3
"""Somebody who goes on writing is waited for so many times the window, and is told of then."""


def do(context: StepContext) -> Done:
    """A list, no judgement: `tanist status` goes on watching (`left_behind`)."""
    began = context.clock.monotonic()
    found = {"fences_owed": _pending_fences(context), **_seen(context)}
    waited = context.clock.monotonic() - began
    reported = attempt(lambda: _tell_source(context)) if "why" not in found else TimedOut(str(found["why"]))
    context.checkpoint("movers:told")
    context.session.mark("movers")
    return Done(found | {"source": f"not told: {reported}" if isinstance(reported, TanistError) else "told"}, waited)


def _pending_fences(context: StepContext) -> list[str]:
    return [
        each.topic
        for each in context.session.view().source_fences(context.intent.mirror)
        if each.status is FenceStatus.PENDING and context.spec.names.copy_of(each.topic) in context.intent.names
    ]


def _seen(context: StepContext) -> dict[str, Any]:
    """Who still wrote while we watched, and what the source has that was not copied, earlier writes included."""
    source = context.source
    if isinstance(source, TanistError):
        return {"still_growing": None, "why": str(source)}
    if proved := _proved_for_long(context):
        lacking = _lacking(context, source)
        if lacking["left_behind"] == {} and _still_stand(proved, source, context.clock.deadline(SOURCE_SECONDS)):
            return {"still_growing": [], "silent": True, **lacking}
    watched = attempt(lambda: _watched(context, source))
    if isinstance(watched, TanistError):
        return {"still_growing": None, "why": str(watched)}
    grown, silent = watched
    return {"still_growing": _named(grown), "silent": silent, **_lacking(context, source)}


def _proved_for_long(context: StepContext) -> tuple[FenceBefore, ...]:
    """What was there before the ACL of each topic of the run, which has held producers off for a whole window.

    One look tells then whether any has written since. Empty: not so of every topic. A fence by configuration lets small
    records pass, so producers that write once in a while are watched for.
    """
    names = {*map(context.spec.names.topic_at_source, context.intent.names)}
    latest = context.clock.now() - 1000 * context.patience.proof
    found = tuple(
        fence.before
        for fence in context.session.view().source_fences(context.intent.mirror)
        if fence.topic in names
        and fence.status is FenceStatus.PROVED
        and fence.before is not None
        and fence.before.kind is FenceKind.DENY_WRITE
        and fence.proved_at is not None
        and fence.proved_at <= latest
    )
    return found if len(found) == len(names) else ()


def _still_stand(fences: Sequence[FenceBefore], source: Cluster, by: Deadline) -> bool:
    """Whether the source has each of them now: somebody may have lifted one since it was proved."""
    stands = attempt(lambda: source.fencing.fence_status(fences, by))
    return not isinstance(stands, TanistError) and all(stands.get(each.topic) is True for each in fences)


def _lacking(context: StepContext, source: Cluster) -> dict[str, Any]:
    by, view = context.clock.deadline(SOURCE_SECONDS), context.session.view()
    behind = attempt(lambda: left_behind(context.spec, view, SourceSnapshot(cluster=source), by))
    if isinstance(behind, TanistError):
        return {"left_behind": None, "untold": str(behind)}
    copy_of, names = context.spec.names.copy_of, context.intent.names
    ours = {at: count for at, count in behind.items() if copy_of(at.topic) in names and count != 0}
    return {"left_behind": {str(at): n if isinstance(n, int) else str(n) for at, n in sorted(ours.items())}}


def _watched(context: StepContext, source: Cluster) -> tuple[set[TopicPartition], bool]:
    """Partitions that took a record, and whether none did for a whole window at last: as long as producers rest."""
    window, clock = context.patience.proof, context.clock
    watch = Watch(source.logs, [*map(context.spec.names.at_source, context.intent.partitions)])
    watch.look(clock.deadline(SOURCE_SECONDS))
    began = still = clock.monotonic()
    grown: set[TopicPartition] = set()
    while clock.monotonic() - still < window and clock.monotonic() - began < _WINDOWS * window:
        context.session.wait(min(_LOOK_SECONDS, window))
        seen = watch.look(clock.deadline(SOURCE_SECONDS))
        grown |= set(seen.data)
        still = clock.monotonic() if seen.data or seen.unreported else still
    return grown, clock.monotonic() - still >= window


def _named(partitions: Iterable[TopicPartition]) -> list[str]:
    return [str(at) for at in sorted(partitions)]


def _tell_source(context: StepContext) -> None:
    """A returning source must not resume its old life: its own state topic says that it was replaced, and where.

    Raises:
        TanistError: it does not answer, or we may not write there.
    """
    source = context.source
    if isinstance(source, TanistError):
        raise source
    by = context.clock.deadline(2 * SOURCE_SECONDS)
    source.topics.cluster_id(context.clock.deadline(SOURCE_SECONDS))
    with closing(source.open_store(STATE_TOPIC, context.intent.mirror, by, create=True)) as store:
        records: tuple[PromotionRecord, ...] = (
            *generations(context.intent, context.spec),
            *of_run(context.session.view(), context.intent),
        )
        if missing := tuple(unreported(store.catch_up(by), records)):
            store.append(missing, by)
