"""Where a mirror is on its circle, of everything that can be on record: exactly one stage holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from tanist.domain.circle import CircleStage, locate
from tanist.domain.failback.reversal import ReturningTopic, Reversal
from tanist.domain.moves import MirrorMove, MoveStatus, opposite
from tanist.domain.records import FailoverRun, PromotionEpoch, RunStatus
from tanist.domain.states import DesiredState
from tests.builders import DR, a_move, a_view
from tests.unit.domain.test_pending_reversal import INTENT, SPEC, TOPIC, run

if TYPE_CHECKING:
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView

S = CircleStage
PLAN = Reversal(
    mirror=DR,
    mirror_id="",
    source_cluster_id="w",
    destination_cluster_id="e",
    topics=(ReturningTopic(topic="orders", promotion_epoch=1, free_from=(0,)),),
)
AWAY = a_move(plan=PLAN.hash, plan_json=PLAN.canonical_plan, approval="a", approver="bob", at=run().at)
"""A reversal from west, where SPEC is, to east."""
HERE = replace(AWAY, destination="west", cluster_id="w")
"""One from east to west."""
WITHDRAWING, WITHDRAWN, FORWARDS = (
    replace(AWAY, status=status) for status in (MoveStatus.WITHDRAWING, MoveStatus.WITHDRAWN, MoveStatus.MOVED)
)
LEFT = HERE, replace(HERE, status=MoveStatus.MOVED)
"""What east keeps of it: while it is to be completed there, and afterwards."""
MIRRORED, REMOVED = replace(TOPIC, topic="bills", desired=DesiredState.MIRRORING), TOPIC
RUNNING, DONE = run(status=RunStatus.RUNNING), run(replace(INTENT, reverse=False))
TAKEN_BACK, ANOTHER = opposite(SPEC), replace(opposite(SPEC), mirror_id="another")
PROMOTED = PromotionEpoch(mirror=DR, mirror_id="", topic="orders", count=2)


@pytest.mark.parametrize(
    ("stage", "here", "at_source"),
    [
        (S.ABSENT, a_view(), a_view()),
        (S.ABSENT, a_view(REMOVED, DONE), None),
        (S.MOVED, a_view(FORWARDS), None),
        (S.ARRIVING, a_view(SPEC, MIRRORED, HERE), None),
        (S.ARRIVING, a_view(SPEC, MIRRORED, HERE), a_view(TAKEN_BACK, LEFT[0])),
        (S.LEAVING, a_view(SPEC, REMOVED, DONE, AWAY), None),
        (S.LEAVING, a_view(SPEC, REMOVED, DONE, AWAY), a_view(ANOTHER)),
        (S.WITHDRAWING, a_view(SPEC, REMOVED, DONE, WITHDRAWING), a_view()),
        (S.OUTDATED, a_view(SPEC, REMOVED, DONE, AWAY), a_view(PROMOTED)),
        (S.OUTDATED, a_view(SPEC, REMOVED, DONE, WITHDRAWING, PROMOTED), a_view()),
        (S.HANDED_OVER, a_view(SPEC, REMOVED, DONE, AWAY), a_view(TAKEN_BACK, AWAY)),
        (S.HANDED_OVER, a_view(SPEC, REMOVED, DONE, WITHDRAWING), a_view(TAKEN_BACK, PROMOTED)),
        (S.FAILING_OVER, a_view(SPEC, MIRRORED, RUNNING), None),
        (S.FAILING_OVER, a_view(SPEC, REMOVED, RUNNING, WITHDRAWN), a_view(LEFT[0])),
        (S.FAILED_OVER, a_view(SPEC, REMOVED, DONE), a_view()),
        (S.FAILED_OVER, a_view(SPEC, REMOVED, DONE, WITHDRAWN), a_view(LEFT[1])),
        (S.PARTLY_FAILED_OVER, a_view(SPEC, MIRRORED, REMOVED, DONE), a_view(LEFT[1])),
        (S.EMPTY, a_view(SPEC), a_view()),
        (S.MIRRORING, a_view(SPEC, MIRRORED), a_view()),
        (S.MIRRORING, a_view(SPEC, MIRRORED), a_view(replace(LEFT[1], mirror_id="another"))),
        (S.MIRRORING, a_view(SPEC, MIRRORED), None),
        (S.REVERSED, a_view(SPEC, MIRRORED, DONE), a_view(LEFT[1])),
        (S.REVERSED, a_view(SPEC, MIRRORED, DONE), a_view(LEFT[0], TAKEN_BACK)),
    ],
)
def test_a_stage_is_what_both_clusters_have_on_record(
    stage: CircleStage, here: StateView, at_source: StateView | None
) -> None:
    assert locate(DR, here, at_source).stage is stage


def drawn() -> list[tuple[tuple[StateRecord, ...], tuple[StateRecord, ...] | None]]:
    """Every combination of what may be on record here and at the source, also of what no command leaves."""
    specs = ((), (SPEC,))
    moves = ((), (AWAY,), (HERE,), (WITHDRAWING,), (WITHDRAWN,), (FORWARDS,))
    topics = ((), (MIRRORED,), (REMOVED,), (MIRRORED, REMOVED))
    runs = ((), (RUNNING,), (DONE,), (RUNNING, DONE))
    sources = (None, (), (TAKEN_BACK,), (ANOTHER,), *((each,) for each in LEFT), (PROMOTED,), (TAKEN_BACK, PROMOTED))
    return [(sum(here, ()), source) for *here, source in product(specs, moves, topics, runs, sources)]


def test_exactly_one_stage_holds_of_whatever_is_on_record() -> None:
    """Each is said again here, without an order."""
    seen = set()
    for here, source in drawn():
        place = locate(DR, a_view(*here), None if source is None else a_view(*source))
        at_source = source or ()
        mirror, arrives = SPEC in here, HERE in here
        leaves = mirror and (AWAY in here or WITHDRAWING in here)
        handed_over = leaves and TAKEN_BACK in at_source
        outdated = leaves and not handed_over and PROMOTED in at_source
        free = mirror and not leaves and not arrives
        runs = free and any(isinstance(each, FailoverRun) and each.status is RunStatus.RUNNING for each in here)
        idle, came_by = free and not runs, any(each in at_source for each in LEFT)
        moved = not mirror and any(isinstance(each, MirrorMove) for each in here)
        holds = {
            S.ABSENT: not mirror and not moved,
            S.MOVED: moved,
            S.ARRIVING: mirror and arrives,
            S.HANDED_OVER: handed_over,
            S.OUTDATED: outdated,
            S.WITHDRAWING: leaves and WITHDRAWING in here and not handed_over and not outdated,
            S.LEAVING: leaves and AWAY in here and not handed_over and not outdated,
            S.FAILING_OVER: runs,
            S.FAILED_OVER: idle and REMOVED in here and MIRRORED not in here,
            S.PARTLY_FAILED_OVER: idle and REMOVED in here and MIRRORED in here,
            S.EMPTY: idle and REMOVED not in here and MIRRORED not in here,
            S.MIRRORING: idle and MIRRORED in here and REMOVED not in here and not came_by,
            S.REVERSED: idle and MIRRORED in here and REMOVED not in here and came_by,
        }
        assert [stage for stage, true in holds.items() if true] == [place.stage], (here, source)
        seen.add(place.stage)
    assert seen == set(CircleStage)


def test_the_source_is_not_needed_to_know_that_a_mirror_arrives_leaves_or_has_left() -> None:
    """Without it, a reversal that has brought the state there still counts as unfinished."""
    for here, source in drawn():
        place = locate(DR, a_view(*here), None if source is None else a_view(*source))
        roles = (place.arrival, place.departure, place.forwarding)
        assert sum(each is not None for each in roles) <= 1, (here, source)
        assert all(each in {None, place.move} for each in roles)
        alone = locate(DR, a_view(*here))
        assert (alone.arrival, alone.departure, alone.forwarding) == roles
        assert alone.takeover == place.takeover


def test_a_cluster_has_taken_over_from_the_end_of_its_failover_until_the_mirror_fails_over_from_it() -> None:
    """Round the circle; asked where the mirror is at that moment, of west (w), which it fails over to."""
    at_west = {
        "mirroring": a_view(SPEC, MIRRORED),
        "failing over": a_view(SPEC, REMOVED, run(status=RunStatus.RUNNING)),
        "failed over": a_view(SPEC, REMOVED, DONE),
        "leaving": a_view(SPEC, REMOVED, DONE, AWAY),
        "withdrawing": a_view(SPEC, REMOVED, DONE, WITHDRAWING),
        "withdrawn": a_view(SPEC, REMOVED, DONE, WITHDRAWN),
        "partly": a_view(SPEC, REMOVED, MIRRORED, DONE),
    }
    found = {name: locate(DR, here, a_view()).switch_to("w") for name, here in at_west.items()}
    assert [name for name, switch in found.items() if switch == DONE] == [
        "failed over",
        "leaving",
        "withdrawing",
        "withdrawn",
    ]
    assert all(switch in {None, DONE} for switch in found.values())

    left = replace(AWAY, status=MoveStatus.MOVED)
    back = run(replace(INTENT, source_cluster_id="w", destination_cluster_id="e", reverse=False), at=9)
    at_east = {
        "arriving": (a_view(TAKEN_BACK, MIRRORED, DONE, AWAY), a_view(SPEC, REMOVED, DONE, AWAY)),
        "arrived": (a_view(TAKEN_BACK, MIRRORED, DONE, AWAY), a_view(left)),
        "reversed": (a_view(TAKEN_BACK, MIRRORED, DONE), a_view(left)),
        "its source not completed": (a_view(TAKEN_BACK, MIRRORED, DONE, RUNNING), a_view(SPEC, AWAY)),
        "another way": (a_view(TAKEN_BACK, MIRRORED, DONE), a_view()),
        "failing over": (a_view(TAKEN_BACK, REMOVED, DONE, RUNNING), a_view(left)),
        "failed over": (a_view(TAKEN_BACK, REMOVED, DONE, back), a_view(left)),
    }
    found = {name: locate(DR, *views).switch_to("w") for name, views in at_east.items()}
    assert [name for name, switch in found.items() if switch == DONE] == [
        "arriving",
        "arrived",
        "reversed",
        "its source not completed",
    ]
    assert locate(DR, *at_east["failed over"]).switch_to("e") == back
