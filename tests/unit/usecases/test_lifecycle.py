"""Adding, pausing, altering, deleting, describing, waiting, judging: over clusters in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain import errors
from tanist.domain.acl_entries import CLOSED, AclEntry
from tanist.domain.approval.entries import APPROVALS_TOPIC
from tanist.domain.checks import Mode, Readiness, Verdict
from tanist.domain.compaction import Holes
from tanist.domain.losses import OnLoss, UncopiedRecordsDeleted
from tanist.domain.mapped_runs import OffsetRangesWritten
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, MirrorPartition, SourceOffset, SourcePartition
from tanist.domain.problems import Problems
from tanist.domain.records import (
    GROUPS_TOPIC,
    OFFSETS_TOPIC,
    STATE_PARTITIONS,
    STATE_TOPIC,
    GroupPosition,
    GroupSyncStatus,
    MirrorSpec,
    OffsetRangeWritten,
    OffsetTailMode,
    PromotionEpoch,
    SmallBatches,
    TopicDesired,
)
from tanist.domain.selection import Selection
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.domain.state_view import StateView
from tanist.domain.states import DesiredState, MirrorState
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.sync import sync
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.describe import Describer, listing
from tanist.usecases.mirrors.wait import Goal, GoalNotReached, NothingToWaitFor, WaitedInVain, wait_for
from tanist.usecases.status import doctor
from tanist.usecases.status import observe as status
from tests.builders import DR, a_command, a_partition, a_worker
from tests.fakes.clock import JumpingClock
from tests.fakes.failover import GuardedCluster
from tests.fakes.logs import MemoryLogs
from tests.unit.usecases.readings import reading

if TYPE_CHECKING:
    from tanist.domain.failover.health import Status
    from tanist.domain.state_record import StateRecord
    from tanist.ports.clock import Deadline

NOW = JumpingClock().now()


class Pair:
    """East mirrored to west: orders (2 partitions, 10 records each) in, payments not yet."""

    def __init__(self) -> None:
        self.east = (
            GuardedCluster("east").with_topic("orders", 2, 10).with_topic("payments").with_topic("__consumer_offsets")
        )
        self.west = GuardedCluster("west")
        create(CreateRequest(mirror="dr", include=("orders",)), self.east.side(), self.west.side(), a_command())
        self.west.calls.clear()

    def wish(self, topic: str) -> DesiredState:
        found = self.west.view(STATE_TOPIC)[f"topic/dr/{topic}"]
        assert isinstance(found, TopicDesired)
        return found.desired

    def write(self, *records: StateRecord, topic: str = STATE_TOPIC) -> None:
        self.west.write(topic, *records)

    def observed(self, state: MirrorState, *, at: int = 10, error: str | None = None) -> None:
        for n in range(2):
            tp = MirrorPartition("orders", n)
            self.west.ends[tp] = (0, 0, 0)
            self.west.grow(tp, at, self.spec.data_id)
            self.write(a_partition(state, partition=tp, error=error, at=NOW))

    @property
    def spec(self) -> MirrorSpec:
        found = self.west.view(STATE_TOPIC).mirror(DR)
        assert found is not None
        return found

    def describer(self) -> Describer:
        return Describer(self.west.side(), lambda _name: self.east.side())

    def status(self) -> Status:
        (found,) = status.observe(reading(self.east, self.west), DR)
        return found.status


@pytest.fixture
def pair() -> Pair:
    return Pair()


# ── wishes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pause_and_resume_change_the_wish_and_nothing_else(pair: Pair) -> None:
    desire.set_desired("dr", Selection(("orders",)), desire.paused, pair.west.side(), a_command())
    assert pair.wish("orders") is DesiredState.PAUSED
    desire.set_desired("dr", Selection(("ord.*",)), desire.resumed, pair.west.side(), a_command())
    assert pair.wish("orders") is DesiredState.MIRRORING
    assert pair.west.calls == ["append topic/dr/orders"] * 2


def test_a_request_to_resume_failed_partitions_is_counted_and_says_which(pair: Pair) -> None:
    pair.observed(MirrorState.FAILED, error="RECORD_TOO_LARGE")
    wrote = desire.set_desired("dr", Selection(("orders",)), desire.resumed, pair.west.side(), a_command())
    assert [(str(each.partition), each.error) for each in wrote.failed] == [
        ("orders-0", "RECORD_TOO_LARGE"),
        ("orders-1", "RECORD_TOO_LARGE"),
    ]
    desire.set_desired("dr", Selection(("orders",)), desire.paused, pair.west.side(), a_command())
    (again,) = desire.set_desired("dr", Selection(("orders",)), desire.resumed, pair.west.side(), a_command()).topics
    assert (again.desired, again.resumes) == (DesiredState.MIRRORING, 2)
    pair.observed(MirrorState.MIRRORING)
    with pytest.raises(desire.MirrorTopicNotPaused, match="no partition of it is FAILED"):
        desire.set_desired("dr", Selection(("orders",)), desire.resumed, pair.west.side(), a_command())


def test_a_wait_does_not_give_up_on_a_failed_partition_that_was_just_resumed(pair: Pair) -> None:
    pair.observed(MirrorState.FAILED, error="RECORD_TOO_LARGE")
    desire.set_desired("dr", Selection(("orders",)), desire.resumed, pair.west.side(), a_command())
    with pytest.raises(GoalNotReached, match="RECORD_TOO_LARGE"):
        wait_for(DR, Goal.parse("state=MIRRORING"), pair.describer(), a_command())


def test_a_wait_does_not_give_up_on_a_failed_partition_whose_loss_was_just_accepted(pair: Pair) -> None:
    """It ended at once with the error whose next step had just been done: the workers had not followed yet."""
    pair.observed(MirrorState.FAILED, error=UncopiedRecordsDeleted.name)
    pair.write(replace(pair.spec, on_loss=OnLoss.FAIL))
    with pytest.raises(WaitedInVain, match="UNCOPIED_RECORDS_DELETED"):
        wait_for(DR, Goal.parse("lag=0"), pair.describer(), a_command())
    pair.write(replace(pair.spec, on_loss=OnLoss.CONTINUE))
    with pytest.raises(GoalNotReached, match="UNCOPIED_RECORDS_DELETED"):
        wait_for(DR, Goal.parse("state=MIRRORING"), pair.describer(), a_command())


@pytest.mark.parametrize(
    ("paused_before", "topic", "change", "error"),
    [
        (True, "orders", desire.paused, desire.MirrorTopicAlreadyPaused),
        (False, "orders", desire.resumed, desire.MirrorTopicNotPaused),
        (False, "payments", desire.paused, errors.TopicNotInMirror),
        (False, "(", desire.paused, errors.Misconfigured),
    ],
)
def test_a_wish_that_cannot_be_is_refused(
    pair: Pair, *, paused_before: bool, topic: str, change: object, error: type[errors.TanistError]
) -> None:
    if paused_before:
        desire.set_desired("dr", Selection(("orders",)), desire.paused, pair.west.side(), a_command())
    pair.west.calls.clear()
    with pytest.raises(error):
        desire.set_desired("dr", Selection((topic,)), change, pair.west.side(), a_command())  # type: ignore[arg-type]
    assert not pair.west.calls


def test_all_problems_are_told_and_the_good_topic_stays_as_it_is(pair: Pair) -> None:
    with pytest.raises(Problems) as refused:
        desire.set_desired("dr", Selection(("orders", "a", "b")), desire.paused, pair.west.side(), a_command())
    assert [type(problem) for problem in refused.value.problems] == [errors.TopicNotInMirror] * 2
    assert pair.wish("orders") is DesiredState.MIRRORING


def test_an_unknown_mirror_is_named_with_those_there_are(pair: Pair) -> None:
    with pytest.raises(errors.UnknownMirror, match="dr"):
        desire.set_desired("dx", Selection(("orders",)), desire.paused, pair.west.side(), a_command())


def test_add_takes_no_topic_from_a_source_that_was_replaced_until_somebody_says_so(pair: Pair) -> None:
    reported = PromotionEpoch(mirror=DR, topic="payments", count=1)
    pair.east.with_topic(STATE_TOPIC).write(STATE_TOPIC, reported)
    with pytest.raises(errors.SourceReplaced, match="payments"):
        desire.add("dr", Selection(("payments",)), pair.west.side(), lambda _: pair.east.side(), a_command())
    assert not pair.west.calls
    desire.add(
        "dr",
        Selection(("payments",)),
        pair.west.side(),
        lambda _: pair.east.side(),
        a_command(),
        desire.Accepted(promoted=True),
    )
    assert pair.wish("payments") is DesiredState.MIRRORING
    assert not pair.west.view(STATE_TOPIC).promoted(DR, "payments")


def test_add_takes_more_topics_and_refuses_those_that_are_in(pair: Pair) -> None:
    desire.add("dr", Selection(("payments",)), pair.west.side(), lambda _: pair.east.side(), a_command())
    assert pair.wish("payments") is DesiredState.MIRRORING
    pair.west.calls.clear()
    with pytest.raises(errors.TopicAlreadyInMirror):
        desire.add("dr", Selection(("orders",)), pair.west.side(), lambda _: pair.east.side(), a_command())
    assert not pair.west.calls


def test_add_takes_no_topic_behind_a_fence_of_rules(pair: Pair) -> None:
    """Its copy would be opened for nobody."""
    pair.east.rules["payments"] = (CLOSED,)
    with pytest.raises(errors.TopicFenced, match="payments"):
        desire.add("dr", Selection(("payments",)), pair.west.side(), lambda _: pair.east.side(), a_command())
    assert not pair.west.calls


def test_a_map_of_an_earlier_copy_shifts_a_later_one(pair: Pair) -> None:
    """A topic that is taken in again begins without runs; others keep theirs, and what is refused forgets nothing."""
    runs = [
        OffsetRangeWritten(mirror=DR, partition=MirrorPartition(topic, 0), source=SourceOffset(1), destination=at)
        for topic, at in (("payments", DestinationOffset(4)), ("orders", DestinationOffset(2)))
    ]
    piece = OffsetRangesWritten(mirror=DR, partition=MirrorPartition("payments", 0), source=SourceOffset(1), ranges="")
    pair.write(*runs, piece, topic=OFFSETS_TOPIC)
    orders = pair.west.view(STATE_TOPIC)["topic/dr/orders"]
    assert isinstance(orders, TopicDesired)
    pair.write(replace(orders, topic="payments", desired=DesiredState.REMOVED))
    with pytest.raises(errors.TopicAlreadyInMirror):
        desire.add("dr", Selection(("orders", "payments")), pair.west.side(), lambda _: pair.east.side(), a_command())
    desire.add("dr", Selection(("payments",)), pair.west.side(), lambda _: pair.east.side(), a_command(dry_run=True))
    assert set(pair.west.view(OFFSETS_TOPIC)) == {piece.key, *(run.key for run in runs)}
    desire.add("dr", Selection(("payments",)), pair.west.side(), lambda _: pair.east.side(), a_command())
    assert set(pair.west.view(OFFSETS_TOPIC)) == {runs[1].key}


def test_a_dry_run_of_anything_writes_nothing(pair: Pair) -> None:
    run = a_command(dry_run=True)
    desire.add("dr", Selection(("payments",)), pair.west.side(), lambda _: pair.east.side(), run)
    desire.set_desired("dr", Selection(("orders",)), desire.paused, pair.west.side(), run)
    administer.alter("dr", administer.Alteration(max_start_fill=1), pair.west.side(), run)
    assert not pair.west.calls


# ── the whole mirror ──────────────────────────────────────────────────────────────────────────────────────────────


def test_alter_changes_the_spec_once(pair: Pair) -> None:
    alteration = administer.Alteration(replication_factor=2, max_start_fill=5)
    altered = administer.alter("dr", alteration, pair.west.side(), a_command())
    assert (altered.changed, altered.spec.replication_factor, altered.spec.max_start_fill) == (True, 2, 5)
    assert not administer.alter("dr", alteration, pair.west.side(), a_command()).changed
    with pytest.raises(errors.Misconfigured):
        administer.alter("dr", administer.Alteration(), pair.west.side(), a_command())


def test_small_batches_are_merged_in_new_mirrors_and_in_others_when_altered(pair: Pair) -> None:
    """`mirrors create` again, as in a script, changes nothing in a mirror that an earlier version has made."""
    made = pair.west.view(STATE_TOPIC)["mirror/dr"]
    assert isinstance(made, MirrorSpec)
    assert made.merge_small_batches is SmallBatches.AUTO
    pair.write(replace(made, merge_small_batches=SmallBatches.OFF))
    again = CreateRequest(mirror="dr", include=("orders",))
    assert create(again, pair.east.side(), pair.west.side(), a_command()).spec.merge_small_batches is SmallBatches.OFF
    with pytest.raises(errors.MirrorExists, match="merge_small_batches off, not auto"):
        create(replace(again, merge_small_batches=SmallBatches.AUTO), pair.east.side(), pair.west.side(), a_command())
    alteration = administer.Alteration(merge_small_batches=SmallBatches.AUTO)
    assert (
        administer.alter("dr", alteration, pair.west.side(), a_command()).spec.merge_small_batches is SmallBatches.AUTO
    )


def test_an_existing_mirror_keeps_what_it_does_with_holes(pair: Pair) -> None:
    """Its mirror topics are compacted, or they are not; `mirrors create` again, as in a script, changes nothing."""
    made = pair.west.view(STATE_TOPIC)["mirror/dr"]
    assert isinstance(made, MirrorSpec)
    assert made.holes is Holes.COPIES
    pair.write(replace(made, holes=Holes.REFUSE))
    again = CreateRequest(mirror="dr", include=("orders",))
    assert create(again, pair.east.side(), pair.west.side(), a_command()).spec.holes is Holes.REFUSE
    with pytest.raises(errors.MirrorExists, match="holes refuse, not copies"):
        create(replace(again, holes=Holes.COPIES), pair.east.side(), pair.west.side(), a_command())


def test_delete_refuses_while_topics_are_in_it_then_leaves_no_trace(pair: Pair) -> None:
    with pytest.raises(errors.MirrorNotEmpty, match="orders"):
        administer.delete("dr", pair.west.side(), a_command())
    pair.observed(MirrorState.STOPPED)
    run = OffsetRangeWritten(
        mirror=DR,
        partition=MirrorPartition("orders", 0),
        source=SourceOffset(1),
        destination=DestinationOffset(2),
    )
    pair.write(run, topic=OFFSETS_TOPIC)
    desired = pair.west.view(STATE_TOPIC)["topic/dr/orders"]
    assert isinstance(desired, TopicDesired)
    pair.write(replace(desired, desired=DesiredState.REMOVED))
    administer.delete("dr", pair.west.side(), a_command())
    assert not pair.west.view(STATE_TOPIC)
    assert not pair.west.view(OFFSETS_TOPIC)


def test_list_counts_topics(pair: Pair) -> None:
    assert [(each.spec.mirror, each.topics) for each in listing(pair.west.view(STATE_TOPIC))] == [("dr", 1)]


# ── describe and wait ─────────────────────────────────────────────────────────────────────────────────────────────


def test_describe_reads_offsets_from_both_sides(pair: Pair) -> None:
    pair.observed(MirrorState.MIRRORING, at=7)
    (described,) = pair.describer().describe(DR, a_command())
    assert [(row.partition.partition, row.lag, row.state) for row in described.rows] == [
        (0, 3, MirrorState.MIRRORING),
        (1, 3, MirrorState.MIRRORING),
    ]


def test_a_dead_source_leaves_what_workers_last_saw(pair: Pair) -> None:
    end = SourceEnd(SourcePartition("orders", 0), SourceOffset(9), SourceOffset(9))
    pair.write(SourceEnds(mirror=DR, chunk=0, ends=(end,), at=EpochMs(77)))
    pair.east.dead = True
    (described,) = pair.describer().describe(DR, a_command())
    known, unknown = described.rows
    assert (known.lag, known.source and known.source.at) == (9, 77)
    assert (unknown.lag, unknown.source) == (None, None)
    assert isinstance(described.source_down, errors.Unreachable)


def test_a_source_that_is_another_cluster_now_is_not_believed(pair: Pair) -> None:
    pair.east.id = "another"
    (described,) = pair.describer().describe(DR, a_command())
    assert isinstance(described.source_down, errors.AnotherCluster)


@pytest.mark.parametrize("text", ["state=NOPE", "lag=1", "", "mirroring"])
def test_a_goal_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(errors.Misconfigured):
        Goal.parse(text)


def test_wait_ends_when_everything_is_there(pair: Pair) -> None:
    pair.observed(MirrorState.MIRRORING)
    reported: list[tuple[int, int]] = []
    wait_for(DR, Goal.parse("state=MIRRORING"), pair.describer(), a_command(), lambda a, b, _: reported.append((a, b)))
    wait_for(DR, Goal.parse("lag=0"), pair.describer(), a_command())
    assert reported == [(2, 2)]


def test_wait_tells_what_is_missing_when_the_time_is_over(pair: Pair) -> None:
    pair.observed(MirrorState.PREPARING)
    clock = JumpingClock()
    with pytest.raises(GoalNotReached, match="orders-0 is PREPARING"):
        wait_for(DR, Goal.parse("state=mirroring"), pair.describer(), a_command(clock))
    assert 1_029 <= clock.monotonic() <= 1_030


def test_wait_gives_up_at_once_where_a_partition_has_failed(pair: Pair) -> None:
    pair.observed(MirrorState.FAILED, error="FOREIGN_WRITE")
    clock = JumpingClock()
    with pytest.raises(WaitedInVain, match="FOREIGN_WRITE"):
        wait_for(DR, Goal.parse("lag=0"), pair.describer(), a_command(clock))
    assert clock.monotonic() == 1_000
    wait_for(DR, Goal.parse("state=FAILED"), pair.describer(), a_command())


def test_a_mirror_that_copies_nothing_is_not_waited_for(pair: Pair) -> None:
    """It ended with success at once, and an empty table: as if everything had arrived."""
    found = pair.west.view(STATE_TOPIC)["topic/dr/orders"]
    assert isinstance(found, TopicDesired)
    pair.write(replace(found, desired=DesiredState.REMOVED))
    for goal in ("lag=0", "state=STOPPED"):
        with pytest.raises(
            NothingToWaitFor, match="'dr' of 'west' copies no topic from 'east': it has failed over orders"
        ):
            wait_for(DR, Goal.parse(goal), pair.describer(), a_command())


@pytest.mark.parametrize("state", [MirrorState.UNKNOWN, MirrorState.PREPARING])
def test_a_partition_without_lag_that_nobody_copies_yet_is_waited_for(pair: Pair, state: MirrorState) -> None:
    """The record of its state is written after the last batch has landed: a failover would still be refused."""
    pair.observed(state)
    with pytest.raises(GoalNotReached, match=f"orders-0 is {state}, lag 0"):
        wait_for(DR, Goal.parse("lag=0"), pair.describer(), a_command(JumpingClock()))


def test_a_lag_that_is_only_remembered_is_not_waited_for(pair: Pair) -> None:
    pair.observed(MirrorState.MIRRORING)
    pair.east.dead = True
    with pytest.raises(GoalNotReached):
        wait_for(DR, Goal.parse("lag=0"), pair.describer(), a_command())


# ── verdicts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _alive(pair: Pair) -> None:
    pair.write(a_worker(at=NOW))
    _followed(pair)


def _followed(pair: Pair) -> None:
    pair.west.with_topic(GROUPS_TOPIC)
    followed = GroupSyncStatus(mirror=DR, worker="w", mode=OffsetTailMode.TAILING, complete_until_ms=NOW, at=NOW)
    pair.write(followed, topic=GROUPS_TOPIC)


def test_status_is_go_when_all_is_well(pair: Pair) -> None:
    pair.observed(MirrorState.MIRRORING)
    _alive(pair)
    found = pair.status()
    assert (found.planned, found.unplanned) == (Readiness.GO, Readiness.GO), found.checks


def test_a_dead_source_does_not_make_the_unplanned_verdict_unknown(pair: Pair) -> None:
    pair.observed(MirrorState.MIRRORING)
    ends = tuple(SourceEnd(SourcePartition("orders", n), SourceOffset(12), SourceOffset(12)) for n in range(2))
    pair.write(SourceEnds(mirror=DR, chunk=0, ends=ends, at=EpochMs(NOW - 500)))
    pair.east.dead = True
    _followed(pair)
    found = pair.status()
    assert (found.planned, found.unplanned) == (Readiness.NO_GO, Readiness.GO), "no worker is alive either"
    (seen,) = [check for check in found.checks if check.name == "lag"]
    assert (seen.observed, seen.age_ms) == ("4 offsets", 500)


def test_what_the_source_has_more_is_left_behind_by_name_until_it_is_synced(pair: Pair) -> None:
    """Nobody copies it and no row tells of it; a source that does not say how many it has is never green."""
    pair.observed(MirrorState.MIRRORING)
    _alive(pair)
    pair.east.side().topics.grow("orders", 4, a_command().by)
    found = pair.status()
    assert (found.planned, found.unplanned) == (Readiness.ACCEPT, Readiness.ACCEPT)
    assert [check.observed for check in found.checks if check.verdict is Verdict.FAIL] == ["2 not mirrored"]
    sync(MetadataRequest(mirror="dr"), pair.west.side(), lambda _name: pair.east.side(), a_command())
    assert "source_partitions" not in {c.name for c in pair.status().checks if c.verdict is not Verdict.PASS}
    pair.east.denied.add(("DESCRIBE", "orders"))
    found = pair.status()
    assert found.planned is Readiness.UNKNOWN
    (down,) = [each for each in found.limitations[Mode.PLANNED] if each.name == "SOURCE_DOWN"]
    assert "TOPIC_AUTHORIZATION_FAILED: orders-0" in down.detail


@pytest.mark.parametrize(
    ("state", "planned", "unplanned"),
    [
        (MirrorState.FAILED, Readiness.ACCEPT, Readiness.ACCEPT),
        (MirrorState.PREPARING, Readiness.NO_GO, Readiness.ACCEPT),
        (MirrorState.UNKNOWN, Readiness.UNKNOWN, Readiness.ACCEPT),
        (MirrorState.PAUSED, Readiness.ACCEPT, Readiness.ACCEPT),
    ],
)
def test_states_decide(pair: Pair, state: MirrorState, planned: Readiness, unplanned: Readiness) -> None:
    pair.observed(state)
    _alive(pair)
    found = pair.status()
    assert (found.planned, found.unplanned) == (planned, unplanned)


def test_a_destination_without_state_topic_is_an_error_and_no_empty_answer(pair: Pair) -> None:
    """Somebody deleted it, or the connection leads elsewhere: an empty table and exit 0 it was."""
    del pair.west.topics[STATE_TOPIC]
    with pytest.raises(errors.NoStateTopic, match=r"'west' \(cluster id-west\) has no topic"):
        pair.status()


def test_a_connection_that_leads_to_another_cluster_is_told_as_what_it_is(pair: Pair) -> None:
    """Of the source and of the destination: it "does not answer", it said, or the mirrors were gone."""
    pair.observed(MirrorState.MIRRORING)
    _alive(pair)
    for cluster, name in ((pair.east, "east"), (pair.west, "west")):
        before, cluster.id = cluster.id, "another"
        found = pair.status()
        assert (found.planned, found.unplanned) == (Readiness.NO_GO, Readiness.NO_GO)
        (why,) = [each for each in found.limitations[Mode.UNPLANNED] if each.name == "ANOTHER_CLUSTER"]
        assert f"'{name}' leads to cluster another" in why.detail
        cluster.id = before


def test_a_source_that_hangs_is_asked_once_for_all_its_mirrors(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of twelve asked it again, until the healthy destination had no time left and was blamed."""
    spec = pair.west.view(STATE_TOPIC).mirror("dr")
    assert spec is not None
    for n in range(12):
        pair.write(replace(spec, mirror=MirrorName(f"m{n}"), mirror_id=f"id-{n}"))
    clock, asked = JumpingClock(), list[float]()

    def hangs(_: MemoryLogs, partitions: object, by: Deadline) -> None:
        asked.append(clock.monotonic())
        clock.jump(by.left(clock.monotonic()))
        raise errors.TimedOut("no answer")

    east = GuardedCluster("east")
    monkeypatch.setattr(MemoryLogs, "true_ends", hangs)
    began = clock.monotonic()
    found = status.observe(reading(east, pair.west, a_command(clock)), None)
    assert len(found) == 13
    assert len(asked) == 1
    assert clock.monotonic() - began < 6
    assert {each.status.planned for each in found} <= {Readiness.UNKNOWN, Readiness.NO_GO}


def test_a_destination_partition_that_cannot_be_read_is_no_go(pair: Pair) -> None:
    pair.observed(MirrorState.MIRRORING)
    _alive(pair)
    del pair.west.ends[MirrorPartition("orders", 1)]
    assert pair.status().unplanned is Readiness.NO_GO


# ── doctor ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _doctor(pair: Pair) -> dict[str, Verdict]:
    pair.west.with_topic(APPROVALS_TOPIC)
    both = {"east": pair.east, "west": pair.west}
    checks = doctor.clusters(("east", "west"), lambda name: both[name].side(), a_command())
    return {check.name: check.verdict for check in checks}


def test_doctor_finds_everything_in_place(pair: Pair) -> None:
    _alive(pair)
    assert set(_doctor(pair).values()) == {Verdict.PASS}


def test_doctor_names_missing_rights_and_dead_clusters(pair: Pair) -> None:
    pair.west.denied = {("WRITE", "orders")}
    pair.east.dead = True
    found = _doctor(pair)
    assert found["cluster east"] is Verdict.UNKNOWN
    assert found["cluster ids"] is Verdict.UNKNOWN
    assert found["rights of dr on west"] is Verdict.FAIL
    assert found["workers of west"] is Verdict.FAIL


def test_doctor_names_a_right_that_only_a_failover_lacks(pair: Pair) -> None:
    """CLUSTER_ACTION is enough for copying, and writes no rule for whoever takes over."""
    _alive(pair)
    pair.west.denied = {("ALTER", "kafka-cluster")}
    found = _doctor(pair)
    assert found["rights of dr on west"] is Verdict.PASS
    assert found["failover of dr on west"] is Verdict.FAIL


def test_doctor_names_a_right_that_only_the_way_back_lacks_with_the_command_that_grants_it(pair: Pair) -> None:
    """In peacetime: of topics that exist at the source, and of state topics that do not exist there yet."""
    _alive(pair)
    pair.east.denied = {("WRITE", "orders"), ("ALTER_CONFIGS", "orders"), ("WRITE", STATE_TOPIC)}
    pair.west.denied = {("CREATE", "kafka-cluster"), ("CREATE", "__mirror_quarantine.orders")}
    pair.west.with_topic(APPROVALS_TOPIC)
    both = {"east": pair.east, "west": pair.west}
    checks = doctor.clusters(("east", "west"), lambda name: both[name].side(), a_command())
    failed = {check.name: check.reason for check in checks if check.verdict is not Verdict.PASS}
    assert failed.keys() == {"failover of dr on east", "reversal of dr on east", "reversal of dr on west"}
    grant = "kafka-acls.sh --bootstrap-server {}:9092 --add --allow-principal User:approver"
    east, west = failed["reversal of dr on east"], failed["reversal of dr on west"]
    assert "missing: WRITE on Topic orders (appending records)" in east
    assert f"{grant.format('east')} --operation AlterConfigs --operation Write --topic orders" in east
    assert f"{grant.format('east')} --operation Write --topic {STATE_TOPIC}" in east
    assert west.endswith(f"{grant.format('west')} --operation Create --topic __mirror_quarantine.orders")


@pytest.mark.parametrize(
    ("east", "west", "failing"),
    [
        ({("READ", "__consumer_offsets")}, set(), set()),
        ({("DESCRIBE", "billing")}, set(), {"groups of dr on east"}),
        (set(), {("READ", "billing")}, {"groups of dr on west"}),
    ],
    ids=["the log of groups can be done without", "seeing a group", "committing for a group"],
)
def test_doctor_knows_which_rights_of_groups_are_needed(
    pair: Pair, east: set[tuple[str, str]], west: set[tuple[str, str]], failing: set[str]
) -> None:
    _alive(pair)
    at = MirrorPartition("orders", 0)
    kept = GroupPosition(mirror=DR, group="billing", partition=SourcePartition(*at), offset=SourceOffset(1), at=NOW)
    pair.write(kept, topic=GROUPS_TOPIC)
    pair.east.denied, pair.west.denied = east, west
    found = _doctor(pair)
    assert {"groups of dr on east", "groups of dr on west", "log of groups of dr on east"} <= found.keys()
    assert {name for name, verdict in found.items() if verdict is not Verdict.PASS} == failing


def test_a_source_that_was_told_of_a_promotion_is_no_destination_that_fails(pair: Pair) -> None:
    """Its state topic says which of its topics were promoted elsewhere: it needs no worker and no offset map."""
    _alive(pair)
    pair.east.with_topic(STATE_TOPIC, STATE_PARTITIONS)
    pair.east.write(STATE_TOPIC, PromotionEpoch(mirror=DR, topic="orders", count=1))
    pair.west.with_topic(APPROVALS_TOPIC)
    both = {"east": pair.east, "west": pair.west}
    checks = doctor.clusters(("east", "west"), lambda name: both[name].side(), a_command())
    of_east = [check for check in checks if check.name.endswith(" of east")]
    assert [(check.name, check.verdict) for check in of_east] == [("state topic of east", Verdict.PASS)]
    assert of_east[0].reason == "not a destination; failed over to another cluster: orders of mirror dr"


def test_doctor_says_who_we_are_and_that_rules_do_not_bind_a_super_user(pair: Pair) -> None:
    """At a destination of ours; what may be written elsewhere is no business of a failover."""
    pair.west.rules = pair.east.rules = {"orders": (AclEntry("User:app", "*", allowed=True),)}
    found = _doctor(pair)
    assert found["principal on west"] is Verdict.FAIL
    assert found["principal on east"] is Verdict.PASS


def test_doctor_sees_two_names_of_one_cluster(pair: Pair) -> None:
    pair.east.id = "id-west"
    assert _doctor(pair)["cluster ids"] is Verdict.FAIL


def test_delete_leaves_other_mirrors_alone(pair: Pair) -> None:
    spec = pair.west.view(STATE_TOPIC)["mirror/dr"]
    assert isinstance(spec, MirrorSpec)
    view = StateView({"mirror/dr": spec, "mirror/dr2": replace(spec, mirror=MirrorName("dr2"))})
    assert view.keys_of(DR) == ("mirror/dr",)
