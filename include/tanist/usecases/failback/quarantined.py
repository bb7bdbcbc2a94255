"""Whether quarantine topics still have what was rescued into them: other clients may delete records, or the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import Refused, TanistError
from tanist.domain.failback.pending import last_tails
from tanist.domain.names import ProducerId, TopicPartition
from tanist.domain.problems import refuse
from tanist.ports.tails import TailCopy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PartitionTail, TopicTails
    from tanist.ports.clock import Deadline
    from tanist.usecases.mirror import ReturnedMirror


class QuarantineChanged(Refused):
    name = "QUARANTINE_CHANGED"
    operator_action = (
        "`tanist failback rescue` copies the records of undecided tails again, as far as the old source still has "
        "them; nothing was changed"
    )


def copy_of(tails: TopicTails, tail: PartitionTail) -> TailCopy:
    """Where a tail is copied from and to."""
    return TailCopy(
        source=tails.partition_of(tail),
        cluster_id=tails.cluster_id,
        begin=tail.common_end,
        end=tail.end,
        into=TopicPartition(tails.quarantine, tail.partition),
        start=max(0, tail.copied_from),
        producer_id=ProducerId(tails.producer_id),
    )


def missing(clusters: ReturnedMirror, tails: TopicTails, by: Deadline) -> tuple[str, ...]:
    """The quarantine partitions that do not have all offsets that were rescued into them, with the reason.

    Raises:
        BrokerError, CouldNotTell: the new primary does not answer.
    """
    begun = [each for each in tails.with_records() if each.copied_from >= 0]
    ends = clusters.destination.logs.ends([copy_of(tails, each).into for each in begun], by)
    found = []
    for each in begun:
        at, answer = copy_of(tails, each).into, ends[copy_of(tails, each).into]
        if isinstance(answer, UnknownTopicOrPartition):
            found.append(f"{at} does not exist any more")
        elif isinstance(answer, TanistError):
            raise answer
        elif answer.start > each.copied_from or answer.high_watermark < max(each.copied_from, each.copied_to):
            rescued = f"{each.copied_from} to {max(each.copied_from, each.copied_to)}"
            found.append(f"{at} has offsets {answer.start} to {answer.high_watermark}, rescued were {rescued}")
    return tuple(found)


def ensure_present(clusters: ReturnedMirror, tails: Iterable[TopicTails], by: Deadline) -> None:
    """Raises QuarantineChanged if quarantine topics do not have all offsets that were rescued into them."""
    if wrong := [reason for of in tails for reason in missing(clusters, of, by)]:
        refuse(QuarantineChanged(reason) for reason in wrong)


def altered_topics(clusters: ReturnedMirror, view: StateView, names: Collection[str], by: Deadline) -> dict[str, str]:
    """Of the last promotions of these topics those whose rescued records are not in quarantine any more, and why.

    Raises as `altered`.
    """
    known = [of for of in last_tails(view, clusters.spec.mirror) if of.topic in names]
    found = {of.topic: "; ".join(altered(clusters, of, by)) for of in known}
    return {topic: reasons for topic, reasons in found.items() if reasons}


def altered(clusters: ReturnedMirror, tails: TopicTails, by: Deadline) -> Iterator[str]:
    """The partitions whose rescued records are not in quarantine as they were rescued; all of them are read.

    Raises:
        BrokerError, CouldNotTell: the new primary does not answer.
    """
    if reasons := missing(clusters, tails, by):
        yield from reasons
        return
    for each in tails.with_records():
        copy = copy_of(tails, each)
        found = clusters.pair.quarantine.rescued(copy, by)
        if found.digest != each.digest:
            yield f"{copy.into} has {found.records} of {each.records} rescued records, or others"
