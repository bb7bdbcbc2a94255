"""Positions as they are translated, proved and committed between two real clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import UnknownMember
from tanist.domain.errors import TanistError
from tanist.domain.rewinds import OnRewind
from tanist.domain.translation import Precision, Proof, Rules
from tanist.ports.positions import CommitChange, CommittedPosition
from tests.kafka.fetcher.rig import soon
from tests.kafka.groups.mirrors import Mirrored
from tests.kafka.groups.readers import commit, committed, consumer, read_some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig


NOTHING = -1001


@pytest.fixture
def at(rig: Rig, topic_name: str) -> MirrorPartition:
    """A partition of 30 records in batches of a few, copied."""
    (at,) = rig.create(topic_name)
    for first in range(0, 30, 6):
        rig.source.produce(at, [b"%d" % n for n in range(first, first + 6)])
    with rig.copier([at]) as copier:
        rig.copied(copier)
    return at


@pytest.fixture
def mirrored(rig: Rig, at: MirrorPartition) -> Iterator[Mirrored]:
    with Mirrored(rig, (at,)) as mirrored:
        yield mirrored


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_with_exactly_the_next_record(
    rig: Rig, mirrored: Mirrored, at: MirrorPartition, topic_name: str, protocol: str
) -> None:
    """Read at the source, translated, read on at the destination: nothing twice, nothing missing."""
    before = read_some(rig.source.servers, topic_name, at, 13, protocol)
    synced = mirrored.sync(topic_name)
    (row,) = synced.rows
    assert (row.translation.precision, row.offset, row.committed) == (Precision.EXACT, 13, True)
    assert row.compared.proof is Proof.MATCH, row.compared
    after = read_some(rig.destination.servers, topic_name, at, 17, protocol)
    assert before + after == [(n, b"%d" % n) for n in range(30)]


def test_committing_again_changes_nothing(rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str) -> None:
    """And what is committed says where it came from."""
    commit(rig.source.servers, group_name, {at: 5})
    for _ in range(2):
        (row,) = mirrored.sync(group_name).rows
        assert (row.committed, row.reason) == (True, "")
    assert committed(rig.destination.servers, group_name, at) == 5
    (row,) = mirrored.translate(group_name).rows
    assert row.present is not None
    assert row.present.metadata == f"tanist {mirrored.spec.mirror} {mirrored.spec.source}@5"


def test_a_dry_run_commits_nothing(rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str) -> None:
    commit(rig.source.servers, group_name, {at: 5})
    (row,) = mirrored.sync(group_name, dry_run=True).rows
    assert (row.will_commit, row.committed) == (True, False)
    assert committed(rig.destination.servers, group_name, at) == NOTHING


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone(
    rig: Rig, mirrored: Mirrored, at: MirrorPartition, topic_name: str, protocol: str
) -> None:
    """Also where existing groups are included; the reason counts them."""
    commit(rig.source.servers, topic_name, {at: 5})
    member = consumer(rig.destination.servers, topic_name, protocol)
    try:
        member.subscribe([at.topic])
        while member.poll(0.1) is None:
            pass
        (row,) = mirrored.sync(topic_name, rules=Rules(existing=True, backwards=True)).rows
        assert not row.committed
        assert "1 member(s) at the destination" in row.reason
        outcome = mirrored.mirror.destination.positions(mirrored.spec.mirror).commit(
            {topic_name: {at: CommitChange(None, CommittedPosition(5, ""))}}, soon()
        )
        answer = outcome[topic_name]
        assert not isinstance(answer, TanistError)
        assert isinstance(answer[at], UnknownMember), "the destination itself is the last guard"
    finally:
        member.close()


def test_groups_that_were_there_before_are_left_alone(
    rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str
) -> None:
    commit(rig.source.servers, group_name, {at: 5})
    commit(rig.destination.servers, group_name, {at: 3}, metadata="mine")
    (row,) = mirrored.sync(group_name).rows
    assert not row.committed
    assert "existed at the destination before" in row.reason
    (row,) = mirrored.sync(group_name, rules=Rules(existing=True)).rows
    assert row.committed
    assert committed(rig.destination.servers, group_name, at) == 5


def test_never_backwards(rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str) -> None:
    """Not even where a person includes existing groups; only by name of it."""
    commit(rig.source.servers, group_name, {at: 9})
    assert mirrored.sync(group_name).rows[0].committed
    commit(rig.source.servers, group_name, {at: 4})
    (row,) = mirrored.sync(group_name, rules=Rules(existing=True)).rows
    assert not row.committed
    assert "already committed 9" in row.reason
    assert mirrored.sync(group_name, rules=Rules(backwards=True)).rows[0].committed
    assert committed(rig.destination.servers, group_name, at) == 4


def test_a_group_ahead_of_the_copy_is_clamped_and_listed(
    rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str
) -> None:
    rig.source.produce(at, [b"not copied"] * 4)
    commit(rig.source.servers, group_name, {at: 33})
    synced = mirrored.sync(group_name)
    (row,) = synced.clamped
    assert (row.offset, row.committed, row.translation.precision) == (30, True, Precision.CONSERVATIVE)
    assert "3 offset(s) ahead" in row.reason


def test_positions_before_the_copy_begins(rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str) -> None:
    commit(rig.source.servers, group_name, {at: 2})
    rig.destination.delete_before(at, 6)
    (row,) = mirrored.sync(group_name).rows
    assert (row.offset, row.translation.precision, row.committed) == (6, Precision.CONSERVATIVE, True)


def test_a_wrong_map_is_caught_and_never_committed(
    rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str
) -> None:
    """By the bytes of the records at both ends; at the end of the log there is nothing to compare."""
    commit(rig.source.servers, group_name, {at: 14})
    mirrored.shifted(at, 10, 11)
    synced = mirrored.sync(group_name)
    (row,) = synced.mismatches
    assert (row.offset, row.compared.proof, row.committed) == (15, Proof.MISMATCH, False)
    assert committed(rig.destination.servers, group_name, at) == NOTHING
    mirrored.runs.clear()
    commit(rig.source.servers, group_name, {at: 30})
    assert mirrored.translate(group_name).rows[0].compared.why == "at the end of the source"


def test_one_broken_group_stops_nobody(rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str) -> None:
    """Many groups in one go; what one of them has kept is used where the source is silent about it."""
    others = [f"{group_name}-{n}" for n in range(20)]
    for group in others:
        commit(rig.source.servers, group, {at: 7})
    mirrored.kept(group_name, at, 11)
    commit(rig.destination.servers, group_name, {at: 1}, metadata="mine")
    synced = mirrored.sync(group_name, *others)
    assert [row.group for row in synced.rows if not row.committed] == [group_name]
    assert [row.offset for row in synced.rows if row.group == group_name] == [11]
    assert {row.offset for row in synced.rows if row.group != group_name} == {7}


def test_kept_positions_do_without_the_source(
    rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str
) -> None:
    mirrored.kept(group_name, at, 11)
    synced = mirrored.sync(group_name, mirror=mirrored.without_source())
    (row,) = synced.rows
    assert (row.offset, row.translation.precision, row.committed) == (11, Precision.EXACT, True)
    assert row.compared.proof is Proof.NONE


@pytest.mark.parametrize(("policy", "there"), [(OnRewind.HOLD, 9), (OnRewind.ASK, 9), (OnRewind.FOLLOW, 4)])
def test_s0_4_a_rewind_at_the_source_follows_by_the_policy_of_the_mirror(
    rig: Rig, mirrored: Mirrored, at: MirrorPartition, group_name: str, policy: OnRewind, there: int
) -> None:
    """As `kafka-consumer-groups.sh --reset-offsets` makes it. What a consumer here has committed is never set back."""
    mirror = replace(mirrored.mirror, spec=replace(mirrored.spec, on_rewind=policy))
    commit(rig.source.servers, group_name, {at: 9})
    assert mirrored.sync(group_name, mirror=mirror).rows[0].committed
    commit(rig.source.servers, group_name, {at: 4})
    (row,) = mirrored.sync(group_name, mirror=mirror).rows
    assert (row.committed, row.asks) == (policy is OnRewind.FOLLOW, policy is OnRewind.ASK)
    assert committed(rig.destination.servers, group_name, at) == there
    commit(rig.destination.servers, group_name, {at: 20})
    (row,) = mirrored.sync(group_name, mirror=mirror).rows
    assert not row.committed
    assert committed(rig.destination.servers, group_name, at) == 20
