"""Detached topics: they have left their mirror without a failover, and their copies stay closed and as they are.

Nothing is fenced at the source, so its producers go on. A detached topic has no desired state, so no worker copies it,
also none of an earlier version. What its mirror knew of it is kept in one record, from which it can be added again.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.detached_record import TopicDetached
from tanist.domain.errors import Refused
from tanist.domain.filled import exactly
from tanist.domain.names import iso_time
from tanist.domain.records import STATE_PARTITIONS
from tanist.domain.state_record import Tombstone, state_partition_of
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import MirrorSpec, PartitionObserved, TopicDesired
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView


class TopicIsDetached(Refused):
    name = "TOPIC_DETACHED"
    operator_action = (
        "add it to the mirror again first (`tanist mirrors add`), or leave it out with --exclude; nothing was changed"
    )


class TopicIsDetachedElsewhere(TopicIsDetached):
    operator_action = (
        "reverse the mirror first (docs/failback.md), so that its destination has the copy; or delete the copy, then "
        "`tanist mirrors remove` forgets it; or leave the topic out with --exclude; nothing was changed"
    )


class CopyStillThere(Refused):
    name = "DETACHED_COPY_EXISTS"
    operator_action = (
        "to give the copy up, delete it at that cluster, then run the same command again; to open it, add the topic "
        "again (`tanist mirrors add`) while that cluster is the destination, then remove it; nothing was changed"
    )


def detached_topics(view: StateView, mirror: MirrorName) -> tuple[TopicDetached, ...]:
    """The detached topics of a mirror, by name.

    `view`: of the state topic of its destination. A topic that is in the mirror is none.
    """
    found = (each for each in view.detached(mirror) if view.topic(mirror, each.topic) is None)
    return tuple(sorted(found, key=lambda each: each.topic))


def detached_here(view: StateView, spec: MirrorSpec) -> dict[str, TopicDetached]:
    """By name, those whose copies are at the destination that the mirror has now, so they can be added again."""
    found = detached_topics(view, spec.mirror)
    return {each.topic: each for each in found if each.cluster_id == spec.destination_cluster_id}


def detached_elsewhere(view: StateView, spec: MirrorSpec) -> dict[str, TopicDetached]:
    """By name, those whose copies are at the cluster that is the source now, as the mirror was reversed since.

    Nothing can be done with them before it is reversed again, but to give their copies up.
    """
    here = detached_here(view, spec)
    return {each.topic: each for each in detached_topics(view, spec.mirror) if each.topic not in here}


def is_its_copy(detached: TopicDetached, topic_id: str) -> bool:
    """Whether a topic of its name, at the cluster that had its copy, is that copy; an id that is unknown counts so."""
    known = {each.topic_id for each in detached.observed if each.topic_id}
    return not known or not topic_id or topic_id in known


def detached_from(view: StateView, besides: MirrorName) -> dict[str, MirrorName]:
    """Which mirror has detached each topic of a destination: it alone knows whom the closed copy denies WRITE.

    `besides`: the mirror that may have it again.
    """
    others = (each for each in view.mirrors() if each.mirror != besides)
    return {topic: each.mirror for each in others for topic in detached_here(view, each)}


def since(detached: TopicDetached) -> str:
    """A detached topic, and since when it is one, for people."""
    return f"{detached.topic} (since {iso_time(detached.at)})"


def attach_command(spec: MirrorSpec, topic: str) -> str:
    """What adds a detached topic again, to be typed."""
    where = ("--destination", spec.destination, "--topic", exactly(topic))
    return shlex.join(("tanist", "mirrors", "add", spec.mirror, *where))


def way_on(spec: MirrorSpec, topic: str) -> str:
    """How a detached topic is copied again, for people."""
    command = attach_command(spec, topic)
    if spec.is_mapped:
        return f"delete it at {spec.destination}, then `{command}` copies it from its start"
    return f"`{command}` goes on where it stopped"


def explained(detached: TopicDetached, spec: MirrorSpec) -> str:
    """What has become of a detached topic, and the command that goes on with it, for people."""
    state = f"detached since {iso_time(detached.at)}: nothing is copied to it, and it is closed to writers"
    if detached.cluster_id != spec.destination_cluster_id:
        return f"{state}; its copy is at {spec.source!r}, which is the source of the mirror now"
    return f"{state}; {way_on(spec, detached.topic)}"


def refusal(detached: TopicDetached, spec: MirrorSpec) -> TopicIsDetached:
    """Why nothing is done with a detached topic, and what to do first."""
    here = detached.cluster_id == spec.destination_cluster_id
    kind = TopicIsDetached if here else TopicIsDetachedElsewhere
    return kind(f"{detached.topic!r} is {explained(detached, spec)}")


# ── leaving, and coming back ──────────────────────────────────────────────────────────────────────────────────────


def detach(topic: TopicDesired, spec: MirrorSpec, view: StateView, now: EpochMs) -> tuple[StateRecord, ...]:
    """What is written so that `topic` leaves the mirror, in one transaction: workers let its partitions go."""
    observed = tuple(_observed(topic, spec, view))
    record = TopicDetached(
        mirror=topic.mirror,
        mirror_id=topic.mirror_id,
        topic=topic.topic,
        cluster_id=spec.destination_cluster_id,
        kept=topic,
        observed=observed,
        at=now,
        data_id=spec.data_id,
    )
    return (record, Tombstone(topic.key), *(Tombstone(each.key) for each in observed))


def _observed(topic: TopicDesired, spec: MirrorSpec, view: StateView) -> Iterator[PartitionObserved]:
    """With how far each partition was copied, which workers keep only of what they own."""
    for at in topic.all_partitions():
        if (seen := view.observed(topic.mirror, at)) is None:
            continue
        progress = view.progress(spec, state_partition_of(spec.mirror, at, STATE_PARTITIONS), at)
        until, epoch = progress.record or (None, None)
        yield replace(seen, copied_until=progress.copied_until, record_until=until, record_epoch=epoch)


def attach(
    detached: TopicDetached, wanted: TopicDesired, spec: MirrorSpec
) -> tuple[TopicDesired, tuple[StateRecord, ...]]:
    """A detached topic that comes back: its desired state, and the states of its partitions.

    `wanted`: as a new topic, whose `copy_starts` are the ends of the copy; empty: the copy is gone, or was never
    written to, so it is copied from its start. A later log is no history: this mirror has written it. Each partition
    is UNKNOWN until a worker has compared both logs, whatever it was before. Whom it denies WRITE stays on record.
    One that was paused is paused.

    If the mirror was reversed since, and reversed again, it has other producer ids and no offset map of the copy any
    more: all of that is history, as of a topic that is adopted.
    """
    kept = detached.kept
    topic = replace(
        wanted,
        desired=kept.desired,
        denied=kept.denied,
        given_at_source=kept.given_at_source,
        resumes=kept.resumes,
    )
    if not wanted.copy_starts or detached.data_id != spec.data_id:
        return topic, ()
    starts = tuple(min(end, kept.copy_start(n)) for n, end in enumerate(wanted.copy_starts)) if kept.copy_starts else ()
    back = (
        replace(each, state=MirrorState.UNKNOWN, row=0, error=None, reason="added again") for each in detached.observed
    )
    return replace(topic, copy_starts=starts), tuple(back)


def as_before(records: Iterable[StateRecord], names: Container[str]) -> tuple[StateRecord, ...]:
    """`records` of one mirror, in which those of its detached topics that `names` has are in the mirror again.

    So a restoration treats those that were failed over since as it treats every topic.
    """
    found: list[StateRecord] = []
    for each in records:
        if isinstance(each, TopicDetached) and each.topic in names:
            found += (each.kept, *each.observed)
        else:
            found.append(each)
    return tuple(found)


def forgotten(detached: Iterable[TopicDetached]) -> tuple[StateRecord, ...]:
    """What is written so that these topics are detached no more."""
    return tuple(Tombstone(each.key) for each in detached)
