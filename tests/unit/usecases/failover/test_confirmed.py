"""A command that was frozen directly before it acts, while somebody else took its lock, does not act when it wakes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.approval.entries import NotPermitted
from tanist.domain.errors import Interrupted, MirrorLocked, TanistError
from tanist.domain.fences import FenceStatus
from tanist.domain.names import MirrorPartition
from tanist.domain.records import RunStatus
from tanist.domain.selection import Selection
from tanist.domain.states import DesiredState
from tanist.usecases.command import CommandContext
from tanist.usecases.failover import abort
from tanist.usecases.failover.fences import lift
from tanist.usecases.failover.steps import configs
from tanist.usecases.lock import LockedMirror, Purpose, mirror_lock
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.sync import sync
from tanist.usecases.mirrors import administer, desire, forget
from tests.builders import DR, a_topic
from tests.fakes.failover import MemoryFencing, MemoryOpening, MemoryProducerFencing
from tests.fakes.state import MemoryStateStore
from tests.fakes.topics import MemoryTopics
from tests.unit.fetcher.reconciling import debts, settled
from tests.unit.usecases.failover.in_memory import PARTITIONS, TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, assert_promoted, killer
from tests.unit.usecases.failover.test_lock import empty

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.ports.clock import Deadline

BOB = Purpose(operation="failover abort", aborts=True)
"""Takes the lock whoever holds it."""


@dataclass
class Sleep:
    """Once, for a minute, in which bob takes the lock. `late`: what was asked for afterwards, of what is watched."""

    world: FailoverWorld
    monkeypatch: pytest.MonkeyPatch
    slept: bool = False
    late: list[str] = field(default_factory=list)

    def now(self) -> None:
        if not self.slept:
            self.slept = True
            self.world.clock.jump(60)
            command = CommandContext(clock=self.world.clock, by=self.world.soon(), holder="bob")
            mirror_lock(self.world.west.side(), DR, BOB, command).__enter__()

    def at(self, point: str) -> Callable[[str], None]:
        return lambda here: self.now() if here == point else None

    def after(self, owner: object, name: str) -> None:
        """As soon as `name` has answered."""

        def asked(*args: Any, **options: Any) -> Any:
            answer = real(*args, **options)
            if not options.get("validate_only"):
                self.now()
            return answer

        real = getattr(owner, name)
        self.monkeypatch.setattr(owner, name, asked)

    def watch(self, owner: object, name: str) -> None:
        def asked(*args: Any, **options: Any) -> Any:
            if self.slept and not options.get("validate_only"):
                self.late.append(name)
            return real(*args, **options)

        real = getattr(owner, name)
        self.monkeypatch.setattr(owner, name, asked)


def ann(world: FailoverWorld) -> CommandContext:
    return CommandContext(clock=world.clock, by=world.clock.deadline(600), holder="ann")


def run_sleeps_at(point: str) -> Callable[[FailoverWorld, Sleep], None]:
    def act(world: FailoverWorld, sleep: Sleep) -> None:
        world.run(world.approve().plan, sleep.at(point))

    return act


def run_sleeps_after_asking_what_is_compacted(world: FailoverWorld, sleep: Sleep) -> None:
    plan = world.approve().plan
    sleep.after(MemoryProducerFencing, "compacted")
    world.run(plan)


def fenced_and_dead(world: FailoverWorld) -> None:
    with pytest.raises(Killed):
        world.run(world.approve().plan, killer(PLANNED.index("fence:applied")))


def abort_sleeps(world: FailoverWorld, sleep: Sleep) -> None:
    fenced_and_dead(world)
    sleep.after(LockedMirror, "view")
    abort.abort(world.clusters(), world.tools(), ann(world))


def fence_lift_sleeps(world: FailoverWorld, sleep: Sleep) -> None:
    world.run(world.approve().plan)
    sleep.after(LockedMirror, "view")
    lift(world.clusters(), ann(world), of_promoted=True, topics=Selection((".*",)))


def worker_sleeps_before_it_lifts(world: FailoverWorld, sleep: Sleep) -> None:
    fenced_and_dead(world)
    world.east.dead = True
    abort.abort(world.clusters(), world.tools(), ann(world))
    world.east.dead = False
    sleep.after(LockedMirror, "view")
    assert settled(world, debts(world)) == {FenceStatus.LIFT_PENDING}


def worker_sleeps_before_it_fences(world: FailoverWorld, sleep: Sleep) -> None:
    """Again: somebody has lifted the fence of a topic that took over."""
    world.run(world.approve().plan)
    before = [each.before for each in world.view().source_fences(DR) if each.before]
    MemoryFencing(world.east).lift(before, world.soon())
    sleep.after(LockedMirror, "view")
    settled(world, debts(world))


def add_sleeps(world: FailoverWorld, sleep: Sleep) -> None:
    world.east.with_topic("invoices")
    sleep.after(LockedMirror, "view")
    desire.add("dr", Selection(("invoices",)), world.west.side(), lambda _: world.east.side(), ann(world))


def add_again_sleeps(world: FailoverWorld, sleep: Sleep) -> None:
    """Of a topic that was in the mirror before: its map is forgotten."""
    world.east.with_topic("invoices")
    gone = a_topic(
        "invoices", desired=DesiredState.REMOVED, source_topic_id="id-of-invoices", changed_at=world.clock.now()
    )
    world.worker.append([replace(gone, mirror_id=world.spec.mirror_id)], world.soon())
    add_sleeps(world, sleep)


def delete_sleeps(world: FailoverWorld, sleep: Sleep) -> None:
    empty(world)
    sleep.after(LockedMirror, "view")
    administer.delete("dr", world.west.side(), ann(world))


def metadata_sync_sleeps(world: FailoverWorld, sleep: Sleep) -> None:
    """Between two topics."""
    for name in TOPICS:
        world.east.topics[name] = replace(world.east.topics[name], partitions=5)
        world.east.ends |= {MirrorPartition(name, n): (0, 0, 0) for n in range(TOPICS[name], 5)}
    sleep.after(MemoryTopics, "grow")
    sync(MetadataRequest(mirror="dr", include=(".*",)), world.west.side(), lambda _: world.east.side(), ann(world))


def metadata_sync_sleeps_over_new_topics(world: FailoverWorld, sleep: Sleep) -> None:
    """That the mirror's selection names, and the source has got since."""
    world.worker.append([replace(world.spec, include=(".*",))], world.soon())
    for name in ("invoices", "refunds"):
        world.east.with_topic(name)
    sleep.after(MemoryTopics, "create")
    sync(MetadataRequest(mirror="dr", include=(".*",)), world.west.side(), lambda _: world.east.side(), ann(world))


ACTIONS: dict[str, tuple[Callable[[FailoverWorld, Sleep], None], object, str]] = {
    "a run fences the source": (run_sleeps_at("fence:stored"), MemoryFencing, "apply"),
    "a run seals": (run_sleeps_at("seal:no-return"), MemoryProducerFencing, "fence_producers"),
    "a run keeps a barrier": (run_sleeps_after_asking_what_is_compacted, MemoryProducerFencing, "keep"),
    "a run configures": (run_sleeps_at("before:configs"), MemoryTopics, "alter_configs"),
    "a run configures the next topic": (run_sleeps_at("configs:some"), MemoryTopics, "alter_configs"),
    "a run tries a transaction": (run_sleeps_at("before:canary"), MemoryOpening, "canary"),
    "a run opens": (run_sleeps_at("before:open"), MemoryOpening, "open"),
    "an abort lifts": (abort_sleeps, MemoryFencing, "lift"),
    "fence lift lifts": (fence_lift_sleeps, MemoryFencing, "lift"),
    "a worker lifts": (worker_sleeps_before_it_lifts, MemoryFencing, "lift"),
    "a worker fences": (worker_sleeps_before_it_fences, MemoryFencing, "apply"),
    "mirrors add makes a topic": (add_sleeps, MemoryTopics, "create"),
    "mirrors add forgets a map": (add_again_sleeps, forget, "runs"),
    "mirrors delete forgets": (delete_sleeps, forget, "everything"),
    "metadata sync makes the next topic": (metadata_sync_sleeps_over_new_topics, MemoryTopics, "create"),
    "metadata sync grows the next topic": (metadata_sync_sleeps, MemoryTopics, "grow"),
    "metadata sync configures": (metadata_sync_sleeps, MemoryTopics, "alter_configs"),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_a_command_that_lost_its_lock_in_its_sleep_does_nothing_more(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka fences none of these: each would act on a mirror that somebody else has gone on with."""
    monkeypatch.setattr(configs, "_AT_ONCE", 1)
    command, port, action = ACTIONS[name]
    sleep = Sleep(FailoverWorld(), monkeypatch)
    sleep.watch(port, action)
    with suppress(TanistError):  # a worker only logs it, a sync says it of every topic
        command(sleep.world, sleep)
    assert sleep.slept
    assert sleep.late == []


def test_a_holder_that_was_frozen_while_it_confirmed_confirms_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it heard was true when the brokers said it, a minute before it heard it."""
    world = FailoverWorld()
    sleep = Sleep(world, monkeypatch)
    with mirror_lock(world.west.side(), DR, Purpose(operation="mirrors pause"), ann(world)) as lock:
        world.clock.jump(1)
        sleep.after(MemoryStateStore, "append")
        with pytest.raises(MirrorLocked, match="bob"):
            lock.confirm()


def test_a_confirmation_that_took_five_seconds_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    world, took = FailoverWorld(), [5.0, 5.0, 0.1]
    real = MemoryStateStore.append

    def slow(*args: Any) -> Any:
        view = real(*args)
        world.clock.jump(took.pop(0) if took else 0)
        return view

    with mirror_lock(world.west.side(), DR, Purpose(operation="mirrors pause"), ann(world)) as lock:
        world.clock.jump(1)
        monkeypatch.setattr(MemoryStateStore, "append", slow)
        lock.confirm()
        assert took == []


def test_a_run_frozen_directly_before_it_alters_a_config_leaves_what_the_owner_has_set_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind its last confirmation: another run finished the failover, and the topic's owner altered retention."""
    world, owned = FailoverWorld(), list[str]()
    plan = world.approve().plan
    world.run(plan, until="generation")
    real = MemoryTopics.alter_configs

    def frozen(self: MemoryTopics, changes: Any, by: Deadline) -> dict[str, TanistError | None]:
        if not owned:
            owned.extend(changes)
            world.clock.jump(30)
            assert world.run(plan, runner="other@host").record.status is RunStatus.DONE
            assert not any(real(self, {topic: {"retention.ms": "-1"} for topic in changes}, world.soon()).values())
        return real(self, changes, by)

    monkeypatch.setattr(MemoryTopics, "alter_configs", frozen)
    with pytest.raises(Interrupted, match="another process has taken over this run"):
        world.run(plan)
    assert {name: world.west.topics[name].configs["retention.ms"] for name in owned} == dict.fromkeys(TOPICS, "-1")


def test_a_config_that_is_altered_between_the_look_and_the_request_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever holds the lock sets it in the next attempt, and says in the evidence what was in the way."""
    world, described = FailoverWorld(), list[str]()
    plan = world.approve().plan
    world.run(plan, until="generation")
    describe, alter, late = MemoryTopics.describe, MemoryTopics.alter_configs, list[str]()

    def seen(self: MemoryTopics, names: Any, by: Deadline, configs: Any) -> Any:
        answer = describe(self, names, by, configs)
        if list(names) == ["orders", "payments"] and not described and self.cluster is world.west:
            described.append("orders")
            alter(self, {"orders": {"retention.ms": "5"}}, by)
        return answer

    def altered(self: MemoryTopics, changes: Any, by: Deadline) -> dict[str, TanistError | None]:
        late.extend(changes)
        return alter(self, changes, by)

    def begins(point: str) -> None:
        if point == "before:configs" and not late:
            monkeypatch.setattr(MemoryTopics, "describe", seen)
            monkeypatch.setattr(MemoryTopics, "alter_configs", altered)

    assert world.run(plan, begins).record.status is RunStatus.DONE
    assert late == ["payments", "orders"]
    assert world.west.topics["orders"].configs["retention.ms"] == "60000"


# ── directly before the point of no return ────────────────────────────────────────────────────────────────────────


def test_records_that_are_deleted_from_the_copy_directly_before_the_barrier_stop_the_run() -> None:
    """Behind the look of the step before: nothing is sealed, and an abort undoes everything."""
    world = FailoverWorld()

    def cut(point: str) -> None:
        if point == "before:seal":
            for at in PARTITIONS:
                _, stable, high = world.west.ends[at]
                world.west.ends[at] = (3, stable, high)

    with pytest.raises(NotPermitted, match="COPY_TRUNCATED"):
        world.run(world.approve().plan, cut)
    assert not world.west.epochs.get((PARTITIONS[0], world.spec.start_id))
    abort.abort(world.clusters(), world.tools(), world.command())
    assert world.source_is_as_it_was()


def test_a_fence_that_is_lifted_directly_before_the_barrier_is_put_up_again_first() -> None:
    """A planned failover promises that nothing is lost: what producers write meanwhile is copied before the seal."""
    world, points = FailoverWorld(), list[str]()

    def lifted_by_hand(point: str) -> None:
        points.append(point)
        if point == "before:seal" and points.count(point) == 1:
            before = [each.before for each in world.view().source_fences(DR) if each.before]
            MemoryFencing(world.east).lift(before, world.soon())
            world.east.grow(PARTITIONS[0], 5)
        if point == "seal:no-return":
            assert not any(world.east.may_write(topic, "app") for topic in TOPICS)

    assert world.run(world.approve().plan, lifted_by_hand).record.status is RunStatus.DONE
    assert points.count("before:fence") == 2
    assert_promoted(world)
