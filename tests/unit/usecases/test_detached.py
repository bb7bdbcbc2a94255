"""Topics that leave a mirror without a failover, and come back: over clusters in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain import errors
from tanist.domain.acl_entries import AclEntry
from tanist.domain.adoption import AdoptableLog, NotAPrefix, OppositeMirror
from tanist.domain.checks import Mode, Verdict
from tanist.domain.detached import CopyStillThere, TopicIsDetached, detached_from, detached_topics
from tanist.domain.metadata import Change, Outcome
from tanist.domain.moves import MoveStatus
from tanist.domain.names import MirrorName, MirrorPartition
from tanist.domain.records import STATE_TOPIC, PartitionObserved
from tanist.domain.selection import EVERY_TOPIC, Selection
from tanist.domain.states import DesiredState, MirrorState
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback import reversal
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reverse import reverse
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.sync import sync
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.describe import Describer, listing, must_match, row_reason
from tanist.usecases.mirrors.detach import Detached, detach_topics, forget_detached
from tanist.usecases.mirrors.lineage import lineage, segment_item
from tanist.usecases.mirrors.wait import Goal, NothingToWaitFor, wait_for
from tanist.usecases.status import observe as status
from tests.builders import DR, a_command, a_move, a_partition, a_run
from tests.fakes.failover import GuardedCluster, MemoryApprovals
from tests.fakes.state import WORKER, MemoryStateStore
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.readings import reading
from tests.unit.usecases.returning import returned, reverses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.adoption import CandidateLog
    from tanist.domain.errors import TanistError
    from tanist.domain.failover.health import Status
    from tanist.ports.clock import Deadline
    from tanist.usecases.command import CommandContext

ORDERS = Selection(("orders",))


class Prefixes:
    """The port `LogPrefixes`, by the ends alone; `others`: partitions whose records differ."""

    def __init__(self, east: GuardedCluster, west: GuardedCluster) -> None:
        self.east, self.west, self.others = east, west, set[MirrorPartition]()
        self.asked: dict[MirrorPartition, CandidateLog] = {}

    def adoptable(
        self, partitions: Mapping[Any, CandidateLog], by: Deadline
    ) -> Mapping[Any, AdoptableLog | TanistError]:
        self.asked |= partitions
        return {at: self._one(at) for at in partitions}

    def _one(self, at: MirrorPartition) -> AdoptableLog | TanistError:
        end = self.west.ends[at][2]
        if at in self.others or end > self.east.ends[at][2]:
            return NotAPrefix(f"{at}: the first differing offset is 3")
        return AdoptableLog(end)


class Pair:
    """East mirrored to west: orders (2 partitions, 10 records each) and payments, by a filter that matches both."""

    def __init__(self) -> None:
        self.east = GuardedCluster("east").with_topic("orders", 2, 10).with_topic("payments")
        rules = (AclEntry("User:app", "*", allowed=True), AclEntry("User:mirror", "*", allowed=True))
        self.west = GuardedCluster("west", rules={"orders": rules})
        self.prefixes = Prefixes(self.east, self.west)
        request = CreateRequest(mirror="dr", include=("orders", "pay.*"))
        self.spec = create(request, self.east.side(), self.west.side(), a_command()).spec
        for n in range(2):
            self.west.grow(MirrorPartition("orders", n), 8, self.spec.data_id)
            observed = a_partition(partition=MirrorPartition("orders", n), last_mirrored_epoch=2)
            self.west.write(STATE_TOPIC, observed)
        self.west.calls.clear()

    def detach(self, topics: Selection = ORDERS, *, dry_run: bool = False) -> list[str]:
        found = detach_topics("dr", topics, self.west.side(), a_command(dry_run=dry_run))
        return [each.topic for each in found.topics]

    def add(self, **accepted: Any) -> desire.Desired:
        given = desire.Accepted(prefixes=lambda _spec: self.prefixes, **accepted)
        return desire.add("dr", ORDERS, self.west.side(), lambda _: self.east.side(), a_command(), given)

    def forget(self, context: CommandContext | None = None, topics: Selection = ORDERS) -> Detached | None:
        east, west = self.east.side(), self.west.side()
        return forget_detached("dr", topics, west, lambda _: east, context or a_command())

    def elsewhere(self, topic: str = "orders") -> None:
        """As after a reversal of the mirror: the copy is at the source."""
        (found,) = (each for each in detached_topics(self.west.view(STATE_TOPIC), DR) if each.topic == topic)
        self.west.write(STATE_TOPIC, replace(found, cluster_id=self.spec.source_cluster_id))

    def detached(self) -> list[str]:
        return [each.topic for each in detached_topics(self.west.view(STATE_TOPIC), DR)]

    def mirrored(self) -> list[str]:
        return [each.topic for each in self.west.view(STATE_TOPIC).mirrored(DR)]

    def describer(self, selection: Selection = EVERY_TOPIC) -> Describer:
        return Describer(self.west.side(), lambda _name: self.east.side(), selection)

    def status(self) -> Status:
        (found,) = status.observe(reading(self.east, self.west), DR)
        return found.status

    def sync(self) -> dict[tuple[str, Change], tuple[Outcome, str]]:
        done = sync(MetadataRequest(mirror="dr"), self.west.side(), lambda _: self.east.side(), a_command())
        return {(row.topic, row.change): (row.verdict, row.reason) for row in done.rows}


@pytest.fixture
def pair() -> Pair:
    return Pair()


# ── leaving ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_topic_leaves_and_nothing_but_its_record_is_changed(pair: Pair) -> None:
    """No source fence, no ACL, no config: with the source down it is the same."""
    denied, facts, source = set(pair.west.deny), dict(pair.west.topics), list(pair.east.calls)
    pair.east.dead = True
    assert pair.detach(Selection(("ord.*",))) == ["orders"]
    assert (pair.mirrored(), pair.detached()) == (["payments"], ["orders"])
    assert (pair.west.deny, pair.west.topics, pair.east.calls) == (denied, facts, source)
    assert [each for each in pair.west.calls if not each.startswith("append")] == []
    assert ("orders", "User:app") in denied


def test_a_rehearsal_names_the_topics_and_writes_nothing(pair: Pair) -> None:
    assert pair.detach(dry_run=True) == ["orders"]
    assert (pair.detached(), pair.west.calls) == ([], [])


def test_what_cannot_be_detached_is_refused_and_nothing_is_written(pair: Pair) -> None:
    with pytest.raises(errors.TopicNotInMirror, match="refunds"):
        pair.detach(Selection(("orders", "refunds")))
    with pytest.raises(errors.Misconfigured, match="--topic"):
        pair.detach(EVERY_TOPIC)
    topic = pair.west.view(STATE_TOPIC).topic(DR, "payments")
    assert topic is not None
    pair.west.write(STATE_TOPIC, replace(topic, desired=DesiredState.REMOVED))
    pair.west.calls.clear()
    with pytest.raises(errors.TopicNotInMirror, match="'payments' was failed over"):
        pair.detach(Selection((".*",)))
    assert (pair.detached(), pair.west.calls) == ([], [])
    pair.detach()
    with pytest.raises(TopicIsDetached, match="'orders' of mirror 'dr' is detached already"):
        pair.detach()


def test_nothing_is_detached_during_a_failover_or_a_reversal(pair: Pair) -> None:
    pair.west.write(STATE_TOPIC, a_run(mirror_id=pair.spec.mirror_id))
    with pytest.raises(errors.MirrorLocked, match="failover cafe of mirror 'dr' is unfinished"):
        pair.detach()
    pair = Pair()
    pair.west.write(STATE_TOPIC, a_move(MoveStatus.MOVING, mirror_id=pair.spec.mirror_id))
    with pytest.raises(errors.MirrorLocked, match="reversal"):
        pair.detach()
    assert pair.detached() == []


# ── while it is detached ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_metadata_sync_does_not_take_it_in_again_and_leaves_it_as_it_is(pair: Pair) -> None:
    pair.detach()
    pair.east.topics["orders"] = replace(
        pair.east.topics["orders"], partitions=3, configs={"cleanup.policy": "compact"}
    )
    facts = pair.west.topics["orders"]
    verdict, reason = pair.sync()["orders", Change.NOTHING]
    assert verdict is Outcome.SKIPPED
    assert "tanist mirrors add dr --destination west --topic orders" in reason
    assert (pair.west.topics["orders"], pair.mirrored(), pair.detached()) == (facts, ["payments"], ["orders"])


def test_a_metadata_sync_keeps_it_closed_to_whoever_got_an_acl_since(pair: Pair) -> None:
    pair.detach()
    pair.west.rules["orders"] += (AclEntry("User:late", "*", allowed=True),)
    assert pair.sync()["orders", Change.DENY][0] is Outcome.CHANGED
    assert ("orders", "User:late") in pair.west.deny
    (found,) = detached_topics(pair.west.view(STATE_TOPIC), DR)
    assert found.kept.denied == ("User:app", "User:late")
    assert pair.mirrored() == ["payments"]


def test_status_names_it_and_no_verdict_is_go_by_omission(pair: Pair) -> None:
    assert "detached" not in {each.name for each in pair.status().checks}
    pair.detach()
    found = pair.status()
    (check,) = [each for each in found.checks if each.name == "detached"]
    assert (check.verdict, check.observed) == (Verdict.FAIL, "orders")
    for mode in Mode:
        (said,) = [each for each in found.limitations[mode] if each.name == "TOPICS_DETACHED"]
        assert (said.blocks, said.usual, said.about) == (False, False, ("orders",))


def test_describe_and_list_name_it_and_a_wait_does_not_wait_for_it(pair: Pair) -> None:
    pair.detach()
    (found,) = pair.describer().describe(DR, a_command())
    rows = {(str(row.partition), row.shown_state, row.lag) for row in found.detached_rows}
    assert rows == {("orders-0", "DETACHED", 2), ("orders-1", "DETACHED", 2)}
    assert all("nothing is copied to it" in row_reason(row) for row in found.detached_rows)
    assert {row.partition.topic for row in found.rows} == {"payments"}
    (only,) = pair.describer(ORDERS).describe(DR, a_command())
    assert (len(only.rows), len(only.detached_rows)) == (0, 2)
    must_match(ORDERS, [only], detached=True)
    with pytest.raises(errors.TopicNotInMirror):
        must_match(ORDERS, [only])
    (listed,) = listing(pair.west.view(STATE_TOPIC))
    assert (listed.topics, [each.topic for each in listed.detached]) == (1, ["orders"])
    pair.detach(Selection(("payments",)))
    with pytest.raises(NothingToWaitFor, match="detached from it: orders, payments"):
        wait_for(DR, Goal.parse("lag=0"), pair.describer(), a_command())


def test_lineage_says_that_it_is_the_sources_and_since_when_nothing_is_copied(pair: Pair) -> None:
    pair.detach()
    found = lineage(DR, EVERY_TOPIC, ("west",), lambda _: pair.west.side(), lambda _: pair.east.side(), a_command())
    items = [segment_item(found, each) for each in found.segments()]
    assert [(e["topic"], e["partition"], e["start"], e["end"], e["cluster"]) for e in items] == [
        ("orders", 0, 0, None, "east"),
        ("orders", 1, 0, None, "east"),
    ]
    assert all(each["detached_ms"] for each in items)
    assert len(found.segments(4)) == 2


def test_another_mirror_does_not_get_it_and_its_own_is_not_deleted_under_it(pair: Pair) -> None:
    pair.detach()
    pair.detach(Selection(("payments",)))
    other = CreateRequest(mirror="other", include=("orders",))
    with pytest.raises(errors.TopicAlreadyInMirror, match="'orders' belongs to mirror 'dr'"):
        create(other, pair.east.side(), pair.west.side(), a_command(), pair.prefixes)
    with pytest.raises(errors.MirrorNotEmpty, match="2 detached topic") as refused:
        administer.delete("dr", pair.west.side(), a_command())
    assert "`tanist mirrors add --topic orders --topic payments`" in refused.value.action


def test_a_mirror_that_adds_it_at_the_same_time_withdraws(pair: Pair) -> None:
    """It has examined the topic before it was detached, and asks once more as it writes."""
    pair.detach()
    with pytest.raises(errors.TopicAlreadyInMirror, match="'orders' belongs to mirror 'dr'"):
        desire.must_be_free(pair.west.view(STATE_TOPIC), MirrorName("other"), ["orders"])
    desire.must_be_free(pair.west.view(STATE_TOPIC), DR, ["orders"])


# ── coming back ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_goes_on_where_it_stopped_if_the_logs_still_fit(pair: Pair) -> None:
    pair.detach()
    pair.east.grow(MirrorPartition("orders", 0), 5)
    added = pair.add()
    assert added.continued == {"orders": (8, 8)}
    assert set(pair.prefixes.asked) == {MirrorPartition("orders", 0), MirrorPartition("orders", 1)}
    (topic,) = added.topics
    assert (topic.desired, topic.copy_starts, topic.denied) == (DesiredState.MIRRORING, (), ("User:app",))
    assert (pair.mirrored(), pair.detached()) == (["orders", "payments"], [])
    observed = pair.west.view(STATE_TOPIC).observed(DR, MirrorPartition("orders", 0))
    assert isinstance(observed, PartitionObserved)
    assert (observed.state, observed.last_mirrored_epoch) == (MirrorState.UNKNOWN, 2)


def test_a_fence_in_what_was_history_before_does_not_make_it_a_promoted_one(pair: Pair) -> None:
    """After a failover and the way back an idle log ends with that failover's fence, below where copying began."""
    (kept,) = (each for each in pair.west.view(STATE_TOPIC).mirrored(DR) if each.topic == "orders")
    pair.west.write(STATE_TOPIC, replace(kept, copy_starts=(8, 3)))
    pair.detach()
    pair.add()
    assert [pair.prefixes.asked[MirrorPartition("orders", n)].history for n in range(2)] == [8, 3]


def test_it_is_refused_where_the_logs_do_not_fit_any_more_and_stays_detached(pair: Pair) -> None:
    pair.detach()
    pair.prefixes.others.add(MirrorPartition("orders", 1))
    pair.west.calls.clear()
    with pytest.raises(NotAPrefix, match="orders-1: the first differing offset is 3") as refused:
        pair.add()
    assert "delete the destination topic" in refused.value.operator_action
    assert (pair.detached(), pair.west.calls) == (["orders"], [])


def test_it_is_refused_if_the_source_has_another_topic_of_its_name(pair: Pair) -> None:
    """The comparison reads the last records only: ids tell it for certain."""
    pair.detach()
    pair.east.topics["orders"] = replace(pair.east.topics["orders"], topic_id="another")
    with pytest.raises(errors.TopicMismatch, match="created again at the source"):
        pair.add()
    assert pair.detached() == ["orders"]


def test_nothing_is_added_without_a_comparison(pair: Pair) -> None:
    pair.detach()
    with pytest.raises(errors.DestinationNotEmpty):
        desire.add("dr", ORDERS, pair.west.side(), lambda _: pair.east.side(), a_command())


def test_partitions_that_the_source_got_meanwhile_are_added_by_the_next_sync(pair: Pair) -> None:
    pair.detach()
    pair.east.topics["orders"] = replace(pair.east.topics["orders"], partitions=3)
    pair.east.ends[MirrorPartition("orders", 2)] = (0, 0, 0)
    assert pair.add().topics[0].partitions == 2
    assert pair.sync()["orders", Change.GROW][0] is Outcome.CHANGED


def test_whom_it_denies_is_allowed_again_if_the_mirror_denies_nobody_any_more(pair: Pair) -> None:
    """`mirrors alter --no-deny-writers` meanwhile has changed the topics of the mirror only."""
    pair.detach()
    administer.alter("dr", administer.Alteration(deny_writers=False), pair.west.side(), a_command())
    assert ("orders", "User:app") in pair.west.deny
    (topic,) = pair.add().topics
    assert (topic.denied, ("orders", "User:app") in pair.west.deny) == ((), False)
    assert pair.west.view(STATE_TOPIC).topic(DR, "orders") == topic


def test_one_that_was_paused_comes_back_paused_and_says_so(pair: Pair) -> None:
    desire.set_desired("dr", ORDERS, desire.paused, pair.west.side(), a_command())
    pair.detach()
    added = pair.add()
    assert [each.desired for each in added.topics] == [DesiredState.PAUSED]
    assert any("orders was paused before it was detached" in each for each in added.warnings)


def test_one_whose_copy_was_deleted_is_copied_from_its_start(pair: Pair) -> None:
    pair.detach()
    del pair.west.topics["orders"]
    for n in range(2):
        del pair.west.ends[MirrorPartition("orders", n)]
    added = pair.add()
    assert added.continued == {}
    assert any("it is copied from its start" in each for each in added.warnings)
    assert added.topics[0].denied == ("User:app",), "a failover would not allow it again"
    assert pair.west.view(STATE_TOPIC).observed(DR, MirrorPartition("orders", 0)) is None
    assert (pair.mirrored(), pair.detached()) == (["orders", "payments"], [])


# ── giving it up ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_forgotten_once_its_copy_was_deleted_and_not_before(pair: Pair) -> None:
    pair.detach()
    with pytest.raises(CopyStillThere, match="'orders' is detached from mirror 'dr', and its copy is at 'west'"):
        pair.forget(a_command())
    del pair.west.topics["orders"]
    rehearsed = pair.forget(a_command(dry_run=True))
    assert rehearsed is not None
    assert (pair.detached(), ("orders", "User:app") in pair.west.deny) == (["orders"], True)
    done = pair.forget(a_command())
    assert done is not None
    assert [each.topic for each in done.topics] == ["orders"]
    assert (pair.detached(), ("orders", "User:app") in pair.west.deny) == ([], False)


def test_what_was_detached_before_a_reversal_can_be_given_up_and_nothing_leads_in_a_circle(pair: Pair) -> None:
    """Its copy is at the source then, and closed by ACLs that only this record knows."""
    pair.detach()
    pair.elsewhere()
    with pytest.raises(CopyStillThere, match="its copy is at 'east'"):
        pair.forget()
    pair.east.dead = True
    with pytest.raises(errors.TanistError, match="east"):
        pair.forget()
    pair.east.dead = False
    del pair.east.topics["orders"]
    pair.east.deny.add(("orders", "User:app"))
    assert pair.forget() is not None
    assert (pair.detached(), ("orders", "User:app") in pair.east.deny) == ([], False)


def test_one_whose_copy_is_at_the_source_fails_no_check_and_is_named(pair: Pair) -> None:
    """Nobody can do anything about it before the mirror is reversed again: no step, no limitation."""
    pair.detach()
    pair.elsewhere()
    (described,) = pair.describer().describe(DR, a_command())
    assert (described.detached, described.detached_rows) == (("orders",), ())
    (found,) = status.observe(reading(pair.east, pair.west), DR)
    (check,) = [each for each in found.status.checks if each.name == "detached"]
    assert (check.verdict, check.observed) == (Verdict.PASS, "with their copies at the source: orders")
    assert not [each for mode in Mode for each in found.status.limitations[mode] if each.name == "TOPICS_DETACHED"]
    assert not found.situation.detached


def test_a_mirror_is_deleted_although_a_copy_is_closed_at_its_source_and_says_so(pair: Pair) -> None:
    pair.detach()
    pair.detach(Selection(("payments",)))
    with pytest.raises(errors.MirrorNotEmpty, match="2 detached topic"):
        administer.delete("dr", pair.west.side(), a_command())
    pair.elsewhere()
    pair.elsewhere("payments")
    gone = administer.delete("dr", pair.west.side(), a_command())
    assert [(each.topic, each.kept.denied) for each in gone.detached] == [("orders", ("User:app",)), ("payments", ())]


def test_it_is_not_added_while_its_copy_is_at_the_source(pair: Pair) -> None:
    """The record would be forgotten, with whom it denies WRITE there."""
    pair.detach()
    pair.elsewhere()
    del pair.west.topics["orders"]
    with pytest.raises(TopicIsDetached, match="its copy is at 'east', which is the source of the mirror now") as why:
        pair.add()
    assert "reverse the mirror first" in why.value.operator_action
    assert pair.detached() == ["orders"]


def test_another_topic_of_its_name_at_the_destination_is_left_alone(pair: Pair) -> None:
    """Somebody has deleted the copy, and created a topic that has nothing to do with the mirror."""
    pair.detach()
    pair.west.topics["orders"] = replace(pair.west.topics["orders"], topic_id="another")
    pair.west.rules["orders"] += (AclEntry("User:late", "*", allowed=True),)
    (found,) = detached_topics(pair.west.view(STATE_TOPIC), DR)
    known = tuple(replace(each, topic_id="id-of-orders") for each in found.observed)
    pair.west.write(STATE_TOPIC, replace(found, observed=known))
    assert ("orders", Change.DENY) not in pair.sync()
    assert ("orders", "User:late") not in pair.west.deny
    assert pair.forget() is not None
    assert (pair.detached(), ("orders", "User:app") in pair.west.deny) == ([], False)


def test_a_topic_that_is_in_the_mirror_is_not_forgotten(pair: Pair) -> None:
    """It is removed by a failover, whatever else was selected with it."""
    pair.detach()
    for topics in (Selection(("payments",)), Selection((".*",)), Selection(("nothing",))):
        assert pair.forget(a_command(), topics) is None


# ── failovers ─────────────────────────────────────────────────────────────────────────────────────────────────────


def detached_world() -> FailoverWorld:
    world = FailoverWorld()
    detach_topics("dr", Selection(("payments",)), world.west.side(), world.command())
    return world


def test_a_failover_of_the_whole_mirror_leaves_it_out_and_says_so() -> None:
    world = detached_world()
    for mode in Mode:
        found = world.plan(mode)
        assert found.plan.intent.names == ("orders",)
        (said,) = [each for each in found.plan.limitations if each.name == "TOPICS_DETACHED"]
        assert "payments" in said.detail
    world.run(world.approve().plan)
    view = world.view()
    assert [each.topic for each in view.removed(DR)] == ["orders"]
    assert [each.topic for each in detached_topics(view, DR)] == ["payments"]
    assert "payments" not in {each.topic for each in view.source_fences(DR)}


def test_a_plan_that_asks_for_it_is_refused_with_the_command_that_adds_it() -> None:
    world = detached_world()
    for asked in ("payments", "pay.*|orders"):
        with pytest.raises(TopicIsDetached, match="tanist mirrors add dr --destination west --topic payments"):
            world.plan(Mode.PLANNED, asked)
    assert world.plan(Mode.PLANNED, "orders").plan.intent.names == ("orders",)


def test_a_plan_made_before_does_not_run_any_more() -> None:
    """It would promote a topic that nobody copies."""
    world = FailoverWorld()
    signed = world.approve()
    detach_topics("dr", Selection(("payments",)), world.west.side(), world.command())
    with pytest.raises(errors.TanistError, match="TOPICS_DETACHED: detached since the plan was made, plan again"):
        world.run(signed.plan)
    assert world.source_is_as_it_was()
    assert not world.view().failovers(DR)


def test_a_reversal_takes_its_record_along_and_leaves_its_copy_where_it_is() -> None:
    world = detached_world()
    world.run(world.approve().plan)
    clusters, request = returned(world), ReversalRequest()
    made = reversal.plan(request, clusters, world.command()).plan
    terms = ApprovalTerms.of("drill", 60)
    reversal.approve(made.hash, request, clusters, world.command(), terms=terms)
    done = reverse(request, clusters, world.command())
    assert [each.topic for each in done.topics] == ["orders"]
    there = world.east.view(STATE_TOPIC)
    (found,) = detached_topics(there, DR)
    assert (found.topic, found.cluster_id) == ("payments", "id-west")
    assert not detached_topics(world.west.view(STATE_TOPIC), DR)
    assert detached_from(there, MirrorName("other")) == {}


def turned(world: FailoverWorld) -> None:
    """From now on `world` copies in the other direction, as its mirror does after a reversal."""
    world.east, world.west = world.west, world.east
    (world.spec,) = world.west.view(STATE_TOPIC).mirrors()
    world.worker = MemoryStateStore(world.west, STATE_TOPIC, WORKER)
    world.partitions = tuple(at for at in world.partitions if at.topic == "orders")
    for at in world.partitions:  # the reserve of the failover, copied by a worker that has the new ids
        world.west.grow(at, world.east.ends[at][2] - world.west.ends[at][2], world.spec.data_id)
    world.observe(MirrorState.MIRRORING)
    world.follow_groups(world.west, world.spec.mirror_id)
    world.tick()


def test_it_comes_back_after_the_mirror_has_gone_round() -> None:
    """Each reversal gives the mirror new producer ids: what it has copied before would be a FOREIGN_WRITE."""
    world = detached_world()
    first = world.spec
    MemoryApprovals(world.east).create(world.soon())
    for _ in range(2):
        world.run(world.approve().plan)
        reverses(world)
        turned(world)
    assert (world.spec.destination, world.spec.data_id == first.data_id) == ("west", False)
    given = desire.Accepted(prefixes=lambda _spec: Prefixes(world.east, world.west))
    east, pay = world.east.side(), Selection(("payments",))
    added = desire.add("dr", pay, world.west.side(), lambda _: east, world.command(), given)
    assert [each.copy_starts for each in added.topics] == [(10,)], "all of the copy is history"
    assert added.continued == {"payments": (10,)}
    view = world.west.view(STATE_TOPIC)
    assert view.observed(DR, MirrorPartition("payments", 0)) is None
    assert not detached_topics(view, DR)


@pytest.mark.parametrize("topic", ["orders", "payments"])
def test_the_original_of_a_detached_copy_is_not_copied_back_whether_it_has_records_or_not(
    pair: Pair, topic: str
) -> None:
    """Its copy is closed: the original became the copy of it, closed to its producers."""
    pair.detach(Selection((topic,)))
    with pytest.raises(OppositeMirror, match="has copied it from here until it was detached"):
        create(CreateRequest(mirror="back", include=(topic,)), pair.west.side(), pair.east.side(), a_command())
