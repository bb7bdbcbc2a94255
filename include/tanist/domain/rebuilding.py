"""Which producer ids a mirror has used, told from its logs alone, after its state was lost.

The data id is the producer at the end of logs that are true prefixes of their sources. The gap markers' id has written
control batches only. The id that fills a log up to its start is never needed again, so a new one takes its place.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.adoption import LAST_EPOCH, MirrorTopicPromoted
from tanist.domain.errors import Refused, TanistError
from tanist.domain.names import ProducerId
from tanist.domain.records import STATE_PARTITIONS, Claim
from tanist.domain.state_partitions import state_partition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tanist.domain.log_writers import LogWriters
    from tanist.domain.names import MirrorName, TopicPartition

_SHOWN = 5
_WRITER = "state rebuild"


class NoMirrorProducer(Refused):
    name = "NO_MIRROR_PRODUCER"
    operator_action = "take these topics with `tanist mirrors create --adopt` instead; nothing was changed"


class SeveralMirrorProducers(Refused):
    name = "SEVERAL_MIRROR_PRODUCERS"
    operator_action = "rebuild one mirror for each producer id, with its topics as --topic; nothing was changed"


class UsedIds(NamedTuple):
    """The data id and the gap markers' id of a mirror; None: no log shows that one."""

    data: ProducerId
    marker: ProducerId | None


def used_ids(logs: Mapping[TopicPartition, LogWriters]) -> UsedIds:
    """The ids that one mirror has written these logs with.

    Raises:
        NoMirrorProducer: no log ends with records of an idempotent producer. SeveralMirrorProducers.
    """
    by_id: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for at, log in logs.items():
        if (writer := _last_writer(log)) is not None:
            by_id[writer].append(at)
    if not by_id:
        raise NoMirrorProducer("none of the logs ends with records that a mirror has copied")
    if len(by_id) > 1:
        each = (f"{number}: {_named(partitions)}" for number, partitions in sorted(by_id.items()))
        raise SeveralMirrorProducers(f"the logs end with records of several producer ids ({'; '.join(each)})")
    (data,) = by_id
    return UsedIds(ProducerId(data), _marker(logs.values(), data))


def promoted(logs: Mapping[TopicPartition, LogWriters], ids: UsedIds) -> Iterator[TanistError]:
    """The partitions whose producers are fenced: they were failed over."""
    marker = ProducerId(-1) if ids.marker is None else ids.marker
    for at, log in logs.items():
        if why := log.fence(ids.data, marker):
            yield MirrorTopicPromoted(f"{at}: {why}")


def claims(logs: Mapping[TopicPartition, LogWriters], ids: UsedIds, mirror: MirrorName) -> dict[int, Claim]:
    """The last lease of each state partition that the gap markers in the logs show, by state partition."""
    epochs: defaultdict[int, int] = defaultdict(int)
    for at, log in logs.items():
        seen = [each.producer_epoch for each in log.last if each.producer_id == ids.marker]
        seen += [each.producer_epoch for each in log.producers if each.producer_id == ids.marker]
        if known := [epoch for epoch in seen if 0 < epoch < LAST_EPOCH]:
            number = state_partition_of(mirror, at, STATE_PARTITIONS)
            epochs[number] = max(epochs[number], *known)
    return {number: Claim(state_partition=number, epoch=epoch, worker=_WRITER) for number, epoch in epochs.items()}


def _last_writer(log: LogWriters) -> int | None:
    """The producer of the last records; None: there are none, or no engine of a mirror has written them."""
    last = next((span for span in reversed(log.last) if not span.control), None)
    return None if last is None or last.transactional or last.producer_id < 0 else last.producer_id


def _marker(logs: Iterable[LogWriters], data: int) -> ProducerId | None:
    """The only producer that has written nothing but control batches: in the logs, or else as leaders remember.

    One that is fenced belonged to an earlier promotion.
    """
    found = tuple(logs)
    seen = {each.producer_id for log in found for each in log.last if each.control and each.producer_epoch < LAST_EPOCH}
    remembered = {each.producer_id for log in found for each in log.producers if each.producer_epoch < LAST_EPOCH}
    for candidates in (seen, remembered):
        markers = {each for each in candidates - {data} if not any(log.writes_records(each) for log in found)}
        if len(markers) == 1:
            return ProducerId(markers.pop())
    return None


def _named(partitions: Iterable[TopicPartition]) -> str:
    names = sorted(str(at) for at in partitions)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
