"""A command asks its clusters each question once; a part that failed is not asked for again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.checks import Mode
from tanist.domain.errors import Unreachable
from tanist.domain.fences import FenceBefore, FenceKind
from tanist.domain.names import MirrorName, MirrorPartition, SourceOffset, SourcePartition
from tanist.domain.records import GROUPS_TOPIC, STATE_TOPIC, GroupPosition
from tanist.ports.clock import Deadline
from tanist.usecases.command import Silence
from tanist.usecases.failover import planning
from tanist.usecases.failover.planning import FailoverRequest
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.listing import list_groups
from tanist.usecases.metadata.compare import MetadataRequest, diff
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.mirrors.describe import Describer
from tanist.usecases.snapshot import DestinationSnapshot
from tanist.usecases.status.observe import MirrorStatus, StatusContext, observe
from tanist.usecases.validation.prepare import ValidationRequest, prepare
from tests.builders import AT, DR
from tests.explorer.groups import NothingToCompare
from tests.fakes.cluster import nowhere, pair_with
from tests.fakes.counting import Questions
from tests.fakes.positions import MemoryGroups, MemoryPositions
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.log_ends import LogEnds
    from tanist.ports.cluster import Cluster


@dataclass
class Counted:
    """A world whose clusters count what they are asked."""

    world: FailoverWorld
    questions: Questions
    clusters: OpenMirror
    source: Cluster

    @classmethod
    def of(cls, world: FailoverWorld) -> Counted:
        questions, clusters = Questions(), world.clusters()
        source = questions.of(world.east.side())
        destination = questions.of(clusters.destination)
        return cls(world, questions, replace(clusters, source=source, destination=destination), source)

    def connect(self, _name: str) -> Cluster:
        return self.source


def status(counted: Counted) -> MirrorStatus:
    """`tanist status`, and the status page."""
    reading = StatusContext(
        destination=counted.clusters.destination,
        silence=Silence(counted.world.clock),
        clusters=lambda _: counted.clusters,
        context=counted.world.command(),
    )
    (found,) = observe(reading, DR)
    return found


def plan(counted: Counted) -> None:
    planning.plan(FailoverRequest(groups=("billing",)), counted.clusters, counted.world.command())


def describe(counted: Counted) -> None:
    (found,) = Describer(counted.clusters.destination, counted.connect).describe(DR, counted.world.command())
    assert found.source_down is None


def validate(counted: Counted) -> None:
    prepare(counted.clusters, ValidationRequest(), counted.world.command())


def list_of_groups(counted: Counted) -> None:
    east, west = MemoryGroups(counted.world.east), MemoryGroups(counted.world.west)
    there, here = MemoryPositions(west, DR), MemoryPositions(east, DR)
    mirror = OpenMirror(
        spec=counted.world.spec,
        source=replace(counted.source, positions=lambda _: here),
        destination=replace(counted.clusters.destination, positions=lambda _: there),
        pair=pair_with(proofs=NothingToCompare()),
        from_source=nowhere,
    )
    found = list_groups(mirror, Chosen(), counted.world.command())
    assert [line.group for line in found.lines] == ["billing"]


def metadata(counted: Counted) -> None:
    request = MetadataRequest(mirror="dr")
    diff(request, counted.clusters.destination, counted.connect, counted.world.command())


COMMANDS = (status, plan, describe, validate, list_of_groups, metadata)
AGAIN: dict[Callable[[Counted], object], dict[str, int]] = {metadata: {"west __mirror_state.catch_up": 2}}
"""Before the source is asked, and after: a fence that shows there has its run on record by then."""


@pytest.fixture
def world() -> FailoverWorld:
    """With one group, a transaction that is open, and a partition that the mirror does not know of yet."""
    made = FailoverWorld()
    kept = GroupPosition(
        mirror=DR, group="billing", partition=SourcePartition(*AT), offset=SourceOffset(3), at=made.clock.now()
    )
    made.west.with_topic(GROUPS_TOPIC).write(GROUPS_TOPIC, kept)
    start, stable, high = made.east.ends[AT]
    made.east.ends[AT] = (start, stable - 1, high)
    return made


def taken_over(world: FailoverWorld) -> FailoverWorld:
    """One topic was failed over; the other one is mirrored still."""
    world.run(world.approve(Mode.PLANNED, "payments").plan)
    return world


def grown(world: FailoverWorld) -> FailoverWorld:
    """The source has a partition more, which is not mirrored."""
    facts = world.east.topics["orders"]
    world.east.topics["orders"] = replace(facts, partitions=3)
    world.east.ends[MirrorPartition("orders", 2)] = (0, 0, 0)
    return world


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("before", [None, grown, taken_over])
def test_nothing_is_asked_twice(
    world: FailoverWorld, command: Callable[[Counted], object], before: Callable[[FailoverWorld], FailoverWorld] | None
) -> None:
    """Of a topic or partition; whether the source has an authorizer was asked twice, of the destination three times."""
    counted = Counted.of(before(world) if before else world)
    command(counted)
    repeated = {method: count for (method, _), count in counted.questions.repeated().items()}
    assert repeated == AGAIN.get(command, {})
    assert counted.questions.calls.total() > len(repeated)


@pytest.mark.parametrize("command", [status, plan])
def test_a_port_is_called_once(world: FailoverWorld, command: Callable[[Counted], object]) -> None:
    """Of a mirror at work: each part is one request."""
    counted = Counted.of(world)
    command(counted)
    assert {call: count for call, count in counted.questions.calls.items() if count > 1} == {}


def test_describe_asks_for_what_any_reader_may_see(world: FailoverWorld) -> None:
    """No ACL, no transaction, no configuration of a topic."""
    counted = Counted.of(world)
    describe(counted)
    assert set(counted.questions.calls) == {
        "east logs.ends",
        "east logs.versions",
        "east topics.cluster_id",
        "east topics.partitions",
        "west __mirror_offsets.open",
        "west __mirror_state.open",
        "west logs.ends",
        "west logs.versions",
        "west topics.cluster_id",
    }


def test_a_part_that_failed_is_not_asked_for_again() -> None:
    """Neither about the same partitions nor about others; another part is."""
    world = FailoverWorld()
    counted = Counted.of(world)
    world.east.dead = True
    seen, by = DestinationSnapshot(cluster=counted.source), world.soon()
    for partitions in (PARTITIONS[:1], PARTITIONS[:1], PARTITIONS[1:]):
        with pytest.raises(Unreachable):
            seen.ends(partitions, by)
    assert counted.questions.calls == {"east logs.ends": 1}
    world.east.dead = False
    assert seen.cluster_id(by) == "id-east"


def test_what_was_answered_stays_where_other_items_fail() -> None:
    """And it is as old as the first answer: who needs a newer one takes another snapshot."""
    world = FailoverWorld()
    seen, by = DestinationSnapshot(cluster=world.east.side()), world.soon()
    first = seen.ends([AT], by)
    world.east.grow(AT)
    world.east.dead = True
    with pytest.raises(Unreachable):
        seen.ends(PARTITIONS, by)
    assert seen.ends([AT], by) == first


def test_a_question_that_failed_for_one_mirror_leaves_the_others_their_answers() -> None:
    """One timeout at a mirror's partitions made those of every later mirror unknown in `mirrors describe`."""
    world = FailoverWorld()
    stored = world.clusters().destination.state(STATE_TOPIC, world.soon())
    topics = [replace(topic, mirror=MirrorName("second")) for topic in stored.topics(DR)]
    world.worker.append([replace(world.spec, mirror=MirrorName("second")), *topics], world.soon())
    source = world.east.side()
    answers = iter([Unreachable("a connection was lost")])

    def ends(partitions: Sequence[MirrorPartition], by: Deadline) -> Mapping[MirrorPartition, LogEnds | TanistError]:
        for lost in answers:
            raise lost
        return source.logs.ends(partitions, by)

    once: Any = SimpleNamespace(ends=ends, versions=source.logs.versions)
    asked = replace(source, logs=once)
    found = Describer(world.clusters().destination, lambda _: asked).describe(None, world.command())
    assert [each.source_down is None for each in found] == [False, True]


def test_an_answer_belongs_to_what_was_asked_with_it() -> None:
    """Of one topic, two records of its fence, and two sets of logins, are two questions each."""

    def fence_status(before: list[FenceBefore], _by: object) -> dict[str, bool]:
        return {each.topic: each.had_deny for each in before}

    cluster: Any = SimpleNamespace(
        name="east",
        fencing=SimpleNamespace(fence_status=fence_status, has_authorizer=lambda _by: True),
        opening=SimpleNamespace(shut_out=lambda topics, _by, logins, authorizer: dict.fromkeys(topics, bool(logins))),
    )
    snapshot, by = DestinationSnapshot(cluster=cluster), Deadline(1.0)
    for had in (True, False):
        before = FenceBefore(topic="a", kind=FenceKind.DENY_WRITE, had_deny=had)
        assert snapshot.fence_status([before], by) == {"a": had}
        assert snapshot.shut_out(["a"], by, ["User:mirror"] if had else []) == {"a": had}
