"""East mirrored to west in memory, a worker that copies while time passes, and clients on both sides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tanist.domain.acl_entries import AclEntry
from tanist.domain.checks import Mode
from tanist.domain.logins import MirrorLogin
from tanist.domain.names import MirrorName, MirrorPartition, ProducerId, SourceOffset, SourcePartition
from tanist.domain.records import (
    GROUPS_TOPIC,
    OFFSETS_TOPIC,
    STATE_TOPIC,
    GroupSyncStatus,
    OffsetTailMode,
)
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.domain.states import MirrorState
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.command import CommandContext
from tanist.usecases.failover import planning
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.failover.run import RunOutcome, run
from tanist.usecases.failover.tools import GroupsMoved, Timeouts, Tools
from tanist.usecases.mirror import OpenMirror
from tests.builders import DR, a_mirror, a_partition, a_topic, a_worker
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import nowhere, pair_with
from tests.fakes.failover import (
    GuardedCluster,
    MemoryApprovals,
    MemoryOpening,
)
from tests.fakes.halves import Halves
from tests.fakes.sink import MemorySink
from tests.fakes.state import WORKER, MemoryStateStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.approval.entries import Approval
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import ClusterPair
    from tanist.usecases.groups.sync import SyncRequest

RATE = 4.0
"""Offsets a second that each partition of east grew by, as workers have written it down."""
DATA, FILLER, START = ProducerId(7), ProducerId(8), ProducerId(9)
WRITER = AclEntry("User:eve", "*", allowed=True)
"""Who may write to every topic of east, besides the mirror."""
TOPICS = {"orders": 2, "payments": 1}
PARTITIONS = tuple(MirrorPartition(name, n) for name, count in TOPICS.items() for n in range(count))


class Killed(BaseException):
    """The process is gone: nothing may catch it."""


class BusyClock(JumpingClock):
    """While time passes, others work."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        self.meanwhile()


@dataclass
class FailoverWorld:
    """`copying`: the worker is alive, `speed` records a tick. `writing`: an ordinary producer of the source is.

    `kind`: of both clusters. `destination`: of several mirrors, each has topics of its own there.
    """

    mirror: MirrorName = DR
    topics: Mapping[str, int] = field(default_factory=lambda: TOPICS)
    source: str = "east"
    destination: str | GuardedCluster = "west"
    authorizer: bool = True
    copying: bool = True
    writing: bool = False
    speed: int = 10
    held: tuple[tuple[str, str], ...] = (("retention.ms", "60000"), ("cleanup.policy", "compact"))
    """What every topic of east is configured as, and its copy once it takes over."""
    clock: BusyClock = field(default_factory=BusyClock)
    login: MirrorLogin = field(default_factory=lambda: MirrorLogin("User:mirror"))
    sink: MemorySink = field(default_factory=MemorySink)
    groups_moved: GroupsMoved = field(default_factory=lambda: GroupsMoved(rows=({"group": "billing"},)))
    moved: list[tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)
    pair: ClusterPair = field(default_factory=pair_with)
    kind: type[GuardedCluster] = GuardedCluster
    spec_fields: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partitions = tuple(MirrorPartition(name, n) for name, count in self.topics.items() for n in range(count))
        self.east = self.kind(self.source, authorizer=self.authorizer, clock=self.clock)
        if isinstance(self.destination, str):
            self.west = self.kind(self.destination, authorizer=self.authorizer, clock=self.clock)
            self.west.with_topic(STATE_TOPIC).with_topic(OFFSETS_TOPIC).with_topic(GROUPS_TOPIC)
            MemoryApprovals(self.west).create(self.soon())
        else:
            self.west = self.destination
        for name, partitions in self.topics.items():
            self.east.with_topic(name, partitions, retention_ms="-1")
            self.west.with_topic(name, partitions, retention_ms="-1")
            self.east.rules[name] = (WRITER, AclEntry("User:mirror", "*", allowed=True))
        self.clock.meanwhile = self.tick
        for at in self.partitions:
            self.east.grow(at, 10)
        fields: dict[str, Any] = {"data_id": DATA, "marker_id": FILLER, "start_id": START} | dict(self.spec_fields)
        self.spec = a_mirror(
            self.mirror,
            source=self.east.name,
            destination=self.west.name,
            source_cluster_id=self.east.id,
            destination_cluster_id=self.west.id,
            **fields,
        )
        self.worker = MemoryStateStore(self.west, STATE_TOPIC, WORKER)
        self._register()
        self.tick()

    def without_acls(self, topic: str) -> None:
        """No ACL of the source matches `topic`, and none did when it was added: everybody may do everything there."""
        self.east.bare.add(topic)
        self.east.rules[topic] = ()
        stored = self.west.view(STATE_TOPIC).topic(self.mirror, topic)
        assert stored is not None
        self.worker.append([replace(stored, deferred_acls=())], self.soon())

    def _register(self) -> None:
        desired = [
            a_topic(
                name,
                mirror=self.mirror,
                source_topic_id=f"id-of-{name}",
                partitions=count,
                deferred_configs=self.held,
                deferred_acls=(WRITER, AclEntry("User:mirror", "*", allowed=True)),
            )
            for name, count in self.topics.items()
        ]
        self.worker.append([self.spec, *desired], self.soon())
        self.observe(MirrorState.MIRRORING)
        self.follow_groups(self.west, self.spec.mirror_id)

    def follow_groups(self, destination: GuardedCluster, mirror_id: str) -> None:
        """A worker has read all committed offsets of the source up to now."""
        now = self.clock.now()
        status = GroupSyncStatus(
            mirror=self.mirror,
            mirror_id=mirror_id,
            worker="w",
            mode=OffsetTailMode.TAILING,
            complete_until_ms=now,
            at=now,
        )
        MemoryStateStore(destination, GROUPS_TOPIC, WORKER).append([status], self.soon())

    def make_again(self) -> None:
        """The mirror was deleted, and another one of its name is made."""
        self.spec = replace(self.spec, mirror_id="another", data_id=ProducerId(17), marker_id=ProducerId(18))
        self._register()

    # ── others at work ────────────────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> None:
        """A little time passes: producers write, the worker copies what it may."""
        if self.writing and not self.east.dead:
            for at in self.partitions:
                if self.east.may_write(at.topic, "app"):
                    self.east.grow(at)
        if not self.west.dead and self.copying:
            self._heartbeat()
            for at in self.partitions:
                self._copy(at)

    def _heartbeat(self) -> None:
        now = self.clock.now()
        alive = a_worker(at=now, principal=self.login.principal, unbound=self.login.unbound)
        found = {at: self.east.ends[at] for at in self.partitions}
        ends = tuple(
            SourceEnd(SourcePartition(*at), SourceOffset(e[2]), SourceOffset(e[1]), RATE) for at, e in found.items()
        )
        reported = [] if self.east.dead else [SourceEnds(mirror=self.mirror, chunk=0, ends=ends, at=now)]
        self.worker.append([alive, *reported], self.soon())

    def _copy(self, at: MirrorPartition) -> None:
        if self.east.dead or self.view().promoted(self.mirror, at.topic):
            return
        for _ in range(self.speed):
            if self.west.ends[at][2] < self.east.ends[at][1]:
                self.west.append(at, self.spec.data_id, 0)

    def behind(self, records: int = 30) -> None:
        """The copy is behind, and slow."""
        self.speed = 1
        for at in self.partitions:
            self.east.grow(at, records)
        self._heartbeat()

    def zombie(self, at: MirrorPartition) -> bool:
        """Whether an old worker that looks at nothing gets a record or a filler in."""
        ids = self.spec.writer
        data, filler = self.west.append(at, ids.data, 0), self.west.append(at, ids.marker, 32_766)
        return data or filler or self.west.append(at, ids.start, 0)

    def observe(self, state: MirrorState, *partitions: MirrorPartition, error: str | None = None) -> None:
        records = [
            a_partition(
                state,
                mirror=self.mirror,
                partition=at,
                error=error,
                last_mirrored_epoch=4,
                claim_epoch=1,
                at=self.clock.now(),
            )
            for at in partitions or self.partitions
        ]
        self.worker.append(records, self.soon())

    # ── people at work ────────────────────────────────────────────────────────────────────────────────────────────

    def view(self) -> StateView:
        """What is stored at the destination now."""
        return self.worker.catch_up(self.soon())

    def soon(self, seconds: float = 30) -> Deadline:
        return self.clock.deadline(seconds)

    def clusters(self, user: str = "approver", *, approver: bool = True) -> OpenMirror:
        return OpenMirror(
            spec=self.spec,
            source=self.east.side(),
            destination=replace(
                self.west.side(),
                opening=MemoryOpening(self.west, self.must_be_sealed),
                approvals=MemoryApprovals(self.west, user, approver=approver),
            ),
            pair=self.pair,
            from_source=nowhere,
        )

    def _move_groups(self, _mirror: OpenMirror, request: SyncRequest, _command: CommandContext) -> GroupsMoved:
        request.confirm()
        self.moved.append((tuple(sorted(request.chosen.topics or ())), request.chosen.groups))
        return self.groups_moved

    def command(self, seconds: float = 600) -> CommandContext:
        return CommandContext(clock=self.clock, by=self.clock.deadline(seconds))

    def plan(self, mode: Mode = Mode.PLANNED, *include: str) -> planning.Planned:
        return planning.plan(FailoverRequest(mode=mode, include=include or (".*",)), self.clusters(), self.command())

    def limitations(self, mode: Mode = Mode.PLANNED) -> dict[str, str]:
        """Of a plan for everything, with the reason of each."""
        return {each.name: each.detail for each in self.plan(mode).plan.limitations}

    def approve(
        self, mode: Mode = Mode.PLANNED, *include: str, valid: float = 3600.0, on_behalf_of: str = "", request: str = ""
    ) -> Approval:
        asked = FailoverRequest(mode=mode, include=include or (".*",))
        made = self.plan(mode, *include)
        return planning.approve(
            made.plan.hash,
            asked,
            self.clusters(),
            self.command(),
            terms=ApprovalTerms.of("drill", valid, on_behalf_of),
            request=request,
        )

    def tools(self, checkpoint: Callable[[str], None] = lambda _: None, runner: str = "eve@host") -> Tools:
        patience = Timeouts(proof=2.0, drain=60.0, budget=5.0)
        return Tools(
            patience=patience, sink=self.sink, runner=runner, checkpoint=checkpoint, move_groups=self._move_groups
        )

    def run(  # noqa: PLR0913 -- as `run`
        self,
        plan: str,
        checkpoint: Callable[[str], None] = lambda _: None,
        seconds: float = 600,
        *,
        until: str | None = None,
        runner: str = "eve@host",
        request: str | None = None,
        although_it_answers: bool = True,
    ) -> RunOutcome:
        tools, clusters = self.tools(checkpoint, runner), self.clusters("operator")
        halves = Halves(clusters.destination.producer_fencing, checkpoint)
        clusters = replace(clusters, destination=replace(clusters.destination, producer_fencing=halves))
        command = self.command(seconds)
        return run(
            plan, clusters, tools, command, until=until, request=request, although_it_answers=although_it_answers
        )

    # ── what must never be ────────────────────────────────────────────────────────────────────────────────────────

    def must_be_sealed(self, topics: Sequence[str]) -> None:
        """Nothing is ever writable unsealed."""
        for at in self.partitions:
            if at.topic in topics:
                assert not self.zombie(at), f"{at} is being opened while the mirror can still write"

    def source_is_as_it_was(self) -> bool:
        return not self.east.deny and all("max.message.bytes" not in self.east.topics[t].configs for t in self.topics)
