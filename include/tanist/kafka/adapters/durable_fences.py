"""Makes a producer fence survive log compaction: the last record with a key is appended again in the new epoch.

If another client wrote that key between reading and repeating it, the repeated value would replace the newer one.
During a failover no client can, because the topic is not open yet. Later, the log must have been idle; a write in
between is detected by the offset of the repeated record, and the newer value is repeated again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TanistError
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, MirrorPartition
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.domain.writer_identity import FENCED_EPOCH
from tanist.kafka.adapters.last_records import Last, last_records
from tanist.kafka.adapters.log_reader import UnreadSpan, read_on
from tanist.kafka.protocol.batch import single_record_batch, split
from tanist.kafka.protocol.frames import Isolation
from tanist.kafka.protocol.record_set import encoded
from tanist.kafka.wire.admin import topic_config
from tanist.kafka.wire.requests import End, append, describe_producers, list_offsets, readable_ends
from tanist.ports.fencing import Kept

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from confluent_kafka import Message

    from tanist.domain.names import ProducerId
    from tanist.kafka.adapters.log_reader import LogPart
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


class Keeping:
    """Owned by one thread, with the router that it is given."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._seen: dict[MirrorPartition, tuple[int, float]] = {}
        """Where logs ended when they were last seen to have grown, and when that was."""

    def compacted(self, topics: Collection[str], by: Deadline) -> dict[str, bool | TanistError]:
        found = topic_config(self._router, topics, CLEANUP_POLICY, by)
        return {
            name: each if isinstance(each, TanistError) else each is not None and "compact" in str(each.value)
            for name, each in found.items()
        }

    def kept(
        self, data_ids: Mapping[MirrorPartition, ProducerId], by: Deadline
    ) -> dict[MirrorPartition, Kept | TanistError]:
        found = self._remembered(data_ids, by)
        bare = [at for at, each in found.items() if each is Kept.BARE]
        spans, unreported = self._spans(bare, by)
        return found | unreported | _empty(self._last(spans, by))

    def keep(
        self, data_ids: Mapping[MirrorPartition, ProducerId], by: Deadline, rest: float
    ) -> dict[MirrorPartition, Kept | TanistError]:
        found = self._remembered(data_ids, by)
        bare = [at for at, each in found.items() if each is Kept.BARE]
        spans, unreported = self._spans(self._resting(bare, rest, by), by)
        lasts = self._last(spans, by)
        there = {at: last for at, last in lasts.items() if last is not None}
        refused = self._repeat(there, {at: spans[at].end for at in there}, data_ids, by)
        after = self._remembered({at: data_ids[at] for at in there}, by)
        found |= {at: refused.get(at, each) if each is Kept.BARE else each for at, each in after.items()}
        return found | unreported | _empty(lasts)

    def _remembered(
        self, data_ids: Mapping[MirrorPartition, ProducerId], by: Deadline
    ) -> dict[MirrorPartition, Kept | TanistError]:
        """Whether each leader knows a record of the new epoch: after a marker alone it has no last sequence."""
        found: dict[MirrorPartition, Kept | TanistError] = {}
        for at, answer in describe_producers(self._router, data_ids, by).items() if data_ids else ():
            if isinstance(answer, TanistError):
                found[at] = answer
                continue
            own = [each for each in answer if each.producer_id == data_ids[at] and each.producer_epoch >= FENCED_EPOCH]
            found[at] = Kept.KEPT if any(each.last_sequence >= 0 for each in own) else Kept.BARE
        return found

    def _resting(self, partitions: Iterable[MirrorPartition], rest: float, by: Deadline) -> list[MirrorPartition]:
        asked = list(partitions)
        if not rest or not asked:
            return asked
        now = time.monotonic()
        for at, end in list_offsets(self._router, dict.fromkeys(asked, End.LOG_END), by).items():
            if isinstance(end, TanistError):
                self._seen.pop(at, None)
            elif at not in self._seen or self._seen[at][0] != end:
                self._seen[at] = (end, now)
        return [at for at in asked if at in self._seen and now - self._seen[at][1] >= rest]

    def _spans(
        self, partitions: Collection[MirrorPartition], by: Deadline
    ) -> tuple[dict[MirrorPartition, Span[int]], dict[MirrorPartition, TanistError]]:
        if not partitions:
            return {}, {}
        starts = list_offsets(self._router, dict.fromkeys(partitions, End.EARLIEST), by)
        ends = list_offsets(self._router, dict.fromkeys(partitions, End.LAST_STABLE), by)
        spans: dict[MirrorPartition, Span[int]] = {}
        unreported: dict[MirrorPartition, TanistError] = {}
        for at in partitions:
            start, end = starts[at], ends[at]
            if isinstance(start, TanistError):
                unreported[at] = start
            elif isinstance(end, TanistError):
                unreported[at] = end
            else:
                spans[at] = Span(start, end)
        return spans, unreported

    def _last(self, spans: Mapping[MirrorPartition, Span[int]], by: Deadline) -> dict[MirrorPartition, Last | None]:
        """The last record that has a key."""
        return last_records(self._router.endpoint, spans, by) if spans else {}

    def _repeat(
        self,
        lasts: Mapping[MirrorPartition, Last],
        ends: Mapping[MirrorPartition, int],
        data_ids: Mapping[MirrorPartition, ProducerId],
        by: Deadline,
    ) -> dict[MirrorPartition, TanistError]:
        """The errors of the partitions that failed. `ends`: the offset up to which each log was read."""
        sequence, refused = 0, dict[MirrorPartition, TanistError]()
        read, todo = dict(ends), dict(lasts)
        while todo:
            batches = {at: _batch(each, data_ids[at], sequence) for at, each in todo.items()}
            landed = append(self._router, batches, by)
            refused |= {at: why for at, why in landed.items() if isinstance(why, TanistError)}
            bases = {at: base for at, base in landed.items() if not isinstance(base, TanistError)}
            between = {at: Span(read[at], base) for at, base in bases.items() if base > read[at]}
            read |= {at: base + 1 for at, base in bases.items()}
            todo = self._newer(todo, between, by)
            sequence += 1
        return refused

    def _newer(
        self, repeated: Mapping[MirrorPartition, Last], between: Mapping[MirrorPartition, Span[int]], by: Deadline
    ) -> dict[MirrorPartition, Last]:
        """Records that others have written to the repeated key between reading and repeating it."""

        def of_that_key(at: MirrorPartition, message: Message) -> bool:
            return message.key() == repeated[at].key

        found = last_records(self._router.endpoint, between, by, of_that_key) if between else {}
        return {at: last for at, last in found.items() if last is not None}


def _batch(last: Last, data_id: ProducerId, sequence: int) -> bytearray:
    """A batch with the current time: brokers forget a producer id whose last record is old."""
    now = time.time_ns() // 1_000_000
    return single_record_batch(encoded(last.key, last.value, last.headers), data_id, FENCED_EPOCH, sequence, now)


def _empty(lasts: Mapping[MirrorPartition, Last | None]) -> dict[MirrorPartition, Kept]:
    return {at: Kept.EMPTY for at, last in lasts.items() if last is None}


_FIRST_WINDOW: Final = 64
_WIDER: Final = 16


def copied_ends(
    router: Router,
    data_ids: Mapping[MirrorPartition, ProducerId],
    by: Deadline,
    begun: Mapping[MirrorPartition, DestinationOffset],
) -> dict[MirrorPartition, DestinationOffset | TanistError]:
    """The offset behind the last batch of each data id below the committed end; the log start if there is none.

    `begun`: where copying began, which stands for the log start. Not what a producer fence repeats: that has a higher
    producer epoch.
    """
    found: dict[MirrorPartition, DestinationOffset | TanistError] = {}
    left: dict[MirrorPartition, _Search] = {}
    for at, ends in readable_ends(router, data_ids, by).items():
        if isinstance(ends, TanistError):
            found[at] = ends
        else:
            left[at] = _Search.of(data_ids[at], max(ends.start, begun.get(at, 0)), ends.high_watermark)
    while left:
        found |= {at: end for at, search in left.items() if (end := search.end()) is not None}
        left = {at: search for at, search in left.items() if at not in found}
        spans = {at: search.span for at, search in left.items()}
        for at, part in read_on(router, spans, by, Isolation.READ_UNCOMMITTED).items() if spans else ():
            if isinstance(part, TanistError):
                found[at] = part
                del left[at]
            else:
                left[at].take(part)
    return found


@dataclass(slots=True)
class _Search:
    """One partition. `span` is what is read of it now, from `begin` on; `last`: behind the last data batch in it."""

    data_id: ProducerId
    start: int
    begin: int
    span: UnreadSpan
    window: int = _FIRST_WINDOW
    last: int | None = None

    @classmethod
    def of(cls, data_id: ProducerId, start: int, end: int) -> _Search:
        begin = max(start, end - _FIRST_WINDOW)
        return cls(data_id, start, begin, UnreadSpan(begin, end))

    def end(self) -> DestinationOffset | None:
        """The answer; None: there is more to read."""
        if not self.span.is_read:
            return None
        if self.last is not None or self.begin <= self.start:
            return DestinationOffset(self.start if self.last is None else self.last)
        self.window *= _WIDER
        end, self.begin = self.begin, max(self.start, self.begin - self.window)
        self.span = UnreadSpan(self.begin, end)
        return None

    def take(self, part: LogPart) -> None:
        for header, _ in split(part.records):
            if header.producer_id == self.data_id and header.producer_epoch < FENCED_EPOCH and not header.is_control:
                self.last = header.next_offset
