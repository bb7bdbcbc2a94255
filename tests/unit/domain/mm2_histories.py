"""MirrorMaker 2 as a model: it copies one partition, writes offset-syncs by its own rule, and what can happen happens.

The rule is that of OffsetSyncWriter (connect/mirror 4.3.1): a sync is due if there was none in this life of the task,
if the last one lies `lag` offsets back, behind a gap at the source, and if the destination's offset has fallen. Other
pairs are kept until MM2 commits its own position. While too many syncs are in flight only the newest pair is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.log_ends import Span
from tanist.domain.mirrormaker.history import kept, lives, to_tell_apart
from tanist.domain.mirrormaker.records import OffsetSync
from tanist.domain.names import DestinationOffset, SourceOffset
from tests.builders import AT_SOURCE

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from tanist.domain.mirrormaker.history import Mm2Partition


class ModelRecord(NamedTuple):
    """`topic`: which topic of that name it was written to: it may be created again."""

    topic: int
    offset: int


def sync(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(AT_SOURCE, SourceOffset(upstream), DestinationOffset(downstream))


def of_records(records: Iterable[tuple[int, int]], copy: Span[DestinationOffset]) -> Mm2Partition:
    """What MM2 has written of a log with records at these offsets, at the source and at the destination."""
    return kept([sync(*each) for each in list(records)[::3] if each[1] < copy.end], copy)


@dataclass
class Model:
    """`copy`: by destination offset what is there; None: the marker of a transaction of MM2 (`holes`).

    With its transactions MM2 goes on exactly where it was, so that nothing is copied again.
    """

    rng: random.Random
    lag: int
    holes: bool = False
    topic: int = 0
    source: list[int] = field(default_factory=list)
    source_start: int = 0
    source_end: int = 0
    copy: list[ModelRecord | None] = field(default_factory=list)
    copy_start: int = 0
    written: list[OffsetSync] = field(default_factory=list)
    _next: int = 0
    _committed: int = 0
    _alive: bool = False
    _was_recreated: bool = False
    _previous: tuple[int, int, int] = (-1, -1, -1)
    _pending: OffsetSync | None = None
    _delayed: OffsetSync | None = None

    # ── what producers and people do ──────────────────────────────────────────────────────────────────────────────

    def append(self) -> None:
        for _ in range(self.rng.randrange(1, 12)):
            self.source_end += self.rng.choice([0, 0, 0, 0, self.rng.randrange(4)])
            self.source.append(self.source_end)
            self.source_end += 1

    def compact_source(self) -> None:
        self.source = [each for each in self.source if self.rng.random() < 0.8 or each == self.source_end - 1]

    def expire_source(self) -> None:
        self.source_start = self.rng.randrange(self.source_start, self.source_end + 1)
        self.source = [each for each in self.source if each >= self.source_start]

    def expire_copy(self) -> None:
        self.copy_start = self.rng.randrange(self.copy_start, len(self.copy) + 1)

    def recreate_source(self) -> None:
        self.topic += 1
        self.source, self.source_start, self.source_end = [], 0, 0

    def recreate_copy(self) -> None:
        """MM2 says so before the copy has as many records as the last one had."""
        self.copy, self.copy_start, self._was_recreated = [], 0, True

    def truncate_copy(self) -> None:
        """By an unclean election; what was lost is not copied again."""
        del self.copy[self.rng.randrange(self.copy_start, len(self.copy) + 1) :]

    def compact_syncs(self) -> None:
        """The cleaner has come up to somewhere: there only the newest one is left.

        Not while MM2 copies again what the last life has copied: the cleaner leaves the last segment alone.
        """
        if any(each is not None and each.offset >= self._next for each in self.copy):
            return
        cleaned = self.written[: self.rng.randrange(len(self.written) + 1)]
        self.written = cleaned[-1:] + self.written[len(cleaned) :]

    # ── what MM2 does ─────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        if not self._alive:
            self._alive, self._next, self._previous = True, self._committed, (-1, -1, -1)
            self._pending = self._delayed = None

    def kill(self) -> None:
        """What was not written is lost."""
        self._alive = False
        if self.holes:
            self._committed = self._next

    def flush(self) -> None:
        if self._alive:
            self._committed = self._next
            self._pending = self._delayed or self._pending
            self._delayed = None
            self._fire()

    def poll(self, most: int, *, saturated: bool = False) -> None:
        """`saturated`: of the syncs that are due only those behind a gap are written; the others are lost by a kill."""
        if not self._alive:
            return
        if not self.source_start <= self._next <= self.source_end:
            self._next = self.source_start  # auto.offset.reset=earliest
        for offset in [each for each in self.source if each >= self._next][:most]:
            self.copy.append(ModelRecord(self.topic, offset))
            gap = offset != self._previous[1] + 1
            self._next = offset + 1
            self._acknowledged(offset, len(self.copy) - 1)
            if not saturated or self._was_recreated or gap:
                self._was_recreated = False
                self._fire()
            if self.holes and self.rng.random() < 0.1:
                self.copy.append(None)

    def _acknowledged(self, upstream: int, downstream: int) -> None:
        last_sync, before, downstream_before = self._previous
        due = (
            last_sync == -1
            or downstream - (last_sync + 1) >= self.lag
            or upstream - before != 1
            or downstream < downstream_before
        )
        if due:
            self._pending, self._delayed = sync(upstream, downstream), None
        else:
            self._delayed = sync(upstream, downstream)
        self._previous = (downstream if due else last_sync, upstream, downstream)

    def _fire(self) -> None:
        if self._pending is not None:
            self.written.append(self._pending)
            self._pending = None

    # ── what is read, and the truth ───────────────────────────────────────────────────────────────────────────────

    @property
    def span(self) -> Span[DestinationOffset]:
        return Span(DestinationOffset(self.copy_start), DestinationOffset(len(self.copy)))

    def differs(self, found: OffsetSync) -> bool:
        """Whether both logs have a record there, and not the same."""
        there = self.record_at(found.downstream)
        return (
            found.upstream in self.source
            and there is not None
            and found.downstream >= self.copy_start
            and there != ModelRecord(self.topic, found.upstream)
        )

    def matches(self, found: OffsetSync) -> bool:
        """Whether both logs have the same record there."""
        there = self.record_at(found.downstream) if found.downstream >= self.copy_start else None
        return found.upstream in self.source and there == ModelRecord(self.topic, found.upstream)

    def record_at(self, offset: int) -> ModelRecord | None:
        return self.copy[offset] if offset < len(self.copy) else None

    def read(self) -> Mm2Partition:
        source = Span(SourceOffset(self.source_start), SourceOffset(self.source_end))
        asked = to_tell_apart(lives(self.written), source, self.span)
        differing = frozenset(each for each in asked if self.differs(each))
        return kept(self.written, self.span, differing, frozenset(each for each in asked if self.matches(each)))

    def last_copies(self) -> dict[int, int]:
        """By source offset of a record that the source still has: where its last copy is.

        What was compacted or has expired there, a group would not read there either.
        """
        here = set(self.source)
        return {
            each.offset: at
            for at, each in enumerate(self.copy)
            if at >= self.copy_start and each is not None and each.topic == self.topic and each.offset in here
        }


CALM = ("append", "append", "poll", "poll", "poll", "flush", "kill", "start", "start", "saturated")
ROUGH = (*CALM, "compact_source", "expire_source", "expire_copy", "compact_syncs")
RESETS = (*ROUGH, "recreate_source", "recreate_copy")


def drawn(rng: random.Random, happens: tuple[str, ...]) -> Model:
    """A random history in which only what is named happens."""
    model = Model(rng, lag=rng.choice([0, 3, 10]), holes=rng.random() < 0.2)
    model.append()
    for _ in range(rng.randrange(4, 60)):
        match rng.choice(happens):
            case "poll":
                model.poll(rng.randrange(1, 20))
            case "saturated":
                model.poll(rng.randrange(1, 20), saturated=True)
            case action:
                getattr(model, action)()
    return model
