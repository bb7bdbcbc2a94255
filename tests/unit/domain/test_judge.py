"""One judge of "can I fail over?": status, plan, gate and page give one answer, and it is right at 3 a.m."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.checks import Check, Mode, Readiness, Verdict
from tanist.domain.failover.facts import SourceState, Uncopied
from tanist.domain.failover.forecast import at_risk, at_risk_words, forecast, forecast_words
from tanist.domain.failover.health import judged, workers_check
from tanist.domain.failover.limitations import limitations, make_plan, planned_intent, word
from tanist.domain.failover.objections import news
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.fences import FenceBefore, FencedTopic, FenceKind, FenceStatus
from tanist.domain.limitation import Limitation
from tanist.domain.names import DestinationOffset, EpochMs, SourceOffset, SourcePartition
from tanist.domain.next_steps.situation import is_void
from tanist.domain.states import MirrorState
from tanist.domain.tails import FindingKind, TailFinding
from tests.builders import a_run, a_worker
from tests.unit.domain.facts_drawn import FOLLOWED, HEALTHY, NOW, PARTITIONS, changed, drawn, intents, silent, source

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Plan
    from tanist.domain.records import WorkerAlive

GO, ACCEPT, NO_GO, UNKNOWN = Readiness
PLANNED, UNPLANNED = Mode


def plan(facts: Facts, mode: Mode, tolerance: int | None = None) -> Plan:
    return make_plan(planned_intent(intents()[mode], facts, tolerance), facts, ("hold",))


def names(facts: Facts, mode: Mode, tolerance: int | None = None) -> set[str]:
    return {each.name for each in plan(facts, mode, tolerance).limitations}


def detail(facts: Facts, mode: Mode, name: str) -> str:
    return next(each.detail for each in plan(facts, mode).limitations if each.name == name)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((), GO),
        ((Limitation("A", "", usual=True),), GO),
        ((Limitation("A", "", usual=True), Limitation("B", "")), ACCEPT),
        ((Limitation("B", ""), Limitation("C", "", blocks=True, unknown=True)), UNKNOWN),
        ((Limitation("C", "", blocks=True, unknown=True), Limitation("D", "", blocks=True)), NO_GO),
    ],
)
def test_unknown_is_never_green_and_what_is_certain_comes_first(
    found: tuple[Limitation, ...], expected: Readiness
) -> None:
    assert word(found) is expected


FAILED = changed(state=MirrorState.FAILED, error="RECORD_TOO_LARGE")
FOREIGN = changed(state=MirrorState.FAILED, error="FOREIGN_WRITE")
PAUSED = changed(state=MirrorState.PAUSED)
BEHIND = changed(copied=SourceOffset(4), end=DestinationOffset(4))
SHORTER = changed(longer=True, end=DestinationOffset(14), copied=SourceOffset(14))
MORE = SourcePartition("orders", 2)
UNDECIDED = TailFinding("orders", 1, FindingKind.UNDECIDED, 4)


@pytest.mark.parametrize(
    ("facts", "planned", "unplanned"),
    [
        pytest.param(HEALTHY, GO, GO, id="everything healthy"),
        pytest.param(FAILED, ACCEPT, ACCEPT, id="one partition FAILED"),
        pytest.param(FOREIGN, NO_GO, NO_GO, id="one of several topics is no copy any more"),
        pytest.param(PAUSED, ACCEPT, ACCEPT, id="one partition PAUSED"),
        pytest.param(changed(state=MirrorState.PAUSING), ACCEPT, ACCEPT, id="one about to be paused"),
        pytest.param(changed(state=MirrorState.PREPARING), NO_GO, ACCEPT, id="one PREPARING"),
        pytest.param(changed(state=MirrorState.UNKNOWN), UNKNOWN, ACCEPT, id="one that no worker has reported"),
        pytest.param(replace(HEALTHY, workers_alive=0), ACCEPT, GO, id="no worker, nothing at risk"),
        pytest.param(replace(BEHIND, workers_alive=0), NO_GO, GO, id="no worker, and something to drain"),
        pytest.param(silent(), UNKNOWN, GO, id="the source is silent"),
        pytest.param(replace(silent(), workers_alive=0), UNKNOWN, GO, id="the source is silent, no worker"),
        pytest.param(
            replace(source(state=SourceState.PARTLY), followed=FOLLOWED), UNKNOWN, GO, id="the source answers in part"
        ),
        pytest.param(source(another_cluster="x"), NO_GO, NO_GO, id="another cluster"),
        pytest.param(changed(in_sync=1), NO_GO, NO_GO, id="below min ISR"),
        pytest.param(changed(in_sync=None), UNKNOWN, UNKNOWN, id="replicas not known"),
        pytest.param(changed(end=None, copied=None), NO_GO, NO_GO, id="a partition here does not answer"),
        pytest.param(replace(HEALTHY, destination_authorizer=False), GO, GO, id="no authorizer here"),
        pytest.param(replace(HEALTHY, destination_authorizer=None), UNKNOWN, UNKNOWN, id="rights not known"),
        pytest.param(source(authorizer=False), GO, GO, id="no authorizer there"),
        pytest.param(source(uncopied=(Uncopied(MORE, 5),)), ACCEPT, ACCEPT, id="grown, not synced"),
        pytest.param(source(new_topics=("refunds",)), ACCEPT, ACCEPT, id="a new topic, not synced"),
        pytest.param(SHORTER, ACCEPT, ACCEPT, id="the source is shorter than its copy"),
        pytest.param(changed(longer=None), GO, ACCEPT, id="it may be shorter, the end of the copy cannot be read"),
        pytest.param(replace(HEALTHY, map_missing=True), NO_GO, NO_GO, id="the maps are gone"),
        pytest.param(replace(silent(), followed=None), UNKNOWN, ACCEPT, id="no positions of groups"),
        pytest.param(replace(HEALTHY, undecided=(UNDECIDED,)), NO_GO, ACCEPT, id="a tail that nobody decided about"),
    ],
)
def test_each_situation_has_the_word_that_is_right_at_night(
    facts: Facts, planned: Readiness, unplanned: Readiness
) -> None:
    status = judged(intents(), facts)
    assert (status.planned, status.unplanned) == (planned, unplanned), status.limitations


def test_a_mirror_without_topics_says_whether_it_has_taken_over() -> None:
    empty = replace(HEALTHY, partitions=(), topics=())
    for left, said in (((), UNKNOWN), (("bills", "orders"), NO_GO)):
        status = judged(intents(()), replace(empty, left=left))
        assert (status.planned, status.unplanned) == (said, said)
        (check,) = [each for each in status.checks if each.name == "partitions"]
        assert ("bills; orders" in check.reason) is bool(left)


def test_no_planned_failover_while_a_tail_is_undecided_and_an_unplanned_one_names_it() -> None:
    """A reversal that had accepted TAIL_UNDECIDED was forgotten by the next failover."""
    facts = replace(HEALTHY, undecided=(UNDECIDED,))
    assert "`tanist failback accept dr --destination west --finding TAIL_UNDECIDED" in detail(
        facts, PLANNED, "TAIL_UNDECIDED"
    )
    assert not plan(facts, UNPLANNED).limitations[-1].blocks
    other = make_plan(planned_intent(intents(("bills",))[PLANNED], facts, None), facts, ("hold",))
    assert "TAIL_UNDECIDED" not in {each.name for each in other.limitations}


def test_an_old_run_is_told_and_stops_every_other() -> None:
    run = next(facts.others_running for facts in map(drawn, range(100)) if facts.others_running)
    facts = replace(HEALTHY, others_running=run)
    for mode in Mode:
        assert word(plan(facts, mode).limitations) is NO_GO
        assert "plan cafe of nobody" in detail(facts, mode, "RUN_UNFINISHED")


def test_a_fence_that_an_earlier_failover_left_is_named_by_a_planned_plan_and_by_the_status() -> None:
    """Producers were refused under a green status."""
    fence = FencedTopic(topic="orders", status=FenceStatus.LIFT_PENDING, wanted_by="cafe")
    assert word(plan(altered(source_fence=fence), PLANNED).limitations) is ACCEPT
    assert "`tanist fence lift dr --destination west --topic orders`" in detail(
        altered(source_fence=fence), PLANNED, "SOURCE_FENCED"
    )
    assert "SOURCE_FENCED" not in names(altered(source_fence=replace(fence, status=FenceStatus.LIFTED)), PLANNED)
    passing = Check(name="fences", verdict=Verdict.PASS)
    (check,) = [c for c in judged(intents(), altered(source_fence=fence), (passing,)).checks if c.name == "fences"]
    assert check.verdict is Verdict.FAIL
    assert "SOURCE_FENCED" in check.reason


@pytest.mark.parametrize("status", [FenceStatus.UNRECORDED, FenceStatus.LIFTED, FenceStatus.LIFT_PENDING])
def test_a_silent_source_that_answers_again_behind_a_fence_voids_no_unplanned_approval(status: FenceStatus) -> None:
    """An unplanned failover needs its source to be fenced: a DENY that nobody has recorded was APPROVAL_VOID."""
    before = silent()
    fence = FencedTopic(
        topic="orders",
        status=status,
        wanted_by="cafe",
        before=FenceBefore(topic="orders", kind=FenceKind.DENY_WRITE),
    )
    made = plan(before, UNPLANNED)
    answers = replace(altered(source_fence=fence, fence_stands=True), partitions=before.partitions)
    assert not news(ApprovedPlan.read(made.canonical_plan), answers)
    again = planned_intent(intents()[UNPLANNED], answers, made.intent.loss_tolerance)
    assert make_plan(again, answers, made.steps).hash == made.hash


def test_a_run_that_is_not_over_is_not_told_to_lift_its_own_fence() -> None:
    """`fence lift` refuses while the run is unfinished."""
    fence = FencedTopic(topic="orders", status=FenceStatus.PROVED, wanted_by="cafe")
    run = next(facts.others_running for facts in map(drawn, range(100)) if facts.others_running)
    for mode in Mode:
        found = names(replace(altered(source_fence=fence), others_running=run), mode)
        assert "SOURCE_FENCED" not in found
        assert "RUN_UNFINISHED" in found


def test_a_source_that_answers_is_not_said_to_lose_nothing() -> None:
    """It stood beside 500 offsets at risk of a paused partition."""
    said = detail(PAUSED, UNPLANNED, "SOURCE_NOT_DRAINED")
    assert "a planned failover would drain it" in said
    assert "lose nothing" not in said


# ── loss ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_planned_failover_does_not_drain_is_lost_and_bound_as_in_an_unplanned_one() -> None:
    """Forty records were acknowledged on a paused partition after the plan: DONE, all of them missing, not a word."""
    approved = ApprovedPlan.read(plan(PAUSED, PLANNED).canonical_plan)
    assert approved.intent.loss_tolerance == 0
    assert not news(approved, PAUSED)
    later = changed(facts=PAUSED, live=replace(PAUSED.partitions[0].live, high_watermark=50, log_end=50))  # type: ignore[type-var]
    assert [each.name for each in news(approved, later)] == ["BEYOND_TOLERANCE"]
    assert forecast(planned_intent(intents()[PLANNED], later, None), later).offsets_at_risk == 40


def test_what_a_planned_failover_drains_is_not_lost() -> None:
    """A busy source is always a little ahead."""
    assert names(BEHIND, PLANNED, 0) == set()
    assert names(BEHIND, UNPLANNED, 0) == {"SOURCE_NOT_DRAINED", "RECORDS_AT_RISK", "RECORDS_UNSEEN"}


def test_the_lag_of_a_source_that_answers_is_a_loss_only_once_the_drain_has_ended() -> None:
    """A source that came up for some seconds voided the approval: its lag was more than was tolerated."""
    approved = accepted(HEALTHY, UNPLANNED)
    assert not news(approved, BEHIND)
    run = next(facts.others_running[0] for facts in map(drawn, range(100)) if facts.others_running)
    drained = replace(BEHIND, run=replace(run, no_return=False, marks=("drain",)))
    assert {each.name for each in news(approved, drained)} == {"BEYOND_TOLERANCE"}


def test_a_loss_within_the_tolerance_needs_no_other_name() -> None:
    """The number is what was accepted: a copy that falls behind a little makes no other plan, too much of it does."""
    behind = silent(BEHIND)
    approved = ApprovedPlan.read(plan(silent(), UNPLANNED, 10).canonical_plan)
    assert plan(HEALTHY, UNPLANNED, 10).hash == plan(behind, UNPLANNED, 10).hash
    assert word(plan(behind, UNPLANNED, 10).limitations) is GO
    assert not news(approved, behind)
    far = changed(facts=behind, known=replace(behind.partitions[0].known, high_watermark=90))  # type: ignore[type-var]
    assert [each.name for each in news(approved, far)] == ["BEYOND_TOLERANCE"]


def test_a_planned_plan_of_a_dead_source_forecasts_what_an_unplanned_one_would_lose() -> None:
    """It said that nothing was to come, and the unplanned one of the same moment said 200."""
    facts = silent(changed(facts=BEHIND, known=replace(HEALTHY.partitions[0].known, rate=10.0)), age_ms=20_000)  # type: ignore[type-var]
    lost = {mode: forecast(planned_intent(intents()[mode], facts, None), facts) for mode in Mode}
    assert lost[PLANNED] == lost[UNPLANNED]
    assert lost[PLANNED].estimate == (lost[PLANNED].offsets_at_risk or 0) + 200


def test_a_run_that_lost_more_than_is_tolerated_is_void() -> None:
    """`next` offered to run it first, for ever; only its second offer, to undo it, led on."""
    approved = plan(HEALTHY, UNPLANNED).canonical_plan
    run = a_run(plan_json=approved)
    assert not is_void(run, (), silent(), source_gone=True)
    behind = silent(BEHIND)
    assert is_void(run, (), behind, source_gone=True)
    assert not is_void(run, (), BEHIND, source_gone=False), "the source answers, and the run drains it"
    assert not is_void(replace(run, no_return=True), (), behind, source_gone=True)


# ── estimates ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_estimate_is_called_one_and_says_how_old_what_it_rests_on_is() -> None:
    facts = silent(changed(known=replace(HEALTHY.partitions[0].known, rate=10.0)), age_ms=20_000)  # type: ignore[type-var]
    assert "what the source accepted after its last answer is not counted" in detail(facts, UNPLANNED, "RECORDS_UNSEEN")
    assert "last seen: orders-0 20 s ago (1970-01-01T00:16:20.000Z)" in detail(facts, UNPLANNED, "RECORDS_UNSEEN")
    cost = forecast(planned_intent(intents()[UNPLANNED], facts, None), facts)
    assert (cost.offsets_at_risk, cost.estimate, cost.estimate_at_end, cost.age_ms) == (0, 200, 36_200, 20_000)
    assert forecast_words(cost) == (
        "0 offsets at risk, as seen 20 s ago (1970-01-01T00:16:20.000Z); since then unknown, at the rate of then "
        "(10/s) about 200 more by now and 36200 at the end of an approval"
    )
    assert at_risk_words(cost) == "0 seen, about 200 more"
    assert at_risk_words(replace(cost, estimate=None)) == "0 seen, more unknown"
    assert at_risk_words(replace(cost, offsets_at_risk=None)) == "unknown"
    assert at_risk_words(replace(cost, age_ms=None)) == "unknown"


def test_with_an_attested_time_of_death_nothing_is_counted_beyond_it() -> None:
    facts = silent(changed(known=replace(HEALTHY.partitions[0].known, rate=10.0)), age_ms=20_000)  # type: ignore[type-var]
    attested = replace(planned_intent(intents()[UNPLANNED], facts, None), dead_since=EpochMs(NOW - 15_000))
    cost = forecast(attested, facts)
    assert (cost.estimate, cost.estimate_at_end, cost.final) == (50, 50, False)
    seen = forecast(replace(attested, dead_since=EpochMs(NOW - 20_001)), facts)
    assert (seen.estimate, seen.final) == (0, True)
    assert "when the source had ended" in forecast_words(seen)
    assert at_risk_words(seen) == "0"


def test_a_proved_fence_bounds_the_loss() -> None:
    """A planned run had proved its fence, the source died, and after `abort` 1.6 million offsets were lost: 0 were."""
    rated = changed(known=replace(HEALTHY.partitions[0].known, rate=10.0))  # type: ignore[type-var]
    facts = changed(facts=silent(rated, age_ms=600_000), fenced_since=EpochMs(NOW - 600_000))
    intent = planned_intent(intents()[UNPLANNED], facts, None)
    assert (forecast(intent, facts).offsets_at_risk, forecast(intent, facts).estimate) == (0, 0)
    facts = changed(facts=facts, fenced_since=EpochMs(NOW - 590_000))
    assert forecast(intent, facts).estimate == 100, "until the fence was proved"


@pytest.mark.parametrize(("age_ms", "expected"), [(30_000, GO), (30_001, ACCEPT)])
def test_what_was_not_seen_for_thirty_seconds_is_accepted_by_name(age_ms: int, expected: Readiness) -> None:
    """The worker died before the source did: 0 offsets are lost at most, it said, and 5,000 records were."""
    facts = silent(age_ms=age_ms)
    assert word(plan(facts, UNPLANNED).limitations) is expected
    assert plan(facts, UNPLANNED).hash == plan(silent(), UNPLANNED).hash, "the clock changes no plan"
    (lag,) = [each for each in judged(intents(), facts).checks if each.name == "lag"]
    assert (lag.verdict is Verdict.UNKNOWN) is (expected is ACCEPT)


@pytest.mark.parametrize(("vain_ms", "expected"), [(575_000, GO), (565_000, ACCEPT)])
def test_a_source_that_was_asked_in_vain_soon_after_its_last_answer_stays_go(vain_ms: int, expected: Readiness) -> None:
    """Only an answer is a look. A fetcher that was started after the source had died counted as a witness."""
    facts = silent(age_ms=600_000, vain_ms=vain_ms)
    assert word(plan(facts, UNPLANNED).limitations) is expected
    late = "not seen for more than 30 s when it fell silent: orders-0"
    assert (late in detail(facts, UNPLANNED, "RECORDS_UNSEEN")) is (expected is ACCEPT)


def test_that_time_passes_voids_no_approval_of_what_nobody_sees() -> None:
    """Approved 25 s after the source was last seen, and run 10 s later."""
    approved = ApprovedPlan.read(plan(silent(age_ms=25_000), UNPLANNED).canonical_plan)
    old = replace(silent(age_ms=35_000), followed=replace(FOLLOWED, at=EpochMs(NOW - 40_000)))
    assert names(old, UNPLANNED) == names(silent(age_ms=25_000), UNPLANNED)
    assert not news(approved, old)


def test_an_end_that_was_never_seen_is_unknown() -> None:
    facts = silent(changed(known=None))
    assert "orders-0" in detail(facts, UNPLANNED, "RECORDS_AT_RISK_UNKNOWN")
    assert at_risk(intents()[UNPLANNED], facts) is None
    (lag,) = [each for each in judged(intents(), facts).checks if each.name == "lag"]
    assert lag.verdict is Verdict.UNKNOWN


BLIND = silent(changed(1, changed(known=None), known=replace(HEALTHY.partitions[1].known, high_watermark=1_010)))  # type: ignore[type-var]
"""Nobody knows the end of orders-0, and 1,000 offsets of orders-1 are missing for sure."""


def test_one_partition_whose_end_is_unknown_does_not_switch_off_the_tolerance_for_the_others() -> None:
    """--max-loss 0, 1,000 offsets known to be missing: ACCEPT, because nothing was known of another partition."""
    found = plan(BLIND, UNPLANNED, 0).limitations
    assert {"BEYOND_TOLERANCE", "RECORDS_AT_RISK_UNKNOWN"} <= {each.name for each in found}
    assert word(found) is NO_GO
    assert "at least 1000 offsets at risk" in next(e.detail for e in found if e.name == "BEYOND_TOLERANCE")
    assert word(plan(BLIND, UNPLANNED, 1_000).limitations) is ACCEPT
    assert planned_intent(intents()[UNPLANNED], BLIND, None).loss_tolerance == 1_000


def test_an_approval_does_not_survive_that_the_end_of_a_partition_is_not_known_any_more() -> None:
    """Approved with a tolerance of 0, all ends known: it ran on when one of them was not."""
    blind = silent(changed(known=None))
    for age_ms in (1_000, 40_000):
        approved = ApprovedPlan.read(plan(silent(age_ms=age_ms), UNPLANNED, 0).canonical_plan)
        assert [each.name for each in news(approved, blind)] == ["RECORDS_AT_RISK_UNKNOWN"]
    assert not news(
        ApprovedPlan.read(plan(blind, UNPLANNED, 0).canonical_plan), silent(changed(known=None), age_ms=40_000)
    )


# ── what makes a copy one ─────────────────────────────────────────────────────────────────────────────────────────


def altered(**changes: object) -> Facts:
    first, *others = HEALTHY.topics
    return replace(HEALTHY, topics=(replace(first, **changes), *others))  # type: ignore[arg-type]


DAMAGED = {
    "COPY_HAS_FOREIGN_RECORDS": changed(foreign=True),
    "COPY_TRUNCATED": changed(start=DestinationOffset(5)),
    "COPY_HAS_MORE_PARTITIONS": altered(partitions=4),
    "TOPIC_RECREATED": altered(recreated="orders was deleted and re-created at the destination"),
    "COPY_CONFIGS_ALTERED": altered(altered=("retention.ms=1000",)),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_copy_is_named_and_blocks_what_can_wait(name: str) -> None:
    """A source that answered for some seconds blocked what could be accepted before and afterwards."""
    facts = DAMAGED[name]
    for mode in Mode:
        (found,) = [each for each in plan(facts, mode).limitations if each.name == name]
        assert found.blocks is (mode is PLANNED)
        assert "orders" in found.detail
    assert plan(facts, UNPLANNED).hash == plan(silent(facts), UNPLANNED).hash
    (check,) = [each for each in judged(intents(), facts).checks if each.name == "copies"]
    assert check.verdict is Verdict.FAIL


@pytest.mark.parametrize("name", DAMAGED)
def test_with_the_source_dead_a_damaged_copy_is_all_there_is_and_can_be_accepted(name: str) -> None:
    status = judged(intents(), silent(DAMAGED[name]))
    assert (status.planned, status.unplanned) == (NO_GO, ACCEPT)
    assert name in {each.name for each in status.limitations[UNPLANNED]}


@pytest.mark.parametrize("name", sorted(set(DAMAGED) - {"COPY_CONFIGS_ALTERED"}))
def test_a_topic_that_cannot_be_mended_can_be_taken_out_by_itself(name: str) -> None:
    facts = replace(DAMAGED[name], topics=DAMAGED[name].topics[:1], partitions=DAMAGED[name].partitions[:2])
    alone = planned_intent(intents(("orders",))[UNPLANNED], facts, None)
    assert word(limitations(alone, facts)) is ACCEPT


def test_altered_configs_name_the_command_that_mends_them() -> None:
    assert "`tanist metadata sync dr --destination west`" in detail(
        DAMAGED["COPY_CONFIGS_ALTERED"], PLANNED, "COPY_CONFIGS_ALTERED"
    )


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(changed(first=DestinationOffset(7)), id="the source deleted records, the copy keeps them"),
        pytest.param(changed(start=DestinationOffset(7), first=DestinationOffset(7)), id="both begin at 7"),
    ],
)
def test_a_copy_may_hold_more_than_its_source_at_the_start(facts: Facts) -> None:
    assert word(plan(facts, PLANNED).limitations) is GO


def test_damage_after_the_approval_voids_it() -> None:
    for mode in Mode:
        approved = ApprovedPlan.read(plan(HEALTHY, mode).canonical_plan)
        for name, facts in DAMAGED.items():
            of_loss = {"RECORDS_AT_RISK_UNKNOWN", "BEYOND_TOLERANCE", "OFFSETS_MAY_BE_REUSED"}
            assert {each.name for each in news(approved, facts)} - of_loss == {name}


@pytest.mark.parametrize(("foreign", "planned", "unplanned"), [(True, NO_GO, ACCEPT), (None, UNKNOWN, ACCEPT)])
def test_two_logs_of_one_length_are_no_copy_where_a_stranger_wrote_the_end(
    foreign: bool | None, planned: Readiness, unplanned: Readiness
) -> None:
    """Twenty records of the source and twenty of somebody else's: both ends agreed, 0 were at risk, GO."""
    facts = changed(foreign=foreign)
    status = judged(intents(), facts)
    assert (status.planned, status.unplanned) == (planned, unplanned)
    assert not facts.partitions[0].drained
    assert forecast(planned_intent(intents()[UNPLANNED], facts, None), facts).offsets_at_risk is None
    (lag,) = [each for each in status.checks if each.name == "lag"]
    assert (lag.verdict, lag.observed) == (Verdict.UNKNOWN, "at least 0 offsets")


# ── checks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def worker(age_ms: int, name: str = "w1") -> WorkerAlive:
    return a_worker(name, at=EpochMs(NOW - age_ms))


@pytest.mark.parametrize(("age_ms", "verdict"), [(30_000, Verdict.PASS), (30_001, Verdict.FAIL)])
def test_a_worker_is_taken_for_dead_after_thirty_seconds_of_silence(age_ms: int, verdict: Verdict) -> None:
    found = workers_check([worker(age_ms), worker(90_000, "w2")], NOW)
    assert (found.verdict, found.age_ms, found.limit) == (verdict, age_ms, "1 with a heartbeat within 30 s")


def test_no_worker_is_no_worker_alive() -> None:
    assert workers_check([], NOW).verdict is Verdict.FAIL


def test_the_lag_is_as_old_as_the_oldest_end_that_it_is_made_of() -> None:
    """The freshest one would hide a source that has been silent in part."""
    one = replace(HEALTHY.partitions[1].known, at=EpochMs(NOW - 40_000), high_watermark=SourceOffset(15))  # type: ignore[type-var]
    (lag,) = [each for each in judged(intents(), changed(1, silent(), known=one)).checks if each.name == "lag"]
    assert (lag.age_ms, lag.observed) == (40_000, "5 offsets")


def test_partitions_without_a_copy_fail_their_check_and_name_the_command() -> None:
    facts = source(uncopied=(Uncopied(MORE, 5), Uncopied(SourcePartition("orders", 3), 0)))
    (check,) = [each for each in judged(intents(), facts).checks if each.name == "source_partitions"]
    assert (check.verdict, check.observed) == (Verdict.FAIL, "2 not mirrored")
    assert "2 of orders; add them with `tanist metadata sync dr --destination west`" in check.reason


def test_topics_without_a_copy_fail_the_same_check_and_are_accepted_one_by_one() -> None:
    facts = source(new_topics=("refunds",))
    (check,) = [each for each in judged(intents(), facts).checks if each.name == "source_partitions"]
    assert (check.verdict, check.observed) == (Verdict.FAIL, "0 not mirrored, 1 topic(s) not mirrored")
    assert "refunds; add them with `tanist metadata sync dr --destination west`" in check.reason
    approved = accepted(facts, PLANNED)
    more = source(facts, new_topics=("refunds", "returns"))
    assert not news(approved, facts)
    assert not news(approved, HEALTHY), "good news keep an approval"
    assert {each.name for each in news(approved, more)} == {"TOPICS_WITHOUT_COPY"}
    assert {each.name for each in news(accepted(HEALTHY, PLANNED), facts)} == {"TOPICS_WITHOUT_COPY"}


@pytest.mark.parametrize("mode", Mode)
def test_a_source_that_is_shorter_than_its_copy_is_as_one_that_a_worker_reports(mode: Mode) -> None:
    """It was GO with 0 at risk for the half minute until a worker had FAILED the partition."""
    reported = changed(facts=SHORTER, state=MirrorState.FAILED, error="SOURCE_TRUNCATED")
    assert plan(SHORTER, mode).hash == plan(reported, mode).hash
    assert "orders-0 ends at 10, copied up to 14" in detail(SHORTER, mode, "SOURCE_TRUNCATED")
    dead = silent(changed(facts=reported, longer=False))
    assert "orders-0 (reported by a worker)" in detail(dead, mode, "SOURCE_TRUNCATED")
    assert at_risk(plan(SHORTER, mode).intent, SHORTER) is None, "what it took since has other offsets"
    assert "orders-0" in detail(SHORTER, mode, "RECORDS_AT_RISK_UNKNOWN")
    (check,) = [each for each in judged(intents(), SHORTER).checks if each.name == "partitions"]
    assert check.verdict is Verdict.FAIL
    (check,) = [each for each in judged(intents(), SHORTER).checks if each.name == "running"]
    assert (check.verdict, check.observed) == (Verdict.FAIL, "1 not being copied")
    blocking = {each.name for each in news(accepted(HEALTHY, mode), SHORTER) if each.blocks}
    assert blocking == {"PARTITION_STOPPED_COPYING"}


def test_every_partition_that_is_not_copied_is_named() -> None:
    assert str(PARTITIONS[0]) in detail(PAUSED, PLANNED, "WITHOUT_DRAIN")


def accepted(facts: Facts, mode: Mode) -> ApprovedPlan:
    return ApprovedPlan.read(plan(facts, mode).canonical_plan)


def written_by(*others: str) -> Facts:
    return replace(HEALTHY, topics=tuple(replace(each, others=others) for each in HEALTHY.topics))


@pytest.mark.parametrize("since", [("User:a", "User:intruder"), ("User:intruder",)])
def test_a_right_that_somebody_else_was_given_after_the_approval_is_news(since: tuple[str, ...]) -> None:
    """By its name alone OTHERS_MAY_WRITE, once accepted, let in whoever came later."""
    approved = accepted(written_by("User:a"), PLANNED)
    assert not news(approved, written_by("User:a"))
    assert not news(approved, written_by()), "good news keep an approval"
    assert {each.name for each in news(approved, written_by(*since))} == {"OTHERS_MAY_WRITE"}


def test_a_writer_nobody_can_name_is_news_to_who_accepted_a_writer_by_name() -> None:
    """One was accepted; another got WRITE, then the ACLs could not be read, and the run was DONE."""
    untold = replace(HEALTHY, topics=tuple(replace(each, others=None) for each in HEALTHY.topics))
    approved = accepted(written_by("User:a"), PLANNED)
    assert {each.name for each in news(approved, untold)} == {"OTHERS_MAY_WRITE"}
    assert not news(accepted(untold, PLANNED), untold), "it can be accepted that nobody can tell"
    assert {each.name for each in news(accepted(untold, PLANNED), written_by("User:a"))} == {"OTHERS_MAY_WRITE"}


def test_a_copy_that_loses_more_than_was_accepted_is_news() -> None:
    """An unplanned plan accepted one offset that was gone; later the whole copy was deleted, and it was DONE."""
    one, all_of_it = truncated_at(1), truncated_at(9)
    approved = accepted(one, UNPLANNED)
    assert "COPY_TRUNCATED" in approved.limitations
    assert not [each for each in news(approved, one) if each.name == "COPY_TRUNCATED"]
    assert [each for each in news(approved, all_of_it) if each.name == "COPY_TRUNCATED"]


@pytest.mark.parametrize("mode", Mode)
def test_records_that_are_gone_from_the_start_of_a_copy_are_bound_by_the_tolerance(mode: Mode) -> None:
    """COPY_TRUNCATED was accepted by name, and `--max-loss 0` kept: DONE, and nine records were lost."""
    facts = truncated_at(9) if mode is UNPLANNED else changed(start=DestinationOffset(9))
    assert planned_intent(intents()[mode], facts, None).loss_tolerance == 9, "what is forecast"
    assert forecast(planned_intent(intents()[mode], facts, None), facts).offsets_at_risk == 9
    found = {each.name: each.detail for each in plan(facts, mode, 8).limitations}
    assert found["BEYOND_TOLERANCE"].startswith("9 offsets at risk; 8 tolerated: to accept the loss, plan again")
    assert "BEYOND_TOLERANCE" not in {each.name for each in plan(facts, mode, 9).limitations}


@pytest.mark.parametrize("mode", Mode)
def test_a_copy_whose_source_began_nobody_knows_where_has_lost_an_unknown_number(mode: Mode) -> None:
    """It begins at 7; an old worker did not say where the source did. At 0 nothing can be gone."""
    facts = changed(start=DestinationOffset(7), first=None)
    assert "orders-0" in detail(facts, mode, "RECORDS_AT_RISK_UNKNOWN")
    assert at_risk(intents()[mode], facts) is None
    assert word(plan(changed(first=None), mode).limitations) is GO


def truncated_at(start: int) -> Facts:
    """The source is silent, and the first partition of the copy begins too late."""
    facts = silent()
    first = replace(facts.partitions[0], start=DestinationOffset(start), first=DestinationOffset(0))
    return replace(facts, partitions=(first, *facts.partitions[1:]))


def test_another_cluster_is_not_said_to_be_silent() -> None:
    facts = source(silent(), another_cluster="'east' leads to cluster B")
    (check,) = [each for each in judged(intents(), facts).checks if each.name == "source"]
    assert (check.verdict, check.observed) == (Verdict.FAIL, "another cluster answers")
