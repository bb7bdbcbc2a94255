"""A replay and an abort of transactions are run by their tables, in memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.approval.entries import NotApproved, NotPermitted
from tanist.domain.errors import TimedOut, Unreachable
from tanist.domain.failback.decision import DecisionPlan, TailAction, TailClass
from tanist.domain.failback.open_transactions import ReturnedTransaction
from tanist.domain.names import EpochMs, MirrorPartition, TopicPartition
from tanist.domain.records import RunStatus
from tanist.domain.selection import EVERY_TOPIC
from tanist.domain.tails import PartitionTail, TailStage, TailVerdict, TopicTails
from tanist.usecases import lock
from tanist.usecases.approvals import ApprovalTerms, sign, withdraw
from tanist.usecases.failback import aborting
from tanist.usecases.failback import replay as replaying
from tanist.usecases.failback.aborting import abort_transactions, approve_abort, plan_abort
from tanist.usecases.failback.replay import ReplayTools, replay
from tests.builders import DR
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.returning import returned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.ports.clock import Deadline
    from tanist.usecases.mirror import ReturnedMirror

TERMS = ApprovalTerms.of("drill", 60)


@dataclass
class OpenAtTheSource:
    """The port `OpenTransactions`. `stubborn`: it stays open when it is aborted."""

    found: list[ReturnedTransaction]
    stubborn: bool = False
    aborted: list[ReturnedTransaction] = field(default_factory=list)

    def on(self, partitions: Sequence[TopicPartition], by: Deadline) -> tuple[ReturnedTransaction, ...]:
        del by
        assert partitions
        return tuple(self.found)

    def abort(self, transaction: ReturnedTransaction, by: Deadline) -> None:
        del by
        self.aborted.append(transaction)
        if not self.stubborn:
            self.found.remove(transaction)


def a_transaction(name: str) -> ReturnedTransaction:
    return ReturnedTransaction(name, 7, 1, EpochMs(5), "Ongoing", (MirrorPartition("orders", 0),), 3)


def with_transactions(world: FailoverWorld, port: OpenAtTheSource) -> ReturnedMirror:
    mirror = returned(world)
    return replace(mirror, source=replace(mirror.source, transactions=port))


def failed_over() -> FailoverWorld:
    world = FailoverWorld()
    world.run(world.approve().plan)
    return world


def test_an_abort_ends_what_was_approved_and_says_what_is_open_afterwards() -> None:
    for stubborn in (False, True):
        world, port = failed_over(), OpenAtTheSource([a_transaction("paid")], stubborn)
        clusters = with_transactions(world, port)
        plan = plan_abort(clusters, EVERY_TOPIC, world.command()).plan
        approve_abort(plan.hash, EVERY_TOPIC, clusters, world.command(), terms=TERMS)
        port.found.append(a_transaction("begun since"))
        found = abort_transactions(plan.hash, clusters, world.command())
        assert (
            [each.transactional_id for each in found.aborted]
            == ["paid"]
            == [each.transactional_id for each in port.aborted]
        )
        assert [each.transactional_id for each in found.still_open] == (["paid"] if stubborn else [])


def test_a_dry_run_of_an_abort_ends_nothing() -> None:
    world, port = failed_over(), OpenAtTheSource([a_transaction("paid")])
    clusters = with_transactions(world, port)
    plan = plan_abort(clusters, EVERY_TOPIC, world.command()).plan
    approve_abort(plan.hash, EVERY_TOPIC, clusters, world.command(), terms=TERMS)
    found = abort_transactions(plan.hash, clusters, replace(world.command(), dry_run=True))
    assert (found.aborted, port.aborted) == ((), [])
    assert [each.transactional_id for each in found.still_open] == ["paid"]


@pytest.mark.parametrize("how", ["withdrawn", "expired"])
def test_an_abort_whose_approval_ends_while_the_lock_is_waited_for_ends_nothing(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The approval was looked at before the lock only, which a worker may hold for twenty seconds."""
    world, port = failed_over(), OpenAtTheSource([a_transaction("paid")])
    clusters = with_transactions(world, port)
    plan = plan_abort(clusters, EVERY_TOPIC, world.command()).plan
    approve_abort(plan.hash, EVERY_TOPIC, clusters, world.command(), terms=TERMS)
    take_lock = lock.changing

    @contextmanager
    def wait(*given: Any, **named: Any) -> Iterator[Any]:
        with take_lock(*given, **named) as locked:
            if how == "withdrawn":
                withdraw(plan.hash, clusters, world.command(), reason="its producer is back")
            else:
                world.clock.jump(61)
            yield locked

    monkeypatch.setattr(aborting, "changing", wait)
    with pytest.raises((NotApproved, NotPermitted), match=f"(?i){how}"):
        abort_transactions(plan.hash, clusters, world.command())
    assert port.aborted == []


def test_a_replay_that_waits_for_a_broker_says_why_once_for_each_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was silent for as long as the broker was away."""
    away = [Unreachable("b1 is away"), Unreachable("b1 is away"), TimedOut("b1 is slow"), None]

    class Partition:
        def __init__(self, *_: object) -> None:
            """As the partition that is replayed."""

        def run(self) -> None:
            if (why := away.pop(0)) is not None:
                raise why

    monkeypatch.setattr(replaying, "_Partition", Partition)
    heard: list[tuple[MirrorPartition, str]] = []
    tools = ReplayTools(manifest=lambda _: None, waiting=lambda at, why: heard.append((at, why.reason)))
    tail = PartitionTail(partition=1, verdict=TailVerdict.TAIL, common_end=5, end=9, records=4)
    at, decided = EpochMs(0), TailStage.DECIDED
    tails = TopicTails(
        mirror=DR, topic="orders", promotion_epoch=1, cluster_id="e", tails=(tail,), stage=decided, at=at
    )
    replayed: Any = SimpleNamespace(tools=tools, locked=SimpleNamespace(command=FailoverWorld().command()))
    replaying._Replay._partition(replayed, tails, tail)
    assert heard == [(MirrorPartition("orders", 1), "b1 is away"), (MirrorPartition("orders", 1), "b1 is slow")]
    assert not away


def test_a_replay_is_on_record_as_done_and_runs_once() -> None:
    world = failed_over()
    spec = world.clusters().spec
    plan = DecisionPlan(
        mirror=DR,
        mirror_id=spec.id,
        source_cluster_id=spec.source_cluster_id,
        destination_cluster_id=spec.destination_cluster_id,
        tails=(),
        actions=dict.fromkeys(TailClass, TailAction.DROP),
        expired_at=EpochMs(0),
    )
    clusters, points, manifests = returned(world), list[str](), list[Any]()
    sign(plan.canonical_plan, TERMS, clusters, world.command())
    tools = ReplayTools(manifest=manifests.append, checkpoint=points.append)
    for _ in range(2):
        found = replay(plan.hash, clusters, tools, world.command())
        assert (found.decision.status, found.not_released) == (RunStatus.DONE, {})
    assert points == ["decided", "done"]
    assert [each["status"] for each in manifests] == [RunStatus.DONE]
