"""How often a failover asks its clusters: as often for many topics as for few."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.records import RunStatus
from tanist.usecases.failover.run import run
from tests.fakes.counting import Questions
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from collections import Counter


def questions_of_a_run(topics: int) -> Counter[str]:
    world = FailoverWorld(topics={f"topic-{n}": 1 for n in range(topics)})
    plan = world.approve().plan
    questions, mirror = Questions(), world.clusters("operator")
    assert not isinstance(mirror.source, Exception)
    counted = replace(mirror, source=questions.of(mirror.source), destination=questions.of(mirror.destination))
    done = run(plan, counted, world.tools(), world.command(), although_it_answers=True)
    assert done.record.status is RunStatus.DONE
    return questions.calls


def test_a_run_asks_as_often_for_many_topics_as_for_few() -> None:
    """The state topic was read to its end once for each topic whose lineage is stored."""
    assert questions_of_a_run(9) == questions_of_a_run(2)
