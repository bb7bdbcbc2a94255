"""Who has written a mirror partition, as its log and its leader show it, and who may claim it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Self

from tanist.domain.adoption import MirrorTopicPromoted
from tanist.domain.errors import Refused, TanistError
from tanist.domain.gap_markers import LAST_EPOCH
from tanist.domain.names import ProducerId
from tanist.domain.problems import about
from tanist.domain.records import STATE_PARTITIONS, Claim
from tanist.domain.state_record import state_partition_of
from tanist.domain.writer_identity import ProducerIds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tanist.domain.names import MirrorName, MirrorPartition


class WrittenSpan(NamedTuple):
    """A batch of a log, by its header. `producer_id`: -1 if its producer was not idempotent."""

    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    control: bool
    transactional: bool


class KnownProducer(NamedTuple):
    """A producer that the leader remembers; `wrote_records`: not only markers."""

    producer_id: int
    producer_epoch: int
    wrote_records: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWriters:
    """The writers of a log that begins at `start` and ends at `end`.

    `last`: the batches with which it ends, read so far back that they
    contain one of records, or that there is nothing before them. `producers`: whom the leader remembers.
    """

    start: int
    end: int
    last: tuple[WrittenSpan, ...] = ()
    producers: tuple[KnownProducer, ...] = ()

    def since(self, offset: int) -> Self:
        """Without the batches that begin before `offset`."""
        return replace(self, last=tuple(span for span in self.last if span.base_offset >= offset))

    def writes_records(self, producer_id: int) -> bool:
        """Whether a producer has written records here, as far as the log's end or its leader shows it."""
        spans = any(span.producer_id == producer_id and not span.control for span in self.last)
        return spans or any(each.producer_id == producer_id and each.wrote_records for each in self.producers)

    def fence(self, writer: ProducerIds) -> str | None:
        """What shows that this writer is fenced; None: nothing does."""
        for span in self.last:
            if writer.is_fenced_by(span.producer_id, span.producer_epoch):
                return f"there is a producer fence at offset {span.base_offset}"
        for producer in self.producers:
            if writer.is_fenced_by(producer.producer_id, producer.producer_epoch):
                return f"producer id {producer.producer_id} is fenced"
        return None

    def written_behind(self, end: int, producer_id: int | None = None) -> str | None:
        """What shows that somebody else wrote behind `end`, up to where a mirror with mapped offsets copied; or None.

        Its own records behind it are those of transactions that were aborted, and those of `producer_id`, which is not
        None if it delivers at least once.
        """
        for span in self.last:
            ours = span.control or span.transactional or span.producer_id == producer_id
            if span.base_offset >= end and not ours:
                return f"somebody else wrote at offset {span.base_offset}, behind its copied records"
        return None


_SHOWN = 5
_WRITER = "state rebuild"


class NoMirrorProducer(Refused):
    name = "NO_MIRROR_PRODUCER"
    operator_action = "take these topics with `tanist mirrors create --adopt` instead; nothing was changed"


class SeveralMirrorProducers(Refused):
    name = "SEVERAL_MIRROR_PRODUCERS"
    operator_action = "rebuild one mirror for each producer id, with its topics as --topic; nothing was changed"

    def __init__(self, by_id: Mapping[int, Sequence[MirrorPartition]]) -> None:
        each = "; ".join(f"{number}: {_named(partitions)}" for number, partitions in sorted(by_id.items()))
        super().__init__(f"the logs end with records of several producer ids ({each})")
        self.topics = {
            number: tuple(dict.fromkeys(at.topic for at in sorted(partitions)))
            for number, partitions in sorted(by_id.items())
        }
        """Those of each producer id."""


class UsedIds(NamedTuple):
    """The data id and the gap markers' id of a mirror; None: no log shows that one."""

    data: ProducerId
    marker: ProducerId | None


def used_ids(logs: Mapping[MirrorPartition, LogWriters]) -> UsedIds:
    """The ids that one mirror has written these logs with.

    Raises:
        NoMirrorProducer: no log ends with records of an idempotent producer. SeveralMirrorProducers.
    """
    by_id: defaultdict[int, list[MirrorPartition]] = defaultdict(list)
    for at, log in logs.items():
        if (writer := _last_writer(log)) is not None:
            by_id[writer].append(at)
    if not by_id:
        raise NoMirrorProducer("none of the logs ends with records that a mirror has copied")
    if len(by_id) > 1:
        raise SeveralMirrorProducers(by_id)
    (data,) = by_id
    return UsedIds(ProducerId(data), _marker(logs.values(), data))


def promoted(logs: Mapping[MirrorPartition, LogWriters], ids: UsedIds) -> Iterator[TanistError]:
    """The partitions whose producers are fenced: they were failed over."""
    none = ProducerId(-1)
    writer = ProducerIds(ids.data, none if ids.marker is None else ids.marker, none)
    for at, log in logs.items():
        if why := log.fence(writer):
            yield about(at.topic, MirrorTopicPromoted(f"{at}: {why}"))


def claims(logs: Mapping[MirrorPartition, LogWriters], ids: UsedIds, mirror: MirrorName) -> dict[int, Claim]:
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


def _named(partitions: Iterable[MirrorPartition]) -> str:
    names = sorted(str(at) for at in partitions)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
