"""A group that is set back at the source, by the policy of its mirror; and what has not moved, which costs nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.commit_marks import mark_begin, marked_offset
from tanist.domain.names import TopicPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.rewinds import OnRewind
from tanist.domain.translation import Rules, Stays, Withheld
from tanist.ports.positions import CommitChange
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.items import group_note
from tanist.usecases.groups.listing import list_groups
from tanist.usecases.groups.rows import DestinationGroups, decided, to_commit
from tanist.usecases.groups.sync import SyncRequest, sync_locked
from tests.builders import AT, DR, a_command
from tests.fakes.cluster import pair_with
from tests.unit.usecases.mapped import SPEC, MappedMirror, Same

if TYPE_CHECKING:
    from tanist.ports.positions import CommittedPosition
    from tanist.usecases.groups.rows import PositionRow

THERE = TopicPartition(*AT)
ALL = SyncRequest()


class Synced:
    """A mirror with one group, `g`, whose position at the source was committed at the destination."""

    def __init__(self, policy: OnRewind = OnRewind.HOLD) -> None:
        self.proofs = Same()
        self.mirror = MappedMirror(pair=pair_with(proofs=self.proofs))
        self.mirror.copy(published=2)
        self.mirror.west.write(STATE_TOPIC, replace(SPEC, on_rewind=policy))
        self.at_source(25)
        self.sync()

    def at_source(self, offset: int) -> None:
        self.mirror.source_groups.commit("g", THERE, offset)

    def sync(self, request: SyncRequest = ALL) -> PositionRow:
        done = sync_locked(self.mirror.clusters(), request, a_command(self.mirror.west.clock))
        (row,) = done.rows
        return row

    def committed_here(self) -> CommittedPosition:
        found = self.mirror.groups.groups["g"].now(THERE)
        assert found is not None
        return found

    def here(self) -> int:
        return self.committed_here().offset

    def place(self) -> int:
        """Of the last commit, in the log of the group: each one has a later place."""
        return self.mirror.groups.groups["g"].positions[THERE][0]

    def note(self) -> str:
        listed = list_groups(self.mirror.clusters(), Chosen(), a_command(self.mirror.west.clock))
        (line,) = listed.lines
        return group_note(line.group, listed.seen, listed.seen.rewound)

    def rewound(self) -> tuple[str, ...]:
        synced = self.mirror.state().groups_synced(DR)
        assert synced is not None
        return synced.rewound


@pytest.mark.parametrize(
    ("policy", "here", "asked"), [(OnRewind.HOLD, 28, ()), (OnRewind.ASK, 28, ("g",)), (OnRewind.FOLLOW, 5, ())]
)
def test_a_rewind_at_the_source_follows_by_the_policy_of_the_mirror(
    policy: OnRewind, here: int, asked: tuple[str, ...]
) -> None:
    synced = Synced(policy)
    assert (synced.here(), synced.rewound()) == (28, ())
    synced.at_source(5)
    row = synced.sync()
    assert (synced.here(), synced.rewound()) == (here, asked)
    assert row.committed is (policy is OnRewind.FOLLOW)
    assert ("`tanist groups sync dr --destination west --backwards`" in synced.note()) is (policy is OnRewind.ASK)
    if policy is OnRewind.ASK:
        assert "it was set back at the source, from 25, and the destination has committed 28" in row.reason


def test_who_is_asked_answers_with_backwards_and_then_nobody_is_asked() -> None:
    synced = Synced(OnRewind.ASK)
    synced.at_source(5)
    synced.sync()
    assert synced.rewound() == ("g",)
    answer = SyncRequest(chosen=Chosen(groups=("g",)), rules=Rules(backwards=True))
    assert synced.sync(answer).committed
    assert synced.here() == 5
    synced.sync()
    assert synced.rewound() == ()


def test_nobody_is_asked_any_more_once_the_group_has_come_there_again() -> None:
    synced = Synced(OnRewind.ASK)
    synced.at_source(5)
    synced.sync()
    synced.at_source(30)
    assert synced.sync().committed
    assert (synced.here(), synced.rewound()) == (34, ())


def test_a_position_that_is_older_than_what_was_committed_is_no_rewind_while_the_source_is_silent() -> None:
    """What is stored may lag behind what the source itself has said before."""
    synced = Synced(OnRewind.FOLLOW)
    synced.at_source(5)
    silent = SyncRequest(chosen=Chosen(ask_source=False))
    done = sync_locked(synced.mirror.clusters(), silent, a_command(synced.mirror.west.clock))
    assert done.rows == ()
    assert synced.here() == 28


def test_a_consumer_of_the_destination_is_never_set_back() -> None:
    """What it has committed itself is not ours to move, whatever the policy is."""
    synced = Synced(OnRewind.FOLLOW)
    synced.mirror.groups.commit("g", THERE, 28)
    synced.at_source(5)
    row = synced.sync()
    assert isinstance(row.decision, Withheld)
    assert synced.here() == 28


def test_what_has_not_moved_is_committed_again_once_an_hour_and_not_before() -> None:
    """S3.6: each run committed every position of every group again."""
    synced = Synced()
    row = synced.sync()
    assert isinstance(row.decision, Stays)
    assert (row.committed, row.unmoved) == (False, True)
    rehearsed = replace(a_command(synced.mirror.west.clock), dry_run=True)
    assert not any(row.will_commit for row in sync_locked(synced.mirror.clusters(), ALL, rehearsed).rows)
    synced.mirror.west.clock.jump(3_599)
    assert not synced.sync().committed
    synced.mirror.west.clock.jump(2)
    assert synced.sync().committed
    assert not synced.sync().committed


def test_the_records_of_what_has_not_moved_are_not_compared_again() -> None:
    """Each run compared those of every position, for up to ten seconds, and held the lock of the mirror meanwhile."""
    synced = Synced()
    assert synced.proofs.asked == [(25, 28)]
    synced.sync()
    assert synced.proofs.asked == [(25, 28)]
    synced.at_source(30)
    assert synced.sync().committed
    assert synced.proofs.asked == [(25, 28), (30, 34)]
    synced.mirror.west.clock.jump(3_601)
    synced.sync()
    assert synced.proofs.asked == [(25, 28), (30, 34), (30, 34)]


def test_a_position_that_has_expired_at_the_destination_is_committed_by_the_next_run() -> None:
    """Brokers delete the offsets of a group that had members here at once when its time is over, fresh or not."""
    synced = Synced()
    del synced.mirror.groups.groups["g"]
    assert synced.sync().committed
    assert synced.here() == 28


def test_some_groups_that_are_named_are_always_committed_again() -> None:
    assert Synced().sync(SyncRequest(chosen=Chosen(groups=("g",)))).committed


def test_a_group_that_was_just_set_back_was_said_not_to_be() -> None:
    """The output of `groups sync --backwards` went by what the run before had found."""
    synced = Synced(OnRewind.ASK)
    synced.at_source(5)
    synced.sync()
    command = a_command(synced.mirror.west.clock)
    named = SyncRequest(chosen=Chosen(groups=("g",)))
    assert sync_locked(synced.mirror.clusters(), named, command).undecided == {"g"}
    answer = replace(named, rules=Rules(backwards=True))
    done = sync_locked(synced.mirror.clusters(), answer, command)
    assert done.undecided == frozenset()
    assert "set back at the source" not in group_note("g", done.seen, done.undecided)


@pytest.mark.parametrize(
    ("metadata", "offset"),
    [
        ("tanist dr east@25", 25),
        ("tanist dr east@25 map id-of-or/id", 25),
        ("tanist dr west@25", None),
        ("tanist dr-2 east@25", None),
        ("tanist dr east@", None),
        ("tanist dr east@x", None),
        ("mine", None),
    ],
)
def test_a_commit_says_from_which_position_of_which_cluster_it_was_translated(
    metadata: str, offset: int | None
) -> None:
    """One of the other direction, before a reversal, says nothing about this one."""
    assert marked_offset(metadata, mark_begin("dr", "east")) == offset


@pytest.mark.parametrize(("policy", "asked"), [(OnRewind.HOLD, ()), (OnRewind.ASK, ("g",))])
def test_a_held_position_was_not_renewed_so_it_expired_and_the_next_run_set_the_group_back(
    policy: OnRewind, asked: tuple[str, ...]
) -> None:
    """After a week the destination had nothing any more that the rewound position must not move; nor was it asked."""
    synced = Synced(policy)
    synced.at_source(5)
    synced.sync()
    synced.mirror.west.clock.jump(3_601)
    before = synced.place()
    row = synced.sync()
    assert synced.place() > before
    assert (row.committed, row.error) == (False, None)
    assert (synced.here(), synced.rewound()) == (28, asked)
    assert synced.committed_here().metadata.startswith("tanist dr east@25")
    before = synced.place()
    synced.sync()
    assert synced.place() == before, "once an hour"


def test_a_held_position_of_a_group_with_members_is_not_committed_again() -> None:
    synced = Synced()
    synced.at_source(5)
    synced.sync()
    synced.mirror.groups.group("g").members = 1
    synced.mirror.west.clock.jump(3_601)
    before = synced.place()
    row = synced.sync()
    assert "1 member(s)" in row.reason
    assert (synced.here(), synced.place()) == (28, before)


def test_a_held_position_is_committed_only_if_it_is_still_the_same() -> None:
    """What a consumer commits meanwhile is not put back: the commit expects exactly what it writes."""
    synced = Synced()
    synced.at_source(5)
    row = synced.sync()
    there = synced.committed_here()
    assert to_commit([row], lambda _: "new") == {"g": {AT: CommitChange(there, there)}}
    assert to_commit([row], lambda _: "new", renew=False) == {}


def test_a_stale_position_counted_as_a_rewind() -> None:
    """What was stored of a source that does not answer may be older than what was committed: only it says so itself."""
    synced = Synced(OnRewind.ASK)
    synced.at_source(5)
    row = synced.sync()
    assert row.asks
    there = DestinationGroups(groups={}, committed={"g": {AT: synced.committed_here()}}, mark="tanist dr east@")
    rules = Rules(on_rewind=OnRewind.FOLLOW)
    stale = replace(row, position=replace(row.position, direct=False))
    assert [each.will_commit for each in decided([row, stale], there, rules)] == [True, False]
