"""Minutes of random faults on real clusters, then every record counted.

Source: two brokers, RF 2. Destination: three, RF 3, min ISR 2. Three fetcher workers on the same partitions.
"""

from __future__ import annotations

import re
from array import array
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, cast

from tanist.domain.delivery import Delivery
from tanist.domain.fake_group import group_of
from tanist.domain.names import MirrorName, MirrorPartition
from tanist_testkit.sandbox.command_line import CommandLine
from tanist_testkit.sandbox.environment import environment
from tanist_testkit.sandbox.spec import ClusterSpec
from tanist_testkit.verify import clients
from tanist_testkit.verify.comparing import LogVerdict, compare, identical, missing
from tanist_testkit.verify.flows import DAY_MS, Flow
from tanist_testkit.verify.reading import bounds, read
from tanist_testkit.verify.traces import Place
from tanist_testkit.verify.writing import Load, write_beginnings
from tests.storm.chaos import Chaos, Target
from tests.storm.cleaned import CleanedLogs, cleaned_logs
from tests.storm.offset_runs import mapped_maps, maps
from tests.storm.positions import MANY, Translated, drawn, looked_up, paired
from tests.storm.proxy import Proxy
from tests.storm.repeats import Repeats
from tests.storm.results import Figures
from tests.storm.schedule import MAPPED_TRACKS, TRACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tanist.domain.offset_map import OffsetMap
    from tanist.ports.clock import Clock, Deadline
    from tanist_testkit.sandbox.environment import Environment
    from tanist_testkit.sandbox.workers import Workers
    from tanist_testkit.screen import Screen
    from tanist_testkit.verify.comparing import Locate
    from tanist_testkit.verify.traces import Trace, Traces
    from tests.storm.proxy import Door

FLOWS = (
    Flow(topic="plain", partitions=3, rate=200),
    Flow(topic="lz4", partitions=2, rate=100, compression="lz4"),
    Flow(topic="zstd", partitions=2, rate=100, compression="zstd"),
    Flow(topic="transactions", partitions=3, rate=100, writers=3, transactional=True),
    Flow(topic="late", partitions=2, rate=50, deleted=2000, compression="zstd"),
    Flow(topic="old", partitions=2, rate=50, age_ms=5 * DAY_MS),
    Flow(topic="aged", partitions=2, rate=40, age_ms=40 * DAY_MS, writers=2),
    Flow(topic="tiny", partitions=2, rate=60, in_a_batch=1),
    Flow(topic="cleaned", partitions=2, rate=100, compression="lz4", keys=40, writers=2),
    Flow(topic="ledger", partitions=2, rate=60, keys=40, writers=2, transactional=True),
)
TOPICS = tuple(flow.topic for flow in FLOWS)
COMPACTED = tuple(flow.topic for flow in FLOWS if flow.keys)
WHOLE = tuple(flow.topic for flow in FLOWS if not flow.keys)
AGED = tuple(flow.topic for flow in FLOWS if flow.age_ms > DAY_MS)
"""Whose producers a broker that starts again has forgotten."""
CLEANERS = {"log.cleaner.backoff.ms": "500"}
WORKERS = ("w1", "w2", "w3")
MIRROR = "storm"
UP_SECONDS = 120.0
CAUGHT_UP_SECONDS = 300.0
_BUG = re.compile(r" died( |$)|INTERNAL|^[A-Z]\w*Error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`shifts`: of partitions with runs, by how many offsets the copy is ahead at its end."""

    seed: int
    faults: Mapping[str, int]
    verdict: LogVerdict
    uncommitted: LogVerdict
    acknowledged: int
    missing: Mapping[Place, int]
    """By partition, where there are some: acknowledged records that are not in the copy, at their offset."""
    unkept: int
    """Records that their producer counts as acknowledged, and the source does not have."""
    aborted: int
    runs: int
    shifts: Mapping[Place, int]
    gave_up: tuple[str, ...]
    died: tuple[str, ...]
    """What lanes and workers said that have died of a bug."""
    stuck: tuple[str, ...]
    broke: tuple[str, ...]
    """What of the storm itself has broken, and ended it early: a writer, the faults, the last wait."""
    unplaced: int
    """Acknowledged records whose offset nobody was told."""
    cleaned: CleanedLogs
    repeats: Repeats | None = None
    """Of a mirror that delivers at least once."""
    translated: Translated = field(default_factory=Translated)
    """Positions of a mirror with mapped offsets."""
    requests: Mapping[str, int] = field(default_factory=dict)
    """Which requests of its transactions were disturbed, and how often."""

    @property
    def ok(self) -> bool:
        wrong = self.verdict.differences or self.uncommitted.differences or self.missing
        return not (wrong or self.wrong or self.stuck or self.died or self.broke)

    @property
    def wrong(self) -> tuple[str, ...]:
        """What is found besides the verdicts, in words."""
        return (*self.cleaned.wrong, *(self.repeats.wrong if self.repeats else ()), *self.translated.wrong)

    def counted(self) -> Figures:
        """For a table of several storms. Everything that makes it no good storm is a violation."""
        differences = self.verdict.differences.total + self.uncommitted.differences.total
        others = (self.wrong, self.stuck, self.died, self.broke)
        repeated = {"repeated": self.repeats.count} if self.repeats else {}
        positions = {f"positions: {each}": count for each, count in self.translated.precisions.items()}
        return Figures(
            faults=sum(self.faults.values()),
            records=self.verdict.records + self.cleaned.records,
            violations=differences + sum(self.missing.values()) + sum(map(len, others)),
            counts={
                **self.faults,
                "acknowledged": self.acknowledged,
                "aborted": self.aborted,
                "runs": self.runs,
                **repeated,
                **positions,
            },
        )

    def lines(self) -> list[str]:
        """The figures, for people."""
        return [
            f"faults: {sum(self.faults.values())} ({_counts(self.faults)})",
            f"records: {self.verdict.records:,} compared, {self.acknowledged:,} acknowledged, {self.aborted:,} aborted",
            f"acknowledged without an offset: {self.unplaced:,}, {self.unkept:,} of them not at the source",
            ", ".join(f"{count} {name}" for name, count in asdict(self.verdict.differences).items()),
            f"acknowledged but missing: {_counts(self.missing) or 'none'}",
            f"seen by read_uncommitted: {self.uncommitted.differences}",
            f"offsets identical, except for {self.runs} run(s); final shifts: {_shifts(self.shifts)}",
            *(f"first difference: {first}" for first in (self.verdict.first, self.uncommitted.first) if first),
            f"compacted: {self.cleaned.records:,} records left, {self.cleaned.holes:,} holes",
            *([f"copied again: {self.repeats.count:,} records"] if self.repeats else []),
            *([f"positions: {_counts(self.translated.precisions)}"] if self.translated.precisions else []),
            *([f"requests disturbed: {_counts(self.requests)}"] if self.requests else []),
            *(f"wrong: {words}" for words in self.wrong[:5]),
            f"workers that gave up starting and were started again: {len(self.gave_up)}",
            *(f"stuck: {words}" for words in self.stuck),
            *(f"bug: {words}" for words in self.died),
            *(f"the storm itself broke: {words}" for words in self.broke),
        ]


def _counts(counts: Mapping[str, int] | Mapping[Place, int]) -> str:
    return ", ".join(f"{count:,} x {what}" for what, count in sorted(counts.items()))


def _shifts(shifts: Mapping[Place, int]) -> str:
    return ", ".join(f"{place}: {shift:+d}" for place, shift in shifts.items()) or "none"


@dataclass(slots=True)
class Storm:
    """One run of it."""

    screen: Screen
    clock: Clock
    seed: int
    seconds: float
    house: Environment
    doors: tuple[Door, Door]
    """What workers and commands take for the clusters."""
    delivery: Delivery | None = None
    """Of a mirror with mapped offsets. Exactly once: its copies are what a reader of committed records sees."""
    positions: int = MANY
    """How many are translated in the end."""

    @property
    def mapped(self) -> bool:
        return self.delivery is not None

    def run(self) -> Outcome:
        self._prepare()
        load = Load(self.house.source.bootstrap_servers, FLOWS, self.clock, self.seed)
        group = group_of(MirrorName(MIRROR)) if self.mapped else ""
        target = Target(house=self.house, doors=self.doors, workers=WORKERS, topics=TOPICS, group=group)
        tracks = MAPPED_TRACKS if self.mapped else TRACKS
        chaos = Chaos(target, self.clock, self.seed, self.screen.event, tracks)
        broke: list[str] = []
        with self.screen.step(f"{self.seconds:.0f} s of faults"):
            load.start()
            chaos.start()
            by = self.clock.deadline(self.seconds)
            while by.left(self.clock.monotonic()) and not chaos.died and not load.dead:
                self.clock.wait(0.5)
                self.screen.detail = f"{load.acknowledged:,} records acknowledged, {sum(chaos.counts.values())} faults"
            self.screen.detail = "the last ones are healed"
            broke += _broken("the faults", chaos.stop)
            broke += _broken(", ".join(load.dead) or "the writers", lambda: load.stop(self.clock.deadline(UP_SECONDS)))
            self.screen.detail = f"{load.acknowledged:,} records acknowledged, {sum(chaos.counts.values())} faults"
        stuck: list[str] = []
        broke += _broken("the wait for the copy", lambda: stuck.extend(self._catch_up(chaos)))
        for words in broke:
            self.screen.event(words)
        return self._compare(load, chaos, tuple(stuck), tuple(broke))

    def _prepare(self) -> None:
        with self.screen.step("Topics, mirror, workers"):
            source = self.house.source.bootstrap_servers
            by = self.clock.deadline(UP_SECONDS)
            new = [flow.new_topic(self.house.source.spec.brokers, min_isr=1) for flow in FLOWS]
            clients.create_topics(source, new, by, self.clock)
            write_beginnings(source, FLOWS, self.clock, self.seed)
            tanist = CommandLine(self.house.config, self.screen)
            arguments = ("--source", "east", "--destination", "west", "--topic", "|".join(TOPICS))
            tanist.run("mirrors", "create", MIRROR, *arguments, *self._options())
            for worker in WORKERS:
                self.house.workers.start(worker)
            tanist.run("mirrors", "wait", MIRROR, "--for", "state=MIRRORING", "--timeout", "100s")

    def _options(self) -> tuple[str, ...]:
        """Of a mirror with mapped offsets."""
        return ("--offsets", "mapped", "--delivery", self.delivery) if self.delivery else ()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _catch_up(self, chaos: Chaos) -> tuple[str, ...]:
        """What has not been copied by the deadline."""
        with self.screen.step("Everything is healed; waiting until all is copied"):
            by = self.clock.deadline(CAUGHT_UP_SECONDS)
            while behind := self._behind():
                self.screen.detail = f"{len(behind)} behind: {', '.join(behind[:3])}"
                if not by.left(self.clock.monotonic()):
                    return tuple(behind)
                chaos.revive()
                self.clock.wait(0.5)
            self.house.workers.check_alive()
            self.screen.detail = "all is copied"
            return ()

    def _behind(self) -> list[str]:
        by = self.clock.deadline(UP_SECONDS)
        east, west = self.house.source.bootstrap_servers, self.house.destination.bootstrap_servers
        places = clients.places(east, TOPICS, by, self.clock)
        source, copy = (bounds(side, places, by, self.clock) for side in (east, west))
        runs = self._maps(by)
        if self.mapped:
            copied = {place: (runs[place].until or 0) if place in runs else 0 for place in places}
            wanted = {place: source[place].end for place in places}
            return [
                f"{place} at {copied[place]} of {wanted[place]}" for place in places if copied[place] < wanted[place]
            ]
        return [
            f"{place} at {copy[place].end} of {_locate(runs, place)(source[place].end)}"
            for place in places
            if copy[place].end < _locate(runs, place)(source[place].end)
        ]

    def _maps(self, by: Deadline, *, whole: bool = False) -> dict[Place, OffsetMap]:
        west = self.house.destination.bootstrap_servers
        return mapped_maps(west, MIRROR, by, self.clock, whole=whole) if self.mapped else maps(west, by, self.clock)

    def _compare(self, load: Load, chaos: Chaos, stuck: tuple[str, ...], broke: tuple[str, ...]) -> Outcome:
        east, west = self.house.source.bootstrap_servers, self.house.destination.bootstrap_servers
        with self.screen.step("Every record of both clusters is compared"):
            by = self.clock.deadline(UP_SECONDS)
            runs = self._maps(by, whole=True)
            places = clients.places(east, WHOLE, by, self.clock)
            logs = {side: bounds(side, places, by, self.clock) for side in (east, west)}
            source = read(east, logs[east], committed=True, by=by, clock=self.clock)
            committed = self.delivery is not Delivery.AT_LEAST_ONCE
            copy = read(west, logs[west], committed=committed, by=by, clock=self.clock)
            repeats = None if committed else Repeats.of(source, copy)
            copy = repeats.copies if repeats else copy
            raw = None if self.mapped else read(west, logs[west], committed=False, by=by, clock=self.clock)
            acknowledged = {at: trace for at, trace in load.traces().items() if at.topic in WHOLE}
            reported = {
                at: _kept(trace, source[at]) if at.topic in AGED else trace for at, trace in acknowledged.items()
            }
            partitions = [
                MirrorPartition(at.topic, at.partition) for at in clients.places(east, COMPACTED, by, self.clock)
            ]
            isolation = "read_committed" if self.mapped else "read_uncommitted"
            cleaned = cleaned_logs(
                (east, west), partitions, lambda at: _locate(runs, Place(at.topic, at.partition)), isolation
            )
            self.screen.detail = f"{sum(map(len, source.values())):,} records"
        if self.mapped:  # below the first record there may be what an aborted transaction has left
            begun = {place: _locate(runs, place)(source[place].start) for place in places}
            copy = {at: replace(each, start=max(each.start, begun[at])) for at, each in copy.items()}
        translated = self._translated(source, copy) if self.mapped else Translated()
        surplus = {place: copy[place].end - _locate(runs, place)(source[place].end) for place in places}
        at_end = {place: copy[place].end - source[place].end for place in places}
        return Outcome(
            seed=self.seed,
            faults={str(kind): count for kind, count in sorted(chaos.counts.items())},
            verdict=_sum(source, copy, runs, surplus),
            uncommitted=LogVerdict() if raw is None else _sum(source, raw, runs, surplus),
            acknowledged=sum(map(len, acknowledged.values())),
            missing={
                place: absent
                for place, trace in reported.items()
                if (absent := missing(trace, copy[place], _locate(runs, place)))
            },
            unkept=sum(len(trace.unplaced) - len(reported[at].unplaced) for at, trace in acknowledged.items()),
            aborted=load.aborted,
            runs=sum(len(found.runs) for found in runs.values()),
            shifts={place: shift for place, shift in at_end.items() if shift or place in runs},
            gave_up=tuple(chaos.gave_up),
            died=tuple(bugs(self.house.workers, WORKERS)),
            stuck=stuck,
            broke=broke,
            unplaced=sum(len(trace.unplaced) for trace in acknowledged.values()),
            cleaned=cleaned,
            repeats=repeats,
            translated=translated,
            requests=dict(chaos.requests),
        )

    def _translated(self, source: Traces, copy: Traces) -> Translated:
        """Random positions in all logs, compacted ones too, by the command that people ask."""
        east, west = self.house.source.bootstrap_servers, self.house.destination.bootstrap_servers
        with self.screen.step(f"{self.positions:,} random positions are translated"):
            by = self.clock.deadline(UP_SECONDS)
            places = clients.places(east, COMPACTED, by, self.clock)
            logs = [bounds(side, places, by, self.clock) for side in (east, west)]
            left, right = (
                read(side, each, committed=True, by=by, clock=self.clock)
                for side, each in zip((east, west), logs, strict=True)
            )
            source, copy = source | left, copy | right
            wanted = drawn(
                {at: (each.start, each.end) for at, each in source.items()}, self.positions, Random(self.seed)
            )
            tanist = CommandLine(self.house.config, self.screen)
            found = looked_up(tanist, MIRROR, wanted, self.house.directory / "positions.json")
            return Translated.of(found, {at: paired(each, copy[at]) for at, each in source.items()})


def bugs(workers: Workers, names: Iterable[str]) -> list[str]:
    """What workers have said that have died of a bug."""
    logs = ((worker, workers.log(worker).read_text(errors="replace")) for worker in names)
    return [f"{worker}: {line}" for worker, log in logs for line in log.splitlines() if _BUG.search(line)]


def _broken(what: str, work: Callable[[], None]) -> list[str]:
    """Do it; what of it has broken, in words: everything is compared all the same."""
    try:
        work()
    except Exception as why:  # noqa: BLE001 -- whatever it is, it is reported, and makes the storm fail
        return [f"{what}: {type(why).__name__}: {why}"]
    return []


def _sum(source: Traces, copy: Traces, runs: Mapping[Place, OffsetMap], surplus: Mapping[Place, int]) -> LogVerdict:
    """Markers behind the last record are no difference: the run that tells of them comes with the next record."""
    verdicts = (
        compare(place, trace, _without(copy[place], surplus[place]), _locate(runs, place))
        for place, trace in source.items()
    )
    return sum(verdicts, LogVerdict())


def _kept(acknowledged: Trace, source: Trace) -> Trace:
    """Without the records of unknown offset that the source does not have either: nobody could copy them.

    A broker that starts again forgets the producers whose latest timestamp is older than `producer.id.expiration.ms`
    (ProducerStateManager.loadFromSnapshot). Of the batches in flight it may then take a later one first, and one twice;
    what came before the later one it calls a repeat, which producers count as acknowledged.
    """
    there = set(source.digests)
    return replace(acknowledged, unplaced=array("q", (each for each in acknowledged.unplaced if each in there)))


def _without(trace: Trace, surplus: int) -> Trace:
    return replace(trace, end=trace.end - max(0, surplus))


def _locate(runs: Mapping[Place, OffsetMap], place: Place) -> Locate:
    return cast("Locate", runs[place].locate) if place in runs else identical


def run(  # noqa: PLR0913  # what a storm is made of, named
    screen: Screen,
    clock: Clock,
    *,
    seconds: float,
    seed: int,
    directory: Path,
    brokers: tuple[int, int] = (2, 3),
    delivery: Delivery | None = None,
    positions: int = MANY,
) -> Outcome:
    """Clusters and workers in `directory`, which keeps their data and logs; all processes end with the call."""
    with ExitStack() as until_the_end:
        with screen.step(f"Two clusters, of {brokers[0]} and of {brokers[1]} broker(s)"):
            east, west = (
                ClusterSpec(name=name, brokers=count, properties=CLEANERS)
                for name, count in zip(("east", "west"), brokers, strict=True)
            )
            building = environment(east, west, clock, directory=directory, say=screen.say, keep_data=True)
            home = until_the_end.enter_context(building)
        proxy = until_the_end.enter_context(Proxy())
        doors = proxy.door(home.source), proxy.door(home.destination)
        lead_through(doors, home)
        return Storm(screen, clock, seed, seconds, home, doors, delivery, positions).run()


def lead_through(doors: tuple[Door, Door], house: Environment) -> None:
    """Workers and commands, which read the addresses in `house.config`."""
    text = house.config.read_text(encoding="utf-8")
    for door, cluster in zip(doors, (house.source, house.destination), strict=True):
        assert cluster.bootstrap_servers in text
        text = text.replace(cluster.bootstrap_servers, door.bootstrap_servers)
    house.config.write_text(text, encoding="utf-8")
