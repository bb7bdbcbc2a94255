"""One mirrored partition in memory: both logs, the network between, and workers that keep the design's rules.

A worker is a generator: every `yield` is a moment at which it may be killed, be frozen (a zombie), or be overtaken by
anything else. A request that was sent may land at once, late (after another worker has recovered), or never.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain import anchoring
from tanist.domain.anchoring import CopyEnds, SourceBehind, SourceStart
from tanist.domain.copying import Append, Fill, Refuse, decide, fillers
from tanist.domain.errors import CouldNotTell, PartitionBroken
from tanist.domain.names import DestinationOffset, SourceOffset, after
from tanist.domain.offset_map import OffsetMap, OffsetRun
from tests.domain.copy_broker import NONE, NOT_ENOUGH_REPLICAS, WRITERS, Answer, Copied, CopyLog
from tests.domain.source_logs import ends_abort

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from random import Random

    from tanist.domain.anchoring import Anchor
    from tanist.domain.copying import Step
    from tests.domain.source_logs import SourceLog, Stored

START_RECORD: Final = -2
EPOCHS_OF_A_CLAIM: Final = 1000


@dataclass(slots=True, eq=False)
class Request:
    """On its way to the broker; `lands` is what it does there. `waited_for`: its sender has not given up."""

    sender: int
    lands: Callable[[], Answer]
    answer: Answer | None = None
    waited_for: bool = True


@dataclass(slots=True)
class World:
    rng: Random
    source: SourceLog
    copy: CopyLog = field(default_factory=CopyLog)
    runs: list[OffsetRun] = field(default_factory=list)
    in_flight: list[Request] = field(default_factory=list)
    unanswered: list[Request] = field(default_factory=list)
    claims: int = 0
    ghosts: int = 0
    failure: PartitionBroken | None = None
    excused: set[int] = field(default_factory=set)
    window: int = 3
    """Appends in flight at most."""
    exclusive: bool = False
    """Below the horizon of the broker's memory: a new owner begins only when nothing of the old one is on its way."""
    breathe: Callable[[], None] = lambda: None
    """What may happen between any two things that a recovery reads."""

    # ── the network ───────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, sender: int, lands: Callable[[], Answer]) -> Request:
        request = Request(sender, lands)
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

    def steps(self, position: int) -> list[Step[Stored, Stored]] | None:
        if position < self.source_start().first_batch:
            return None
        served = self.source.fetch(position, self.rng.randint(1, 4))
        return list(decide(SourceOffset(position), [(b, b) for b in served.batches], served.aborted, ends_abort))

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
        """A new owner: its claim, and so its fillers' epoch, is above every earlier one."""
        self.claims += 1
        return Worker(self, self.claims)


@dataclass(slots=True)
class Evidence:
    """What `anchor` reads, with accidents between any two reads."""

    world: World

    def copy_ends(self) -> CopyEnds:
        self.world.breathe()
        high_watermark = self.world.copy.high_watermark
        self.world.breathe()
        copy = self.world.copy
        return CopyEnds(DestinationOffset(copy.start), DestinationOffset(high_watermark), DestinationOffset(copy.end))

    def copy(self, start: DestinationOffset, until: DestinationOffset) -> list[tuple[Copied, tuple[int, ...]]]:
        self.world.breathe()
        if start < self.world.copy.start:
            raise CouldNotTell("offset out of range")
        return [(batch, batch.records) for batch in self.world.copy.read(start, until)]

    def offset_map(self) -> OffsetMap:
        self.world.breathe()
        return self.world.offset_map()

    def source(self, position: SourceOffset) -> Sequence[Step[Copied, tuple[int, ...]]] | None:
        self.world.breathe()
        if position < self.world.source.log_start:
            return None
        if position >= self.world.source.last_stable:
            raise SourceBehind(f"the source ends before {position}")
        steps = self.world.steps(position)
        return None if steps is None else [_seen(step) for step in steps]

    def source_start(self) -> SourceStart:
        self.world.breathe()
        return self.world.source_start()

    def next_sequence(self) -> int | None:
        self.world.breathe()
        return self.world.copy.next_sequence(WRITERS.data)

    def same(self, copied: tuple[int, ...], original: tuple[int, ...]) -> bool:
        return copied == original


def _seen(step: Step[Stored, Stored]) -> Step[Copied, tuple[int, ...]]:
    if not isinstance(step, Append):
        return step
    batch = step.header
    return Append(Copied(batch.base_offset, batch.next_offset, batch.producer_id), batch.records)


class Recover(Exception):
    """Something unexpected: look at both logs again, from `suspect` on if an append went elsewhere."""

    def __init__(self, suspect: int | None = None) -> None:
        super().__init__()
        self.suspect = suspect


@dataclass(slots=True)
class Worker:
    """The owner of the partition, by the rules of the design (prototype: mirror_worker.py)."""

    world: World
    me: int
    epoch: int = 0
    position: int = 0
    end: int = 0
    sequence: int = 0
    fresh: bool = True
    """After a gap or a recovery: the map must agree before the next data batch."""
    alone: bool = True
    """The first append after a recovery is alone in flight."""
    pipeline: list[tuple[Request, int, int]] = field(default_factory=list)
    idle: int = 0
    could_not_tell: str = ""
    """Why the last recovery has to be tried again."""
    evidence: Callable[[World], Evidence] = Evidence

    def run(self) -> Generator[None, None, None]:
        self.epoch = self.me * EPOCHS_OF_A_CLAIM
        suspect: int | None = None
        try:
            while True:
                yield
                try:
                    suspect_from = None if suspect is None else DestinationOffset(suspect)
                    found = anchoring.anchor(self.evidence(self.world), WRITERS, suspect_from)
                    suspect, self.could_not_tell = None, ""
                    yield from self.go_on(found)
                except CouldNotTell as unknown:
                    self.could_not_tell = unknown.name
                except Recover as again:
                    suspect = again.suspect
                    self.world.part(self.me)
        except PartitionBroken as broken:
            self.world.failure = broken

    def go_on(self, found: Anchor) -> Generator[None, None, None]:
        self.position, self.end, self.sequence = found.position, found.end, found.sequence
        self.fresh, self.alone, self.pipeline = True, True, []
        for run in found.runs:
            yield from self.write_run(run.source, run.destination)
        if found.align:
            yield from self.align(found.align.to)
        while True:
            yield
            steps = self.world.steps(self.position)
            if steps is None:
                raise Recover
            self.idle = 0 if steps else self.idle + 1
            for step in steps:
                if isinstance(step, Append):
                    yield from self.append(step)
                elif isinstance(step, Fill):
                    yield from self.fill(fillers(step.until, DestinationOffset(self.end)))
                    self.position, self.fresh = step.until, True
                elif isinstance(step, Refuse):
                    raise step.error
            yield from self.drain()

    def append(self, step: Append[Stored, Stored]) -> Generator[None, None, None]:
        yield from self.fill(step.start - self.end)  # nothing, unless fillers were lost
        if self.fresh:
            yield from self.drain()
            if self.world.offset_map().locate(step.start) != self.end:
                yield from self.write_run(step.start, self.end)
            self.fresh = False
        records, sequence, producer = step.payload.records, self.sequence, WRITERS.data
        request = self.world.send(self.me, lambda: self.produce(producer, sequence, records))
        self.pipeline.append((request, step.start, self.end))
        self.position, self.end = step.until, self.end + len(records)
        self.sequence = after(self.sequence, len(records))
        while self.pipeline and (self.alone or len(self.pipeline) >= self.world.window):
            yield from self.receive()
        self.alone = False

    def produce(self, producer_id: int, sequence: int, records: tuple[int, ...]) -> Answer:
        if self.world.rng.random() < 0.03:
            return Answer(NOT_ENOUGH_REPLICAS)
        return self.world.copy.produce(producer_id, sequence, records)

    def drain(self) -> Generator[None, None, None]:
        while self.pipeline:
            yield from self.receive()

    def receive(self) -> Generator[None, None, None]:
        request, start, expected = self.pipeline.pop(0)
        answer = yield from self.answer(request)
        if answer is None or answer.code != NONE:
            raise Recover
        if answer.base_offset != expected:
            if self.world.offset_map().locate(SourceOffset(start)) != answer.base_offset:
                yield from self.write_run(start, answer.base_offset)
            raise Recover(min(expected, answer.base_offset))

    def answer(self, request: Request) -> Generator[None, None, Answer | None]:
        while True:
            yield
            answer = request.answer
            if answer is not None and answer.until <= self.world.copy.high_watermark:
                return answer
            if not request.waited_for:
                return None

    def write_run(self, start: int, destination: int) -> Generator[None, None, None]:
        """The topic of runs refuses a worker whose claim is no longer the newest (a fenced producer)."""
        yield
        if self.world.claims != self.me:
            raise Recover
        self.world.runs.append(OffsetRun(SourceOffset(start), DestinationOffset(destination)))
        yield

    def fill(self, missing: int) -> Generator[None, None, None]:
        """An exclusive lease, checked right before sending; counted by committed offsets, never by the answer."""
        if missing <= 0:
            return
        yield from self.drain()
        copy = self.world.copy
        yield
        if copy.high_watermark != self.end or copy.end != self.end:
            raise Recover
        yield
        if self.world.claims != self.me:
            raise Recover
        epoch, targets = self.epoch, range(self.end, self.end + missing)
        request = self.world.send(self.me, lambda: self.world.copy.markers(epoch, targets))
        answer = yield from self.answer(request)
        if answer is None or answer.code != NONE or copy.end != self.end + missing or copy.high_watermark != copy.end:
            self.epoch += 1
            raise Recover
        self.end += missing
        self.fresh = True

    def align(self, to: int) -> Generator[None, None, None]:
        """Null records with an id of their own up to the source's log start; then they are deleted by name."""
        copy = self.world.copy
        if copy.end < to:
            sequence = copy.next_sequence(WRITERS.start) or 0
            yield
            if copy.end != self.end or copy.high_watermark != self.end:
                raise Recover
            some = self.world.rng.randint(1, to - self.end)
            request = self.world.send(self.me, lambda: self.produce(WRITERS.start, sequence, (START_RECORD,) * some))
            yield from self.answer(request)
            raise Recover
        yield
        self.world.trim_copy(to)
        if copy.start < to:
            raise Recover
