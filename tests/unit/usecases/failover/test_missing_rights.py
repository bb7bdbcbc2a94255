"""What the login of a run lacks is said while there still is a way back, and by name where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.errors import AuthorizationFailed, PastReturn
from tanist.domain.records import RunStatus
from tanist.domain.rights import CLUSTER
from tanist.ports.access import AclCheck, Verdict
from tanist.usecases.failover import abort
from tanist.usecases.failover.run import run
from tanist.usecases.failover.step import StepRefused
from tests.builders import DR
from tests.fakes.access import MemoryAccess
from tests.fakes.failover import MemoryProducerFencing
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.approval.entries import Approval
    from tanist.domain.names import DestinationOffset, MirrorPartition
    from tanist.domain.records import FailoverRun
    from tanist.domain.writer_identity import ProducerIds
    from tanist.ports.access import Permission
    from tanist.ports.clock import Deadline

MARKERS = {("ALTER", CLUSTER), ("CLUSTER_ACTION", CLUSTER)}
RIGHTS = pytest.mark.parametrize(
    ("denied", "named"),
    [
        (MARKERS, r"ALTER or CLUSTER_ACTION on Cluster kafka-cluster, which is needed for the producer fence"),
        ({("ALTER", CLUSTER)}, r"ALTER on Cluster kafka-cluster, which is needed for granting producers"),
        ({("ALTER_CONFIGS", "payments")}, r"ALTER_CONFIGS on Topic payments"),
        ({("WRITE", "orders")}, r"WRITE on Topic orders"),
    ],
    ids=["markers", "rules", "configs", "canary"],
)


def on_record(world: FailoverWorld) -> list[FailoverRun]:
    return list(world.west.view("__mirror_state").failovers(DR))


@RIGHTS
def test_a_right_that_is_missing_at_the_destination_is_found_behind_the_point_of_no_return(
    denied: set[tuple[str, str]], named: str
) -> None:
    """The source was fenced, the run past its return, and "seal: not yet" was all that anybody heard."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.run(plan, until="drain")
    world.west.denied = denied
    with pytest.raises(AuthorizationFailed, match=named) as refused:
        world.run(plan)
    assert refused.value.exit_code == 4, "the run has begun"
    (stopped,) = on_record(world)
    assert (stopped.status, stopped.no_return, stopped.runner) == (RunStatus.RUNNING, False, "")
    assert "MIRROR_AUTHORIZATION_FAILED" in stopped.reason
    world.west.denied = set()
    if denied == MARKERS:
        abort.abort(world.clusters(), world.tools(), world.command())
        assert world.source_is_as_it_was()
    else:
        assert world.run(plan).record.status is RunStatus.DONE


@RIGHTS
def test_where_a_right_is_missing_from_the_start_nobody_is_fenced(denied: set[tuple[str, str]], named: str) -> None:
    """The approval is not used either."""
    world = FailoverWorld()
    plan = world.approve().plan
    world.west.denied = denied
    with pytest.raises(AuthorizationFailed, match=named):
        world.run(plan)
    assert not on_record(world)
    assert world.source_is_as_it_was()
    world.west.denied = set()
    assert world.run(plan).record.status is RunStatus.DONE


def test_what_brokers_do_not_tell_of_rights_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreported(_self: MemoryAccess, rights: Sequence[Permission], _by: Deadline) -> tuple[AclCheck, ...]:
        return tuple(AclCheck(permission=right, verdict=Verdict.UNKNOWN, reason="not told") for right in rights)

    world = FailoverWorld()
    approval = world.approve()
    monkeypatch.setattr(MemoryAccess, "check", unreported)
    assert world.run(approval.plan).record.status is RunStatus.DONE


def refusing(world: FailoverWorld, approval: Approval, heard: list[tuple[str, str, str]]) -> None:
    """Run with 20 s, and seals that are refused."""
    tools = replace(world.tools(), report=lambda *event: heard.append(event))
    run(approval.plan, world.clusters("operator"), tools, world.command(20))


def test_behind_the_point_of_no_return_a_right_that_is_missing_is_named_and_not_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was taken away in that moment. The run ends at once: nothing is tried again until its deadline."""

    def refuse(
        self: MemoryProducerFencing, producer_ids: Mapping[MirrorPartition, ProducerIds], by: Deadline
    ) -> Mapping[MirrorPartition, DestinationOffset | ClusterAuthorizationFailed]:
        return {at: ClusterAuthorizationFailed("markers") for at in producer_ids}

    world, heard = FailoverWorld(), list[tuple[str, str, str]]()
    approval = world.approve()
    with monkeypatch.context() as patched:
        patched.setattr(MemoryProducerFencing, "fence_producers", refuse)
        with pytest.raises(StepRefused, match="lacks ALTER or CLUSTER_ACTION on Cluster kafka-cluster") as ended:
            refusing(world, approval, heard)
    assert ended.value.exit_code == 4
    reported = [(what, reason) for step, what, reason in heard if step == "seal"]
    assert [what for what, _ in reported] == ["begins", "stopped"]
    assert "ALTER or CLUSTER_ACTION" in reported[1][1]
    with pytest.raises(PastReturn, match="complete the failover") as past:
        abort.abort(world.clusters(), world.tools(), world.command())
    assert "is sealed" not in str(past.value), "nothing is"
    assert f"--plan {approval.plan}`" in past.value.action
    assert world.run(approval.plan).record.status is RunStatus.DONE
