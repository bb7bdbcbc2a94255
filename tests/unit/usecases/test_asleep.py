"""Commands that sleep between looking and acting, or work for long, while others change the same mirror. In memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import MirrorLocked, UnknownMirror
from tanist.domain.names import DestinationOffset, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.records import (
    GROUPS_TOPIC,
    OFFSETS_TOPIC,
    STATE_TOPIC,
    GroupSyncStatus,
    OffsetRangeWritten,
    OffsetTailMode,
)
from tanist.domain.selection import Selection
from tanist.domain.states import DesiredState
from tanist.usecases.lock import changing
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors.create import CreateRequest, create
from tests.builders import DR, a_command
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.topics import MemoryTopics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.state import StateStore
    from tanist.usecases.command import CommandContext

ASLEEP = 30
"""Seconds after which a holder of the lock counts as dead."""


class Pair:
    """East mirrored to west: orders in, payments not."""

    def __init__(self) -> None:
        self.clock = JumpingClock()
        self.east = MemoryCluster("east", clock=self.clock).with_topic("orders", 2, 10).with_topic("payments")
        self.west = MemoryCluster("west", clock=self.clock)
        self.make()

    def make(self) -> None:
        create(CreateRequest(mirror="dr", include=("orders",)), self.east.side(), self.west.side(), self.of("maker"))
        self.west.write(OFFSETS_TOPIC, self.a_run_of_the_map())

    def of(self, holder: str) -> CommandContext:
        return replace(a_command(self.clock), by=self.clock.deadline(300), holder=holder)

    def spec(self) -> MirrorSpec:
        found = self.west.view(STATE_TOPIC).mirror(DR)
        assert found
        return found

    def a_run_of_the_map(self) -> OffsetRangeWritten:
        return OffsetRangeWritten(
            mirror=DR,
            mirror_id=self.spec().mirror_id,
            partition=MirrorPartition("orders", 0),
            source=SourceOffset(5),
            destination=DestinationOffset(0),
        )

    def empty(self) -> None:
        topics = self.west.view(STATE_TOPIC).topics(DR)
        self.west.write(STATE_TOPIC, *(replace(each, desired=DesiredState.REMOVED) for each in topics))

    def delete(self, holder: str, cluster: Cluster | None = None) -> None:
        administer.delete("dr", cluster or self.west.side(), self.of(holder))

    def add(self, holder: str, topic: str, cluster: Cluster | None = None) -> desire.Desired:
        return desire.add(
            "dr", Selection((topic,)), cluster or self.west.side(), lambda _name: self.east.side(), self.of(holder)
        )

    def made_again(self) -> None:
        """Deleted, and another one made under its name, with a map of its own."""
        self.delete("bob")
        self.west.topics.pop("orders")
        self.make()

    def map(self) -> tuple[str, ...]:
        return self.west.view(OFFSETS_TOPIC).keys_of(DR)

    def sleepy(self, where: str, meanwhile: Callable[[], object], *, opened: bool) -> Cluster:
        """West, for one who falls asleep once, before the first writing store of `where` is `opened`, or behind it."""
        real, left = self.west.side(), [meanwhile]

        def sleep() -> None:
            self.clock.jump(ASLEEP)
            left.pop()()

        def open_store(topic: str, mirror: MirrorName | None, by: Deadline, **how: bool) -> StateStore:
            here = topic == where and mirror is not None and left
            if here and not opened:
                sleep()
            store = real.open_store(topic, mirror, by, **how)
            if here and opened:
                sleep()
            return store

        return replace(real, open_store=open_store)


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.mark.parametrize("opened", [False, True])
def test_a_delete_that_slept_forgets_nothing_of_the_next_mirror_of_that_name(pair: Pair, *, opened: bool) -> None:
    pair.empty()
    with pytest.raises(MirrorLocked, match="has taken the lock"):
        pair.delete("ann", pair.sleepy(OFFSETS_TOPIC, pair.made_again, opened=opened))
    assert pair.map()
    assert pair.west.view(STATE_TOPIC).mirror(DR)


def test_a_delete_that_slept_forgets_no_positions_of_the_next_mirror_of_that_name(pair: Pair) -> None:
    def followed() -> GroupSyncStatus:
        at, mirror_id = pair.clock.now(), pair.spec().mirror_id
        return GroupSyncStatus(
            mirror=DR, mirror_id=mirror_id, worker="w", mode=OffsetTailMode.TAILING, complete_until_ms=at, at=at
        )

    def made_again() -> None:
        pair.made_again()
        pair.west.write(GROUPS_TOPIC, followed())

    pair.west.side().open_store(GROUPS_TOPIC, None, pair.of("worker").by, create=True)
    pair.west.write(GROUPS_TOPIC, followed())
    pair.empty()
    with pytest.raises(MirrorLocked, match="has taken the lock"):
        pair.delete("ann", pair.sleepy(GROUPS_TOPIC, made_again, opened=False))
    assert pair.west.view(GROUPS_TOPIC).keys_of(DR) == ("groups/dr",)
    assert pair.map()


@pytest.mark.parametrize("opened", [False, True])
def test_an_add_that_slept_forgets_no_map_of_a_topic_that_another_took_in(pair: Pair, *, opened: bool) -> None:
    def taken_in() -> None:
        pair.add("bob", "orders")
        pair.west.write(OFFSETS_TOPIC, pair.a_run_of_the_map())

    pair.empty()
    pair.west.topics.pop("orders")
    with pytest.raises(MirrorLocked, match="has taken the lock"):
        pair.add("ann", "orders", pair.sleepy(OFFSETS_TOPIC, taken_in, opened=opened))
    assert pair.map()


def test_an_add_to_a_mirror_that_was_deleted_and_made_again_meanwhile_is_refused(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its filters, and where its source lies, were those of the earlier one."""

    def frozen(*asked: Any) -> Any:
        pair.empty()
        pair.made_again()
        return changing(*asked)

    monkeypatch.setattr("tanist.usecases.mirrors.desire.changing", frozen)
    with pytest.raises(UnknownMirror, match="re-created under the same name"):
        pair.add("ann", "payments")
    assert "payments" not in pair.west.topics


def test_an_add_holds_by_the_filters_that_the_mirror_has_once_it_is_locked(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:

    def frozen(*asked: Any) -> Any:
        administer.alter("dr", administer.Alteration(exclude=("payments",)), pair.west.side(), pair.of("bob"))
        return changing(*asked)

    pair.east.with_topic("payments-eu")
    monkeypatch.setattr("tanist.usecases.mirrors.desire.changing", frozen)
    added = pair.add("ann", "payments.*")
    assert [each.topic for each in added.topics] == ["payments-eu"]
    assert added.spec.exclude == ("payments",)


def test_an_add_of_many_topics_is_not_taken_for_dead_while_it_makes_them(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused = MemoryTopics.create, []

    def slow(self: MemoryTopics, new: Sequence[Any], *rest: Any, **more: Any) -> Any:
        made = real(self, new, *rest, **more)
        if not more.get("validate_only"):
            pair.clock.jump(len(new) / 10)
            with pytest.raises(MirrorLocked, match="ann holds the lock"):
                desire.set_desired("dr", Selection(("orders",)), desire.paused, pair.west.side(), pair.of("bob"))
            refused.append(len(new))
        return made

    for n in range(200):
        pair.east.with_topic(f"many-{n}")
    monkeypatch.setattr(MemoryTopics, "create", slow)
    assert len(pair.add("ann", "many-.*").topics) == sum(refused) == 200
