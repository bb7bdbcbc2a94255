"""Where a whole circle is played: two clusters whose records can be told apart, and a mirror that goes to and fro."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tests.explorer.place import APP, DR, GRACE_SECONDS, PARTITIONS, TOPICS, Violation
from tests.explorer.product import (
    GROUPS_TOPIC,
    STATE_TOPIC,
    AclEntry,
    CommandContext,
    MemoryApprovals,
    MemoryStateStore,
    MemoryTopics,
    MirrorPartition,
    MirrorRequest,
    MoveStatus,
    RecordedCluster,
    Reversal,
    Written,
    create,
    locate,
)
from tests.explorer.stage import Stage, StageClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.names import TopicPartition
    from tanist.ports.topics import Topics
    from tests.explorer.place import Book
    from tests.explorer.product import CommittedPosition, MirrorMove, MirrorSpec, StateView, TailStage

CLIENTS_SECONDS: Final = 2.0
RETENTION_MS: Final = "86400000"
MIRROR: Final = AclEntry("User:mirror", "*", allowed=True)
CLIENT: Final = AclEntry(f"User:{APP}", "*", allowed=True)
CHANGES: Final = frozenset({
    "fencing.apply", "fencing.lift", "opening.open", "opening.close", "opening.deny", "opening.undeny", "opening.give",
    "opening.take_back", "topics.alter_configs", "deletion.delete", "replays.append",
})  # fmt: skip
"""Calls after which everything is judged: they change who may write, or what is kept."""
AS_IT_WAS: Final = "what is withdrawn is as it was"


@dataclass(frozen=True, slots=True)
class TopicWas:
    """What a topic of the old source was before a reversal."""

    denied: frozenset[str]
    given: frozenset[AclEntry]
    configs: Mapping[str, str]
    topic_id: str


@dataclass
class Circle:
    """East is mirrored to west at first. `off`: clusters that nobody reaches; one that only we do not is `dead`.

    `acknowledged`: by partition, the numbers of records. `given_up`: of those, what retention has deleted before any
    survey, and what was deleted unseen, as a person has accepted by name. `check` judges what there is, whenever
    something was done.
    """

    stage: Stage
    authorizer: bool = True
    writing: bool = True
    check: Callable[[str], None] = field(default=lambda _when: None)
    violations: list[Violation] = field(default_factory=list)
    books: dict[str, Book] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)
    acknowledged: defaultdict[MirrorPartition, set[int]] = field(default_factory=lambda: defaultdict(set))
    given_up: set[int] = field(default_factory=set)
    truncated: bool = False
    """Retention has deleted at an old source what the new primary still has: no failover to it for a while."""
    row_done: Callable[[str, str], None] = field(default=lambda _table, _what: None)
    """Judges a row: the name of its table, and its id; with `undo` before it, that it was put back."""
    beats: float = 0.0
    late: float = float("-inf")
    """When a call was done last that its actor was frozen directly before."""

    def __post_init__(self) -> None:
        self.clock = StageClock(self.stage)
        self.east, self.west = (
            RecordedCluster(name, authorizer=self.authorizer, clock=self.clock) for name in ("east", "west")
        )
        self._numbers = count(1)
        self._since: dict[str, float] = {}
        self._was: dict[str, dict[str, TopicWas]] = {}
        self._led_by: dict[str, RecordedCluster] = {}
        self._home: tuple[tuple[StateView, StateView], RecordedCluster] | None = None
        for name, partitions in TOPICS.items():
            self.east.with_topic(name, partitions, retention_ms=RETENTION_MS)
            if self.authorizer:
                self.east.rules[name] = (CLIENT, MIRROR)
                self.west.rules[name] = (MIRROR,)
        for cluster in self.both:
            cluster.with_topic(GROUPS_TOPIC).with_topic(STATE_TOPIC)
            MemoryApprovals(cluster).create(self.clock.deadline(9))
        for at in PARTITIONS:
            self.write(self.east, at, 4)
        run = CommandContext(clock=self.clock, by=self.clock.deadline(60))
        create(MirrorRequest(mirror=DR, include=tuple(TOPICS)), self.east.side(), self.west.side(), run)
        self.stage.every(CLIENTS_SECONDS, self.clients)

    # ── what there is ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def both(self) -> tuple[RecordedCluster, RecordedCluster]:
        return self.east, self.west

    def named(self, name: str) -> RecordedCluster:
        return self.east if name == "east" else self.west

    def state(self, cluster: RecordedCluster) -> StateView:
        """The state topic of a cluster, past everybody: the same view as long as nothing is added."""
        found = cluster.folded.get(STATE_TOPIC)
        if found is not None and found[0] == len(cluster.states[STATE_TOPIC]):
            return found[1]
        return MemoryStateStore(cluster, STATE_TOPIC).view()

    def views(self) -> tuple[StateView, StateView]:
        return self.state(self.east), self.state(self.west)

    def home(self) -> RecordedCluster:
        """Where the mirror is; of two, where it arrives. Everything that is judged asks for it, so it is kept."""
        east, west = self.views()
        if self._home is None or self._home[0][0] is not east or self._home[0][1] is not west:
            has = [each for each in self.both if self.state(each).mirror(DR) is not None]
            arrived = [each for each in has if self._arrives(each)]
            self._home = (east, west), (arrived or has)[0]
        return self._home[1]

    def _arrives(self, cluster: RecordedCluster) -> bool:
        return locate(DR, self.state(cluster)).arrival is not None

    def view(self) -> StateView:
        """Of the mirror where it is."""
        return self.state(self.home())

    def spec(self) -> MirrorSpec:
        spec = self.view().mirror(DR)
        assert spec is not None
        return spec

    def moves(self) -> bool:
        """Whether a reversal is unfinished."""
        return any(view.moving(DR) is not None for view in self.views())

    def is_at_work(self) -> bool:
        """Whether a run or a reversal is unfinished."""
        return self.moves() or any(view.unfinished(DR) is not None for view in self.views())

    def takes(self, cluster: RecordedCluster, topic: str) -> bool:
        """Whether an application is acknowledged there. It knows a mirror topic even if no ACL keeps it off."""
        if cluster.name in self.off or topic not in cluster.topics or not cluster.may_write(topic, APP):
            return False
        view = self.state(cluster)
        copies = view.topic(DR, topic) is not None and not view.promoted(DR, topic)
        return self.authorizer or not copies

    def primary(self, topic: str) -> RecordedCluster:
        """Whose log the topic's records belong to. That of a topic that a reversal has left behind stays the same."""
        home = self.home()
        if topic not in self._led_by or not self.is_behind(topic):
            self._led_by[topic] = home if self.state(home).promoted(DR, topic) else self.other(home)
        return self._led_by[topic]

    def is_behind(self, topic: str) -> bool:
        """Whether a reversal has left the topic behind: the mirror has it no more."""
        return self.view().topic(DR, topic) is None

    def has_old_source(self, topic: str) -> bool:
        """Whether its former primary has a log that nobody copies from any more, or that is not copied to yet."""
        return self.is_behind(topic) or self.view().promoted(DR, topic)

    def other(self, cluster: RecordedCluster) -> RecordedCluster:
        return self.west if cluster is self.east else self.east

    def violated(self, rule: str, what: str) -> None:
        """The first one of each rule."""
        if not any(each.rule == rule for each in self.violations):
            self.violations.append(Violation(rule, what, self.stage.now))
            self.stage.say(f"VIOLATED: {rule}: {what}")

    def lasts(self, what: str, *, holds: bool) -> bool:
        """Whether `what` holds for longer than workers that live need to put right what a sleeper has done late.

        Where nobody was late, that is at once.
        """
        if not holds:
            self._since.pop(what, None)
            return False
        self._since.setdefault(what, self.stage.now)
        if self.stage.now - self.beats > GRACE_SECONDS / 2:
            self._since[what] = self.stage.now  # no worker lives: nobody can put it right
        return self.late < 0 or self.stage.now - self._since[what] > GRACE_SECONDS

    # ── clients ───────────────────────────────────────────────────────────────────────────────────────────────────

    def clients(self) -> None:
        """What applications do on both sides from time to time."""
        for at in PARTITIONS:
            for cluster in self.both:
                if self.writing and self.takes(cluster, at.topic):
                    self.write(cluster, at)
        self.check("clients")

    def write(self, cluster: RecordedCluster, at: MirrorPartition, records: int = 1) -> None:
        """An application writes, and is acknowledged."""
        for _ in range(records):
            number = next(self._numbers)
            key = b"k%d" % (number % 7) if number % 3 else None
            cluster.keep(at, Written(number, key, int(self.clock.now())))
            self.acknowledged[at].add(number)

    # ── workers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def copy(self, spec: MirrorSpec, at: MirrorPartition, count: int) -> None:
        """At identical offsets; what is no record at the source becomes a marker."""
        home, away = self.named(spec.destination), self.named(spec.source)
        if self.is_foreign(at, home):
            return
        begin = home.ends[at][2]
        for offset in range(begin, begin + count):
            record = away.records[at].get(offset)
            if record is not None and offset >= away.ends[at][0]:
                home.epochs[at, spec.data_id] = 0
                home.keep(at, record, spec.data_id)
            else:
                home.mark(at, spec.marker_id)

    def is_foreign(self, at: MirrorPartition, home: RecordedCluster) -> bool:
        """Whether an application has written where the mirror copies to: a worker finds that, and copies nothing.

        Only where no ACL keeps it off, which is accepted by name.
        """
        topic = None if self.authorizer else self.state(home).topic(DR, at.topic)
        if topic is None or at not in home.ends or self.state(home).promoted(DR, at.topic):
            return False
        begin = topic.copy_start(at.partition) or 0
        return any(home.producers[at, offset] == -1 for offset, _ in home.log(at, begin))

    def source_positions(self) -> Mapping[TopicPartition, tuple[int, CommittedPosition]]:
        return {}

    def held_topics(self, source: Any) -> Callable[[MirrorSpec], Topics]:
        return lambda _spec: MemoryTopics(source)

    # ── what is seen ──────────────────────────────────────────────────────────────────────────────────────────────

    def before(self, label: str, args: tuple[Any, ...]) -> None:
        """A call is about to be done."""
        if self.stage.late:
            self.late = self.stage.now
        if label == "deletion.delete":
            self._gives_up(args[0])

    def after(self, label: str, args: tuple[Any, ...]) -> None:
        """A call was done."""
        if label in CHANGES:
            self.check(f"after {label}")
        elif label.startswith("state.append"):
            self._withdrawals()

    def _gives_up(self, topic: str) -> None:
        """The old source's topic is deleted: what no survey compares was accepted, if the plan says so."""
        for cluster, move in ((each, self.state(each).moving(DR)) for each in self.both):
            if move is not None and topic in Reversal.read(move.plan_json).accepted("RECORDS_NOT_SURVEYED"):
                old = self.other(cluster)
                for at in (each for each in old.ends if each.topic == topic):
                    self.given_up |= {record.number for _, record in old.log(MirrorPartition(*at))}

    def recreated(self, move: MirrorMove) -> list[str]:
        """The topics that this reversal deletes and creates again."""
        return [each.topic for each in Reversal.read(move.plan_json).topics if each.recreation is not None]

    def is_replaced(self, topic: str) -> bool:
        """Whether the old source of a promoted topic has another one of that name by now."""
        home = self.home()
        held, facts = self.state(home).topic(DR, topic), self.other(home).topics.get(topic)
        promoted = self.state(home).promoted(DR, topic)
        return promoted and held is not None and facts is not None and facts.topic_id != held.source_topic_id

    def is_fenced(self, cluster: RecordedCluster, topic: str) -> bool:
        """Whether a source fence stands there. Nobody else denies everybody, or limits messages to so few bytes."""
        if topic not in cluster.topics:
            return False
        near = cluster.topics[topic].configs.get("max.message.bytes") == "78"
        return near or (topic, "User:*") in cluster.deny

    def _withdrawals(self) -> None:
        for cluster in self.both:
            move = self.state(cluster).move(DR)
            if move is None:
                continue
            old = self.other(cluster)
            if move.status is MoveStatus.MOVING and move.destination == old.name:
                self._was.setdefault(move.approval, {name: self._now(old, name) for name in TOPICS})
            elif move.status is MoveStatus.WITHDRAWN and (was := self._was.pop(move.approval, None)):
                self._must_be_back(old, was)

    def _now(self, cluster: RecordedCluster, name: str) -> TopicWas:
        facts = cluster.topics.get(name)
        return TopicWas(
            denied=frozenset(who for topic, who in cluster.deny if topic == name),
            given=frozenset(rule for topic, rule in cluster.given if topic == name),
            configs=dict(facts.configs) if facts else {},
            topic_id=facts.topic_id if facts else "",
        )

    def _must_be_back(self, old: RecordedCluster, was: Mapping[str, TopicWas]) -> None:
        if self.late > 0:
            return  # a sleeper's late deed is another rule's
        for name, before in was.items():
            now = self._now(old, name)
            same = (before.denied, before.given) == (now.denied, now.given)
            if not same or (before.topic_id == now.topic_id and before.configs != now.configs):
                self.violated(AS_IT_WAS, f"{name} at {old.name}: {now}, was {before}")

    # ── somebody with a console, and disasters ────────────────────────────────────────────────────────────────────

    def source_dies(self, records: int, *, hidden: bool) -> None:
        """The source is gone with records that nobody has copied; `hidden`: only to us, clients reach it still."""
        source = self.named(self.spec().source)
        self.stage.say(
            f"{source.name} {'is hidden' if hidden else 'dies'} with {records} records more in each partition"
        )
        for at in PARTITIONS:
            if self.takes(source, at.topic):
                self.write(source, at, records)
        source.dead = True
        if not hidden:
            self.off.add(source.name)

    def overflows(self) -> None:
        """Clients that reach a hidden source write more than was reserved for it."""
        at, view = PARTITIONS[-1], self.view()
        source = self.named(self.spec().source)
        for entry in view.lineage(DR, at.topic)[-1:] if self.takes(source, at.topic) else ():
            self.write(source, at, max(0, entry.reserve_ends[at.partition] - source.ends[at][2] + 2))

    def everybody_returns(self) -> None:
        """Both clusters are reached by everybody."""
        self.stage.say("both clusters are back")
        self.off.clear()
        for cluster in self.both:
            cluster.dead = False

    def retention_runs(self) -> None:
        """At an old source retention deletes all that is not held."""
        for topic in filter(self.has_old_source, TOPICS):
            old = self.other(self.primary(topic))
            retention = old.topics[topic].configs.get("retention.ms") if topic in old.topics else None
            if old.name not in self.off and retention == RETENTION_MS:
                self._expires(old, topic)

    def _expires(self, old: RecordedCluster, topic: str) -> None:
        self.truncated = True
        for at in PARTITIONS:
            if at.topic == topic:
                gone = list(old.log(at))
                self.stage.say(f"retention deletes {len(gone)} records of {at} at {old.name}")
                old.expire(at)
                self.given_up |= {record.number for offset, record in gone if not self._is_surveyed(at, old, offset)}

    def _is_surveyed(self, at: MirrorPartition, old: RecordedCluster, offset: int) -> bool:
        spans = [span for view in self.views() for _, span in tails_on_record(view, at, old)]
        return any(begin <= offset < end for begin, end in spans)


def tails_on_record(
    view: StateView, at: MirrorPartition, cluster: RecordedCluster
) -> list[tuple[TailStage, tuple[int, int]]]:
    """The tails of a partition that are on record of a cluster's log: how far each is, and its offsets."""
    return [
        (of.stage, (tail.common_end, tail.end))
        for of in view.tails(DR)
        if (of.topic, of.cluster_id) == (at.topic, cluster.id)
        for tail in of.tails
        if tail.partition == at.partition
    ]
