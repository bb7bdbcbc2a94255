"""Where a mirror is while it is reversed, in memory: each cluster is asked at each point of the reversal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Mode
from tanist.domain.circle import CircleStage, locate
from tanist.domain.failback.pending import findings_of
from tanist.domain.failback.reversal import Recreation
from tanist.domain.failover.plan import FailoverRequest
from tanist.domain.moves import MoveStatus, opposite
from tanist.domain.names import EpochMs
from tanist.domain.records import STATE_TOPIC, MirrorSpec
from tanist.domain.state_record import StateRecord
from tanist.domain.tails import PartitionTail, TailStage, TailVerdict, TopicTails
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import moving_state, reversal
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reversal_route import ReversalWithdrawn
from tanist.usecases.failback.reverse import by_failover, reverse, reverse_after, reverse_mirror, switched
from tanist.usecases.failover import planning
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import TOPICS, FailoverWorld, Killed
from tests.unit.usecases.returning import returned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.names import MirrorPartition
    from tanist.usecases.failback.reversing import Reversing
    from tanist.usecases.mirror import ReturnedMirror


def approved() -> FailoverWorld:
    """The mirror has failed over from east to west, and its reversal is approved."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    planned = reversal.plan(ReversalRequest(), returned(world), world.command()).plan
    terms = ApprovalTerms.of("drill", 3_600)
    reversal.approve(planned.hash, ReversalRequest(), returned(world), world.command(), terms=terms)
    return world


def stages(world: FailoverWorld) -> tuple[CircleStage, CircleStage]:
    """As west and as east has it."""
    west, east = (each.side().state(STATE_TOPIC, world.soon()) for each in (world.west, world.east))
    return locate(DR, west, east).stage, locate(DR, east, west).stage


def killed_at(world: FailoverWorld, point: str) -> None:
    def checkpoint(reached: str) -> None:
        if reached == point:
            raise Killed

    with pytest.raises(Killed):
        reverse(ReversalRequest(), returned(world), world.command(), checkpoint)


@pytest.mark.parametrize(
    ("point", "west", "east"),
    [
        ("moving", CircleStage.LEAVING, CircleStage.ABSENT),
        ("settling", CircleStage.LEAVING, CircleStage.ABSENT),
        ("state", CircleStage.HANDED_OVER, CircleStage.ARRIVING),
        ("forgotten", CircleStage.HANDED_OVER, CircleStage.ARRIVING),
        ("left", CircleStage.MOVED, CircleStage.ARRIVING),
    ],
)
def test_both_clusters_say_how_far_a_reversal_that_was_killed_has_come(
    point: str, west: CircleStage, east: CircleStage
) -> None:
    world = approved()
    assert stages(world) == (CircleStage.FAILED_OVER, CircleStage.ABSENT)
    killed_at(world, point)
    assert stages(world) == (west, east)
    if west is not CircleStage.MOVED:
        reverse(ReversalRequest(), returned(world), world.command())
        assert stages(world) == (CircleStage.MOVED, CircleStage.REVERSED)


def test_a_reversal_that_finds_another_mirror_of_its_name_is_withdrawn() -> None:
    """It was taken for the same mirror, so that the reversal could be neither completed nor withdrawn."""
    world = approved()
    another = replace(opposite(world.spec), mirror_id="another")

    def checkpoint(reached: str) -> None:
        if reached == "ready":
            world.east.write(STATE_TOPIC, another)

    with pytest.raises(ReversalWithdrawn, match="MIRROR_ALREADY_EXISTS"):
        reverse(ReversalRequest(), returned(world), world.command(), checkpoint)
    assert stages(world) == (CircleStage.FAILED_OVER, CircleStage.EMPTY)


def test_what_an_attempt_settled_before_it_was_fenced_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers had begun with its producer ids; the next attempt gave the mirror others, to which theirs are foreign."""
    world, late = approved(), list[StateRecord]()
    records = moving_state._records

    def remember(of: Reversing, ends: Mapping[MirrorPartition, int]) -> list[StateRecord]:
        found = records(of, ends)
        late[:] = [*found, replace(of.move, status=MoveStatus.MOVING, producer_ids=())]
        return found

    monkeypatch.setattr(moving_state, "_records", remember)
    killed_at(world, "settling")
    monkeypatch.undo()

    def wake(point: str) -> None:
        if point == "ready":
            for each in late:
                world.east.write(STATE_TOPIC, each)

    done = reverse(ReversalRequest(), returned(world), world.command(), wake)
    assert stages(world) == (CircleStage.MOVED, CircleStage.REVERSED)
    (first,) = (each for each in late if isinstance(each, MirrorSpec))
    assert done.spec.writer == first.writer


def test_the_findings_of_topics_that_are_copied_again_stay_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mirror took them along, over every later reversal."""
    world, records = approved(), moving_state._records
    overlaps = tuple(
        PartitionTail(partition=n, verdict=TailVerdict.OVERLAP, common_end=10, end=18, records=8) for n in range(2)
    )
    tails = [
        TopicTails(
            mirror=DR,
            topic=topic,
            promotion_epoch=1,
            cluster_id="id-east",
            tails=overlaps[:count],
            stage=TailStage.DONE,
            at=EpochMs(0),
        )
        for topic, count in TOPICS.items()
    ]

    def with_a_recreation(of: Reversing, ends: Mapping[MirrorPartition, int]) -> list[StateRecord]:
        world.west.write(STATE_TOPIC, *tails)
        again = Recreation(topic_id="id-of-orders", replicas=1)
        topics = (replace(each, recreation=again if each.topic == "orders" else None) for each in of.reversal.topics)
        of.reversal = replace(of.reversal, topics=tuple(topics))
        return records(of, ends)

    monkeypatch.setattr(moving_state, "_records", with_a_recreation)
    reverse(ReversalRequest(), returned(world), world.command())
    assert {each.topic for each in findings_of(world.east.view(STATE_TOPIC), DR)} == {"payments"}


def from_east(world: FailoverWorld) -> ReturnedMirror:
    """As `returned`, of the mirror that the reversal has brought to east."""
    spec = world.east.view(STATE_TOPIC).mirror(DR)
    assert spec is not None
    old = returned(world)
    return replace(
        old, spec=spec, source=old.destination, destination=old.source, from_source=lambda _: returned(world)
    )


@pytest.mark.parametrize("point", ["state", "forgotten", "left"])
def test_a_reversal_is_completed_from_where_it_has_brought_the_mirror(point: str) -> None:
    """Past its point of no return, and then once more: nothing is left to do."""
    world = approved()
    killed_at(world, point)
    for changed in (True, False):
        done = reverse_mirror(ReversalRequest(), from_east(world), world.command())
        assert (done.spec.destination, done.changed) == ("east", changed)
        assert {each.topic for each in done.topics} == {"orders", "payments"}
        assert stages(world) == (CircleStage.MOVED, CircleStage.REVERSED)


def test_a_cluster_that_has_taken_over_is_found_without_its_old_source() -> None:
    """It may die before the reversal; once the mirror copies from the new primary both are asked."""
    world = approved()
    (run,) = world.west.side().state(STATE_TOPIC, world.soon()).failovers(DR)
    world.east.dead = True
    assert switched(returned(world), "id-west", world.command()) == run
    world.east.dead = False
    assert switched(returned(world), "id-east", world.command()) is None
    reverse(ReversalRequest(), returned(world), world.command())
    found = switched(from_east(world), "id-west", world.command())
    assert found is not None
    assert found.plan == run.plan
    assert switched(from_east(world), "id-east", world.command()) is None


def over_without_its_reversal() -> tuple[FailoverWorld, str]:
    """A failover that was approved with the reversal after it is done, and that is not; and its plan."""
    world = FailoverWorld()
    request = FailoverRequest(mode=Mode.PLANNED, reverse=True)
    made = planning.plan(request, world.clusters(), world.command()).plan
    terms = ApprovalTerms.of("drill", 3_600)
    planning.approve(made.hash, request, world.clusters(), world.command(), terms=terms)
    world.run(made.hash)
    return world, made.hash


def test_a_reversal_that_its_failover_has_approved_is_done_by_whoever_comes() -> None:
    """Not if something else is asked for, or the failover has not accepted what speaks against it by now."""
    world, plan = over_without_its_reversal()
    other = ReversalRequest(exclude=("payments",))
    assert by_failover(other, returned(world), world.command()) is None
    asked = by_failover(ReversalRequest(answers="run/airflow/x"), returned(world), world.command())
    assert asked == ReversalRequest(failover=plan)
    world.east.supers.add("root")
    world.east.files[1] = frozenset({"super.users"})
    assert by_failover(ReversalRequest(), returned(world), world.command()) is None
    world.east.files.clear()
    reverse_mirror(asked, returned(world), world.command())
    assert stages(world) == (CircleStage.MOVED, CircleStage.REVERSED)
    assert by_failover(ReversalRequest(), from_east(world), world.command()) is None
    assert by_failover(ReversalRequest(), returned(approved()), approved().command()) is None


def test_a_failover_that_was_approved_with_its_reversal_is_followed_by_it_once() -> None:
    """By that approval alone; whoever runs the same plan again completes the reversal, or is told that it was done."""
    world, plan = over_without_its_reversal()
    for clusters, changed in ((returned, True), (from_east, False)):
        done = reverse_after(plan, clusters(world), world.sink, world.command())
        assert done is not None
        assert done.changed is changed
        assert stages(world) == (CircleStage.MOVED, CircleStage.REVERSED)
    assert world.sink.kept is not None
    assert [each.what for each in world.sink.kept.events if each.step == "reverse"] == ["begins", "done"]


def test_only_a_failover_whose_plan_says_so_is_followed_by_a_reversal() -> None:
    world = approved()
    (run,) = world.west.side().state(STATE_TOPIC, world.soon()).failovers(DR)
    for plan in (run.plan, "of no run"):
        assert reverse_after(plan, returned(world), world.sink, world.command()) is None
    assert stages(world) == (CircleStage.FAILED_OVER, CircleStage.ABSENT)
