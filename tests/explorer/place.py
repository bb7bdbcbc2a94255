"""Where it is played: two clusters in memory, the clients of both, and everything that was seen to happen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from tanist.domain.names import SourcePartition, TopicPartition
from tests.explorer.groups import WatchedGroups
from tests.explorer.product import (
    ANYBODY,
    GROUPS_TOPIC,
    STATE_TOPIC,
    AclEntry,
    CommandContext,
    FenceStatus,
    GuardedCluster,
    MemoryApprovals,
    MemoryStateStore,
    MirrorName,
    MirrorPartition,
    MirrorRequest,
    MirrorSpec,
    RunStatus,
    create,
)
from tests.explorer.stage import Effect, Stage, StageClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.fences import FencedTopic
    from tanist.ports.topics import Topics
    from tests.explorer.product import CommittedPosition, Evidence, StateView

DR: Final = MirrorName("dr")
TOPICS: Final = {"orders": 2, "payments": 1}
PARTITIONS: Final = tuple(MirrorPartition(name, n) for name, count in TOPICS.items() for n in range(count))
GROUP: Final = "billing"
APP: Final = "app"
RULES: Final = (AclEntry("User:app", "*", allowed=True), AclEntry("User:mirror", "*", allowed=True))
CLIENTS_SECONDS: Final = 0.5
WORKERS: Final = frozenset({"worker's debts", "rested's debts"})
EARLIER_LIFE: Final = "no record of an earlier life"
LAST_LOOK_SECONDS: Final = 1.0
GRACE_SECONDS: Final = 20.0
"""So long a worker that lives may need to put right what a sleeper has done late."""


class Book:
    """The port `Sink`: the evidence of one plan. Whether its chain holds is proved elsewhere."""

    def __init__(self) -> None:
        self._kept: Evidence | None = None

    def flush(self, evidence: Evidence) -> None:
        self._kept = evidence

    def before(self) -> Evidence | None:
        return self._kept


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """A partition when it was sealed. `acknowledged`: by the source; `told`: of that, what workers had written down.

    `cut`: deleted from the copy alone.
    """

    copied_until: int
    acknowledged: int
    told: int
    cut: int


@dataclass
class Violation:
    rule: str
    what: str
    at: float


class Ground(Protocol):
    """What calls that are watched, and a worker, need of where they are."""

    stage: Stage
    clock: StageClock
    beats: float
    """When a worker has last said that it lives."""

    @property
    def east(self) -> GuardedCluster: ...

    @property
    def west(self) -> GuardedCluster: ...

    def before(self, label: str, args: tuple[Any, ...]) -> None:
        """A call is about to be done."""
        ...

    def after(self, label: str, args: tuple[Any, ...]) -> None:
        """A call was done."""
        ...

    def copy(self, spec: MirrorSpec, at: MirrorPartition, count: int) -> None:
        """A worker of the mirror copies so many offsets more."""
        ...

    def source_positions(self) -> Mapping[TopicPartition, tuple[int, CommittedPosition]]:
        """Of the group at the source."""
        ...

    def held_topics(self, source: GuardedCluster) -> Callable[[MirrorSpec], Topics] | None:
        """Where a worker holds retention; None: nowhere."""
        ...


@dataclass
class Place:
    """`writing`: an application writes at the source; `moved`: topics whose clients have gone over.

    `excused`: topics that a person has made writable on both sides, knowing what that means.
    """

    stage: Stage
    authorizer: bool = True
    writing: bool = True
    consuming: bool = True
    violations: list[Violation] = field(default_factory=list)
    excused: set[str] = field(default_factory=set)
    by_hand: set[str] = field(default_factory=set)
    cut_at: dict[MirrorPartition, float] = field(default_factory=dict)
    """When records were deleted from a copy."""
    abandoned: set[str] = field(default_factory=set)
    """Fences that a person has left behind, with a reason."""
    put_up: dict[str, float] = field(default_factory=dict)
    """Fences that the product has put up, and has not lifted since: when."""
    sealed_at: dict[tuple[int, MirrorPartition], FencedProducer] = field(default_factory=dict)
    """By data id."""
    books: dict[str, Book] = field(default_factory=dict)
    beats: float = 0.0
    """When a worker has last said that it lives."""

    def __post_init__(self) -> None:
        self.clock = StageClock(self.stage)
        self.east = GuardedCluster("east", authorizer=self.authorizer, clock=self.clock)
        self.west = GuardedCluster("west", authorizer=self.authorizer, clock=self.clock)
        self.at_east, self.at_west = WatchedGroups(self.east), WatchedGroups(self.west)
        self._two_sided: dict[str, float] = {}
        self._consumer_until = 0.0
        for name, partitions in TOPICS.items():
            self.east.with_topic(name, partitions, 10, retention_ms="86400000")
            self.east.rules[name] = RULES
        self.west.with_topic(GROUPS_TOPIC)
        self._reader = MemoryStateStore(self.west, STATE_TOPIC)
        self.make()
        MemoryApprovals(self.west).create(self.clock.deadline(9))
        for at in PARTITIONS:
            self.at_east.commit(GROUP, at, 5)
        self.stage.every(CLIENTS_SECONDS, self.clients)
        self.stage.cues[Effect.DIE] = self.source_dies
        self.stage.cues[Effect.RETURN] = self.source_returns

    def make(self) -> None:
        """The mirror, by nobody on the stage."""
        run = CommandContext(clock=self.clock, by=self.clock.deadline(60))
        create(MirrorRequest(mirror=DR, include=tuple(TOPICS)), self.east.side(), self.west.side(), run)

    def copy(self, spec: MirrorSpec, at: MirrorPartition, count: int) -> None:
        self.west.append(at, spec.data_id, 0, count)

    def source_positions(self) -> Mapping[TopicPartition, tuple[int, CommittedPosition]]:
        return self.at_east.group(GROUP).positions

    def held_topics(self, source: GuardedCluster) -> None:
        """Nothing expires here."""

    def source_dies(self) -> None:
        self.stage.say("the source dies")
        self.east.dead = True

    def source_returns(self) -> None:
        self.stage.say("the source is back")
        self.east.dead = False

    # ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────

    def view(self) -> StateView:
        """The state topic, past everybody."""
        return self._reader.catch_up(self.clock.deadline(0))

    def spec(self) -> MirrorSpec | None:
        return self.view().mirror(DR)

    def sealed(self, spec: MirrorSpec, at: MirrorPartition) -> bool:
        epochs = self.west.epochs
        return epochs.get((at, spec.data_id), -1) >= 1 and epochs.get((at, spec.marker_id), -1) >= 32_767

    def is_open(self, topic: str) -> bool:
        """Whether the destination has taken over: applications can write there, the mirror cannot."""
        view = self.view()
        spec = view.mirror(DR)
        if spec is None or not view.promoted(DR, topic):
            return False
        if topic not in self.west.topics or not self.west.may_write(topic, APP):
            return False
        ours = [at for at in PARTITIONS if at.topic == topic]
        shut = not self.authorizer or (topic, f"User:{self.west.user}") in self.west.deny
        return shut and all(self.sealed(spec, at) for at in ours)

    def source_takes(self, topic: str) -> bool:
        """Whether a producer can be acknowledged at the source."""
        return not self.east.dead and self.east.may_write(topic, APP)

    def violated(self, rule: str, what: str) -> None:
        if not any((each.rule, each.what) == (rule, what) for each in self.violations):
            self.violations.append(Violation(rule, what, self.stage.now))
            self.stage.say(f"VIOLATED: {rule}: {what}")

    # ── clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    def clients(self) -> None:
        """Half a second of what applications do on both sides."""
        gone_over = {topic for topic in TOPICS if self.is_open(topic)}
        taken = {topic for topic in TOPICS if self.source_takes(topic)} if self.writing else set()
        group = self.at_east.group(GROUP)
        for at in PARTITIONS:
            if at.topic in gone_over:
                self.west.grow(at)
                continue
            if at.topic in taken:
                self.east.grow(at)
            if not self.east.dead:
                held, stable = group.now(at), self.east.ends[at][1]
                if held is None or held.offset < stable:
                    self.at_east.commit(GROUP, at, min((held.offset if held else 0) + 2, stable))
        self._consumer(gone_over)
        self._two_sides(gone_over)
        for what in self.at_west.backwards:
            self.violated("no group backwards", what)
        self.at_west.backwards.clear()

    def _consumer(self, gone_over: set[str]) -> None:
        """A member joins where its group has a position, reads on for some seconds, and rests."""
        group = self.at_west.groups.get(GROUP)
        held = {at: each for at, (_, each) in group.positions.items() if at.topic in gone_over} if group else {}
        if group is None or not held or not self.consuming:
            return
        group.members = int(self.stage.now % 20 < 8)
        for at, position in held.items() if group.members else ():
            end = self.west.ends[at][2]
            self.at_west.commit(GROUP, at, max(position.offset, min(position.offset + 3, end)))

    def _two_sides(self, gone_over: set[str]) -> None:
        """Nobody may be acknowledged on both sides for longer than a worker needs to put a late deed right."""
        for topic in TOPICS:
            both = topic in gone_over and self.source_takes(topic) and topic not in self.excused
            if not both or self.is_owed(topic):
                self._two_sided.pop(topic, None)
                continue
            since = self._two_sided.setdefault(topic, self.stage.now)
            if self.stage.now - self.beats > GRACE_SECONDS / 2:
                self._two_sided[topic] = self.stage.now  # no worker lives: nobody can put it right
            elif self.stage.now - since > GRACE_SECONDS and topic not in self.by_hand:
                self.violated("never two writable sides", f"{topic} takes records on both sides, and nothing is owed")

    def is_owed(self, topic: str) -> bool:
        fence = self.fence(topic)
        return fence is not None and fence.status is FenceStatus.PENDING

    def fence(self, topic: str) -> FencedTopic | None:
        """What is on record of the fence of a source topic."""
        return next((each for each in self.view().source_fences(DR) if each.topic == topic), None)

    # ── what is seen ──────────────────────────────────────────────────────────────────────────────────────────────

    def before(self, label: str, args: tuple[Any, ...]) -> None:
        """A call is about to be done."""
        if label in {"producer_fencing.fence_data_producers", "producer_fencing.fence_producers"}:
            for at, writers in args[0].items():
                key = (int(writers.data), at)
                if key not in self.sealed_at and at in self.west.ends:
                    start, _, end = self.west.ends[at]
                    cut = max(0, start - self.east.ends[at][0]) if self._seen_in_time(at) else 0
                    self.sealed_at[key] = FencedProducer(end, self.east.ends[at][2], self._reported_end(at), cut)

    def _seen_in_time(self, at: MirrorPartition) -> bool:
        """Nobody can see what happens between the last look and the barrier."""
        return self.stage.now - self.cut_at.get(at, 0.0) > LAST_LOOK_SECONDS + self.stage.late

    def _reported_end(self, at: MirrorPartition) -> int:
        chunks = self.view().source_ends(DR)
        return max(
            (end.high_watermark for chunk in chunks for end in chunk.ends if end.partition == SourcePartition(*at)),
            default=0,
        )

    def after(self, label: str, args: tuple[Any, ...]) -> None:
        """A call was done."""
        if label == "fencing.apply":
            self._of_this_life(frozenset(each.topic for each in args[0]))
            for each in args[0]:
                if not each.had_deny:
                    self.put_up[each.topic] = self.stage.now
                self.excused.discard(each.topic)
                self.abandoned.discard(each.topic)
                self.by_hand.discard(each.topic)
        elif label == "fencing.lift":
            for each in args[0]:
                self.put_up.pop(each.topic, None)
        elif label.startswith("state.append"):
            self._one_at_a_time()

    def _of_this_life(self, topics: frozenset[str]) -> None:
        """A worker puts up a fence: some failover of this very mirror must have wanted it."""
        spec = self.spec()
        if self.stage.player not in WORKERS or self.stage.late or spec is None:
            return
        if not any(each.started_at >= spec.created_at for each in self.view().failovers(DR)):
            named = ", ".join(sorted(topics))
            self.violated(EARLIER_LIFE, f"a worker fences {named}, which no failover of this mirror has wanted")

    def _one_at_a_time(self) -> None:
        running = [each.plan for each in self.view().failovers(DR) if each.status is RunStatus.RUNNING]
        if len(running) > 1:
            self.violated("one unfinished run at a time", f"{len(running)} are RUNNING: {', '.join(running)}")

    # ── somebody with a console ───────────────────────────────────────────────────────────────────────────────────

    def fence_lifted_by_hand(self, topic: str) -> None:
        self.east.deny.discard((topic, ANYBODY))
        if self.put_up.pop(topic, None) is not None:
            self.by_hand.add(topic)

    def wipe_destination(self) -> None:
        """The copies are deleted, with their access rules and what brokers remembered of their writers."""
        for name in TOPICS:
            if name in self.west.topics:
                self.west.drop(name)
        self.west.deny = {each for each in self.west.deny if each[0] not in TOPICS}
        self.at_west.groups.pop(GROUP, None)

    def truncate(self, at: MirrorPartition, count: int) -> None:
        """DeleteRecords at the destination."""
        start, stable, high = self.west.ends[at]
        self.cut_at[at] = self.stage.now
        self.west.ends[at] = (min(high, start + count), stable, high)
