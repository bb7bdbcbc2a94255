"""`mirrors seed-offsets`: which mirror takes over which group, and what may be repeated or lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain import errors
from tanist.domain.fake_group import group_of
from tanist.domain.names import TopicPartition
from tanist.domain.records import STATE_TOPIC, TopicDesired
from tanist.domain.states import DesiredState, MirrorState
from tanist.ports.cluster import Cluster
from tanist.usecases.mirrors.desire import MirrorTopicNotPaused
from tanist.usecases.mirrors.seeding import (
    CopierRuns,
    MirrorHasBegun,
    MirrorNotPausedYet,
    Seeded,
    SeedOutOfRange,
    seed,
)
from tests.builders import AT, DR, a_command, a_partition
from tests.unit.usecases.mapped import SPEC, MappedMirror

if TYPE_CHECKING:
    from typing import Any

THERE = TopicPartition(*AT)


class Paused(MappedMirror):
    """A mirror that has copied nothing, beside a copier with the group `old`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.west.write(STATE_TOPIC, replace(self.topic, desired=DesiredState.PAUSED))
        self.observed(MirrorState.PAUSED)

    @property
    def topic(self) -> TopicDesired:
        found = self.west.view(STATE_TOPIC).topic(DR, AT.topic)
        assert found is not None
        return found

    def observed(self, state: MirrorState) -> None:
        self.west.write(STATE_TOPIC, a_partition(mirror_id=SPEC.mirror_id, state=state))

    def seed(self, **command: Any) -> Seeded:
        both = self.clusters()
        assert isinstance(both.source, Cluster)
        east = both.source
        return seed(DR, "old", both.destination, lambda _: east, a_command(**command))

    @property
    def starts(self) -> tuple[int, ...]:
        return self.topic.source_starts


@pytest.fixture
def mirror() -> Paused:
    found = Paused()
    found.source_groups.commit("old", THERE, 25)
    return found


def test_the_copy_begins_at_the_commit_and_the_rest_may_be_repeated(mirror: Paused) -> None:
    (dry,) = mirror.seed(dry_run=True).partitions
    assert not mirror.starts
    (found,) = mirror.seed().partitions
    assert found == dry
    assert (found.start, found.may_repeat, found.lost) == (25, 15, 0)
    assert mirror.starts == (25,)
    assert mirror.seed().partitions == (found,)


def test_a_mirror_that_has_positions_goes_on_where_it_is(mirror: Paused) -> None:
    mirror.copy()
    with pytest.raises(MirrorHasBegun, match=group_of(DR)):
        mirror.seed()
    assert mirror.starts == ()


def test_ranges_that_are_published_are_positions_too(mirror: Paused) -> None:
    mirror.publish([])
    mirror.copy(published=2)
    mirror.groups.groups.clear()
    with pytest.raises(MirrorHasBegun):
        mirror.seed()


@pytest.mark.parametrize("state", [MirrorState.PREPARING, MirrorState.MIRRORING, MirrorState.PAUSING])
def test_a_worker_that_may_begin_meanwhile_is_waited_for(mirror: Paused, state: MirrorState) -> None:
    mirror.observed(state)
    with pytest.raises(MirrorNotPausedYet, match=f"orders-0 of mirror 'dr' is {state}") as refused:
        mirror.seed()
    assert "mirrors resume" not in refused.value.action
    assert not refused.value.state_explains, "what is next about a paused mirror is to resume it: too early"


def test_a_mirror_that_copies_is_paused_first(mirror: Paused) -> None:
    mirror.west.write(STATE_TOPIC, replace(mirror.topic, desired=DesiredState.MIRRORING))
    with pytest.raises(MirrorTopicNotPaused):
        mirror.seed()


def test_a_copier_that_runs_has_not_committed_for_the_last_time(mirror: Paused) -> None:
    mirror.source_groups.group("old").members = 1
    with pytest.raises(CopierRuns):
        mirror.seed()


def test_a_commit_behind_the_end_of_the_log_is_of_another_log(mirror: Paused) -> None:
    mirror.source_groups.commit("old", THERE, 41)
    with pytest.raises(SeedOutOfRange, match="41"):
        mirror.seed()


def test_a_group_without_a_commit_in_the_mirror_is_a_typing_error(mirror: Paused) -> None:
    mirror.source_groups.groups.clear()
    with pytest.raises(errors.Misconfigured, match="no commit"):
        mirror.seed()
