"""What every Positions does."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import UnknownMember, UnknownTopicOrPartition, UnstableOffsetCommit
from tanist.domain.errors import CouldNotTell, GroupCommitFenced, OperatorFenced, PositionMoved, TanistError
from tanist.domain.names import MirrorPartition, TopicPartition
from tanist.ports.positions import CommitChange, CommittedPosition, GroupFacts
from tests.contracts.groups import MINE, MIRROR, InMemory, OnKafka
from tests.contracts.reached import SOON, nowhere
from tests.fakes.cluster import MemoryCluster
from tests.fakes.positions import MemoryGroups, MemoryPositions
from tests.kafka.fetcher.rig import RigCluster, until
from tests.ports import over_positions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.ports.positions import Outcome, Positions
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.contracts.groups import Groups


FIRST, SECOND = CommittedPosition(1, "tanist m1 east@1"), CommittedPosition(2, "ü")


@pytest.fixture(params=["memory", "kafka"])
def groups(request: pytest.FixtureRequest) -> Iterator[Groups]:
    if request.param == "memory":
        yield InMemory()
        return
    clusters: Mapping[str, SandboxCluster] = request.getfixturevalue("clusters")
    with ExitStack() as stack, closing(RigCluster(clusters["west"])) as west:
        yield OnKafka(west, stack)


@pytest.fixture(params=["memory", "kafka"])
def dead(request: pytest.FixtureRequest) -> Iterator[Positions]:
    if request.param == "memory":
        yield MemoryPositions(MemoryGroups(MemoryCluster(dead=True)), MIRROR)
        return
    with over_positions(nowhere(), MIRROR) as dead:
        yield dead


@pytest.fixture
def group(topic_name: str) -> str:
    """Librdkafka takes no other characters into a transaction."""
    return f"group-of-{topic_name}"


def commit(
    positions: Positions, group: str, at: MirrorPartition, expected: CommittedPosition | None, new: CommittedPosition
) -> Outcome | TanistError:
    return positions.commit({group: {at: CommitChange(expected, new)}}, SOON(20))[group]


def stands(groups: Groups, group: str) -> dict[TopicPartition, CommittedPosition | TanistError]:
    """Once nothing is pending any more: markers are written a moment after a transaction was decided."""
    found: dict[TopicPartition, CommittedPosition | TanistError] = {}

    def settled() -> bool:
        reported = groups.positions.committed([group], SOON(10))[group]
        assert not isinstance(reported, TanistError)
        found.clear()
        found.update({at: _plain(each) for at, each in reported.items()})
        return not any(isinstance(each, UnstableOffsetCommit) for each in reported.values())

    until(settled, 30, lambda: found)
    return found


def as_told(groups: Groups, group: str, at: MirrorPartition) -> CommittedPosition:
    reported = groups.positions.committed([group], SOON(10))[group]
    assert not isinstance(reported, TanistError)
    now = reported[at]
    assert isinstance(now, CommittedPosition)
    return now


def _plain(each: CommittedPosition | TanistError) -> CommittedPosition | TanistError:
    """Librdkafka ends texts with a NUL."""
    return each if isinstance(each, TanistError) else each._replace(metadata=each.metadata.rstrip("\0"))


def test_what_was_committed_is_told_as_it_was(groups: Groups, topic_name: str, group: str) -> None:
    """With what its committer wrote beside it; of other partitions and of unknown groups there is nothing to tell."""
    first, _ = groups.topic(topic_name, 2)
    assert commit(groups.positions, group, first, None, SECOND) == {first: None}
    assert groups.positions.committed([group, f"{group}-b"], SOON(10)) == {group: {first: SECOND}, f"{group}-b": {}}
    facts = GroupFacts(group=group, kind="classic", state="Empty", members=0)
    assert groups.positions.groups(SOON(10))[group] == facts
    listing = groups.positions.listing(SOON(10))
    assert (listing.groups[group], listing.silent) == (facts, ())


def test_a_partition_that_is_not_there_does_not_hide_the_others(groups: Groups, topic_name: str, group: str) -> None:
    (at,) = groups.topic(topic_name)
    missing = MirrorPartition(f"{topic_name}-missing", 0)
    changes = dict.fromkeys((missing, at), CommitChange(None, FIRST))
    reported = groups.positions.commit({group: changes}, SOON(20))[group]
    assert not isinstance(reported, TanistError)
    assert reported[at] is None
    assert isinstance(reported[missing], UnknownTopicOrPartition)
    assert stands(groups, group) == {at: FIRST}


def test_a_position_that_a_transaction_is_about_to_change_is_not_told(
    groups: Groups, topic_name: str, group: str
) -> None:
    at, other = groups.topic(topic_name, 2)
    groups.positions.commit({group: dict.fromkeys((at, other), CommitChange(None, FIRST))}, SOON(20))
    with groups.pending(group, at, 2) as decide, groups.pending(f"{group}-new", at, 2):
        assert groups.positions.committed([f"{group}-new"], SOON(10)) == {f"{group}-new": {}}
        held = groups.positions.committed([group], SOON(10))[group]
        assert not isinstance(held, TanistError)
        assert isinstance(held[at], UnstableOffsetCommit)
        assert held[other] == FIRST
        assert groups.positions.committed([group], SOON(10), stable=False) == {group: {at: FIRST, other: FIRST}}
        decide()
    assert stands(groups, group) == {at: CommittedPosition(2, ""), other: FIRST}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_counted_and_keeps_its_positions_to_itself(
    groups: Groups, topic_name: str, group: str, protocol: str
) -> None:
    """Whoever joins between the decision and the commit is not moved."""
    (at,) = groups.topic(topic_name)
    groups.commit(group, at, 100)
    now = as_told(groups, group, at)
    with groups.member(group, topic_name, protocol):
        facts = groups.positions.groups(SOON(10))[group]
        assert (facts.state, facts.members) == ("Stable", 1)
        reported = groups.positions.commit({group: {at: CommitChange(now, FIRST)}}, SOON(20))[group]
        assert not isinstance(reported, TanistError)
        assert isinstance(reported[at], UnknownMember)
        assert stands(groups, group) == {at: CommittedPosition(100, MINE)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_its_members_have_left_goes_where_it_is_told(
    groups: Groups, topic_name: str, group: str, protocol: str
) -> None:
    (at,) = groups.topic(topic_name)
    with groups.member(group, topic_name, protocol):
        assert groups.positions.groups(SOON(10))[group].kind == protocol
    until(lambda: groups.positions.groups(SOON(10))[group].state == "Empty", 20)
    assert commit(groups.positions, group, at, None, FIRST) == {at: None}
    assert commit(groups.positions, group, at, FIRST, SECOND) == {at: None}
    assert stands(groups, group) == {at: SECOND}


@pytest.mark.parametrize("expected", [None, CommittedPosition(50, MINE), CommittedPosition(100, "another text")])
def test_a_position_that_has_moved_since_stays(
    groups: Groups, topic_name: str, group: str, expected: CommittedPosition | None
) -> None:
    """The whole group does, and nobody else."""
    at, other = groups.topic(topic_name, 2)
    groups.commit(group, at, 100)
    changes = {at: CommitChange(expected, FIRST), other: CommitChange(None, FIRST)}
    others = {f"{group}-{n}": {at: CommitChange(None, SECOND)} for n in range(3)}
    reported = groups.positions.commit({group: changes, **others}, SOON(20))
    assert isinstance(reported[group], PositionMoved)
    assert [reported[each] for each in others] == [{at: None}] * 3
    assert stands(groups, group) == {at: CommittedPosition(100, MINE)}
    assert [stands(groups, each) for each in others] == [{at: SECOND}] * 3


def test_a_position_that_was_there_and_is_gone_has_moved(groups: Groups, topic_name: str, group: str) -> None:
    (at,) = groups.topic(topic_name)
    assert isinstance(commit(groups.positions, group, at, FIRST, SECOND), PositionMoved)
    assert stands(groups, group) == {}


def test_a_command_that_another_one_has_followed_commits_nothing(groups: Groups, topic_name: str, group: str) -> None:
    """Neither before the other one commits nor after it, and it fences nobody in its turn."""
    (at,) = groups.topic(topic_name)
    late, other = groups.positions, groups.another()
    late.take_over([group], SOON(20))
    other.take_over([group], SOON(20))
    assert isinstance(commit(late, group, at, None, FIRST), GroupCommitFenced)
    assert isinstance(commit(late, group, at, None, FIRST), GroupCommitFenced)
    assert commit(other, group, at, None, SECOND) == {at: None}
    assert isinstance(commit(late, group, at, SECOND, FIRST), GroupCommitFenced)
    assert stands(groups, group) == {at: SECOND}


def test_what_is_not_confirmed_never_becomes_visible(groups: Groups, topic_name: str, group: str) -> None:
    """And is not left pending."""
    (at,) = groups.topic(topic_name)
    asked: list[str] = []

    def confirm() -> None:
        asked.append(group)
        raise OperatorFenced("the lock is another's")

    with pytest.raises(OperatorFenced):
        groups.positions.commit({group: {at: CommitChange(None, FIRST)}}, SOON(20), confirm)
    assert asked == [group]
    assert stands(groups, group) == {}
    assert commit(groups.positions, group, at, None, SECOND) == {at: None}


def test_nothing_asked_is_nothing_answered(groups: Groups) -> None:
    groups.positions.take_over([], SOON(1))
    assert groups.positions.committed([], SOON(1)) == {}
    assert groups.positions.commit({}, SOON(1)) == {}


def test_of_a_dead_cluster_nothing_is_told(dead: Positions) -> None:
    for ask in (dead.groups, lambda by: dead.committed(["g"], by)):
        with pytest.raises(CouldNotTell):
            ask(SOON(0.5))
    dead.take_over(["g"], SOON(0.5))
    reported = dead.commit({"g": {MirrorPartition("t", 0): CommitChange(None, FIRST)}}, SOON(0.5))
    assert isinstance(reported["g"], CouldNotTell)
