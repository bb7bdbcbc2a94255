"""Groups that go on at the destination while a command or a failover sleeps, over the real use cases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import GroupCommitFenced, Interrupted, MirrorLocked, TanistError, Unreachable
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, SourcePartition
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, GroupPosition, OffsetRangeWritten
from tanist.domain.translation import Conservative, Proof, Translator, Withheld
from tanist.domain.translators.by_map import MAP
from tanist.ports.positions import ProofResult
from tanist.usecases.failover.run import run as run_failover
from tanist.usecases.failover.tools import move_groups
from tanist.usecases.groups import strategies
from tanist.usecases.groups.explain import explain
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_groups, sync_locked
from tanist.usecases.lock import FRESH_MS, Purpose, mirror_lock
from tanist.usecases.mirror import OpenMirror
from tests.builders import DR, a_lineage
from tests.fakes.cluster import nowhere as nobody
from tests.fakes.cluster import pair_with
from tests.fakes.positions import BEFORE_END, BEFORE_PENDING, BEFORE_READ, MemoryGroups, MemoryPositions
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld, Killed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster, ClusterPair
    from tanist.ports.positions import GroupFacts, Pair
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.run import RunOutcome
    from tanist.usecases.failover.tools import GroupsMoved
    from tanist.usecases.groups.sync import GroupSyncResult

GROUP, AT = "billing", PARTITIONS[0]
SLEEPS = (BEFORE_PENDING, BEFORE_READ, BEFORE_END)
SEVEN_BEFORE = Translator(
    name="seven",
    basis="guess",
    needs=frozenset(),
    translate=lambda position, _: Conservative(DestinationOffset(position - 7), "seven are read again"),
    explain=lambda position, read: f"seven before {position} of {read.copy}, {len(read.map.runs)} ranges",
)
BY_SEVEN = SyncRequest(chosen=Chosen(strategy="seven"))


def nowhere(_point: str) -> None:
    """It does not sleep."""


class SlowPositions(MemoryPositions):
    def __init__(self, groups: MemoryGroups, mirror: MirrorName, slowly: Callable[[], None]) -> None:
        super().__init__(groups, mirror)
        self._slowly = slowly

    def groups(self, by: Deadline) -> Mapping[str, GroupFacts]:
        self._slowly()
        return super().groups(by)


class Comparing:
    """The port `Proofs`: records are not kept in memory. `meanwhile` is called once, before the first answer."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = [meanwhile]

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        if self._meanwhile:
            self._meanwhile.pop()()
        return dict.fromkeys(pairs, ProofResult(Proof.NONE, "no records in memory"))

    def close(self) -> None:
        pass


@dataclass
class Moving:
    """A mirror with 120 records in AT, and a group that stands at 50 at the source, which is not asked but by `ask`."""

    world: FailoverWorld = field(default_factory=FailoverWorld)
    groups: MemoryGroups = field(init=False)
    source: Cluster | TanistError = field(default_factory=lambda: Unreachable("it is not configured here"))
    pair: ClusterPair | TanistError = field(default_factory=lambda: Unreachable("it is not configured here"))

    def __post_init__(self) -> None:
        world = self.world
        self.groups = MemoryGroups(world.west)
        world.east.grow(AT, 110)
        while world.west.ends[AT][2] < 120:
            world.tick()
        self.keep(50)

    def keep(self, offset: int) -> None:
        """The group stands there at the source, as a fetcher has noted it."""
        kept = GroupPosition(
            mirror=DR, group=GROUP, partition=SourcePartition(*AT), offset=SourceOffset(offset), at=EpochMs(offset)
        )
        self.world.west.with_topic(GROUPS_TOPIC).write(GROUPS_TOPIC, kept)

    def ask(self, slow: float, comparing: Callable[[], None]) -> None:
        """The source from now on: it takes `slow` seconds to answer; `comparing` is called once records are proved."""
        groups = MemoryGroups(self.world.east)
        groups.commit(GROUP, AT, 50)
        positions = SlowPositions(groups, DR, lambda: self.world.clock.jump(slow))
        self.source = replace(self.world.east.side(), positions=lambda _: positions)
        self.pair = pair_with(proofs=Comparing(comparing))

    def stands(self) -> int | None:
        found = self.groups.group(GROUP).now(AT)
        return None if found is None else found.offset

    def read_on(self) -> None:
        """A consumer of the destination, from where the group stands, up to 100."""
        assert self.stands() == 50
        self.groups.commit(GROUP, AT, 100)

    def was_primary(self, until: int) -> None:
        """West had been the primary before east, up to `until`, and the mirror was reversed."""
        topic = self.world.worker.catch_up(self.world.soon()).topic(DR, AT.topic)
        assert topic is not None
        led_away = a_lineage(
            *((until,) * topic.partitions), topic=AT.topic, old_cluster_id="id-west", new_cluster_id="id-east"
        )
        began = replace(topic, copy_starts=(until,) * topic.partitions)
        self.world.worker.append([led_away, began], self.world.soon())

    def sync(self, checkpoint: Callable[[str], None] = nowhere, request: SyncRequest | None = None) -> GroupSyncResult:
        command = replace(self.world.command(), holder="sync")
        return sync_locked(self._mirror(self.world.west.side(), checkpoint), request or SyncRequest(), command)

    def sync_without_lock(self, request: SyncRequest | None = None) -> GroupSyncResult:
        mirror = self._mirror(self.world.west.side(), nowhere)
        return sync_groups(mirror, request or SyncRequest(), self.world.command())

    def failover(self, plan: str, checkpoint: Callable[[str], None] = nowhere, runner: str = "eve@host") -> RunOutcome:
        """With the real use case behind the step `groups`."""
        clusters = self.world.clusters("operator")
        mirror = replace(self._mirror(clusters.destination, checkpoint), source=clusters.source)
        tools = replace(self.world.tools(runner=runner), move_groups=self._move_groups)
        return run_failover(plan, mirror, tools, self.world.command())

    def _move_groups(self, mirror: OpenMirror, request: SyncRequest, command: CommandContext) -> GroupsMoved:
        """As the source answers group commands here, whether it answers the failover or not."""
        return move_groups(replace(mirror, source=self.source, pair=self.pair), request, command)

    def _mirror(self, destination: Cluster, checkpoint: Callable[[str], None]) -> OpenMirror:
        positions = MemoryPositions(self.groups, DR, checkpoint)
        there = replace(destination, positions=lambda _: positions)
        return OpenMirror(
            spec=self.world.spec, source=self.source, destination=there, pair=self.pair, from_source=nobody
        )


def asleep_at(wanted: str, meanwhile: Callable[[], None]) -> Callable[[str], None]:
    """Sleeps once, while others are at work."""
    slept: list[str] = []

    def checkpoint(point: str) -> None:
        if point == wanted and not slept:
            slept.append(point)
            meanwhile()

    return checkpoint


def test_a_group_returns_to_the_cluster_that_it_had_left_and_continues_where_it_was_last() -> None:
    """Its position of the time before was taken for one of another group: it read everything since once more."""
    moving = Moving()
    moving.was_primary(until=40)
    moving.groups.commit(GROUP, AT, 40)
    assert not moving.sync().problems
    assert moving.stands() == 50


@pytest.mark.parametrize(("committed", "until"), [(45, 40), (60, 60)])
def test_a_group_that_has_read_what_was_copied_or_more_is_left_where_it_is(committed: int, until: int) -> None:
    """The first one read it while the mirror ran; the other one is ahead, and no group is moved backwards."""
    moving = Moving()
    moving.was_primary(until)
    moving.groups.commit(GROUP, AT, committed)
    (row,) = moving.sync().problems
    assert row.decision == Withheld(row.reason)
    assert moving.stands() == committed


def test_whatever_a_group_is_translated_by_is_read_asked_and_explained_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gathering, rows and explanations knew the offset map: a second way of translating would have touched all."""
    moving = Moving()
    shifted = OffsetRangeWritten(mirror=DR, partition=AT, source=SourceOffset(0), destination=DestinationOffset(9))
    moving.world.west.write(OFFSETS_TOPIC, shifted)
    monkeypatch.setattr(strategies, "TRANSLATORS", {each.name: each for each in (MAP, SEVEN_BEFORE)})
    synced = moving.sync(request=BY_SEVEN)
    (row,) = synced.rows
    assert (row.committed, row.reason, moving.stands()) == (True, "seven are read again", 43)
    assert f"seven before 50 of {row.mirror_end}, 0 ranges" in explain(row, synced.seen), "it does not need the map"
    (row,) = moving.sync(request=SyncRequest(chosen=Chosen(strategy=MAP.name))).rows
    assert (row.offset, row.committed) == (59, True)


@pytest.mark.parametrize("sleeps", SLEEPS)
def test_a_sync_that_wakes_after_a_failover_moves_no_group(sleeps: str) -> None:
    """The failover does not wait for it: it takes the lock away, moves the groups itself and promotes."""
    moving = Moving()
    plan = moving.world.approve().plan

    def meanwhile() -> None:
        assert not moving.failover(plan).left
        moving.read_on()

    with pytest.raises(MirrorLocked):
        moving.sync(asleep_at(sleeps, meanwhile))
    assert moving.stands() == 100


@pytest.mark.parametrize("sleeps", SLEEPS)
def test_a_failover_that_wakes_after_another_run_of_it_moves_no_group(sleeps: str) -> None:
    """Frozen for so long that its heartbeat is none; the other run of the same plan has gone to the end."""
    moving = Moving()
    plan = moving.world.approve().plan

    def meanwhile() -> None:
        moving.world.clock.jump(60)
        assert not moving.failover(plan, runner="mallory@host").left
        moving.read_on()

    with pytest.raises(Interrupted, match="taken over this run"):
        moving.failover(plan, asleep_at(sleeps, meanwhile))
    assert moving.stands() == 100


@pytest.mark.parametrize("sleeps", SLEEPS)
def test_a_failover_run_right_after_a_killed_sync_moves_its_groups(sleeps: str) -> None:
    """Nothing is left pending that would keep a group from being moved before the point of no return."""
    moving = Moving()
    plan = moving.world.approve().plan

    def killed() -> None:
        raise Killed

    with pytest.raises(Killed):
        moving.sync(asleep_at(sleeps, killed))
    outcome = moving.failover(plan)
    assert outcome.evidence.found("groups")["problems"] == []
    assert moving.stands() == 50


@pytest.mark.parametrize("sleeps", SLEEPS)
def test_what_a_killed_sync_has_left_pending_is_undone_before_positions_are_read(sleeps: str) -> None:
    """As a failover reads them, which waits for no lock: not once the transaction of the killed one has timed out."""
    moving = Moving()

    def killed() -> None:
        raise Killed

    moving.sync()
    moving.keep(70)
    with pytest.raises(Killed):
        moving.sync(asleep_at(sleeps, killed))
    assert moving.stands() == 50
    (row,) = moving.sync_without_lock().rows
    assert (row.committed, row.error, moving.stands()) == (True, None, 70)


@pytest.mark.parametrize(("wakings", "committed"), [(1, True), (2, True), (3, False)])
def test_a_sync_that_is_fenced_by_commands_that_wake_commits_again_and_then_leaves_it(
    wakings: int, committed: bool
) -> None:
    """Each command that wakes up fences it once; one that is fenced again and again leaves the others to finish."""
    moving, left = Moving(), [wakings]

    def woken(point: str) -> None:
        if point == BEFORE_END and left[0]:
            left[0] -= 1
            MemoryPositions(moving.groups, DR).take_over([GROUP], moving.world.soon())

    (row,) = moving.sync(woken).rows
    assert row.committed is committed
    assert (row.error is None) is committed
    assert isinstance(row.error, GroupCommitFenced) is not committed
    assert moving.stands() == (50 if committed else None)


def test_groups_sync_stands_back_while_a_failover_is_unfinished() -> None:
    """It fences nobody: the run goes on undisturbed."""
    moving = Moving()
    plan = moving.world.approve().plan
    moving.world.run(plan, until="fence")
    before = len(moving.world.west.states)
    with pytest.raises(MirrorLocked, match=plan):
        moving.sync()
    assert (moving.stands(), len(moving.world.west.states)) == (None, before)
    assert not moving.failover(plan).left
    assert moving.stands() == 50


def test_two_syncs_at_once_are_one() -> None:
    """The second is told who is at work, and the first one ends as if it were alone."""
    moving = Moving()

    def meanwhile() -> None:
        with pytest.raises(MirrorLocked, match="groups sync"):
            moving.sync()

    rows = moving.sync(asleep_at(BEFORE_READ, meanwhile)).rows
    assert [row.committed for row in rows] == [True]
    assert moving.stands() == 50


@pytest.mark.parametrize("locked", [True, False], ids=["refused", "both hold the lock"])
def test_two_strategies_at_once_on_one_group_leave_the_later_offset(
    locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither sets the group back, at once or afterwards."""
    monkeypatch.setattr(strategies, "TRANSLATORS", {each.name: each for each in (MAP, SEVEN_BEFORE)})
    moving = Moving()

    def meanwhile() -> None:
        if not locked:
            moving.sync_without_lock(BY_SEVEN)
            return
        with pytest.raises(MirrorLocked, match="groups sync"):
            moving.sync(request=BY_SEVEN)

    moving.sync(asleep_at(BEFORE_READ, meanwhile))
    assert moving.stands() == 50
    (row,) = moving.sync(request=BY_SEVEN).rows
    assert isinstance(row.decision, Withheld)
    assert (row.offset, moving.stands()) == (43, 50)


@pytest.mark.parametrize("held", [0, 1, 2], ids=["it has looked", "it fences", "it commits"])
def test_a_sync_whose_lock_is_lost_before_its_commit_is_visible_commits_nothing(held: int) -> None:
    """A change of the mirror has taken the lock, which fences no sync, and what it sends next must not be visible."""
    moving, asked = Moving(), list[int]()

    def confirm() -> None:
        asked.append(1)
        if len(asked) > held:
            raise MirrorLocked("somebody else holds it")

    with pytest.raises(MirrorLocked):
        moving.sync_without_lock(SyncRequest(confirm=confirm))
    assert (len(asked), moving.stands()) == (held + 1, None)
    assert [row.committed for row in moving.sync().rows] == [True], "nothing is left pending"


def test_a_sync_that_wakes_after_it_has_proved_its_positions_fences_nobody() -> None:
    """It would end a transaction of whoever has the lock now, and had positions aborted that were about to be moved."""
    moving = Moving()
    plan = moving.world.approve().plan
    epochs: list[int] = []

    def epoch() -> int:
        return sum(each.epoch for each in moving.groups.transactions.values())

    def meanwhile() -> None:
        moving.world.clock.wait(1)
        assert not moving.failover(plan).left
        epochs.append(epoch())

    moving.ask(0, meanwhile)
    with pytest.raises(MirrorLocked):
        moving.sync()
    assert epochs == [epoch()]


def test_a_sync_that_has_waited_for_its_source_still_holds_the_lock_while_it_proves() -> None:
    """Its heartbeat was as old as its question: any change took the lock from it."""
    moving = Moving()
    refused: list[str] = []

    def change() -> None:
        command = replace(moving.world.command(), holder="ann")
        pause = Purpose(operation="mirrors pause")
        with pytest.raises(MirrorLocked) as why, mirror_lock(moving.world.west.side(), DR, pause, command):
            pass
        refused.append(why.value.reason)

    moving.ask(FRESH_MS / 1000 + 1, change)
    assert [row.committed for row in moving.sync().rows] == [True]
    assert refused == ["sync holds the lock of mirror 'dr': groups sync"]
