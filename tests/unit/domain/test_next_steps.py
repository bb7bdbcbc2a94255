"""The table of next steps, over situations: the way back, and what comes before what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.checks import Check, Mode, Verdict
from tanist.domain.circle import MirrorPlace, PendingReversal, ReversalStatus
from tanist.domain.detached_record import TopicDetached
from tanist.domain.errors import NoStateTopic, Unreachable
from tanist.domain.failover.health import Status
from tanist.domain.failover.plan import Intent
from tanist.domain.lag import KnownEnd, PartitionRow
from tanist.domain.limitation import Limitation
from tanist.domain.limitation_kinds.table import KINDS
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.next_steps import remedies
from tanist.domain.next_steps.failing_over import FRESH_MS
from tanist.domain.next_steps.rules import guide, next_command
from tanist.domain.next_steps.situation import Abortable, MirrorSituation, WaitingPlan, WayBack
from tanist.domain.next_steps.step import Guidance, NextStage
from tanist.domain.next_steps.together import together
from tanist.domain.next_steps.unread import unread
from tanist.domain.offset_map import OffsetMap
from tanist.domain.records import OffsetMode
from tanist.domain.states import DesiredState, MirrorState
from tanist.domain.tails import FindingKind, PendingTail, TailFinding, TailStage
from tests import quoted
from tests.builders import DR, a_mirror, a_move, a_partition, a_run, a_topic
from tests.quoted import Quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

NOTHING = Limitation("NOTHING_TO_FAIL_OVER", "all topics were failed over", blocks=True)
DOWN = Limitation("SOURCE_DOWN", "east does not answer", blocks=True, unknown=True)


def a_situation(
    planned: Iterable[Limitation] = (), unplanned: Iterable[Limitation] = (), **fields: Any
) -> MirrorSituation:
    """Of a mirror that is well, if nothing else is said."""
    limitations = {Mode.PLANNED: tuple(planned), Mode.UNPLANNED: tuple(unplanned)}
    checks = fields.pop("checks", ())
    place = fields.pop("place", MirrorPlace(spec=a_mirror(), mirrored=(a_topic(),)))
    return MirrorSituation(
        place=place,
        destination="west",
        status=Status(mirror=DR, limitations=limitations, checks=tuple(checks)),
        **{"source_answers": DOWN not in limitations[Mode.PLANNED], "source_gone": DOWN in limitations[Mode.PLANNED]}
        | fields,
    )


def failed_over(**fields: Any) -> MirrorSituation:
    """All topics have left the mirror."""
    place = MirrorPlace(spec=a_mirror(), left=True, last=a_run())
    return a_situation((NOTHING,), (NOTHING,), **{"place": place} | fields)


def test_a_mirror_that_has_failed_over_is_not_told_what_a_planned_failover_needs() -> None:
    """Its advice was a plan for topics that had left the mirror."""
    found = told(failed_over(source_answers=False, source_gone=True))
    silent = a_situation((DOWN,), (NOTHING,), place=MirrorPlace(spec=a_mirror(), left=True, last=a_run()))
    assert told(silent).stage is found.stage is NextStage.OLD_SOURCE_SILENT
    assert [line for line in told(silent).missing if "SOURCE_DOWN" in line] == []
    assert [line for line in told(a_situation((DOWN,))).missing if "SOURCE_DOWN" in line]


def test_groups_that_were_set_back_at_the_source_are_a_decision_with_both_answers() -> None:
    rewinds = Check(name="rewinds", verdict=Verdict.FAIL, observed="1 group(s) set back", reason="why")
    found = told(a_situation(checks=(rewinds,), rewound=("bill.ing",)))
    assert [each.command for each in found.steps] == [
        "tanist groups sync dr --destination west --group 'bill\\.ing' --backwards",
        "tanist mirrors alter dr --destination west --on-rewind hold",
    ]
    assert all(each.decision for each in found.steps)
    assert found.missing == ("rewinds: why",)
    assert next_command(found) == "tanist next dr --destination west"


def a_tail(stage: TailStage, records: int = 3) -> PendingTail:
    return PendingTail("orders", 1, stage, records)


def a_row(state: MirrorState, **fields: Any) -> PartitionRow:
    return PartitionRow(
        mirror=DR,
        partition=MirrorPartition("orders", 0),
        desired=DesiredState.MIRRORING,
        state=state,
        source=KnownEnd(SourceOffset(10), EpochMs(0)),
        destination_end=DestinationOffset(10),
        map=OffsetMap(),
        observed=a_partition(state, **fields),
    )


def told(at: MirrorSituation) -> Guidance:
    """Every command can be typed as it is, and says where."""
    found = guide(at)
    for step in found.steps:
        assert quoted.problem(Quoted("next", step.command, typed=True)) == "", step.command
        assert "--destination west" in step.command
    return found


def verbs(found: Guidance) -> list[str]:
    return [" ".join(each.command.split()[1:3]) for each in found.steps]


# ── the way back ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stage", "wanted"),
    [
        (TailStage.UNKNOWN, ["failback survey"]),
        (TailStage.SURVEYED, ["failback survey"]),
        (TailStage.RESCUED, ["failback replay", "failback decide"]),
        (TailStage.DECIDED, ["failback replay"]),
    ],
)
def test_a_tail_is_surveyed_then_decided_then_replayed(stage: TailStage, wanted: list[str]) -> None:
    found = told(failed_over(tails=(a_tail(stage),), decided="cafe" if stage is TailStage.DECIDED else ""))
    assert (found.stage, verbs(found)) == (NextStage.TAILS_PENDING, wanted)
    assert bool(found.steps[0].decision) is (stage is TailStage.RESCUED)


def test_a_topic_that_is_not_surveyed_comes_before_one_that_is_decided() -> None:
    found = told(failed_over(tails=(a_tail(TailStage.DECIDED), a_tail(TailStage.UNKNOWN)), decided="cafe"))
    assert verbs(found) == ["failback survey"]


@pytest.mark.parametrize("approved", [False, True])
def test_open_transactions_are_ended_before_the_survey(approved: bool) -> None:
    way = WayBack(open=Abortable(plan="beef", approved=approved, producers=("app-1",)))
    found = told(failed_over(tails=(a_tail(TailStage.UNKNOWN),), way_back=way))
    assert verbs(found) == ["failback abort-transactions", "failback survey"]
    assert ("--reason" in found.steps[0].command) is not approved
    assert bool(found.steps[0].decision) is not approved


def test_the_way_back_waits_for_the_old_source() -> None:
    found = told(failed_over(tails=(a_tail(TailStage.UNKNOWN),), source_answers=False))
    assert (found.stage, found.steps) == (NextStage.OLD_SOURCE_SILENT, ())
    assert "the way back begins when it does" in found.missing[0]


def test_a_reversal_names_what_it_takes() -> None:
    writable = Limitation("MIRROR_TOPIC_WRITABLE", "others may write")
    assert verbs(told(failed_over())) == ["mirrors reverse"]
    assert "--dry-run" in told(failed_over()).steps[0].command
    found = told(failed_over(way_back=WayBack(limitations=(writable,))))
    assert "--accept MIRROR_TOPIC_WRITABLE" in found.steps[0].command
    assert (found.stage, len(found.steps)) == (NextStage.FAILED_OVER, 1)
    assert found.steps[0].decision == "reverse the mirror, accepting MIRROR_TOPIC_WRITABLE"
    assert told(failed_over(way_back=WayBack())).steps[0].decision is None


def test_a_topic_that_cannot_return_is_copied_again_or_left_behind() -> None:
    found = told(failed_over(way_back=WayBack(recreated=("a.b",))))
    assert [each.decision for each in found.steps] == [
        "copy a.b again from the new primary, accepting nothing",
        "leave a.b behind",
    ]
    assert "--recreate 'a\\.b'" in found.steps[0].command
    assert "--exclude 'a\\.b'" in found.steps[1].command


def test_a_problem_of_the_way_back_is_missing_and_no_command_is_repeated_that_is_refused() -> None:
    found = told(failed_over(way_back=WayBack(problem="MIRROR_ALREADY_EXISTS: east has another one")))
    assert (found.steps, found.missing[0]) == ((), "MIRROR_ALREADY_EXISTS: east has another one")
    again = told(failed_over(way_back=WayBack(problem="TAIL_UNDECIDED: orders-0", survey_again=True)))
    assert verbs(again) == ["failback survey"]


def test_a_decision_that_is_approved_is_carried_out_whatever_the_default_is() -> None:
    """The default was approved beside it, and records were replayed that somebody had decided to keep."""
    found = told(failed_over(tails=(a_tail(TailStage.RESCUED),), decided="cafe"))
    assert [each.command.partition(" --plan ")[2] for each in found.steps] == ["cafe"]


def test_only_records_that_nobody_has_decided_about_are_counted() -> None:
    grown = PendingTail("orders", 1, TailStage.RESCUED, 7, decided=3)
    assert told(failed_over(tails=(grown,))).steps[0].why.startswith("4 rescued record(s) are undecided")


def test_with_four_eyes_no_command_approves_what_it_runs() -> None:
    """The same command was advised that had been refused."""
    assert verbs(told(failed_over(tails=(a_tail(TailStage.RESCUED),), four_eyes=True))) == ["failback decide"]
    way = WayBack(open=Abortable(plan="beef", approved=False, producers=("app-1",)))
    abort = told(failed_over(tails=(a_tail(TailStage.UNKNOWN),), way_back=way, four_eyes=True)).steps[0].command
    assert "--approve beef --reason" in abort
    reverse = told(failed_over(way_back=WayBack(plan="cafe"), four_eyes=True)).steps[0]
    assert "--approve cafe --reason" in reverse.command
    assert reverse.decision
    (run,) = told(failed_over(way_back=WayBack(plan="cafe", approved=True), four_eyes=True)).steps
    assert run.command == "tanist mirrors reverse dr --destination west"


@pytest.mark.parametrize(
    ("check", "wanted"), [("workers", "tanist fetcher run --destination west"), ("fences", "tanist fence set dr ")]
)
def test_what_keeps_a_survey_from_being_final_is_mended_first(check: str, wanted: str) -> None:
    failing = Check(name=check, verdict=Verdict.FAIL, observed="none")
    found = told(failed_over(tails=(a_tail(TailStage.UNKNOWN),), checks=(failing,)))
    assert found.steps[0].command.startswith(wanted)
    assert verbs(found)[-1] == "failback survey"


@pytest.mark.parametrize("status", list(ReversalStatus))
def test_a_reversal_that_has_begun_is_completed(status: ReversalStatus) -> None:
    command = "tanist mirrors reverse dr --destination west"
    left = PendingReversal(status=status, plan="cafe", approver="carol", next_command=command)
    move = a_move() if status is ReversalStatus.MOVING else None
    place = MirrorPlace(spec=a_mirror(), left=True, last=a_run(), move=move)
    found = told(failed_over(place=place, reversal=left, way_back=WayBack()))
    if status is ReversalStatus.WITHDRAWN:
        assert found.stage is NextStage.FAILED_OVER
    else:
        assert (found.stage, found.steps[0].command) == (NextStage.REVERSING, command)
    assert len(found.steps) == (2 if move is not None else 1)


def test_an_approved_reversal_that_has_not_begun_waits_for_the_old_source() -> None:
    left = PendingReversal(status=ReversalStatus.PENDING, plan="cafe", approver="carol", next_command="tanist status")
    assert told(failed_over(reversal=left, source_answers=False)).stage is NextStage.OLD_SOURCE_SILENT


# ── the mirror ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_part_of_a_source_that_does_not_answer_is_no_order_to_fail_over() -> None:
    """One topic that was deleted, or one partition without a leader, had the whole live mirror failed over."""
    found = told(a_situation((DOWN,), source_answers=True, source_gone=False))
    assert found.stage is NextStage.NOT_READY
    assert [each.decision for each in found.steps] == ["fail over without what does not answer"]
    moves = replace(DOWN, momentary=True)
    assert told(a_situation((moves,), source_answers=False, source_gone=False)).steps == ()
    unknown = told(a_situation((DOWN,), source_answers=False, source_gone=False))
    assert (unknown.stage, unknown.steps) == (NextStage.NOT_READY, ())


def test_an_unfinished_run_that_cannot_go_on_is_undone_and_one_at_work_is_left_alone() -> None:
    place = MirrorPlace(spec=a_mirror(), mirrored=(a_topic(),), running=a_run(runner="eve@host"))
    assert verbs(told(a_situation(place=place))) == ["failover run", "failover abort"]
    void = told(a_situation(place=place, void=True))
    assert (verbs(void), void.steps[0].decision) == (["failover abort"], None)
    assert verbs(told(a_situation(place=place, at_work=True))) == ["failover status"]
    past = replace(place, running=a_run(no_return=True))
    assert verbs(told(a_situation(place=past))) == ["failover run"]


def test_a_plan_that_was_only_looked_at_hides_no_remedy_and_is_old_soon() -> None:
    paused = Limitation("WITHOUT_DRAIN", "orders")
    words = Intent(mirror=DR, mode=Mode.PLANNED, source_cluster_id="e", destination_cluster_id="w", topics=())
    kept = WaitingPlan(plan="cafe", intent=words, at=EpochMs(0), approved=False)
    row = replace(a_row(MirrorState.PAUSED), desired=DesiredState.PAUSED)
    found = told(a_situation((paused,), (), waiting=(kept,), rows=(row,)))
    assert verbs(found) == ["failover approve", "mirrors resume"]
    old = told(a_situation((paused,), (), waiting=(kept,), rows=(row,), now=EpochMs(FRESH_MS)))
    assert verbs(old) == ["mirrors resume"]


def test_a_planned_plan_comes_before_an_approved_unplanned_one_whether_it_is_approved_or_not() -> None:
    """`failover plan --mode planned` was advised for ever."""
    made = Intent(mirror=DR, mode=Mode.PLANNED, source_cluster_id="e", destination_cluster_id="w", topics=())
    planned = WaitingPlan(plan="cafe", intent=made, at=EpochMs(0), approved=False)
    lossy = WaitingPlan(plan="beef", intent=replace(made, mode=Mode.UNPLANNED), at=EpochMs(0), approved=True)
    assert "failover approve dr cafe" in told(a_situation(waiting=(lossy, planned))).steps[0].command


def test_a_check_that_a_limitation_explains_has_no_answer_of_its_own() -> None:
    """Leftover source fences were to be lifted and to be set."""
    fenced, failing = Limitation("SOURCE_FENCED", "orders"), Check(name="fences", verdict=Verdict.FAIL)
    assert verbs(told(a_situation((fenced,), (), checks=(failing,)))) == ["fence lift"]


def test_a_dead_source_comes_before_what_can_wait() -> None:
    old = Limitation("TOPICS_WITHOUT_COPY", "t")
    assert told(a_situation((DOWN, old), (old,))).stage is NextStage.SOURCE_SILENT


def test_where_an_unplanned_failover_is_blocked_what_blocks_it_is_mended_first() -> None:
    offline = Limitation("DESTINATION_OFFLINE", "broker 2 is down", blocks=True)
    found = told(a_situation((DOWN, offline), (offline,)))
    assert (found.stage, found.steps) == (NextStage.NOT_READY, ())
    assert any(each.startswith("DESTINATION_OFFLINE: broker 2 is down (") for each in found.missing)


def test_what_can_only_be_accepted_has_a_way_on() -> None:
    """`next` said NOT_READY for ever, and no command."""
    open_ = Limitation("OTHERS_MAY_WRITE", "User:app may write to orders")
    (step,) = told(a_situation((open_,), (open_,))).steps
    assert (verbs(told(a_situation((open_,), (open_,)))), step.decision) == (["failover plan"], "fail over as it is")
    assert step.why.startswith("OTHERS_MAY_WRITE: ")
    blocked = replace(open_, blocks=True)
    assert told(a_situation((blocked,), (open_,))).steps == ()
    assert told(a_situation((open_,), (open_,), source_answers=False)).steps == ()
    assert verbs(told(a_situation((open_, Limitation("TOPICS_WITHOUT_COPY", "t")), ()))) == ["metadata sync"]


def test_a_duty_that_is_due_is_looked_at_again_and_needs_no_other_worker() -> None:
    """Right after `mirrors create` there was no command beside workers that are well."""
    due, none = (Check(name=name, verdict=Verdict.UNKNOWN, reason="why") for name in ("duties", "workers"))
    assert verbs(told(a_situation(checks=(due,)))) == ["status dr"]
    assert verbs(told(a_situation(checks=(due, none)))) == ["fetcher run"]


@pytest.mark.parametrize("error", ["FOREIGN_WRITE", "DIVERGED", "SOURCE_TOPIC_RECREATED"])
def test_a_resume_is_not_advised_where_it_cannot_help(error: str) -> None:
    """`next` of a partition with a foreign record repeated `mirrors resume`."""
    failed = Limitation("PARTITION_FAILED", "orders-0")
    found = told(a_situation((failed,), (failed,), rows=(a_row(MirrorState.FAILED, error=error),)))
    assert verbs(found) == ["mirrors remove", "failover plan"]
    assert "--keep-copy" in found.steps[0].command


def test_of_a_thousand_failed_topics_ten_have_their_steps_and_the_others_are_counted() -> None:
    """S3.13: a list of a thousand commands was printed, on the page as well."""
    failed = Limitation("PARTITION_FAILED", "orders-0")
    row = a_row(MirrorState.FAILED, error="CORRUPT_BATCH")
    rows = [replace(row, partition=MirrorPartition(f"topic-{n:03}", 0)) for n in range(1_000)]
    found = told(a_situation((failed,), (failed,), rows=tuple(rows)))
    assert verbs(found) == ["mirrors resume"] * 10 + ["mirrors describe"]
    assert found.steps[-1].why.startswith("990 more topic(s) FAILED")
    assert "--state FAILED" in found.steps[-1].command
    assert verbs(told(a_situation((failed,), (failed,), rows=tuple(rows[:10])))) == ["mirrors resume"] * 10


def test_a_lost_record_is_accepted_by_name() -> None:
    failed = Limitation("PARTITION_FAILED", "orders-0")
    row = a_row(MirrorState.FAILED, error="UNCOPIED_RECORDS_DELETED")
    found = told(a_situation((failed,), (), rows=(row,)))
    assert verbs(found) == ["mirrors alter"]
    assert "for the whole mirror" in found.steps[0].why


def test_a_topic_that_was_deleted_at_the_source_is_opened_or_let_go() -> None:
    gone = Limitation("SOURCE_TOPIC_DELETED", "orders", blocks=True)
    row = a_row(MirrorState.STOPPED, error="SOURCE_TOPIC_DELETED")
    found = told(a_situation((gone,), (gone,), rows=(row,)))
    assert verbs(found) == ["failover plan", "mirrors remove"]


@pytest.mark.parametrize("name", sorted(remedies._OF_LIMITATIONS))
def test_every_remedy_is_of_a_limitation_that_exists(name: str) -> None:
    assert name in KINDS
    rows = (a_row(MirrorState.FAILED, error="CORRUPT_BATCH"), a_row(MirrorState.PAUSED))
    apart = TopicDetached(mirror=DR, topic="orders", cluster_id="w", kept=a_topic(), at=EpochMs(0))
    gone = a_row(MirrorState.STOPPED, error="SOURCE_TOPIC_DELETED")
    paused = replace(a_row(MirrorState.PAUSED), desired=DesiredState.PAUSED)
    seen = (gone,) if name == "SOURCE_TOPIC_DELETED" else (*rows, paused)
    assert told(a_situation((Limitation(name, "why"),), (), rows=seen, detached=(apart,))).steps


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"OFFSET_MAP_MISSING", "TAIL_UNDECIDED"}))
def test_each_command_in_what_is_missing_can_be_typed(name: str) -> None:
    """But for `state restore`, which needs a file; of an undecided tail its detail has the command."""
    said = "\n".join(told(a_situation((Limitation(name, "why"),), (Limitation(name, "why"),))).missing)
    quotes = [replace(each, typed=True) for each in quoted.in_text(name, said)]
    assert {each.text: why for each in quotes if (why := quoted.problem(each))} == {}


def test_findings_of_a_survey_are_accepted_by_name() -> None:
    check = Check(name="tail_findings", verdict=Verdict.FAIL, observed="1 of 1", reason="orders: OVERLAP (4 offsets)")
    finding = TailFinding("orders", 1, FindingKind.OVERLAP, 4)
    found = told(a_situation(checks=(check,), findings=(finding,)))
    assert "--finding OVERLAP" in found.steps[0].command
    assert found.missing == ("tail_findings: orders: OVERLAP (4 offsets)",)


def test_a_mirror_without_topics_takes_in_what_its_filters_match() -> None:
    empty = a_situation((NOTHING,), (NOTHING,), place=MirrorPlace(spec=a_mirror(include=("a.*",))))
    assert (told(empty).stage, verbs(told(empty))) == (NextStage.EMPTY, ["metadata sync"])
    none = told(a_situation((NOTHING,), (NOTHING,), place=MirrorPlace(spec=a_mirror(include=()))))
    assert (none.steps, none.missing[0]) == (
        (),
        "no topic is in the mirror: `tanist mirrors add dr --destination west` puts one in",
    )


def test_the_worst_mirror_comes_first_and_one_that_is_well_last() -> None:
    well, dead = told(a_situation()), told(a_situation((DOWN,)))
    back = told(failed_over(source_answers=False))
    named = [replace(each, mirror=DR) for each in (well, back, dead)]
    assert [each.stage for each in sorted(named, key=lambda each: each.urgency)] == [
        NextStage.SOURCE_SILENT,
        NextStage.OLD_SOURCE_SILENT,
        NextStage.MIRRORING,
    ]


def test_a_detached_topic_can_be_mirrored_again_one_that_is_no_copy_only_from_its_start() -> None:
    apart = Limitation("TOPICS_DETACHED", "payments", about=("payments",))
    detached = TopicDetached(mirror=DR, topic="payments", cluster_id="w", kept=a_topic("payments"), at=EpochMs(0))
    found = told(a_situation((apart,), (apart,), detached=(detached,)))
    assert (found.stage, verbs(found)) == (NextStage.NOT_READY, ["mirrors add"])
    assert found.missing[0].startswith("TOPICS_DETACHED: payments (")
    foreign = replace(detached, observed=(a_partition(MirrorState.FAILED, error="FOREIGN_WRITE"),))
    (step,) = told(a_situation((apart,), (apart,), detached=(foreign,))).steps
    assert step.decision is not None
    assert step.decision.startswith("the copy is deleted at west")


def test_without_its_state_a_mirror_is_registered_again_where_its_source_is_certain() -> None:
    lost = NoStateTopic("'west' has no topic __mirror_state")
    found = unread(DR, "west", lost, ["east"])
    assert [quoted.problem(Quoted("next", each.command, typed=True)) for each in found.steps] == ["", "", ""]
    assert verbs(found)[:2] == ["state rebuild", "mirrors create"]
    assert all("--source east" in each.command for each in found.steps[:2])
    assert [each.decision for each in found.steps] == [
        "the state topics of west are lost, and there is no export",
        "it is a new mirror at west",
        None,
    ]
    assert found.steps[1].command.endswith("--dry-run"), "whoever has mistyped a name creates nothing"
    assert [each.command for each in unread(DR, "west", lost, ["east", "north"]).steps] == ["tanist doctor"]
    wrong = unread(DR, "east", lost, ["west"], "west")
    assert wrong.steps[0].command == "tanist next dr --destination west", "it was to be rebuilt in the wrong direction"
    assert wrong.missing == (str(lost),)
    down = unread(DR, "west", Unreachable("west does not answer"), ["east"])
    assert ([each.command for each in down.steps], down.stage) == (["tanist doctor"], NextStage.UNREACHABLE)


def test_a_name_that_no_mirror_has_is_called_that_and_the_names_of_those_that_there_are_are_given() -> None:
    """A mistyped name was answered with an order to rebuild the mirror of that name."""
    lost = NoStateTopic("'east' has no topic __mirror_state")
    known = {"west": [MirrorName("stock"), DR], "south": [DR]}
    found = unread(MirrorName("typo"), "east", lost, ["west"], known=known)
    assert found.missing[0] == (
        "no cluster that answers has a mirror 'typo'; there are: dr at south, dr at west, stock at west"
    )
    nothing = unread(MirrorName("typo"), "east", lost, ["west"])
    assert nothing.missing[0] == "no cluster that answers has a mirror 'typo', or any other"


def test_one_line_is_a_command_and_never_a_decision_that_nobody_has_seen() -> None:
    """A mistyped name was answered with an order to fail over."""
    assert next_command(told(a_situation())) == ""
    assert next_command(told(a_situation((DOWN,)))) == "tanist next dr --destination west"
    paused = Limitation("NO_WORKER", "none")
    assert next_command(told(a_situation((paused,), ()))) == "tanist fetcher run --destination west"


def test_mirrors_that_stand_alike_get_one_command() -> None:
    silent = [replace(told(a_situation((DOWN,))), mirror=MirrorName(name)) for name in ("a", "b", "c")]
    (step,) = together(silent)
    assert step.command == "tanist failover plan --all --mode unplanned --source east"
    assert together(silent[:1]) == ()
    assert together([silent[0], replace(silent[1], source="north")]) == ()
    kept = [replace(each, stage=NextStage.PLANNED, plan=f"cafe{each.mirror}") for each in silent]
    (step,) = together(kept)
    assert step.command.startswith("tanist failover approve --all west/a=cafea west/b=cafeb west/c=cafec --reason ")
    assert step.decision
    (step,) = together([replace(each, stage=NextStage.APPROVED) for each in kept])
    assert step.command == "tanist failover run --all west/a=cafea west/b=cafeb west/c=cafec"
    assert quoted.problem(Quoted("next", step.command, typed=True)) == ""


def test_the_plan_of_a_first_step_is_named_and_no_other() -> None:
    words = Intent(mirror=DR, mode=Mode.PLANNED, source_cluster_id="e", destination_cluster_id="w", topics=())
    waiting = WaitingPlan(plan="cafe", intent=words, at=EpochMs(0), approved=False)
    assert told(a_situation(waiting=(waiting,))).plan == "cafe"
    assert told(a_situation((DOWN,), waiting=(waiting,))).plan == ""


def test_a_mapped_mirror_that_has_failed_over_is_told_what_to_do_instead_of_its_way_back() -> None:
    """Whether its old source answers or not: nobody waits for it."""
    mapped = a_mirror(offsets=OffsetMode.MAPPED, transactional_id="tanist-dr-1")
    place = MirrorPlace(spec=mapped, left=True, last=a_run())
    for answers in (True, False):
        found = guide(failed_over(place=place, source_answers=answers))
        assert (found.stage, found.steps) == (NextStage.FAILED_OVER, ())
        (said,) = [each for each in found.missing if each.startswith("NO_WAY_BACK")]
        assert "`tanist mirrors create`" in said
