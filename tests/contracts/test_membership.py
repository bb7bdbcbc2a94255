"""What every Membership does. Two real members take turns in one thread, as two processes would."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

import pytest

from tanist.kafka.adapters.membership import GroupMembership
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.topics import NewTopic
from tests.fakes.clock import JumpingClock
from tests.fakes.membership import MemoryGroup, MemoryMembership
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tanist.ports.clock import Clock
    from tanist.ports.membership import Membership, Ownership
    from tanist_testkit.sandbox.cluster import SandboxCluster

SLICES = 12
ALL = frozenset(range(SLICES))
CLOCK = SystemClock()


class Joiner(Protocol):
    def __call__(self, before_release: Callable[[Ownership], None] = ...) -> Membership: ...


@pytest.fixture(params=["memory", "kafka"])
def world(request: pytest.FixtureRequest, topic_name: str) -> Iterator[tuple[Joiner, Clock]]:
    """How to join one group, and the clock that its members live by."""
    if request.param == "memory":
        clock = JumpingClock()
        group = MemoryGroup(SLICES, clock)
        yield lambda before_release=lambda _: None: MemoryMembership(group, before_release), clock
        return
    clusters: Mapping[str, SandboxCluster] = request.getfixturevalue("clusters")
    endpoint = clusters["east"].endpoint()
    with over(KafkaTopics, endpoint) as topics:
        topics.create([NewTopic(name=topic_name, partitions=SLICES, replication_factor=1)], CLOCK.deadline(20))
    joined: list[Membership] = []

    def join(before_release: Callable[[Ownership], None] = lambda _: None) -> Membership:
        joined.append(GroupMembership(endpoint, topic_name, group=topic_name, before_release=before_release))
        return joined[-1]

    yield join, CLOCK
    for member in joined:
        member.leave()


def settle(members: Sequence[Membership], clock: Clock, done: Callable[[list[Ownership]], bool]) -> list[Ownership]:
    """Everybody polls in turn until `done`; at no moment may two hold the same slice."""
    deadline = clock.deadline(30)
    held: dict[Membership, Ownership] = {}
    while True:
        for member in members:
            held[member] = member.poll(clock.deadline(0.1))
            owners: defaultdict[int, int] = defaultdict(int)
            for ownership in held.values():
                for number in ownership.state_partitions:
                    owners[number] += 1
            assert all(count == 1 for count in owners.values()), held
        if done(list(held.values())):
            return list(held.values())
        assert deadline.left(clock.monotonic()), held
        clock.wait(0.01)


def confirmed(clock: Clock, ownership: Ownership) -> bool:
    return ownership.holds_until() > clock.monotonic()


def test_the_only_member_owns_everything_and_can_prove_it(world: tuple[Joiner, Clock]) -> None:
    join, clock = world
    (only,) = settle([join()], clock, lambda held: held[0].state_partitions == ALL and confirmed(clock, held[0]))
    assert only.holds_until() - clock.monotonic() <= only.lease_seconds


def test_a_slice_is_given_back_before_another_gets_it(world: tuple[Joiner, Clock]) -> None:
    join, clock = world
    released: list[Ownership] = []
    first = join(released.append)
    settle([first], clock, lambda held: held[0].state_partitions == ALL)
    second = join()
    one, two = settle([first, second], clock, lambda held: len(held[1].state_partitions) == SLICES // 2)
    assert one.state_partitions | two.state_partitions == ALL
    assert released, "the slices were gone from the ownership before they were given back"
    assert released[0].state_partitions == one.state_partitions


def test_who_stays_gets_the_slices_of_who_leaves(world: tuple[Joiner, Clock]) -> None:
    join, clock = world
    first, second = join(), join()
    settle([first, second], clock, lambda held: {len(each.state_partitions) for each in held} == {SLICES // 2})
    second.leave()
    settle([first], clock, lambda held: held[0].state_partitions == ALL)


def test_an_ownership_that_is_not_renewed_runs_out(world: tuple[Joiner, Clock]) -> None:
    join, clock = world
    (held,) = settle([join()], clock, lambda held: confirmed(clock, held[0]))
    clock.wait(held.lease_seconds)
    assert not confirmed(clock, held)
