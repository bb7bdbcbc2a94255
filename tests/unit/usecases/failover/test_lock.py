"""One command at a time changes a mirror; whoever was frozen or came at the same moment does nothing late."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.approval.entries import NotPermitted
from tanist.domain.approval.words import canonical
from tanist.domain.checks import Mode
from tanist.domain.errors import MirrorLocked, PastReturn, TanistError
from tanist.domain.failover.plan import Plan
from tanist.domain.fences import FenceStatus, commands_to_lift
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, RunStatus
from tanist.domain.selection import Selection
from tanist.usecases.command import CommandContext
from tanist.usecases.failover import abort
from tanist.usecases.failover.fences import lift
from tanist.usecases.failover.route import ROUTE
from tanist.usecases.failover.run import RunAborted
from tanist.usecases.lock import FRESH_MS, LockedMirror, Purpose, mirror_lock
from tanist.usecases.mirrors import administer, desire
from tests.builders import DR
from tests.unit.fetcher.reconciling import debts, late_fence, settled
from tests.unit.usecases.failover.in_memory import TOPICS, FailoverWorld, Killed
from tests.unit.usecases.failover.runs import PLANNED, assert_promoted, killer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.ports.clock import Deadline
    from tanist.usecases.failover.run import RunOutcome
    from tests.fakes.state import MemoryStateStore

CHANGE = Purpose(operation="mirrors pause")
SYNC = Purpose(operation="metadata sync", preemptible=True)


def command(world: FailoverWorld, holder: str) -> CommandContext:
    return CommandContext(clock=world.clock, by=world.soon(), holder=holder)


def locked(world: FailoverWorld, holder: str, purpose: Purpose = CHANGE) -> LockedMirror:
    """The lock, taken and not released: its holder is frozen from here on."""
    return mirror_lock(world.west.side(), DR, purpose, command(world, holder)).__enter__()


def test_a_lock_that_is_held_refuses_by_name_and_opens_nothing() -> None:
    world = FailoverWorld()
    held = locked(world, "ann")
    with pytest.raises(MirrorLocked, match="ann holds the lock of mirror 'dr': mirrors pause"):
        locked(world, "bob")
    held.append([])  # who was refused has fenced nobody


def test_the_patient_wait_for_a_worker_that_sets_source_fences() -> None:
    """The first survey of an old source that returned was refused, because a worker was just fencing it."""
    world = FailoverWorld()
    held = locked(world, "worker", SYNC)
    begun = world.clock.monotonic()
    heir = locked(world, "ann", Purpose(operation="failback survey", patient=True))
    assert 0 < world.clock.monotonic() - begun <= FRESH_MS / 1000 + 2
    assert heir.epoch == held.epoch + 1
    with pytest.raises(MirrorLocked, match="ann holds the lock"):
        locked(world, "worker", SYNC)


def test_command_waits_for_a_fetcher_that_has_the_lock_for_a_moment() -> None:
    world = FailoverWorld()
    fetcher = locked(world, "worker", SYNC)
    world.clock.meanwhile = fetcher.release
    assert locked(world, "bob").append([]).lock(DR)


def test_command_does_not_wait_longer_than_a_moment_for_a_fetcher() -> None:
    world = FailoverWorld()
    fetcher = locked(world, "worker", SYNC)
    with pytest.raises(MirrorLocked, match="worker"):
        locked(world, "bob")
    fetcher.append([])


def test_a_holder_that_went_silent_is_succeeded_and_does_nothing_any_more() -> None:
    world = FailoverWorld()
    frozen = locked(world, "ann")
    world.clock.jump(FRESH_MS / 1000 + 1)
    heir = locked(world, "bob")
    for late in (frozen.confirm, lambda: frozen.append([])):
        with pytest.raises(MirrorLocked, match="bob"):
            late()
    frozen.release()
    heir.confirm()
    assert heir.append([]).lock(DR)


def test_the_lock_of_a_process_that_is_known_to_be_dead_is_free_at_once() -> None:
    """A killed command held its own host up for ten seconds."""
    world = FailoverWorld()
    locked(world, "ann")
    began = world.clock.monotonic()
    heir = replace(command(world, "bob"), is_process_dead=lambda holder: holder == "ann")
    with mirror_lock(world.west.side(), DR, CHANGE, heir) as held:
        assert held.append([]).lock(DR)
    assert world.clock.monotonic() == began


def test_of_two_holders_of_the_same_name_the_earlier_does_nothing_any_more() -> None:
    """Two workers with the same --id: only the epoch of the lock tells them apart."""
    world = FailoverWorld()
    frozen = locked(world, "worker-1")
    world.clock.jump(FRESH_MS / 1000 + 1)
    heir = locked(world, "worker-1")
    for late in (frozen.confirm, lambda: frozen.append([])):
        with pytest.raises(MirrorLocked, match="has taken the lock"):
            late()
    heir.confirm()
    assert heir.append([]).lock(DR)


def test_a_heartbeat_from_a_clock_that_is_behind_is_watched_before_it_counts_as_dead() -> None:
    world = FailoverWorld()
    ann = locked(world, "ann")
    world.clock.jump(3600)

    def beat() -> None:
        ann.append([])

    world.clock.meanwhile = beat
    with pytest.raises(MirrorLocked, match="ann"):
        locked(world, "bob")


def test_a_visitor_that_withdraws_costs_the_holder_nothing() -> None:
    """It had read that the lock was free, opened the transactional id, and found the holder's record behind it."""
    world = FailoverWorld()
    ann = locked(world, "ann")
    world.west.side().open_store(STATE_TOPIC, DR, world.soon())
    ann.append([])
    world.west.side().open_store(STATE_TOPIC, DR, world.soon())
    world.clock.wait(5)
    ann.confirm()


def test_of_two_that_come_at_the_same_moment_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have read that the lock is free; the first is frozen while it opens, and wakes when the other is at work."""
    world = FailoverWorld()
    won: list[LockedMirror] = []
    opening = type(world.west).open_store

    def frozen(self: object, topic: str, mirror: object, by: Deadline, *, create: bool = False) -> MemoryStateStore:
        if mirror and not won:
            monkeypatch.undo()
            won.append(locked(world, "bob"))
        return opening(world.west, topic, mirror, by, create=create)  # type: ignore[arg-type]

    monkeypatch.setattr(type(world.west), "open_store", frozen)
    with pytest.raises(MirrorLocked, match="bob"):
        locked(world, "ann")
    won[0].append([])


def test_a_worker_that_comes_between_the_look_and_the_opening_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reversal said MIRROR_LOCKED at once, though it waits twenty seconds for a worker that sets source fences."""
    world = FailoverWorld()
    came: list[LockedMirror] = []
    opening = type(world.west).open_store

    def late(self: object, topic: str, mirror: object, by: Deadline, *, create: bool = False) -> MemoryStateStore:
        if mirror and not came:
            monkeypatch.undo()
            came.append(locked(world, "worker", Purpose(operation="source fences", preemptible=True)))
            world.clock.meanwhile = came[0].release
        return opening(world.west, topic, mirror, by, create=create)  # type: ignore[arg-type]

    monkeypatch.setattr(type(world.west), "open_store", late)
    locked(world, "ann", Purpose(operation="mirrors reverse", patient=True)).append([])


def test_a_failover_takes_the_lock_from_a_sync_which_does_nothing_any_more() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    sync = locked(world, "sync", SYNC)
    began = world.clock.monotonic()
    world.run(plan, until="hold")
    assert world.clock.monotonic() == began, "it never waits"
    world.clock.wait(1)
    with pytest.raises(MirrorLocked):
        sync.confirm()


def test_a_failover_does_not_take_the_lock_from_a_change_that_is_at_work() -> None:
    world = FailoverWorld()
    plan = world.approve().plan
    ann = locked(world, "ann")

    def at_work() -> None:
        ann.append([])

    world.clock.meanwhile = at_work
    with pytest.raises(MirrorLocked, match="mirrors pause"):
        world.run(plan)
    ann.release()
    world.clock.meanwhile = world.tick
    assert world.run(plan).record.status is RunStatus.DONE


CHANGES: dict[str, Callable[[FailoverWorld], object]] = {
    "pause": lambda world: desire.set_desired(
        "dr", Selection(("orders",)), desire.paused, world.west.side(), command(world, "ann")
    ),
    "add": lambda world: desire.add(
        "dr", Selection(("orders",)), world.west.side(), lambda _: world.east.side(), command(world, "ann")
    ),
    "alter": lambda world: administer.alter(
        "dr", administer.Alteration(replication_factor=2), world.west.side(), command(world, "ann")
    ),
    "delete": lambda world: administer.delete("dr", world.west.side(), command(world, "ann")),
    "fence lift": lambda world: lift(
        world.clusters(), command(world, "ann"), of_promoted=True, topics=Selection((".*",))
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("point", ["after:hold", "fence:applied", "seal:no-return", "after:open"])
def test_nothing_throws_a_live_run_out(point: str, change: Callable[[FailoverWorld], object]) -> None:
    """Behind the point of no return nobody could write on either side until somebody ran it again."""
    world = FailoverWorld()
    plan = world.approve().plan
    refused: list[str] = []

    def meddle(at: str) -> None:
        if at == point:
            with pytest.raises(TanistError) as why:
                change(world)
            refused.append(why.value.name)

    assert world.run(plan, meddle).record.status is RunStatus.DONE
    assert refused in (["MIRROR_LOCKED"], ["FENCE_STILL_NEEDED"])
    assert_promoted(world)


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_an_unfinished_failover_holds_the_lock_between_its_steps(change: Callable[[FailoverWorld], object]) -> None:
    world = FailoverWorld()
    world.run(world.approve().plan, until="fence")
    world.clock.jump(3600)
    with pytest.raises(TanistError) as why:
        change(world)
    assert why.value.name in {"MIRROR_LOCKED", "FENCE_STILL_NEEDED"}


@pytest.mark.parametrize("point", ["before:hold", "after:hold", "fence:applied", "after:seal"])
def test_two_approved_plans_started_together_never_leave_two_writable_sides(point: str) -> None:
    """The one that lost stayed RUNNING with a topic that the other had promoted, and its abort lifted that fence."""
    world = FailoverWorld()
    all_of_it, one = world.approve().plan, world.approve(Mode.PLANNED, "orders").plan
    ended: list[str] = []

    def neighbour(at: str) -> None:
        if at == point:
            ended.append(outcome(lambda: world.run(one, runner="bob@host")))

    ended.append(outcome(lambda: world.run(all_of_it, neighbour, runner="ann@host")))
    # Frozen for long before it was on record, the first is succeeded; from then on the second is refused.
    assert ended == (["DONE", "INTERRUPTED"] if point == "before:hold" else ["RUN_UNDER_WAY", "DONE"])
    view = world.view()
    assert view.unfinished(DR) is None
    assert not any(world.east.may_write(topic, "app") for topic in TOPICS if view.promoted(DR, topic))


def outcome(run: Callable[[], RunOutcome]) -> str:
    try:
        return run().record.status
    except TanistError as why:
        return why.name


def test_a_run_that_sleeps_while_it_opens_its_store_promotes_nothing_behind_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It skipped fence, drain and groups for the rest, and ended DONE with a source that was never fenced."""
    world = FailoverWorld()
    all_of_it, one = world.approve().plan, world.approve(Mode.PLANNED, "orders").plan
    opening, slept = type(world.west).open_store, list[str]()

    def sleepy(self: object, topic: str, mirror: object, by: Deadline, *, create: bool = False) -> MemoryStateStore:
        if self is world.west and mirror and not slept:
            slept.append("while the other one ran")
            assert world.run(one, runner="bob@host").record.status is RunStatus.DONE
        return opening(self, topic, mirror, by, create=create)  # type: ignore[arg-type]

    monkeypatch.setattr(type(world.west), "open_store", sleepy)
    with pytest.raises(TanistError, match="ALREADY_PROMOTED"):
        world.run(all_of_it, runner="ann@host")
    view = world.view()
    assert {run.plan: run.status for run in view.failovers(DR)} == {one: RunStatus.DONE}
    assert view.unfinished(DR) is None


def test_a_run_that_is_aborted_while_it_is_frozen_fences_nothing_when_it_wakes() -> None:
    """Between "snapshot stored" and "fence applied": the source was fenced, and the record said lifted."""
    world = FailoverWorld()
    plan = world.approve().plan

    def frozen(point: str) -> None:
        if point == "fence:stored":
            abort.abort(world.clusters(), world.tools(runner="bob@host"), world.command())
            world.clock.wait(60)

    with pytest.raises(RunAborted, match="aborted by bob@host"):
        world.run(plan, frozen, runner="ann@host")
    assert world.source_is_as_it_was()


# ── names that are used again ─────────────────────────────────────────────────────────────────────────────────────


def keys(world: FailoverWorld) -> set[str]:
    return {key for topic in (STATE_TOPIC, OFFSETS_TOPIC, GROUPS_TOPIC) for key in world.west.view(topic).keys_of(DR)}


def empty(world: FailoverWorld) -> None:
    """All topics have taken over, and the source may be written to again."""
    world.run(world.approve().plan)
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))


def test_a_mirror_that_is_deleted_after_every_kind_of_past_leaves_no_key() -> None:
    world = FailoverWorld()
    with pytest.raises(Killed):
        world.run(world.approve().plan, killer(PLANNED.index("fence:applied")))
    abort.abort(world.clusters(), world.tools(), world.command())
    empty(world)
    assert {key.partition("/")[0] for key in keys(world)} >= {"fence", "failover", "lock", "topic", "generation"}
    administer.delete("dr", world.west.side(), command(world, "ann"))
    assert keys(world) == set()


@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "records left"])
@pytest.mark.parametrize(("mode", "step"), [(mode, step.id) for mode in Mode for step in ROUTE])
def test_the_run_of_a_namesake_is_done_up_to_no_step(mode: Mode, step: str, deleted: bool) -> None:
    """`failover run --until STEP` answered DONE for each of them, and nothing had been done: the hash was the same."""
    world = FailoverWorld()
    plan = world.approve(mode).plan
    assert world.run(plan).record.status is RunStatus.DONE
    lift(world.clusters(), world.command(), of_promoted=True, topics=Selection((".*",)))
    if deleted:
        administer.delete("dr", world.west.side(), command(world, "ann"))
    again = FailoverWorld(clock=world.clock)
    again.west.states, again.west.approvals = world.west.states, world.west.approvals
    again.make_again()
    before, took = keys(again), list(again.west.calls)
    with pytest.raises(NotPermitted):
        again.run(plan, until=step)
    assert not again.view().failovers(DR)
    assert keys(again) - {f"lock/{DR}"} == before - {f"lock/{DR}"}
    assert again.west.calls == took
    assert again.source_is_as_it_was()


@pytest.mark.parametrize("standing", [True, False])
def test_delete_refuses_to_orphan_a_source_fence(standing: bool) -> None:
    """Nobody could show or lift it any more; pending, it fenced the source of the next mirror of the name."""
    world = FailoverWorld()
    world.east.dead = not standing
    world.run(world.approve(Mode.PLANNED if standing else Mode.UNPLANNED).plan)
    before = keys(world)
    with pytest.raises(TanistError, match="FENCE_STANDS"):
        administer.delete("dr", world.west.side(), command(world, "ann"))
    assert keys(world) == before
    gone = administer.delete("dr", world.west.side(), command(world, "ann"), abandon="the source is scrapped")
    assert {each.topic for each in gone.abandoned} == {"orders", "payments"}
    assert keys(world) == set()


def test_delete_refuses_where_a_worker_has_recorded_a_fence_that_landed_late() -> None:
    """By the record it was lifted; it stands at the source, and only this mirror's record says what was before."""
    world = FailoverWorld()
    empty(world)
    late_fence(world)
    assert settled(world, debts(world)) == {FenceStatus.LIFTED}
    before = keys(world)
    with pytest.raises(TanistError, match="FENCE_STANDS"):
        administer.delete("dr", world.west.side(), command(world, "ann"))
    assert keys(world) == before
    gone = administer.delete("dr", world.west.side(), command(world, "ann"), abandon="the source is scrapped")
    by_hand = commands_to_lift(gone.abandoned, "east:9092")
    assert {each.topic for each in gone.abandoned} == {"orders", "payments"}
    assert all("--remove" in each for each in by_hand)
    assert keys(world) == set()


def test_an_abort_never_lifts_the_fence_of_a_topic_that_has_taken_over() -> None:
    """Whatever brought an unfinished run beside a promoted topic: its fence is what keeps the other side closed."""
    world = FailoverWorld()
    world.run(world.approve(Mode.PLANNED, "orders").plan)
    run = world.view().failovers(DR)[0]
    world.worker.append([replace(run, status=RunStatus.RUNNING, no_return=False)], world.soon())
    abort.abort(world.clusters(), world.tools(), world.command())
    assert not world.east.may_write("orders", "app")


def test_an_abort_that_comes_too_late_does_not_throw_the_live_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It read the record before the point of no return, took the lock behind it, and the run ended INTERRUPTED."""
    world = FailoverWorld()
    plan = world.approve().plan
    opening, late = type(world.west).open_store, list[str]()

    def sleepy(self: object, topic: str, mirror: object, by: Deadline, *, create: bool = False) -> MemoryStateStore:
        if self is world.west and mirror and not late:
            late.append("the run it meant to abort is past its point of no return by now")
            with pytest.raises(Killed):
                world.run(plan, killer(PLANNED.index("seal:no-return")), runner="ann@host")
        return opening(self, topic, mirror, by, create=create)  # type: ignore[arg-type]

    world.run(plan, until="hold", runner="ann@host")
    monkeypatch.setattr(type(world.west), "open_store", sleepy)
    with pytest.raises(PastReturn) as past:
        abort.abort(world.clusters(), world.tools(runner="bob@host"), world.command())
    assert f"--plan {plan}`" in past.value.action
    held = world.view().lock(DR)
    assert held is not None
    assert held.holder == "ann@host", "the lock is still the run's"
    assert world.run(plan, runner="ann@host").record.status is RunStatus.DONE


def test_a_failover_of_the_release_before_is_finished_after_an_upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan carries no mirror id, nor do the mirror's records: it was refused, and could not be aborted either."""
    world = FailoverWorld()
    shown = vars(Plan)["canonical_plan"].fget

    def of_before(self: Plan) -> str:
        words = json.loads(shown(self))
        del words["intent"]["mirror_id"]
        return canonical(words)

    monkeypatch.setattr(Plan, "canonical_plan", property(of_before))
    plan = world.approve().plan
    with pytest.raises(Killed):
        world.run(plan, killer(PLANNED.index("seal:no-return")))
    monkeypatch.undo()
    assert world.run(plan).record.status is RunStatus.DONE
