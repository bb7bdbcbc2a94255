"""Commands that sleep between what they have decided and what they do, while a group goes on at the destination."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition as At

from tanist.domain.errors import MirrorLocked
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_groups
from tests.kafka.fetcher.rig import Rig, until
from tests.kafka.groups.freezing import ADD_OFFSETS, ASLEEP, END_TXN, OFFSET_FETCH, WRITES, frozen
from tests.kafka.groups.mirrors import Mirrored, run
from tests.kafka.groups.readers import commit, committed, consumer, read_some
from tests.ports import over_positions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import RigCluster
    from tests.kafka.groups.freezing import Frozen


NOTHING = frozenset[int]()
MOVES: Final = {
    "before-anything-is-written": (WRITES, NOTHING),
    "after-the-coordinator-knows-of-it": (WRITES, frozenset({ADD_OFFSETS})),
    "before-it-reads-again": (frozenset({OFFSET_FETCH}), WRITES),
    "before-the-end": (frozenset({END_TXN}), WRITES),
}
NO_POSITION: Final = -1001


@dataclass
class Both:
    """A mirror of 120 records in one partition, a group, and two commands that may want to move it."""

    rig: Rig
    at: MirrorPartition
    group: str
    mirrored: Mirrored
    patch: pytest.MonkeyPatch

    def source_stands(self, offset: int) -> None:
        commit(self.rig.source.servers, self.group, {self.at: offset})

    def stands(self) -> int:
        return committed(self.rig.destination.servers, self.group, self.at)

    def sync(self) -> Any:
        """The one row of a command that ends at once."""
        (row,) = self.mirrored.sync(self.group).rows
        return row

    def read_on(self, count: int, protocol: str) -> None:
        """A consumer of the destination reads from 50 on, commits and leaves."""
        read = read_some(self.rig.destination.servers, self.group, self.at, count, protocol)
        assert read[0] == (50, b"50")

    def asleep(self, moves: str) -> AbstractContextManager[Frozen]:
        """The other command."""
        endpoint = replace(self.rig.destination.cluster.endpoint(), name=ASLEEP)

        def command() -> Any:
            with over_positions(endpoint, self.mirrored.spec.mirror) as positions:
                there = replace(self.mirrored.mirror.destination, positions=lambda _: positions)
                mirror = replace(self.mirrored.mirror, destination=there)
                (row,) = self.mirrored.sync(self.group, mirror=mirror).rows
                return row

        return frozen(self.patch, command, *MOVES[moves])


@pytest.fixture(scope="module")
def copied(sides: tuple[RigCluster, RigCluster]) -> tuple[Rig, MirrorPartition]:
    """Groups are what tests of this file write; records none of them."""
    rig = Rig(*sides)
    (at,) = rig.create(f"frozen-{uuid4().hex[:8]}")
    rig.source.produce(at, [b"%d" % n for n in range(120)])
    with rig.copier([at]) as copier:
        rig.copied(copier)
    return rig, at


@pytest.fixture
def both(copied: tuple[Rig, MirrorPartition], topic_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Both]:
    rig, at = copied
    with Mirrored(rig, (at,)) as mirrored:
        yield Both(rig, at, topic_name, mirrored, monkeypatch)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("moves", MOVES)
def test_groups_sync_woken_late_does_not_move_a_group_backwards(both: Both, protocol: str, moves: str) -> None:
    """A second command has ended meanwhile, and a consumer has read on to 100."""
    both.source_stands(50)
    with both.asleep(moves) as command:
        assert both.sync().committed
        both.read_on(50, protocol)
        row = command.wake()
    assert both.stands() == 100
    assert not row.committed
    assert row.reason


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("moves", MOVES)
def test_what_a_consumer_commits_while_a_command_sleeps_stays(both: Both, protocol: str, moves: str) -> None:
    """No other command has fenced the sleeper; and the consumer has waited for no position of anybody."""
    both.source_stands(20)
    assert both.sync().committed
    both.source_stands(50)
    with both.asleep(moves) as command:
        with closing(consumer(both.rig.destination.servers, both.group, protocol)) as member:
            member.subscribe([both.at.topic])
            until(lambda: member.poll(0.1) or member.assignment(), 20)
            member.commit(offsets=[At(both.at.topic, both.at.partition, 60)], asynchronous=False)
        command.wake()
    assert both.stands() == 60


@pytest.mark.parametrize("moves", [name for name in MOVES if name.startswith("before-")])
def test_a_sync_killed_between_its_moves_stops_nobody(both: Both, moves: str) -> None:
    """What it left pending is undone by the next command, which waits for no timeout."""
    both.source_stands(20)
    assert both.sync().committed
    both.source_stands(50)
    with both.asleep(moves) as command:
        command.kill()
    began = time.monotonic()
    row = both.sync()
    assert (row.committed, row.offset) == (True, 50)
    assert time.monotonic() - began < 12
    both.read_on(1, "classic")


def test_a_sync_whose_lock_is_lost_commits_nothing_more(both: Both) -> None:
    """Asked once it has looked, before others are fenced, and directly before the end; nothing is left pending."""
    groups = [f"{both.group}-{n}" for n in range(40)]
    for group in groups:
        both.mirrored.kept(group, both.at, 20)
    asked: list[bool] = []

    def confirm() -> None:
        asked.append(True)
        if len(asked) > 2:
            raise MirrorLocked("a failover has begun")

    request = SyncRequest(chosen=Chosen(names=frozenset(groups)), confirm=confirm)
    mirror = both.mirrored.without_source()
    with pytest.raises(MirrorLocked):
        sync_groups(mirror, request, run(), both.mirrored.views())
    assert len(asked) == 3
    assert {committed(both.rig.destination.servers, group, both.at) for group in groups[:3]} == {NO_POSITION}
    rows = both.mirrored.sync(*groups, mirror=mirror).rows
    assert all(row.committed for row in rows), [row.reason for row in rows if not row.committed]
