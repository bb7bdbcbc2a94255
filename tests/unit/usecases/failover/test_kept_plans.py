"""Plans are kept: the hash is all that an approver types, and what the plan says is what is permitted."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import typer

from tanist.cli.app import app
from tanist.cli.failover import show_accepted
from tanist.domain.acl_entries import AclEntry
from tanist.domain.approval.entries import APPROVALS_TOPIC, NotApproved, NotPermitted
from tanist.domain.approval.words import hash_of
from tanist.domain.checks import Mode
from tanist.domain.errors import TimedOut
from tanist.domain.failover.commands import approve_command, plan_command
from tanist.domain.failover.kept_plans import KEPT_MS, LEFT_KEPT, MOST_KEPT, REFRESH_MS, kept_plan, to_keep
from tanist.domain.failover.plan import Intent, TopicIntent
from tanist.domain.kept_plan import KeptPlan
from tanist.domain.names import EpochMs, iso_time
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.domain.state_record import Tombstone
from tanist.domain.states import MirrorState
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failover import observe, planning, removal
from tanist.usecases.failover.approval_gate import NotToldNow
from tanist.usecases.failover.items import plan_item
from tanist.usecases.failover.planning import AnotherPlan, FailoverRequest, PlanBlocked, PlanNotKept, SourceAnswers
from tanist.usecases.failover.source_seen import foreign
from tests.builders import DR, a_worker
from tests.fakes.topics import MemoryTopics
from tests.unit.usecases.failover.in_memory import PARTITIONS, FailoverWorld
from tests.unit.usecases.failover.runs import TAIL, lose_source

if TYPE_CHECKING:
    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan
    from tanist.domain.names import MirrorPartition

DAY = 24 * 3600.0


def kept(world: FailoverWorld, **asked: Any) -> planning.Planned:
    return planning.plan_and_keep(FailoverRequest(**asked), world.clusters("operator"), world.command())


def approve(world: FailoverWorld, plan: str, **typed: Any) -> Approval:
    return planning.approve_typed(plan, typed, world.clusters(), world.command(), terms=ApprovalTerms.of("drill", 3600))


def written(world: FailoverWorld) -> int:
    return sum(key.startswith(b"plan/") for key, _ in world.west.states[STATE_TOPIC][0:])


def test_the_hash_of_a_kept_plan_is_all_that_its_approver_types(world: FailoverWorld) -> None:
    """Every option had to be typed again, and one that was forgotten was ANOTHER_PLAN."""
    lose_source(world)
    found = kept(
        world, mode=Mode.UNPLANNED, include=("orders",), loss_tolerance=40, reserve=7, dead_since=world.clock.now()
    )
    why = "'unplanned failover'"
    assert found.approve_command == f"tanist failover approve dr {found.plan.hash} --destination west --reason {why}"
    item = plan_item(found)
    assert (item["kept"], item["approve"]) == (True, found.approve_command)
    approval = approve(world, found.plan.hash)
    assert approval.plan_json == found.plan.canonical_plan
    assert world.run(approval.plan).record.status is RunStatus.DONE


def test_planning_fences_no_command_and_takes_no_lock(world: FailoverWorld) -> None:
    """A plan that is stored as an operator stores it would end the failover that is running."""
    before = dict(world.west.operators)
    kept(world)
    assert world.west.operators == before
    assert not any(call.startswith("append") for call in world.west.calls)


def test_nothing_is_written_where_the_plan_is_kept_already(world: FailoverWorld) -> None:
    kept(world)
    before = written(world)
    world.tick()
    assert kept(world).kept
    assert written(world) == before
    world.clock.jump(REFRESH_MS / 1000)
    world.tick()
    assert kept(world).kept
    assert written(world) > before


def test_a_login_that_may_not_write_there_gets_the_whole_command(world: FailoverWorld) -> None:
    """Planning works with rights to read alone, as before."""
    lose_source(world)
    world.west.denied = {*world.west.denied, ("WRITE", STATE_TOPIC)}
    died = world.clock.now()
    asked = {"mode": Mode.UNPLANNED, "include": ("orders",), "reserve": 7, "dead_since": died}
    found = kept(world, **asked)
    assert (found.kept, "WRITE on topic __mirror_state" in found.not_kept) == (False, True)
    lost = found.plan.intent.loss_tolerance
    assert found.approve_command == (
        f"tanist failover approve dr {found.plan.hash} --destination west --mode unplanned --topic orders --reserve 7 "
        f"--source-dead-since {iso_time(died)} --max-loss {lost} --reason 'unplanned failover'"
    )
    with pytest.raises(PlanNotKept, match=r"is not kept at 'west', and the options make the planned plan .*unplanned"):
        approve(world, found.plan.hash)
    assert approve(world, found.plan.hash, **asked, loss_tolerance=lost).plan == found.plan.hash


def test_a_plan_expires_with_the_longest_approval_and_the_next_one_forgets_it(world: FailoverWorld) -> None:
    old = kept(world).plan
    world.clock.jump(KEPT_MS / 1000)
    world.tick()
    with pytest.raises(PlanNotKept, match=old.hash):
        approve(world, old.hash, include=("orders",))
    kept(world, include=("orders",))
    plans = [each.plan for each in world.west.view(STATE_TOPIC).kept_plans(DR)]
    assert old.hash not in plans
    assert len(plans) == 1


def test_a_plan_of_a_deleted_mirror_of_the_name_is_never_read(world: FailoverWorld) -> None:
    plan = kept(world).plan
    later = replace(world.spec, mirror_id="another")
    view = world.west.view(STATE_TOPIC)
    assert kept_plan(view, world.spec, plan.hash, world.clock.now())
    gone = [each for each in to_keep(plan, view, later, world.clock.now()) if isinstance(each, KeptPlan)]
    assert [each.mirror_id for each in gone] == ["another"], "it is stored anew, for that mirror"
    world.west.write(STATE_TOPIC, later)
    assert kept_plan(world.west.view(STATE_TOPIC), later, plan.hash, world.clock.now()) is None
    others = replace(plan, steps=())
    assert Tombstone(f"plan/dr/{plan.hash}") in to_keep(others, world.west.view(STATE_TOPIC), later, world.clock.now())


def test_words_that_were_changed_are_not_the_plan(world: FailoverWorld) -> None:
    plan = kept(world).plan
    (record,) = world.west.view(STATE_TOPIC).kept_plans(DR)
    world.west.write(STATE_TOPIC, replace(record, plan_json=record.plan_json.replace('"planned"', '"unplanned"')))
    with pytest.raises(PlanNotKept):
        approve(world, plan.hash, include=("orders",))


def test_a_limitation_that_is_gone_and_a_smaller_loss_void_nothing(world: FailoverWorld) -> None:
    """The facts make another plan by now; what the first one says is still what is permitted."""
    world.observe(MirrorState.PAUSED, PARTITIONS[0])
    found = kept(world, loss_tolerance=90)
    assert "WITHOUT_DRAIN" in {each.name for each in found.plan.limitations}
    world.observe(MirrorState.MIRRORING, PARTITIONS[0])
    assert world.plan().plan.hash != found.plan.hash
    assert approve(world, found.plan.hash).plan == found.plan.hash


def test_what_the_words_do_not_cover_is_named_with_the_command_that_plans_again(world: FailoverWorld) -> None:
    found = kept(world, include=("orders",))
    world.west.rules["orders"] = (AclEntry("User:eve", "*", allowed=True),)
    again = "Plan again: tanist failover plan dr --destination west --mode planned --topic orders"
    with pytest.raises(AnotherPlan, match=r"OTHERS_MAY_WRITE: .*orders: User:eve") as other:
        approve(world, found.plan.hash)
    assert again in other.value.reason
    assert world.west.approvals == []


def test_what_nobody_can_accept_is_named_with_the_way_on(world: FailoverWorld) -> None:
    """A planned failover of a source that has died since can only be an unplanned one."""
    found = kept(world, reverse=True)
    lose_source(world)
    with pytest.raises(
        PlanBlocked, match=r"SOURCE_DOWN: .*Plan again: tanist failover plan dr .*--mode unplanned"
    ) as no:
        approve(world, found.plan.hash)
    assert "--reverse" not in no.value.reason
    assert world.west.approvals == []


def test_a_kept_plan_is_not_approved_while_another_failover_is_unfinished(world: FailoverWorld) -> None:
    found = kept(world, include=("orders",))
    world.run(world.approve(Mode.PLANNED, "payments").plan, until="fence")
    with pytest.raises(PlanBlocked, match="RUN_UNFINISHED"):
        approve(world, found.plan.hash)


def test_options_that_say_something_else_than_the_kept_plan_are_refused(world: FailoverWorld) -> None:
    found = kept(world, loss_tolerance=3)
    assert approve(world, found.plan.hash, mode=Mode.PLANNED, loss_tolerance=3).plan == found.plan.hash
    with pytest.raises(AnotherPlan, match="its tolerated loss is 3, requested is 4"):
        approve(world, found.plan.hash, loss_tolerance=4)
    with pytest.raises(AnotherPlan, match="its mode is planned, requested is unplanned"):
        approve(world, found.plan.hash, mode=Mode.UNPLANNED)


def test_a_hash_that_is_neither_kept_nor_made_by_the_options_is_one_clear_error(world: FailoverWorld) -> None:
    with pytest.raises(PlanNotKept, match="0123456789abcdef is not kept") as missing:
        approve(world, "0123456789abcdef")
    assert "tanist failover plan" in str(missing.value)


def test_a_kept_plan_of_another_direction_permits_nothing(world: FailoverWorld) -> None:
    found = kept(world)
    words = found.plan.canonical_plan.replace(world.spec.source_cluster_id, "another")
    plan = hash_of(words)
    record = KeptPlan(mirror=DR, mirror_id=world.spec.mirror_id, plan=plan, plan_json=words, at=world.clock.now())
    world.west.write(STATE_TOPIC, record)
    with pytest.raises(NotPermitted, match="of an earlier mirror 'dr', or of its other direction"):
        planning.approve(plan, None, world.clusters(), world.command(), terms=ApprovalTerms.of("drill", 60))


def test_plans_that_are_kept_do_not_grow_without_bound(world: FailoverWorld) -> None:
    """Every `failover plan --max-loss N` left another record of 7 days."""
    running = world.approve(Mode.PLANNED, "payments").plan
    first = [kept(world, include=("payments",)).plan.hash, kept(world, loss_tolerance=1_000).plan.hash]
    assert first[0] == running
    approve(world, first[1])
    world.run(running, until="hold")
    plans: list[str] = []
    for n in range(MOST_KEPT + 5):
        world.clock.jump(1)
        plan = kept(world, mode=Mode.UNPLANNED, loss_tolerance=n).plan.hash
        world.view()
        plans = [each.plan for each in world.west.view(STATE_TOPIC).kept_plans(DR)]
        assert plan in plans, "the latest one"
        assert len(plans) <= MOST_KEPT
    assert set(first) <= set(plans), "one is approved, one is running"


def full(world: FailoverWorld) -> list[str]:
    """As many plans are kept as may be; returns them from the oldest to the latest."""
    plans: list[str] = []
    for n in range(MOST_KEPT):
        world.clock.jump(1)
        plans.append(kept(world, mode=Mode.UNPLANNED, loss_tolerance=n).plan.hash)
    return plans


def dropped(world: FailoverWorld, approved: frozenset[str] | None) -> list[str]:
    """What makes room for another plan, the first to go first."""
    found = to_keep(world.plan().plan, world.west.view(STATE_TOPIC), world.spec, world.clock.now(), approved)
    return [each.key.rpartition("/")[2] for each in found if isinstance(each, Tombstone)]


def test_a_plan_that_may_be_approved_is_dropped_only_where_every_other_one_may_be(world: FailoverWorld) -> None:
    plans = full(world)
    assert dropped(world, frozenset()) == plans[: MOST_KEPT + 1 - LEFT_KEPT]
    assert dropped(world, None) == plans[:1], "nobody tells which are approved"
    assert dropped(world, frozenset(plans)) == plans[:1]
    assert dropped(world, frozenset(plans[:-3])) == plans[-3:], "the oldest 47 are approved"


def test_no_more_plans_are_kept_where_the_planner_may_not_read_approvals(world: FailoverWorld) -> None:
    """70 were kept."""
    world.west.denied = {("READ", APPROVALS_TOPIC)}
    running = world.approve(Mode.PLANNED, "payments").plan
    assert kept(world, include=("payments",)).plan.hash == running
    world.west.denied = set()
    world.run(running, until="hold")
    world.west.denied = {("READ", APPROVALS_TOPIC)}
    latest = full(world)[-1]
    for n in range(MOST_KEPT, MOST_KEPT + 5):
        world.clock.jump(1)
        latest = kept(world, mode=Mode.UNPLANNED, loss_tolerance=n).plan.hash
        world.view()
    plans = [each.plan for each in world.west.view(STATE_TOPIC).kept_plans(DR)]
    assert len(plans) == MOST_KEPT
    assert {running, latest} <= set(plans)


def test_a_plan_whose_approval_has_expired_makes_room(world: FailoverWorld) -> None:
    first = kept(world, loss_tolerance=1_000).plan.hash
    approve(world, first)
    world.clock.jump(3_601)
    world.tick()
    full(world)
    kept(world)
    assert first not in {each.plan for each in world.west.view(STATE_TOPIC).kept_plans(DR)}


def test_an_approver_is_shown_what_is_accepted_before_it_is_signed(
    world: FailoverWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.observe(MirrorState.PAUSED, PARTITIONS[0])
    plan = kept(world, loss_tolerance=90).plan

    def show(words: ApprovedPlan, facts: Facts) -> None:
        assert world.west.approvals == []
        show_accepted(words, facts)

    planning.approve_typed(
        plan.hash, {}, world.clusters(), world.command(), terms=ApprovalTerms.of("drill", 60), show=show
    )
    printed = capsys.readouterr().out
    assert all(each.name in printed for each in plan.limitations)
    assert "not being copied, so they are failed over as they are: orders-0" in printed
    assert "90 offsets" in printed


@pytest.mark.parametrize("about", [None, {}, {"OTHERS_MAY_WRITE": None}, {"OTHERS_MAY_WRITE": [1, "orders: User:eve"]}])
def test_a_limitation_without_what_it_names_breaks_nothing(world: FailoverWorld, about: object) -> None:
    """Another version kept the plan. What it does not name it does not accept."""
    words = json.loads(kept(world).plan.canonical_plan)
    text = json.dumps(words | {"limitations": ["OTHERS_MAY_WRITE"], "about": about})
    record = KeptPlan(
        mirror=DR, mirror_id=world.spec.mirror_id, plan=hash_of(text), plan_json=text, at=world.clock.now()
    )
    world.west.write(STATE_TOPIC, record)
    planning.approve_typed(
        record.plan, {}, world.clusters(), world.command(), terms=ApprovalTerms.of("x", 60), show=show_accepted
    )
    odd = text.replace('"about"', '"about": [5], "other"')
    world.west.write(STATE_TOPIC, replace(record, plan=hash_of(odd), plan_json=odd))
    with pytest.raises(NotPermitted, match="cannot be read by this version"):
        approve(world, hash_of(odd))


# ── what is not known for the moment ──────────────────────────────────────────────────────────────────────────────────


def unread_for_a_moment(world: FailoverWorld, monkeypatch: pytest.MonkeyPatch, looks: int = 4) -> None:
    """Who wrote last to a partition of the destination is not told, until somebody has waited a few times."""
    left = [looks]

    def unknown(*given: Any) -> dict[MirrorPartition, bool | None]:
        found: dict[MirrorPartition, bool | None] = {**foreign(*given)}
        return {**found, PARTITIONS[0]: None} if left[0] > 0 else found

    def back() -> None:
        world.tick()
        left[0] -= 1

    monkeypatch.setattr(observe, "foreign", unknown)
    world.clock.meanwhile = back


def test_a_plan_waits_for_what_is_unknown_for_a_moment_before_it_counts_the_loss(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tolerated what the other partitions lose, so it covered nothing a moment later."""
    lose_source(world)
    unread_for_a_moment(world, monkeypatch)
    found = kept(world, mode=Mode.UNPLANNED)
    assert found.plan.intent.loss_tolerance == TAIL * len(PARTITIONS)
    assert not {"COPY_WRITER_UNKNOWN", "RECORDS_AT_RISK_UNKNOWN"} & {each.name for each in found.plan.limitations}


def test_a_plan_waits_for_a_destination_that_does_not_describe_a_topic_for_the_moment(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took the topic's id for unknown, and the same plan had another hash a moment later."""
    told = kept(world).plan.hash
    left, describe = [4], MemoryTopics.describe

    def silent(self: MemoryTopics, *asked: Any) -> Any:
        found = describe(self, *asked)
        return {**found, "orders": TimedOut("west")} if left[0] > 0 and "orders" in found else found

    def back() -> None:
        world.tick()
        left[0] -= 1

    monkeypatch.setattr(MemoryTopics, "describe", silent)
    world.clock.meanwhile = back
    assert kept(world).plan.hash == told
    assert left[0] <= 0, "it has waited"


def test_a_plan_shows_what_stays_unknown(world: FailoverWorld) -> None:
    world.west.isr = {PARTITIONS[0]: 0}
    began = world.clock.monotonic()
    assert [each.name for each in kept(world).plan.limitations if each.blocks] == ["DESTINATION_OFFLINE"]
    assert planning.MOMENT_SECONDS <= world.clock.monotonic() - began <= planning.MOMENT_SECONDS + 1
    world.observe(MirrorState.UNKNOWN, PARTITIONS[1])
    began = world.clock.monotonic()
    assert kept(world).blocked
    assert world.clock.monotonic() == began, "nobody waits where something else blocks"


def test_an_approval_waits_for_what_is_unknown_for_a_moment(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_source(world)
    found = kept(world, mode=Mode.UNPLANNED)
    unread_for_a_moment(world, monkeypatch)
    assert approve(world, found.plan.hash).plan == found.plan.hash
    unread_for_a_moment(world, monkeypatch, looks=9_999)
    with pytest.raises(NotToldNow, match="COPY_WRITER_UNKNOWN"):
        approve(world, found.plan.hash)


def test_a_plan_waits_for_the_login_of_a_worker_that_has_just_started(world: FailoverWorld) -> None:
    """It lacked MIRROR_CANNOT_BE_SHUT_OUT, and the next plan, seconds later, had another hash."""
    young = a_worker("new", started_at=world.clock.now(), at=world.clock.now())
    world.worker.append([young], world.soon())
    began = world.clock.monotonic()

    def reports() -> None:
        world.tick()
        if world.clock.monotonic() - began >= 2:
            reported = replace(young, at=world.clock.now(), principal="User:new", unbound="it is a super user")
            world.worker.append([reported], world.soon())

    world.clock.meanwhile = reports
    first = kept(world).plan
    assert "MIRROR_CANNOT_BE_SHUT_OUT" in {each.name for each in first.limitations}
    world.clock.wait(5)
    assert kept(world).plan.hash == first.hash


def test_an_approval_that_has_expired_names_the_whole_command(world: FailoverWorld) -> None:
    plan = kept(world).plan.hash
    approve(world, plan)
    world.clock.jump(7200)
    world.tick()
    typed = f"tanist failover approve dr {plan} --destination west --reason 'planned failover'"
    with pytest.raises(NotPermitted, match="APPROVAL_EXPIRED") as expired:
        world.run(plan)
    assert typed in expired.value.reason
    unkept = world.approve(Mode.UNPLANNED, "orders", valid=60).plan
    world.clock.jump(7200)
    world.tick()
    with pytest.raises(NotPermitted, match=r"approve dr .*--mode unplanned --topic orders .*--max-loss \d+"):
        world.run(unkept)


# ── removal ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_removal_keeps_the_plan_whose_hash_it_prints(world: FailoverWorld) -> None:
    asked = FailoverRequest(include=("orders",))
    with pytest.raises(NotApproved) as missing:
        removal.approved_plan(asked, world.clusters("operator"), world.command())
    plan = world.plan(Mode.PLANNED, "orders").plan.hash
    how = f"tanist failover approve dr {plan} --destination west --reason 'planned failover'"
    assert how in missing.value.reason
    approve(world, plan)
    assert removal.approved_plan(asked, world.clusters(), world.command()) == plan


def test_a_removal_runs_the_plan_that_was_approved_though_less_speaks_against_it_now(world: FailoverWorld) -> None:
    """The facts made another hash, which nobody had approved."""
    asked = FailoverRequest(include=("orders",))
    found = kept(world, include=("orders",), loss_tolerance=5)
    approve(world, found.plan.hash)
    assert world.plan(Mode.PLANNED, "orders").plan.hash != found.plan.hash
    assert removal.approved_plan(asked, world.clusters(), world.command()) == found.plan.hash
    with pytest.raises(NotApproved, match="is not approved"):
        removal.approved_plan(FailoverRequest(include=("payments",)), world.clusters(), world.command())


def removed(world: FailoverWorld, *include: str) -> str:
    return removal.approved_plan(FailoverRequest(include=include), world.clusters(), world.command())


def test_an_approved_unplanned_removal_runs_though_the_source_answers_again(world: FailoverWorld) -> None:
    """The mode was chosen anew: the planned plan, which could be made by then, was not approved."""
    world.east.dead = True
    found = removal.plan_and_keep(FailoverRequest(include=("orders",)), world.clusters(), world.command())
    assert found.plan.intent.mode is Mode.UNPLANNED
    approve(world, found.plan.hash)
    world.east.dead = False
    assert removed(world, "orders") == found.plan.hash
    with pytest.raises(SourceAnswers, match="--although-it-answers"):
        world.run(found.plan.hash, although_it_answers=False)
    assert world.run(removed(world, "orders")).record.status is RunStatus.DONE


def test_a_removal_says_what_its_approved_plan_does_not_cover(world: FailoverWorld) -> None:
    found = kept(world, include=("orders",))
    approve(world, found.plan.hash)
    world.west.rules["orders"] = (AclEntry("User:eve", "*", allowed=True),)
    with pytest.raises(
        NotApproved, match=f"the approved plan {found.plan.hash} cannot be run: .*OTHERS_MAY_WRITE"
    ) as no:
        removed(world, "orders")
    assert "tanist failover approve dr" in no.value.reason
    again = world.plan(Mode.PLANNED, "orders").plan.hash
    approve(world, again)
    assert removed(world, "orders") == again, "which covers it"


def test_a_removal_waits_for_what_is_unknown_for_a_moment(
    world: FailoverWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was NOT_APPROVED while a leader of the destination moved."""
    found = kept(world, include=("orders",))
    approve(world, found.plan.hash)
    unread_for_a_moment(world, monkeypatch)
    assert removed(world, "orders") == found.plan.hash
    unread_for_a_moment(world, monkeypatch, looks=9_999)
    with pytest.raises(NotToldNow, match="COPY_WRITER_UNKNOWN"):
        removed(world, "orders")


def test_a_removal_runs_no_plan_of_other_topics_nor_one_that_has_expired(world: FailoverWorld) -> None:
    approve(world, kept(world).plan.hash)
    with pytest.raises(NotApproved):
        removed(world, "orders")
    latest = kept(world, include=("orders",)).plan.hash
    approve(world, latest)
    assert removed(world, "orders") == latest
    world.clock.jump(3600)
    world.tick()
    with pytest.raises(NotApproved, match=f"plan {latest} .* is not approved"):
        removed(world, "orders")


# ── the commands ──────────────────────────────────────────────────────────────────────────────────────────────────


def parsed(text: str) -> dict[str, Any]:
    root: Any = typer.main.get_command(app)
    _, group, verb, *words = shlex.split(text)
    command = root.commands[group].commands[verb]
    return dict(command.make_context(verb, words).params)


@pytest.mark.parametrize("kept_there", [True, False])
def test_the_commands_that_are_printed_parse_and_ask_for_the_same(kept_there: bool) -> None:
    intent = Intent(
        mirror=DR,
        mode=Mode.UNPLANNED,
        source_cluster_id="E",
        destination_cluster_id="W",
        topics=(TopicIntent(topic="a.b", partitions=1), TopicIntent(topic="c-d", partitions=2)),
        groups=("billing.*", "it's"),
        loss_tolerance=12,
        whole=False,
        reserve=0,
        dead_since=EpochMs(1_700_000_000_001),
    )
    found = parsed(approve_command(intent, "1c0ffee2", "west", kept=kept_there))
    assert (found["name"], found["plan"], found["destination"]) == ("dr", "1c0ffee2", "west")
    again = parsed(plan_command(intent, "west"))
    assert again["max_loss"] is None, "what was exceeded would be exceeded again"
    for options in (again,) if kept_there else (found, again):
        assert (options["mode"], options["topic"]) == (Mode.UNPLANNED, [r"a\.b", "c-d"])
        assert options["group"] == ["billing.*", "it's"]
        assert (options["reserve"], options["source_dead_since"]) == (0, 1_700_000_000_001)
    assert found["max_loss"] == (None if kept_there else 12)
    planned = replace(intent, mode=Mode.PLANNED, reverse=True, whole=True, dead_since=None)
    assert parsed(plan_command(planned, "west"))["reverse"]
    other = parsed(plan_command(planned, "west", source_down=True))
    assert (other["mode"], other["reverse"], bool(other["topic"])) == (Mode.UNPLANNED, False, False)
