"""The bounds of a comparison: both logs are asked once, in the order that `domain.validation.bounds` tells."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import CouldNotTell, TanistError, TopicReplaced
from tanist.domain.latest import take
from tanist.domain.log_ends import LogEnds
from tanist.domain.names import SourceOffset, TopicPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_view import StateView
from tanist.domain.validation.bounds import ComparisonBounds
from tanist.kafka.protocol.record_set import records_in
from tanist.kafka.protocol.stored import Unreadable, decode
from tanist.kafka.wire.requests import readable_ends
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist.spark.columns import body_of
from tanist.spark.reading import read
from tanist.spark.spans import LogSpan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from uuid import UUID

    from tanist.domain.names import MirrorName
    from tanist.domain.state_record import StateRecord
    from tanist.domain.validation.job import PartitionRequest, ValidationJob


def promoted(router: Router, mirror: MirrorName, topics: Collection[str], by: Deadline) -> frozenset[str]:
    """Those of `topics` that `mirror` has promoted or removed. None, if the cluster has no state topic.

    Raises:
        TanistError: the state topic cannot be read to its end.
    """
    router.refresh([STATE_TOPIC], by)
    found = router.topics()[STATE_TOPIC]
    if isinstance(found.error, UnknownTopicOrPartition):
        return frozenset()
    if found.error is not None:
        raise found.error
    held: dict[str, StateRecord] = {}
    logs = [TopicPartition(STATE_TOPIC, each.partition) for each in found.partitions]
    for at, ends in readable_ends(router, logs, by).items():
        if isinstance(ends, TanistError):
            raise ends
        span = LogSpan(partition=at, start=ends.start, until=ends.last_stable)
        for record in _records(router, span, by):
            take(held, record)
    view = StateView(held)
    return frozenset(topic for topic in topics if view.promoted(mirror, topic))


def _records(router: Router, span: LogSpan, by: Deadline) -> Iterator[StateRecord]:
    for answer in read(router, span, by.left(time.monotonic())):
        for each in answer:
            if not each.seen:
                continue
            for record in records_in(each.header, bytes(body_of(each.header, each.batch))):
                stored = decode(record.key or b"", record.value)
                if not isinstance(stored, Unreadable):
                    yield stored


Fixed: TypeAlias = "dict[TopicPartition, ComparisonBounds | TanistError]"
ANSWER_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.3


def fix(job: ValidationJob) -> Fixed:
    """The bounds of every partition, or why there are none. A cluster that does not answer is a reason for all."""
    at = [asked.partition for asked in job.partitions]
    there = [asked.source for asked in job.partitions]
    copies = {asked.source.topic: asked.partition.topic for asked in job.partitions}
    with ExitStack() as stack:
        source, copy = (
            stack.enter_context(closing(Router(endpoint, "tanist-validation")))
            for endpoint in (job.source, job.destination)
        )
        ids = topic_ids(source, there), topic_ids(copy, at)
        ours = _by_copy(ends_of(source, there), job)
        theirs = _settled(copy, job, ours)
        later = _by_copy(ends_of(source, there), job)
        another = {copies[name]: why for name, why in replaced(source, there, ids[0]).items() if name in copies}
        moved = another | replaced(copy, at, ids[1]) | _promoted(copy, job)
    return {
        asked.partition: moved.get(asked.partition.topic)
        or _bounds(asked, (ids[0].get(asked.source.topic), ids[1].get(asked.partition.topic)), ours, theirs, later)
        for asked in job.partitions
    }


def _by_copy(
    found: Mapping[TopicPartition, LogEnds | TanistError], job: ValidationJob
) -> dict[TopicPartition, LogEnds | TanistError]:
    """What the source has told, by the names of the copies."""
    return {asked.partition: found[asked.source] for asked in job.partitions}


def replaced(router: Router, at: Sequence[TopicPartition], known: Mapping[str, UUID | None]) -> dict[str, TanistError]:
    """Topics that are others now than `known`, before their ends were read: those ends may be of the new ones.

    No task would find that out of a topic that is still empty: there is nothing to read of it.
    """
    return {
        name: TopicReplaced(f"topic {name!r} was deleted and created again while its ends were read")
        for name, topic_id in topic_ids(router, at).items()
        if topic_id and known.get(name, topic_id) not in {None, topic_id}
    }


def _promoted(copy: Router, job: ValidationJob) -> dict[str, TanistError]:
    """Topics that were failed over since the job was made, or of which that cannot be told.

    Clients may have written to such a topic before its end was read, and what they wrote would count as extra. Topics
    that are failed over later do not matter: the end lies before what clients write.
    """
    topics = {asked.partition.topic for asked in job.partitions if not asked.promoted}
    try:
        found = promoted(copy, job.mirror, topics, Deadline(time.monotonic() + 3 * ANSWER_SECONDS))
    except TanistError as unread:
        return dict.fromkeys(topics, unread)
    return {name: CouldNotTell(f"topic {name!r} was failed over meanwhile: run the command again") for name in found}


def _bounds(
    request: PartitionRequest,
    ids: tuple[UUID | None, UUID | None],
    ours: Mapping[TopicPartition, LogEnds | TanistError],
    theirs: Mapping[TopicPartition, LogEnds | TanistError],
    later: Mapping[TopicPartition, LogEnds | TanistError],
) -> ComparisonBounds | TanistError:
    at = request.partition
    source, destination, after = ours[at], theirs[at], later[at]
    if isinstance(source, TanistError):
        return source
    if isinstance(destination, TanistError):
        return destination
    if isinstance(after, TanistError):
        return after
    begins = replace(source, start=after.start)
    return ComparisonBounds(
        request=request, source=begins, destination=destination, later=after.last_stable, topic_ids=ids
    )


def _settled(
    copy: Router, job: ValidationJob, ours: Mapping[TopicPartition, LogEnds | TanistError]
) -> Mapping[TopicPartition, LogEnds | TanistError]:
    """The ends of the copy, once it has reached what its source had, or had time for it."""
    by = Deadline(time.monotonic() + job.settle_seconds)
    wanted = {
        asked.partition: asked.map.locate(SourceOffset(ends.last_stable))
        for asked in job.partitions
        if isinstance(ends := ours[asked.partition], LogEnds)
    }
    while True:
        theirs = ends_of(copy, [asked.partition for asked in job.partitions])
        behind = [
            at for at, end in wanted.items() if isinstance(seen := theirs[at], LogEnds) and seen.last_stable < end
        ]
        if not behind or not by.left(time.monotonic()):
            return theirs
        copy.pause(_PAUSE_SECONDS, by)


def ends_of(router: Router, at: Sequence[TopicPartition]) -> Mapping[TopicPartition, LogEnds | TanistError]:
    """The ends of each log, or why they could not be had."""
    try:
        found = readable_ends(router, at, Deadline(time.monotonic() + 3 * ANSWER_SECONDS))
    except CouldNotTell as silent:
        return dict.fromkeys(at, silent)
    return found


def topic_ids(router: Router, at: Sequence[TopicPartition]) -> Mapping[str, UUID | None]:
    """By name; None: its brokers are older than 2.8. What is asked next tells of a cluster that does not answer."""
    try:
        router.refresh(sorted({each.topic for each in at}), Deadline(time.monotonic() + ANSWER_SECONDS))
    except CouldNotTell:
        return {}
    return {name: topic.topic_id for name, topic in router.topics().items()}
