"""What DAGs and workers do again and again is one use case, and says who else does it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.errors import Unreachable
from tanist.domain.names import TopicPartition
from tanist.domain.records import STATE_TOPIC
from tanist.domain.translation import Proof
from tanist.ports.positions import ProofResult
from tanist.usecases.periodic import PeriodicResult, sync_metadata, sync_positions
from tests.builders import AT, DR, a_command
from tests.fakes.cluster import pair_with
from tests.fakes.topics import MemoryTopics
from tests.unit.usecases.mapped import SPEC, MappedMirror, Same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.ports.clock import Deadline
    from tanist.ports.positions import Pair

LEFT_TO_WORKERS = replace(SPEC, workers_sync_groups=True, sync_metadata_seconds=30)


class Different:
    """The port `Proofs`: no two records are the same."""

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> Mapping[Pair, ProofResult]:
        assert by.at > 0
        return dict.fromkeys(pairs, ProofResult(Proof.MISMATCH, "other bytes"))


def a_world(proofs: Same | Different) -> MappedMirror:
    """Groups `g` and `h` have a position at the source; the mirror leaves its duties to workers."""
    world = MappedMirror(pair=pair_with(proofs=proofs))
    world.copy(published=2)
    world.west.write(STATE_TOPIC, LEFT_TO_WORKERS)
    for group in ("g", "h"):
        world.source_groups.commit(group, TopicPartition(*AT), 5)
    return world


def synced(world: MappedMirror, *, is_worker: bool = False) -> PeriodicResult:
    mirror = replace(world.clusters(), spec=LEFT_TO_WORKERS)
    return sync_positions(mirror, replace(a_command(world.west.clock), is_worker=is_worker))


def test_s3_6_a_run_by_a_schedule_says_that_workers_do_the_same_and_one_by_a_worker_does_not() -> None:
    """Both at once is harmless: the second finds nothing that has moved."""
    world = a_world(Same())
    by_schedule = synced(world)
    assert by_schedule.summary == "committed 2 of 2 offset(s) of 2 group(s); workers do the same every 60 s"
    by_worker = synced(world, is_worker=True)
    assert by_worker.summary == "committed 0 of 2 offset(s) of 2 group(s); 2 had not moved"
    assert by_worker.of_duty().problem is None


def test_what_a_run_left_undone_is_one_problem_that_counts_the_others() -> None:
    done = synced(a_world(Different())).of_duty()
    assert done.problem is not None
    assert done.problem.name == "SYNC_INCOMPLETE"
    assert done.problem.reason.startswith("g orders-0: ")
    assert done.problem.reason.endswith("; and 1 more")


class Silent(MemoryTopics):
    """The topics of a source that does not answer. `locked`: of each question, whether the mirror's lock was held."""

    def __init__(self, world: MappedMirror) -> None:
        super().__init__(world.east)
        self.world, self.locked = world, list[bool]()

    def cluster_id(self, by: Deadline) -> str:
        lock = self.world.state().lock(DR)
        self.locked.append(lock is not None and bool(lock.holder))
        raise Unreachable("no broker of east answers")


def test_a_silent_source_is_not_asked_under_the_lock() -> None:
    """Commands of an operator would wait for it, too, again and again, in the middle of an outage."""
    world = a_world(Same())
    topics = Silent(world)
    mirror = replace(world.clusters(), spec=LEFT_TO_WORKERS, source=replace(world.east.side(), topics=topics))
    found = sync_positions(mirror, a_command(world.west.clock))
    assert topics.locked == [False]
    assert [*found.decide, *found.again] == []


def test_metadata_that_needs_no_change_says_so() -> None:
    world = a_world(Same())
    west = world.west.side()
    found = sync_metadata(DR, west, lambda _name: world.east.side(), a_command(world.west.clock))
    assert found.summary.endswith("workers do the same every 30 s")
