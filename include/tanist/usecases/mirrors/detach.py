"""`tanist mirrors remove --keep-copy`: topics leave a mirror without a failover; their copies stay closed.

Nothing is asked of the source, and nothing is changed there: it may be down, and its producers go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.detached import CopyStillThere, TopicIsDetached, detach, detached_topics, forgotten, is_its_copy
from tanist.domain.errors import TanistError, TopicNotInMirror
from tanist.domain.problems import refuse
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.lock import changing
from tanist.usecases.mirror import identify, same_as_pinned, spec_at
from tanist.usecases.mirrors import writers
from tanist.usecases.mirrors.desire import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.detached_record import TopicDetached
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """The topics that were detached, or would be in a dry run."""

    spec: MirrorSpec
    topics: tuple[TopicDesired, ...]


def to_detach(view: StateView, mirror: MirrorName, topics: Selection) -> tuple[TopicDesired, ...]:
    """The topics of `mirror` that `topics` selects, all of which can be detached.

    Raises:
        TopicNotInMirror: an expression matches no topic of the mirror, or one that was failed over.
        TopicIsDetached: or one that is detached. Problems: several of these.
    """
    inside = {each.topic: each for each in view.mirrored(mirror) if not view.promoted(mirror, each.topic)}
    left = {each.topic for each in view.topics(mirror)} - inside.keys()
    apart = {each.topic for each in detached_topics(view, mirror)}
    found = topics.chosen({*inside, *left, *apart}, f"topic of mirror {mirror!r}")
    problems: list[TanistError] = [
        TopicNotInMirror(f"{name!r} was failed over: mirror {mirror!r} does not copy it any more")
        for name in found
        if name in left
    ]
    problems += [
        TopicIsDetached(f"{name!r} of mirror {mirror!r} is detached already") for name in found if name in apart
    ]
    if problems:
        refuse(problems)
    return tuple(inside[name] for name in found)


def detach_topics(mirror: str, topics: Selection, destination: Cluster, context: CommandContext) -> Detached:
    """Take topics out of a mirror and keep their copies, closed as they are; changes nothing if any of them cannot.

    Raises:
        UnknownMirror. MirrorLocked: a failover or a reversal of the mirror is unfinished, or another command changes
        it. Otherwise as `to_detach`.
    """
    name = checked(mirror, topics)
    (cluster_id,) = identify((destination,), context)

    def decided(view: StateView) -> tuple[TopicDesired, ...]:
        return to_detach(view, name, topics)

    with changing(destination, name, "mirrors remove --keep-copy", context, decided) as mirror_now:
        spec, view, now = mirror_now.spec, mirror_now.view(), context.clock.now()
        same_as_pinned(spec, None, cluster_id)
        leaving = decided(view)
        context.announce([each.topic for each in leaving])
        mirror_now.append([record for each in leaving for record in detach(each, spec, view, now)])
    return Detached(spec=spec, topics=leaving)


# ── giving a copy up ──────────────────────────────────────────────────────────────────────────────────────────────


def to_forget(view: StateView, mirror: MirrorName, topics: Selection) -> tuple[TopicDetached, ...]:
    """The detached topics that `topics` selects; none if it selects a topic that is in the mirror as well.

    Then it is a failover that is asked for, and its plan says that they are detached.
    """
    inside = [each.topic for each in view.topics(mirror)]
    apart = {each.topic: each for each in detached_topics(view, mirror)}
    if topics.unmatched({*inside, *apart}) or topics.among(inside):
        return ()
    return tuple(apart[name] for name in topics.among(apart))


def forget_detached(
    mirror: str,
    topics: Selection,
    destination: Cluster,
    connect: Callable[[str], Cluster],
    context: CommandContext,
) -> Detached | None:
    """Forget detached topics whose copies were deleted; None: `topics` selects others.

    `connect` opens the source by its name, which has the copies of topics that were detached before a reversal.

    Raises:
        CopyStillThere: a copy exists. What the cluster that had one raises if it does not answer. Otherwise as
        `detach_topics`.
    """
    name = checked(mirror, topics)
    spec = spec_at(destination, name, context)
    if not to_forget(destination.state(STATE_TOPIC, context.by), name, topics):
        return None

    def decided(view: StateView) -> tuple[TopicDetached, ...]:
        found = to_forget(view, name, topics)
        for cluster, had in holders(found):
            must_be_gone(had, spec, cluster, context.by)
        return found

    def holders(found: Sequence[TopicDetached]) -> list[tuple[Cluster, list[TopicDetached]]]:
        """By the cluster that has or had their copies."""
        here = [each for each in found if each.cluster_id == spec.destination_cluster_id]
        away = [each for each in found if each.cluster_id != spec.destination_cluster_id]
        held = [(destination, here)] if here else []
        if away:
            held.append((source := connect(spec.source), away))
            (source_id,) = identify((source,), context)
            same_as_pinned(spec, source_id, None)
        return held

    with changing(destination, name, "mirrors remove", context, decided) as mirror_now:
        gone = decided(mirror_now.view())
        context.announce([each.topic for each in gone])
        if not context.dry_run:
            mirror_now.confirm()
            for cluster, had in holders(gone):
                writers.allow([each.kept for each in had], cluster, context.by)
        mirror_now.append(forgotten(gone))
    return Detached(spec=spec, topics=tuple(each.kept for each in gone))


def must_be_gone(detached: Iterable[TopicDetached], spec: MirrorSpec, cluster: Cluster, by: Deadline) -> None:
    """Raises CopyStillThere, or several: `cluster`, which had the copies of `detached`, still has one.

    So nothing is forgotten that keeps a copy closed, or says that it is one.
    """
    if left := copies_at(cluster, detached, by):
        why = f"is detached from mirror {spec.mirror!r}, and its copy is at {cluster.name!r}"
        refuse(CopyStillThere(f"{topic!r} {why}") for topic in left)


def copies_at(cluster: Cluster, detached: Iterable[TopicDetached], by: Deadline) -> tuple[str, ...]:
    """Those whose copies `cluster` has, which had them all; not where it has another topic of that name.

    Raises what the cluster raises instead of describing one.
    """
    apart = {each.topic: each for each in detached}
    found: list[str] = []
    for name, facts in (cluster.topics.describe([*apart], by) if apart else {}).items():
        if isinstance(facts, UnknownTopicOrPartition):
            continue
        if isinstance(facts, TanistError):
            raise facts
        if is_its_copy(apart[name], facts.topic_id):
            found.append(name)
    return tuple(found)
