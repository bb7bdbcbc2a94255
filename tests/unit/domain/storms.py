"""Accidents in random order, and the judge of what they left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from tanist.domain.appending import DEPTH
from tanist.domain.names import SourceOffset
from tests.unit.domain.copy_broker import WRITERS
from tests.unit.domain.mirror_model import ModelClusters, ModelLogReader
from tests.unit.domain.source_logs import SourceLog, write_log

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.unit.domain.mirror_model import Worker

LONG_ENOUGH: Final = 3000
"""Moments that a copy without any more accidents never needs."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Which accidents happen besides kills, zombies, late and lost requests, slow followers and lost leaders."""

    surplus: bool = True
    foreign: bool = False
    source_retention: bool = False
    overtakes: bool = False
    """Retention of the source also takes what was not copied yet."""
    copy_retention: bool = False
    forgetful: bool = False
    merging: bool = False
    """Workers merge some of the small batches, each in its own way."""
    evidence: type[ModelLogReader] = ModelLogReader


@dataclass(slots=True)
class Storm:
    clusters: ModelClusters
    weather: Weather
    rng: Random
    owner: Worker = field(init=False)
    life: Generator[None, None, None] = field(init=False)
    zombies: list[Generator[None, None, None]] = field(default_factory=list)
    foreign_left: int = 0
    _busy: bool = False

    def __post_init__(self) -> None:
        self.clusters.breathe = self.breathe
        self.clusters.exclusive = self.weather.forgetful or self.weather.overtakes
        self.clusters.window = self.rng.randint(1, DEPTH)
        self.clusters.merging = self.weather.merging
        self.clusters.oldest = int(self.weather.forgetful)
        self.foreign_left = int(self.weather.foreign)
        self.hire()

    def hire(self) -> None:
        self.owner = self.clusters.hire()
        self.owner.evidence = self.weather.evidence
        self.life = self.owner.run()

    def rage(self, moments: int) -> None:
        for _ in range(moments):
            if self.clusters.failure:
                return
            what = self.rng.random()
            if what < 0.6:
                next(self.life, None)
            elif what < 0.98:
                self.accident()
            else:
                self.kill()

    def calm(self) -> str:
        """No more accidents: a last owner recovers and copies what there is. How did it end?"""
        self.clusters.breathe = lambda: None
        self.clusters.source.known = len(self.clusters.source.batches)
        if self.foreign_left:
            self.clusters.copy.foreign(1)
        self.kill()
        self.zombies.clear()
        for _ in range(LONG_ENOUGH):
            self.clusters.settle()
            if self.clusters.failure or self.owner.idle > 1:
                return judge(self.clusters)
            next(self.life, None)
        return self.owner.could_not_tell or "stuck"

    def kill(self) -> None:
        """The owner dies, or only seems to."""
        if self.rng.random() < 0.4 and not self.weather.overtakes:
            self.zombies.append(self.life)
            if self.clusters.exclusive:
                self.clusters.part(self.owner.me)
        else:
            self.life.close()
            self.clusters.part(self.owner.me)
        self.hire()

    def breathe(self) -> None:
        if not self._busy and self.rng.random() < 0.2:
            self.accident()

    def accident(self) -> None:
        self._busy = True
        world, rng = self.clusters, self.rng
        what = rng.random()
        if what < 0.35 and world.in_flight:
            world.land(rng.choice(world.in_flight).sender)
        elif what < 0.65:
            self.followers_catch_up()
        elif what < 0.75:
            world.source.known = min(len(world.source.batches), world.source.known + rng.randint(1, 4))
        elif what < 0.78:
            world.lose_leader(rng.randint(0, 2))
        elif what < 0.8 and world.in_flight:
            world.part(rng.choice(world.in_flight).sender)
        elif what < 0.86 and self.zombies:
            next(rng.choice(self.zombies), None)
        elif what > 0.93:
            self.rare()
        self._busy = False

    def followers_catch_up(self) -> None:
        world = self.clusters
        ends = [b.next_offset for b in world.copy.log[-8:] if b.next_offset > world.copy.high_watermark]
        if ends:
            world.commit(self.rng.choice((ends[-1], self.rng.choice(ends))))

    def rare(self) -> None:
        world, rng, weather = self.clusters, self.rng, self.weather
        what = rng.randrange(6)
        if what == 0 and weather.surplus:
            known = world.copy.known.get(WRITERS.marker)
            world.copy.markers(
                known.epoch if known else 0, [max(world.copy.end, known.coordinator_epoch if known else 0)]
            )
        elif what == 1 and self.foreign_left and world.copy.end > 3:
            self.foreign_left -= 1
            world.copy.foreign(rng.randint(1, 3))
        elif what == 2 and weather.source_retention:
            start = rng.randint(world.source.log_start, max(world.source.log_start, world.source.last_stable))
            if weather.overtakes or start <= world.copied_until():
                world.trim_source(start)
        elif what == 3 and weather.copy_retention and world.copy.log:
            start = rng.choice(world.copy.log[-12:]).base_offset
            if world.retention_may_take(start):
                world.trim_copy(start)
        elif what == 4 and weather.forgetful:
            if not any(r for r in world.in_flight):
                world.copy.forget(WRITERS.data)
        elif what == 5:
            world.copy.forget(WRITERS.marker)


def judge(world: ModelClusters) -> str:
    """Every committed record once, in order, where the map says; or the error by which the mirror stopped."""
    if world.failure:
        return world.failure.name
    if world.copy.foreign_records():
        return "foreign records in silence"
    expected = {r for b in world.source.committed() for r in b.records}
    lies = [(r, b.base_offset + n) for b in world.ours() for n, r in enumerate(b.records)]
    got = [r for r, _ in lies]
    if repeated := {r: n for r, n in Counter(got).items() if n > 1}:
        return f"repeated {repeated}"
    if lost := expected - set(got) - world.excused:
        return f"lost {sorted(lost)}"
    return "reordered" if got != sorted(got) else translated(world, lies)


def translated(world: ModelClusters, lies: list[tuple[int, int]]) -> str:
    """A group is never sent ahead of its record; and to the very record, while the source could still tell it."""
    offsets = world.offset_map()
    for record, offset in lies:
        located = offsets.locate(SourceOffset(record))
        if located > offset or (located < offset and record >= world.source.log_start):
            return f"mistranslated {record}: {located} instead of {offset}"
    return "exact"


def history(seed: int, weather: Weather, moments: int = 260) -> str:
    """One partition's life from its first batch to the calm after the storm."""
    rng = Random(seed)
    batches = write_log(rng, rng.randint(5, 30), longest=rng.choice((1, 3, 12)), hanging=False)
    storm = Storm(ModelClusters(rng, SourceLog(batches, known=rng.randint(0, 5))), weather, rng)
    storm.rage(moments)
    return storm.calm()
