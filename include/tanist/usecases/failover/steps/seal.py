"""The barrier: the point of no return is on record first, then every old writer is shut out, and that is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError
from tanist.domain.names import TopicPartition
from tanist.domain.records import CopiedUpTo
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.ports.sealing import Kept
from tanist.usecases.failover.last_look import last_look
from tanist.usecases.failover.observe import raise_first
from tanist.usecases.failover.work import Done, NotDrainedYet, must_all
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from tanist.domain.anchoring import ProducerIds
    from tanist.domain.names import DestinationOffset
    from tanist.usecases.failover.work import Work

LOOKED_SECONDS: Final = 3.0
"""A look that is older says what was before this process was frozen: approval, fence and drain are looked at again."""


def do(work: Work) -> Done:
    """Asks nothing of the source. What is sealed already gets nothing more."""
    if not work.record.no_return:
        last_look(work)
        looked = work.context.clock.monotonic()
        work.write(_copied(work))
        if work.context.clock.monotonic() - looked > LOOKED_SECONDS:
            raise NotDrainedYet(f"the clusters were last observed more than {LOOKED_SECONDS:.0f} s ago")
        work.save(no_return=True)
    work.tools.checkpoint("seal:no-return")
    writers = work.clusters.spec.producer_ids
    open_yet = [each.partition for each in work.facts.partitions if each.producer_fenced is not True]
    work.confirm()
    ends = work.clusters.destination.sealing.fence_producers(dict.fromkeys(open_yet, writers), work.context.by)
    must_all({at: _named(work, end) for at, end in ends.items()}, "partition(s) could not be fenced")
    work.tools.checkpoint("seal:sealed")
    by_marker_alone = _keep(work, writers)
    work.mark("kept")
    return Done({"ends": {str(at): end for at, end in ends.items()}, "by_marker_alone": by_marker_alone})


def _named(work: Work, end: DestinationOffset | TanistError) -> TanistError | None:
    right = "ALTER or CLUSTER_ACTION on Cluster kafka-cluster"
    return named(end, work.clusters.destination, right) if isinstance(end, TanistError) else None


def _copied(work: Work) -> list[CopiedUpTo]:
    """As it was last seen: the first barrier adds offsets of our own."""
    copied = {each.partition: each.copied for each in work.facts.partitions}
    spec, now = work.clusters.spec, work.context.clock.now()
    found = []
    for topic in work.intent.topics:
        ends = (copied.get(TopicPartition(topic.topic, n)) for n in range(topic.partitions))
        known = tuple(-1 if end is None else int(end) for end in ends)
        found.append(CopiedUpTo(mirror=spec.mirror, mirror_id=spec.mirror_id, topic=topic.topic, copied=known, at=now))
    return found


def _keep(work: Work, producer_ids: ProducerIds) -> dict[str, str]:
    """Before anybody can write, so the last value of a key is still the last one when it is repeated.

    What cannot be repeated is told, and by `tanist status` as well: there is no way back any more.
    """
    partitions = _compacted(work)
    work.confirm()
    answers = work.clusters.destination.sealing.keep(dict.fromkeys(partitions, producer_ids), work.context.by)
    if failed := [f"{at}: {why}" for at, why in answers.items() if isinstance(why, TanistError) and why.retriable]:
        raise NotDrainedYet(
            f"{len(failed)} producer fence(s) of compacted topics are not durable yet: {'; '.join(failed[:3])}"
        )
    if bare := [str(at) for at, kept in answers.items() if kept is Kept.BARE]:
        raise NotDrainedYet(
            f"{len(bare)} producer fence(s) of compacted topics are not durable yet: {', '.join(bare[:3])}"
        )
    empty = {str(at): "the partition has no record with a key" for at, kept in answers.items() if kept is Kept.EMPTY}
    return empty | {str(at): str(why) for at, why in answers.items() if isinstance(why, TanistError)}


def _compacted(work: Work) -> tuple[TopicPartition, ...]:
    """Of topics that are compacted, or will be once they are configured as at the source."""
    own = work.clusters.destination.sealing.compacted(work.intent.names, work.context.by)
    raise_first(own)
    held = {topic.topic for topic in work.wanted() if "compact" in dict(topic.deferred_configs).get(CLEANUP_POLICY, "")}
    return tuple(at for at in work.intent.partitions if at.topic in held or own[at.topic] is True)
