"""One mirrored partition in memory: both logs, the network between, and workers that do what the product decides.

Where to resume, what to send next and what an answer means is asked of `tanist.domain`; the model only sends, waits and
reads. A worker is a generator: every `yield` is a moment at which it may be killed, be frozen (a zombie), or be
overtaken by anything else. A request that was sent may land at once, late (after another worker has recovered), or
never.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain import appending, gap_markers, recovery
from tanist.domain.appending import Move, Pipeline
from tanist.domain.copying import Append, Refuse, decide
from tanist.domain.errors import CouldNotTell, PartitionBroken
from tanist.domain.gap_markers import Count, MarkerEpoch
from tanist.domain.log_ends import CopyEnds
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap, OffsetRange
from tanist.domain.recovery import SourceBehind, SourceStart
from tests.unit.domain.copy_broker import NONE, NOT_ENOUGH_REPLICAS, WRITERS, Answer, Copied, CopyLog
from tests.unit.domain.source_logs import ends_abort, merged_at_random

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from random import Random

    from tanist.domain.copying import Step
    from tests.unit.domain.source_logs import SourceLog, Stored

START_RECORD: Final = -2


@dataclass(slots=True, eq=False)
class ProduceRequest:
    """On its way to the broker; `lands` is what it does there. `waited_for`: its sender has not given up."""

    sender: int
    lands: Callable[[], Answer]
    answer: Answer | None = None
    waited_for: bool = True


@dataclass(slots=True)
class ModelClusters:
    rng: Random
    source: SourceLog
    copy: CopyLog = field(default_factory=CopyLog)
    runs: list[OffsetRange] = field(default_factory=list)
    in_flight: list[ProduceRequest] = field(default_factory=list)
    unanswered: list[ProduceRequest] = field(default_factory=list)
    owner: int = 0
    """The worker whose claim is the newest: it holds the lease."""
    epoch: int = 0
    """Of the newest claim."""
    ghosts: int = 0
    failure: PartitionBroken | None = None
    excused: set[int] = field(default_factory=set)
    merging: bool = False
    """Workers merge small batches."""
    window: int = 3
    """Appends in flight at most."""
    exclusive: bool = False
    """A new owner begins only when nothing of the old one is on its way: it has waited for the end of the lease."""
    oldest: int = 0
    """1: all batches are so old that the broker may have forgotten our producer id."""
    breathe: Callable[[], None] = lambda: None
    """What may happen between any two things that a recovery reads."""

    # ── the network ───────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, sender: int, lands: Callable[[], Answer]) -> ProduceRequest:
        request = ProduceRequest(sender, lands)
        self.in_flight.append(request)
        return request

    def land(self, sender: int) -> None:
        """The oldest request of a sender arrives: one connection keeps its order."""
        for request in self.in_flight:
            if request.sender == sender:
                self.in_flight.remove(request)
                request.answer = request.lands()
                if request.answer.until > self.copy.high_watermark:
                    self.unanswered.append(request)
                return

    def part(self, sender: int) -> None:
        """A connection is given up: what it carried lands now, in part, late, or never."""
        late = self.rng.random() < 0.5
        if not late:
            for _ in range(self.rng.randint(0, 3)):
                self.land(sender)
        self.ghosts -= 1
        for request in [r for r in self.in_flight if r.sender == sender]:
            request.waited_for = False
            if late and not self.exclusive:
                request.sender = self.ghosts
            else:
                self.in_flight.remove(request)

    def commit(self, until: int) -> None:
        self.copy.high_watermark = max(self.copy.high_watermark, min(until, self.copy.end))
        self.unanswered = [r for r in self.unanswered if r.answer and r.answer.until > self.copy.high_watermark]

    def lose_leader(self, cut: int) -> None:
        self.copy.lose_leader(cut)
        for request in self.unanswered:
            request.answer, request.waited_for = None, False
        self.unanswered = []

    def settle(self) -> None:
        """Everything on its way arrives, the followers catch up."""
        while self.in_flight:
            self.land(self.in_flight[0].sender)
        self.commit(self.copy.end)

    # ── both logs, as a worker sees them ──────────────────────────────────────────────────────────────────────────

    def steps(self, position: int, *, merging: bool = False) -> list[Step[Stored, Stored]] | None:
        """What a fetch at `position` is decided to be. `merging`: some runs of small batches are one."""
        if position < self.source_start().first_batch:
            return None
        served = self.source.fetch(position, self.rng.randint(1, 6 if merging else 4))
        batches = merged_at_random(self.rng, served.batches) if merging else served.batches
        return list(decide(SourceOffset(position), [(b, b) for b in batches], served.aborted, ends_abort))

    def source_start(self) -> SourceStart:
        start = self.source.log_start
        holding = (b.base_offset for b in self.source.batches if b.base_offset <= start < b.next_offset)
        return SourceStart(SourceOffset(start), SourceOffset(next(holding, start)))

    def offset_map(self) -> OffsetMap:
        return OffsetMap.of(self.runs)

    def trim_source(self, log_start: int) -> None:
        """Retention takes records of the source; what was not copied by then cannot be asked for."""
        self.source.log_start = max(log_start, self.source.log_start)
        first = self.source_start().first_batch
        taken = {r for b in self.source.batches if b.next_offset <= first for r in b.records}
        self.excused |= taken - {r for b in self.ours() for r in b.records}

    def ours(self) -> list[Copied]:
        """The data of the copy that no accident can take back."""
        committed = self.copy.high_watermark
        return [b for b in self.copy.log if b.producer_id == WRITERS.data and b.next_offset <= committed]

    def copied_until(self) -> int:
        """The first source offset that a reader would miss in the copy."""
        copied = max((b.records[-1] for b in self.ours()), default=-1)
        missing = (b.base_offset for b in self.source.committed() if b.base_offset > copied)
        return next(missing, self.source.end)

    def retention_may_take(self, start: int) -> bool:
        """Retention is slower than recovery: it takes no shift and no surplus that no worker has seen yet."""
        offsets = self.offset_map()
        return offsets.origin(DestinationOffset(start)) <= self.copied_until() and all(
            offsets.locate(SourceOffset(b.records[0])) == b.base_offset for b in self.ours()
        )

    def trim_copy(self, start: int) -> None:
        self.copy.start = max(self.copy.start, min(start, self.copy.high_watermark))

    # ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def hire(self) -> Worker:
        """A new owner: its claim, and so the epoch of its gap markers, is above every earlier one."""
        self.owner += 1
        return Worker(self, self.owner, MarkerEpoch(self.raise_epoch()))

    def raise_epoch(self, seen: int = 0) -> int:
        """An epoch that was never used before."""
        epoch = gap_markers.next_epoch(self.epoch, seen)
        assert epoch is not None
        self.epoch = epoch
        return epoch


@dataclass(slots=True)
class ModelLogReader:
    """What `anchor` reads, with accidents between any two reads."""

    clusters: ModelClusters
    map_read: OffsetMap | None = None

    def copy_ends(self) -> CopyEnds:
        self.clusters.breathe()
        high_watermark = self.clusters.copy.high_watermark
        self.clusters.breathe()
        copy = self.clusters.copy
        return CopyEnds(DestinationOffset(copy.start), DestinationOffset(high_watermark), DestinationOffset(copy.end))

    def destination(self, start: DestinationOffset, until: DestinationOffset) -> list[tuple[Copied, tuple[int, ...]]]:
        self.clusters.breathe()
        if start < self.clusters.copy.start:
            raise CouldNotTell("offset out of range")
        return [(batch, batch.records) for batch in self.clusters.copy.read(start, until)]

    def offset_map(self) -> OffsetMap:
        self.clusters.breathe()
        self.map_read = self.clusters.offset_map()
        return self.map_read

    def source(self, position: SourceOffset) -> Sequence[Step[Copied, tuple[int, ...]]] | None:
        self.clusters.breathe()
        if position < self.clusters.source.log_start:
            return None
        if position >= self.clusters.source.last_stable:
            raise SourceBehind(f"the source ends before {position}")
        steps = self.clusters.steps(position)
        return None if steps is None else [_seen(step) for step in steps]

    def source_start(self) -> SourceStart:
        self.clusters.breathe()
        return self.clusters.source_start()

    def next_sequence(self) -> int | None:
        self.clusters.breathe()
        return self.clusters.copy.next_sequence(WRITERS.data)

    def same(self, copied: tuple[int, ...], originals: Sequence[tuple[int, ...]], skipped: int) -> bool:
        records = tuple(record for each in originals for record in each)
        return copied[skipped : skipped + len(records)] == records


def _seen(step: Step[Stored, Stored]) -> Step[Copied, tuple[int, ...]]:
    if not isinstance(step, Append):
        return step
    batch = step.header
    return Append(Copied(batch.base_offset, batch.next_offset, batch.producer_id), batch.records)


class Halted(Exception):
    """Something was not as expected: both logs are looked at again."""


@dataclass(slots=True)
class Worker:
    """The owner of the partition. It decides nothing."""

    clusters: ModelClusters
    me: int
    markers: MarkerEpoch
    requests: deque[ProduceRequest] = field(default_factory=deque)
    """Those that the batches in flight went with."""
    suspect_from: DestinationOffset | None = None
    idle: int = 0
    could_not_tell: str = ""
    """Why the last recovery has to be tried again."""
    evidence: Callable[[ModelClusters], ModelLogReader] = ModelLogReader

    def run(self) -> Generator[None, None, None]:
        try:
            while True:
                yield
                try:
                    yield from self.recover()
                except CouldNotTell as unknown:
                    self.could_not_tell = unknown.name
                except Halted:
                    yield from self.let_go()
        except PartitionBroken as broken:
            self.clusters.failure = broken

    def recover(self) -> Generator[None, None, None]:
        evidence = self.evidence(self.clusters)
        found = recovery.recover_position(evidence, WRITERS, self.suspect_from)
        self.could_not_tell = ""
        offsets = evidence.map_read or self.clusters.offset_map()
        for run in found.runs:
            offsets = yield from self.write_run(run)
        self.suspect_from = None
        if found.start_fill:
            yield from self.start_fill(found.end, found.start_fill.to)
            raise Halted
        yield from self.copy(Pipeline.resume(found, offsets))

    def let_go(self) -> Generator[None, None, None]:
        """The answers to what is in flight change nothing any more; or the connection is given up with them."""
        if self.clusters.rng.random() < 0.5:
            self.clusters.part(self.me)
        else:
            for request in self.requests:
                yield from self.answer(request)
        self.requests.clear()

    def copy(self, pipeline: Pipeline[Stored, Stored]) -> Generator[None, None, None]:
        while True:
            yield
            steps = self.clusters.steps(pipeline.position, merging=self.clusters.merging)
            if steps is None:
                raise Halted
            more = pipeline.take(steps)
            self.idle = 0 if more else self.idle + 1
            while pipeline.steps:
                yield from self.act(pipeline, appending.next_move(pipeline, self.clusters.oldest, self.clusters.window))
            while pipeline.in_flight and (not more or self.clusters.rng.random() < 0.8):
                yield from self.receive(pipeline)

    def act(self, pipeline: Pipeline[Stored, Stored], move: Move) -> Generator[None, None, None]:
        if move is Move.WAIT:
            yield from self.receive(pipeline)
        elif move is Move.FILL_GAP:
            yield from self.fill(pipeline)
        elif move is Move.EXTEND_MAP:
            pipeline.map_extended((yield from self.write_run(pipeline.missing_range)))
        elif move is Move.FAIL:
            step = pipeline.steps[0]
            assert isinstance(step, Refuse)
            raise step.error
        elif move is Move.APPEND_UNDER_LEASE and self.clusters.owner != self.me:
            raise Halted
        else:
            self.append(pipeline)

    def append(self, pipeline: Pipeline[Stored, Stored]) -> None:
        step, sequence = pipeline.steps[0], pipeline.sequence
        assert isinstance(step, Append)
        records = step.payload.records
        self.requests.append(self.clusters.send(self.me, lambda: self.produce(WRITERS.data, sequence, records)))
        pipeline.sent()

    def produce(self, producer_id: int, sequence: int, records: tuple[int, ...]) -> Answer:
        if self.clusters.rng.random() < 0.03:
            return Answer(NOT_ENOUGH_REPLICAS)
        return self.clusters.copy.produce(producer_id, sequence, records)

    def receive(self, pipeline: Pipeline[Stored, Stored]) -> Generator[None, None, None]:
        request = self.requests.popleft()
        answer = yield from self.answer(request)
        sent = pipeline.in_flight.popleft()
        if answer is None or answer.code != NONE:
            raise Halted
        if answer.base_offset == sent.expected:
            pipeline.landed(sent)
            return
        self.suspect_from = sent.expected
        if missing := appending.shifted(pipeline, sent, DestinationOffset(answer.base_offset)):
            yield from self.write_run(missing)
        raise Halted

    def answer(self, request: ProduceRequest) -> Generator[None, None, Answer | None]:
        while True:
            yield
            answer = request.answer
            if answer is not None and answer.until <= self.clusters.copy.high_watermark:
                return answer
            if not request.waited_for:
                return None

    def write_run(self, run: OffsetRange) -> Generator[None, None, OffsetMap]:
        """The topic of runs refuses a worker whose claim is no longer the newest (a fenced producer)."""
        yield
        if self.clusters.owner != self.me:
            raise Halted
        self.clusters.runs.append(run)
        yield
        return self.clusters.offset_map()

    def fill(self, pipeline: Pipeline[Stored, Stored]) -> Generator[None, None, None]:
        """An exclusive lease, checked right before sending; counted by committed offsets, never by the answer."""
        copy = self.clusters.copy
        yield
        committed = copy.high_watermark
        yield
        if not gap_markers.ends_at(committed, copy.end, pipeline.end):
            raise Halted
        while missing := pipeline.gap_markers:
            yield from self.write_markers(pipeline, self.clusters.rng.randint(1, missing))
        pipeline.gap_filled()

    def write_markers(self, pipeline: Pipeline[Stored, Stored], markers: int) -> Generator[None, None, None]:
        if self.markers.spent:
            yield
            if self.clusters.owner != self.me:
                raise Halted
            known = self.clusters.copy.known.get(WRITERS.marker)
            self.markers.renewed(self.clusters.raise_epoch(known.epoch if known else 0))
        yield
        if self.clusters.owner != self.me:
            raise Halted
        epoch, targets = self.markers.value, gap_markers.coordinator_epochs(pipeline.end, markers)
        self.markers.sent()
        request = self.clusters.send(self.me, lambda: self.clusters.copy.markers(epoch, targets))
        answer = yield from self.answer(request)
        expected = DestinationOffset(pipeline.end + markers)
        if answer is None or answer.code != NONE or self.count(expected) is not Count.LANDED:
            raise Halted
        self.markers.counted()
        pipeline.end = expected

    def count(self, expected: int) -> Count:
        return gap_markers.count(self.clusters.copy.high_watermark, expected)

    def start_fill(self, end: DestinationOffset, to: int) -> Generator[None, None, None]:
        """Null records with an id of their own up to the source's log start; then they are deleted by name."""
        copy = self.clusters.copy
        if copy.end >= to:
            yield
            self.clusters.trim_copy(to)
            return
        sequence = copy.next_sequence(WRITERS.start) or 0
        yield
        if copy.end == end and copy.high_watermark == end:
            some = self.clusters.rng.randint(1, to - end)
            request = self.clusters.send(self.me, lambda: self.produce(WRITERS.start, sequence, (START_RECORD,) * some))
            yield from self.answer(request)
