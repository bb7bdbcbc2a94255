"""A mirror whose records somebody else copies: registered, found again, and left alone by all that writes to topics."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.checks import Check, Mode, Readiness, Verdict
from tanist.domain.copier import CopiedByAnother, Copier
from tanist.domain.errors import (
    AuthorizationFailed,
    MirrorExists,
    Misconfigured,
    SameCluster,
    TopicAlreadyInMirror,
    TopicNotInMirror,
    Unreachable,
)
from tanist.domain.failover.many import mirrors_at
from tanist.domain.fake_group import group_of
from tanist.domain.followed import (
    CopyTrouble,
    FollowedTopics,
    copies_of,
    group_is_followed,
    is_internal,
    sync_is_due,
)
from tanist.domain.groups_synced import GroupsSynced
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, MirrorPartition, SourceOffset, SourcePartition
from tanist.domain.next_steps.rules import guide
from tanist.domain.next_steps.step import NextStage
from tanist.domain.problems import Problems, each
from tanist.domain.reconciled.published import ReconciliationPublished
from tanist.domain.reconciliation.job import PositionRequest
from tanist.domain.record_times import TimestampType
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, GroupPosition
from tanist.domain.rewinds import OnRewind
from tanist.domain.rights import TABLE, ClusterRole, Notice, Requirement, Use
from tanist.domain.selection import Selection
from tanist.domain.sync_settings import SyncSettings
from tanist.domain.translation import Conservative, Exact, Proof, Translator, Unknown, Withheld
from tanist.domain.translators.by_map import MAP
from tanist.fetcher.planning import owned
from tanist.ports.positions import ProofResult
from tanist.usecases import snapshot
from tanist.usecases.groups import strategies
from tanist.usecases.groups.explain import explain
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.listing import list_groups
from tanist.usecases.groups.sync import SyncRequest, sync_groups, sync_locked, translate_groups
from tanist.usecases.lock import Purpose, changing, mirror_lock
from tanist.usecases.mirror import OpenMirror, spec_at
from tanist.usecases.mirrors import administer, desire, detach
from tanist.usecases.mirrors import follow as following
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.describe import Describer, listing, must_match
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tanist.usecases.mirrors.followed import followed
from tanist.usecases.mirrors.wait import Goal, wait_for
from tanist.usecases.offsets.lookup import LookupRequest, PartitionNotInMirror, lookup
from tanist.usecases.periodic import sync_positions
from tanist.usecases.reconciliation.publish import publish
from tanist.usecases.status import doctor
from tanist.usecases.status.observe import MirrorStatus, observe
from tanist.usecases.status.status_view import board_item
from tests.builders import a_command, a_mirror, a_topic, a_view, a_worker
from tests.fakes.clock import JumpingClock
from tests.fakes.cluster import nowhere, pair_with
from tests.fakes.failover import GuardedCluster
from tests.fakes.positions import MemoryGroups, MemoryPositions
from tests.fakes.times import MemoryLog, MemoryTimes
from tests.unit.usecases.readings import reading
from tests.unit.usecases.test_reconciliation_published import found as reconciled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.ports.clock import Deadline
    from tanist.ports.positions import Pair

MM = MirrorName("mm")
REQUEST = FollowRequest(mirror=MM, copied_by=Copier.MM2, include=("orders.*",), rename=("mm2-default",))


@pytest.fixture
def east() -> GuardedCluster:
    east = GuardedCluster("east")
    for topic, partitions in (("orders", 3), ("orders-eu", 2), ("orders.internal", 1), ("west.orders", 1), ("pay", 1)):
        east.with_topic(topic, partitions, 10)
    return east


@pytest.fixture
def west() -> GuardedCluster:
    return GuardedCluster("west").with_topic("east.orders", 3, 10).with_topic("local", 1, 5)


def opened(east: GuardedCluster, west: GuardedCluster, mirror: str = MM) -> OpenMirror:
    spec = west.view(STATE_TOPIC).mirror(mirror)
    assert spec is not None
    return OpenMirror(spec=spec, source=east.side(), destination=west.side(), pair=pair_with(), from_source=nowhere)


def registered(east: GuardedCluster, west: GuardedCluster, request: FollowRequest = REQUEST) -> OpenMirror:
    assert follow(request, east.side(), west.side(), a_command()).changed
    return opened(east, west, request.mirror)


# ── registering ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_state_topics_and_the_spec_are_written(east: GuardedCluster, west: GuardedCluster) -> None:
    done = follow(REQUEST, east.side(), west.side(), a_command())
    assert west.calls == [f"create {OFFSETS_TOPIC}", f"create {STATE_TOPIC}", "append mirror/mm"]
    assert east.calls == []
    assert (done.spec.data_id, done.spec.marker_id, done.spec.start_id) == (-1, -1, -1)
    assert west.view(STATE_TOPIC).mirror(MM) == done.spec
    assert not west.view(STATE_TOPIC).topics(MM)
    assert {name: each.copy for name, each in done.topics.topics.items()} == {
        "orders": "east.orders",
        "orders-eu": "east.orders-eu",
    }
    assert done.warnings == ("orders-eu: MISSING: the destination has no topic east.orders-eu",)


def test_it_needs_no_more_than_to_read(east: GuardedCluster, west: GuardedCluster) -> None:
    for cluster in (east, west):
        for topic in tuple(cluster.topics):
            cluster.denied |= {(what, topic) for what in ("DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS", "WRITE")}
    assert registered(east, west).spec.copied_by is Copier.MM2


def test_the_same_request_changes_nothing_and_another_is_refused(east: GuardedCluster, west: GuardedCluster) -> None:
    before = registered(east, west).spec
    calls = list(west.calls)
    again = follow(REQUEST, east.side(), west.side(), a_command())
    assert (again.changed, again.spec, west.calls) == (False, before, calls)
    with pytest.raises(MirrorExists, match="exists with rename mm2-default, not identity"):
        follow(replace(REQUEST, rename=("identity",)), east.side(), west.side(), a_command())
    with pytest.raises(MirrorExists, match="exists with copied_by mm2, not tanist"):
        create(CreateRequest(mirror=MM), east.side(), west.side(), a_command())


def test_a_dry_run_shows_the_topics_and_writes_nothing(east: GuardedCluster, west: GuardedCluster) -> None:
    shown = follow(REQUEST, east.side(), west.side(), a_command(dry_run=True))
    assert shown.changed
    assert [*shown.topics.topics] == ["orders", "orders-eu"]
    assert west.calls == []


def test_all_that_is_wrong_is_said_before_any_cluster_is_asked(east: GuardedCluster, west: GuardedCluster) -> None:
    east.dead = west.dead = True
    wrong = FollowRequest(
        mirror="m/m",
        copied_by=Copier.OTHER,
        include=("(",),
        sync=SyncSettings(group_exclude=(")",)),
        rename=("a=c", "b=c", "x"),
        strategies=("guess", "mm2=["),
        mm2_aliases=("east",),
    )
    with pytest.raises(Problems) as raised:
        follow(wrong, east.side(), west.side(), a_command())
    assert len(each(raised.value)) == 8
    assert all(isinstance(one, Misconfigured) for one in each(raised.value))
    with pytest.raises(SameCluster):
        follow(REQUEST, east.side(), east.side(), a_command())


def test_one_cluster_under_two_names_is_refused(east: GuardedCluster) -> None:
    other = GuardedCluster("west", id=east.id)
    with pytest.raises(SameCluster):
        follow(REQUEST, east.side(), other.side(), a_command())
    assert other.calls == []


def test_a_copy_that_tanist_copies_in_another_mirror_is_refused(east: GuardedCluster, west: GuardedCluster) -> None:
    other = a_mirror(MirrorName("own"))
    west.with_topic(STATE_TOPIC).write(STATE_TOPIC, other, a_topic("east.orders", mirror=other.mirror))
    with pytest.raises(TopicAlreadyInMirror, match=r"'east\.orders' is in mirror 'own', which Tanist copies"):
        follow(REQUEST, east.side(), west.side(), a_command())


def test_settings_of_a_mirror_that_tanist_copies_are_refused(east: GuardedCluster, west: GuardedCluster) -> None:
    """They would have been stored, and have meant nothing."""
    wanted = replace(REQUEST, sync=SyncSettings(sync_metadata_seconds=30))
    with pytest.raises(Misconfigured, match="--sync-metadata is for mirrors that Tanist copies"):
        follow(wanted, east.side(), west.side(), a_command())
    assert west.calls == []


def test_a_source_that_dies_while_its_topics_are_read_registers_nothing(
    east: GuardedCluster, west: GuardedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copies that the destination has are not all that is in the mirror."""

    def dying(*clusters: Any) -> tuple[str, str]:
        east.dead = True
        return ("id-east", "id-west")

    monkeypatch.setattr(following, "distinct", dying)
    with pytest.raises(Unreachable):
        follow(REQUEST, east.side(), west.side(), a_command())
    assert west.calls == []


def test_of_two_that_register_it_at_once_the_second_changes_nothing(east: GuardedCluster, west: GuardedCluster) -> None:
    def faster(_: Sequence[str]) -> None:
        registered(east, west, replace(REQUEST, rename=("identity",)))

    with pytest.raises(MirrorExists, match="exists with rename identity, not mm2-default"):
        follow(REQUEST, east.side(), west.side(), replace(a_command(), announce=faster))
    assert opened(east, west).spec.rename == ("identity",)


def test_a_missing_right_at_the_state_topic_changes_nothing(east: GuardedCluster, west: GuardedCluster) -> None:
    west.denied |= {("CREATE", name) for name in (STATE_TOPIC, OFFSETS_TOPIC, "kafka-cluster")}
    with pytest.raises((AuthorizationFailed, Problems)):
        follow(REQUEST, east.side(), west.side(), a_command())
    assert west.calls == []


# ── its topics ────────────────────────────────────────────────────────────────────────────────────────────────────


def troubles(found: FollowedTopics) -> dict[str, CopyTrouble | None]:
    return {name: topic.trouble for name, topic in found.topics.items()}


def test_topics_are_those_of_both_clusters_now(east: GuardedCluster, west: GuardedCluster) -> None:
    mirror = registered(east, west)
    assert troubles(followed(mirror, a_command())) == {"orders": None, "orders-eu": CopyTrouble.MISSING}
    west.with_topic("east.orders-eu", 1)
    east.with_topic("orders-us", 1)
    west.with_topic("east.orders-us", 2)
    found = followed(mirror, a_command())
    assert troubles(found) == {
        "orders": None,
        "orders-eu": CopyTrouble.FEWER_PARTITIONS,
        "orders-us": CopyTrouble.MORE_PARTITIONS,
    }
    orders = found.topics["orders"]
    assert (orders.at_source, orders.at_destination) == (3, 3)
    assert (orders.source_topic_id, orders.copy_topic_id) == ("id-of-orders", "id-of-east.orders")
    assert found.partitions() == (
        *(MirrorPartition("east.orders", n) for n in range(3)),
        MirrorPartition("east.orders-eu", 0),
        MirrorPartition("east.orders-us", 0),
    )


def test_a_silent_source_leaves_the_copies_of_the_destination(east: GuardedCluster, west: GuardedCluster) -> None:
    mirror = registered(east, west)
    east.dead = True
    found = followed(mirror, a_command())
    assert found.source_down is not None
    assert troubles(found) == {"orders": None}
    assert found.partitions() == tuple(MirrorPartition("east.orders", n) for n in range(3))


def test_another_cluster_behind_the_name_of_the_source_is_not_followed(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    mirror = registered(east, west)
    east.id = "another"
    found = followed(mirror, a_command())
    assert "CLUSTER_ID_MISMATCH" in str(found.source_down)


def test_a_copy_that_tanist_copies_since_is_ambiguous(east: GuardedCluster, west: GuardedCluster) -> None:
    mirror = registered(east, west)
    other = a_mirror(MirrorName("own"))
    west.write(STATE_TOPIC, other, a_topic("east.orders", mirror=other.mirror))
    found = followed(mirror, a_command())
    assert found.topics["orders"].trouble is CopyTrouble.AMBIGUOUS
    assert found.partitions() == ()


@pytest.mark.parametrize(
    "topic",
    ["__consumer_offsets", "mm2-offset-syncs.west.internal", "c-internal", "a.replica", "heartbeats", "a.heartbeats"],
)
def test_internal_topics_are_not_in_the_mirror_unless_they_are_named(topic: str) -> None:
    assert is_internal(topic)
    assert copies_of(a_mirror(copied_by=Copier.OTHER, include=(".*",)), [topic]) == {}


def test_an_internal_topic_is_in_the_mirror_by_its_name() -> None:
    spec = a_mirror(copied_by=Copier.OTHER, include=("a\\.replica",))
    assert copies_of(spec, ["a.replica", "b"]) == {"a.replica": "a.replica"}


def test_without_filters_every_topic_that_is_not_internal_is_in_the_mirror() -> None:
    spec = a_mirror(copied_by=Copier.OTHER, exclude=("b",), rename=("{topic}-dr",))
    assert copies_of(spec, ["c", "b", "a", "__x"]) == {"a": "a-dr", "c": "c-dr"}


def test_s0_6_groups_are_chosen_by_the_filters_of_the_mirror() -> None:
    spec = a_mirror(copied_by=Copier.MM2, group_include=("app-.*",), group_exclude=("app-old",))
    assert [group_is_followed(spec, group) for group in ("app-1", "app-old", "other")] == [True, False, False]
    assert group_is_followed(a_mirror(), "anything")
    assert not group_is_followed(a_mirror(), group_of(a_mirror().mirror)), "it holds the positions of a mirror itself"


# ── what works on it ──────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_listed(east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west)
    (listed,) = listing(west.view(STATE_TOPIC))
    assert (listed.spec.mirror, listed.spec.copied_by) == (MM, Copier.MM2)


def test_describe_shows_both_names_and_no_lag_that_nobody_knows(east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west)
    clusters = {"east": east.side()}
    (found,) = Describer(west.side(), clusters.__getitem__).describe(MM, a_command())
    assert found.topics == ("east.orders", "east.orders-eu")
    rows = {str(row.partition): row for row in found.rows}
    assert rows.keys() == {"east.orders-0", "east.orders-1", "east.orders-2"}
    row = rows["east.orders-0"]
    assert (row.at_source, row.shown_state, row.lag, row.mode) == (
        SourcePartition("orders", 0),
        "FOLLOWED",
        None,
        "unknown",
    )
    assert (row.source and row.source.high_watermark, row.destination_end) == (10, 10)
    only = Describer(west.side(), clusters.__getitem__, Selection(("east.orders-eu",)))
    assert [str(row.partition) for row in only.describe(MM, a_command())[0].rows] == []


@pytest.mark.parametrize(
    ("selection", "topics"),
    [
        (Selection(("orders",)), ["east.orders"]),
        (Selection(("east\\.orders",)), ["east.orders"]),
        (Selection(("orders.*",)), ["east.orders", "east.orders-eu"]),
        (Selection(("orders.*",), ("orders",)), ["east.orders-eu"]),
        (Selection((), ("orders-eu",)), ["east.orders"]),
        (Selection((), ("east\\.orders-eu",)), ["east.orders"]),
    ],
)
def test_describe_selects_topics_by_their_names_at_either_side(
    selection: Selection, topics: list[str], east: GuardedCluster, west: GuardedCluster
) -> None:
    """`describe --topic orders` was refused, while create, validate, reconcile and lookup take that name."""
    west.with_topic("east.orders-eu", 2, 5)
    registered(east, west)
    found = Describer(west.side(), {"east": east.side()}.__getitem__, selection).describe(MM, a_command())
    must_match(selection, found, detached=True)
    assert sorted({row.partition.topic for row in found[0].rows}) == topics


def test_describe_shows_the_destination_alone_if_the_source_is_silent(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    registered(east, west)
    east.dead = True
    (found,) = Describer(west.side(), {"east": east.side()}.__getitem__).describe(MM, a_command())
    assert found.source_down is not None
    assert {row.source for row in found.rows} == {None}
    assert len(found.rows) == 3


def test_removing_it_deletes_its_records_and_touches_nothing_else(east: GuardedCluster, west: GuardedCluster) -> None:
    mirror = registered(east, west)
    position = GroupPosition(
        mirror=MM, group="g", partition=SourcePartition("orders", 0), offset=SourceOffset(3), at=EpochMs(1)
    )
    west.with_topic(GROUPS_TOPIC).write(GROUPS_TOPIC, position)
    topics, before = dict(west.topics), len(west.calls)
    assert administer.delete(MM, west.side(), a_command()).spec == mirror.spec
    assert west.view(STATE_TOPIC).mirror(MM) is None
    assert not west.view(GROUPS_TOPIC).keys_of(MM)
    assert west.topics == topics
    assert all(call.startswith("append") for call in west.calls[before:])
    assert east.calls == []


def test_its_settings_are_altered_and_nothing_else(east: GuardedCluster, west: GuardedCluster) -> None:
    spec, before = registered(east, west).spec, len(west.calls)
    wanted = administer.Alteration(
        include=("orders",),
        strategies=("timestamp",),
        mm2_aliases=("primary", "backup"),
        poll_timeout_ms=250,
        sync=SyncSettings(
            group_include=("billing.*",),
            group_exclude=("billing-test",),
            sync_groups_seconds=60,
            workers_sync_groups=True,
            on_rewind=OnRewind.ASK,
        ),
    )
    rehearsed = administer.alter(MM, wanted, west.side(), a_command(dry_run=True))
    assert (rehearsed.changed, rehearsed.spec) == (True, replace(spec, **wanted.given))
    assert len(west.calls) == before
    assert administer.alter(MM, wanted, west.side(), a_command()).changed
    assert west.view(STATE_TOPIC).mirror(MM) == replace(spec, **wanted.given)
    assert not administer.alter(MM, wanted, west.side(), a_command()).changed
    emptied = administer.alter(MM, administer.Alteration(sync=SyncSettings(group_exclude=())), west.side(), a_command())
    assert (emptied.spec.group_exclude, emptied.spec.group_include) == ((), ("billing.*",))


def _sync(**settings: Any) -> administer.Alteration:
    return administer.Alteration(sync=SyncSettings(**settings))


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (administer.Alteration(strategies=("hope",)), "hope"),
        (_sync(group_include=("(",)), "not a regular expression"),
        (_sync(sync_groups_seconds=-1), "-1 s between two syncs of groups is not 0 to 604800"),
        (_sync(sync_metadata_seconds=604_801), "604801 s between two syncs of metadata"),
        (_sync(config_exclude=("*",)), "not a regular expression"),
        (_sync(sync_metadata_seconds=30), "--sync-metadata is for mirrors that Tanist copies"),
        (_sync(config_exclude=("retention.*",)), "--config-exclude is for mirrors that Tanist copies"),
        (administer.Alteration(mm2_aliases=("one",)), "SOURCE,DESTINATION"),
        (administer.Alteration(mm2_aliases=("one", "")), "SOURCE,DESTINATION"),
        (administer.Alteration(), "nothing to alter"),
    ],
)
def test_a_wrong_setting_alters_nothing(
    wanted: administer.Alteration, why: str, east: GuardedCluster, west: GuardedCluster
) -> None:
    before = registered(east, west).spec
    with pytest.raises(Misconfigured, match=re.escape(why)):
        administer.alter(MM, wanted, west.side(), a_command())
    assert west.view(STATE_TOPIC).mirror(MM) == before


def test_a_mirror_that_tanist_copies_has_no_settings_of_a_followed_one(west: GuardedCluster) -> None:
    own = a_mirror(destination_cluster_id="id-west")
    west.with_topic(STATE_TOPIC).write(STATE_TOPIC, own)
    with pytest.raises(Misconfigured, match=r"--strategy is for mirrors that somebody else copies: Tanist copies"):
        administer.alter("dr", administer.Alteration(strategies=("map",)), west.side(), a_command())
    assert west.view(STATE_TOPIC).mirror(MirrorName("dr")) == own


def test_a_mirror_that_was_made_again_of_the_other_kind_meanwhile_gets_no_setting_of_the_first(
    east: GuardedCluster, west: GuardedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at before the lock was taken only, one that Tanist copies was given --strategy."""
    registered(east, west)
    own = a_mirror(MM, destination_cluster_id="id-west")

    def late(*given: Any, **more: Any) -> Any:
        west.write(STATE_TOPIC, own)
        return changing(*given, **more)

    monkeypatch.setattr(administer, "changing", late)
    with pytest.raises(Misconfigured, match=r"--strategy is for mirrors that somebody else copies: Tanist copies"):
        administer.alter(MM, administer.Alteration(strategies=("map",)), west.side(), a_command())
    assert west.view(STATE_TOPIC).mirror(MM) == own


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────────────────


def _opened_like_a_failover(west: GuardedCluster) -> object:
    """As `ClusterRegistry.open_mirror` does for `failover`, `failback`, `fence` and `mirrors reverse`."""
    return spec_at(west.side(), MM, a_command())


REFUSED: dict[str, Callable[[GuardedCluster, GuardedCluster], Any]] = {
    "open for a failover": lambda _, west: _opened_like_a_failover(west),
    "add": lambda east, west: desire.add(
        MM, Selection(("orders",)), west.side(), {"east": east.side()}.__getitem__, a_command()
    ),
    "pause": lambda _, west: desire.set_desired(MM, Selection(("orders",)), desire.paused, west.side(), a_command()),
    "resume": lambda _, west: desire.set_desired(MM, Selection(("orders",)), desire.resumed, west.side(), a_command()),
    "alter": lambda _, west: administer.alter(
        MM, administer.Alteration(replication_factor=3), west.side(), a_command()
    ),
    "detach": lambda _, west: detach.detach_topics(MM, Selection(("orders",)), west.side(), a_command()),
    "change": lambda _, west: changing(west.side(), MM, "anything", a_command()).__enter__(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_copies_or_fences_or_opens_topics_is_refused_by_name(
    what: str, east: GuardedCluster, west: GuardedCluster
) -> None:
    registered(east, west)
    before = len(west.calls)
    with pytest.raises(CopiedByAnother, match="MirrorMaker 2 copies the records of mirror 'mm', not Tanist") as raised:
        REFUSED[what](east, west)
    assert raised.value.exit_code == 2
    assert "tanist groups sync" in raised.value.operator_action
    assert len(west.calls) == before


def test_its_lock_can_be_held(east: GuardedCluster, west: GuardedCluster) -> None:
    """By what reads it and commits positions of its groups."""
    registered(east, west)
    with mirror_lock(west.side(), MM, Purpose(operation="groups sync"), a_command()) as lock:
        assert lock.spec.copied_by is Copier.MM2


def test_a_mirror_of_our_own_is_found_as_before(east: GuardedCluster, west: GuardedCluster) -> None:
    west.with_topic(STATE_TOPIC).write(STATE_TOPIC, a_mirror())
    assert snapshot.spec_of(west.view(STATE_TOPIC), MirrorName("dr"), "west") == a_mirror()


def test_workers_own_none_of_its_partitions_even_if_topics_of_it_are_on_record() -> None:
    """A record of it would be wrong; copying into somebody else's topic would be worse."""
    own, theirs = a_mirror(), a_mirror(MM, copied_by=Copier.MM2)
    view = a_view(own, a_topic(), theirs, a_topic("theirs", mirror=MM))
    assert [mine.spec.mirror for mine in owned(view, frozenset(range(50)), 50)] == ["dr"]


def test_failovers_of_all_mirrors_leave_it_out() -> None:
    view = a_view(a_mirror(), a_mirror(MM, copied_by=Copier.OTHER))
    assert [each.mirror for each in mirrors_at({"west": view})] == ["dr"]


def test_nobody_waits_for_it(east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west)
    describer = Describer(west.side(), {"east": east.side()}.__getitem__)
    with pytest.raises(CopiedByAnother):
        wait_for(MM, Goal.parse("lag=0"), describer, a_command())


# ── its groups ────────────────────────────────────────────────────────────────────────────────────────────────────


class Asked:
    """The port `Proofs`, of records that are all equal; keeps what it was asked."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []

    def compare(self, pairs: Sequence[Pair], by: Deadline) -> dict[Pair, ProofResult]:
        self.pairs += pairs
        return dict.fromkeys(pairs, ProofResult(Proof.MATCH, ""))


def test_positions_are_read_by_the_names_of_the_source_and_proved_by_both(
    east: GuardedCluster, west: GuardedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror, proofs = registered(east, west), Asked()
    here, there = MemoryGroups(east), MemoryGroups(west)
    here.commit("g", SourcePartition("orders", 1), 4)
    here.commit("g", SourcePartition("pay", 0), 1)
    mirror = replace(
        mirror,
        source=replace(east.side(), positions=lambda name: MemoryPositions(here, name)),
        destination=replace(west.side(), positions=lambda name: MemoryPositions(there, name)),
        pair=pair_with(proofs=proofs),
    )
    offered = Translator(
        name="offered",
        basis="test",
        needs=frozenset(),
        translate=lambda position, _: Exact(DestinationOffset(position + 1)),
        explain=lambda _position, _read: "",
    )
    monkeypatch.setattr(strategies, "TRANSLATORS", {each.name: each for each in (MAP, offered)})
    (row,) = translate_groups(mirror, SyncRequest(chosen=Chosen(strategy="offered")), a_command()).rows
    assert (row.group, row.partition, row.at_source) == (
        "g",
        MirrorPartition("east.orders", 1),
        SourcePartition("orders", 1),
    )
    (pair,) = proofs.pairs
    assert (str(pair.at_source), pair.source, str(pair.at), pair.destination) == ("orders-1", 4, "east.orders-1", 5)
    (unmapped,) = translate_groups(mirror, SyncRequest(chosen=Chosen(strategy="map")), a_command()).rows
    assert isinstance(unmapped.translation, Unknown), "nobody promises that offsets are the same"
    assert "keeps no offset map" in unmapped.reason


def with_groups(
    east: GuardedCluster, west: GuardedCluster, request: FollowRequest = REQUEST
) -> tuple[OpenMirror, MemoryGroups]:
    mirror = registered(east, west, request)
    here, there = MemoryGroups(east), MemoryGroups(west)
    source = replace(east.side(), positions=lambda name: MemoryPositions(here, name))
    destination = replace(west.side(), positions=lambda name: MemoryPositions(there, name))
    return replace(mirror, source=source, destination=destination, pair=pair_with(proofs=Asked())), here


def test_positions_of_another_cluster_behind_the_name_of_the_source_are_not_translated(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    mirror, here = with_groups(east, west)
    here.commit("g", SourcePartition("orders", 1), 4)
    assert translate_groups(mirror, BY_MAP, a_command()).rows
    east.id = "another"
    found = translate_groups(mirror, BY_MAP, a_command())
    assert found.rows == ()
    assert "CLUSTER_ID_MISMATCH" in str(found.seen.source_answer.down)


def test_an_answer_that_rests_on_its_proof_is_compared_again_though_it_has_not_moved(
    east: GuardedCluster, west: GuardedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was committed, but not compared, it would have been withheld by every second sync."""
    mirror, here = with_groups(east, west, replace(REQUEST, strategies=("mm2",)))
    here.commit("g", SourcePartition("orders", 1), 4)
    bound = Conservative(DestinationOffset(5), "of a sync", evidence=(SourceOffset(4), DestinationOffset(5)))
    offered = Translator(
        name="mm2",
        basis="test",
        needs=frozenset(),
        translate=lambda _position, _read: bound,
        explain=lambda _position, _read: "",
        unproved="not compared",
    )
    monkeypatch.setattr(strategies, "TRANSLATORS", {"mm2": offered})
    for _ in range(2):
        (row,) = sync_locked(mirror, SyncRequest(), a_command()).rows
        assert row.compared.proof is Proof.MATCH
        assert not isinstance(row.decision, Withheld)


def _fewer(_: GuardedCluster, west: GuardedCluster) -> None:
    west.with_topic("east.orders-eu", 1, 5)


def _unreadable(_: GuardedCluster, west: GuardedCluster) -> None:
    west.with_topic("east.orders-eu", 2, 5)
    west.denied |= {("DESCRIBE", "east.orders-eu")}


def _ambiguous(_: GuardedCluster, west: GuardedCluster) -> None:
    own = a_mirror(MirrorName("own"))
    west.with_topic("east.orders-eu", 2, 5).write(STATE_TOPIC, own, a_topic("east.orders-eu", mirror=own.mirror))


def _gone(east: GuardedCluster, _: GuardedCluster) -> None:
    del east.topics["orders-eu"]


BY_MAP = SyncRequest(chosen=Chosen(strategy="map"))
NO_COPY: dict[str, tuple[Callable[[GuardedCluster, GuardedCluster], None], str]] = {
    "missing": (lambda _, __: None, "the destination has no topic east.orders-eu"),
    "fewer partitions": (_fewer, "east.orders-eu has 1 partition(s), and 2 at the source"),
    "unreadable": (_unreadable, "DESCRIBE"),
    "ambiguous": (_ambiguous, "east.orders-eu is in mirror 'own', which Tanist copies"),
    "gone at the source": (_gone, "the source has no topic orders-eu"),
}


@pytest.mark.parametrize("what", NO_COPY)
def test_a_position_without_a_copy_has_a_row_that_is_unknown_and_says_why(
    what: str, east: GuardedCluster, west: GuardedCluster
) -> None:
    """It had no row, and the commands exited with 0."""
    mirror, here = with_groups(east, west)
    here.commit("g", SourcePartition("orders-eu", 1), 4)
    happens, why = NO_COPY[what]
    happens(east, west)
    synced = sync_groups(mirror, SyncRequest(chosen=Chosen(strategy="map")), a_command())
    (row,) = synced.problems
    assert (row.partition, row.at_source) == (MirrorPartition("east.orders-eu", 1), SourcePartition("orders-eu", 1))
    assert isinstance(row.translation, Unknown)
    assert why in row.reason
    assert not row.committed
    assert any(why in line for line in explain(row, synced.seen))
    assert [line.group for line in list_groups(mirror, Chosen(), a_command()).lines] == ["g"]
    only = Chosen(strategy="map", topics=frozenset({"east.orders"}))
    assert translate_groups(mirror, SyncRequest(chosen=only), a_command()).rows == ()


def test_a_kept_position_without_a_copy_is_unknown_while_the_source_is_silent(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    mirror, _ = with_groups(east, west)
    at = SourcePartition("orders-eu", 0)
    kept = GroupPosition(
        mirror=MM, mirror_id=mirror.spec.mirror_id, group="g", partition=at, offset=SourceOffset(3), at=EpochMs(1)
    )
    west.with_topic(GROUPS_TOPIC).write(GROUPS_TOPIC, kept)
    east.dead = True
    (row,) = translate_groups(mirror, SyncRequest(chosen=Chosen(strategy="map")), a_command()).rows
    assert isinstance(row.translation, Unknown)
    assert "the destination has no topic east.orders-eu" in row.reason


@pytest.mark.parametrize("what", sorted(NO_COPY.keys() - {"gone at the source"}))
def test_a_position_outside_kafka_without_a_copy_is_unknown_and_says_why(
    what: str, east: GuardedCluster, west: GuardedCluster
) -> None:
    """The answer was that the mirror copies no such topic, or that it adds partitions by itself."""
    mirror, _ = with_groups(east, west)
    happens, why = NO_COPY[what]
    happens(east, west)
    request = LookupRequest(positions=(PositionRequest("orders-eu", 1, 4), PositionRequest("orders", 0, 4)), how=BY_MAP)
    without, _ = lookup(mirror, request, a_command()).found
    assert without.is_unknown
    assert why in without.row.reason


def test_a_partition_that_neither_cluster_has_is_not_promised(east: GuardedCluster, west: GuardedCluster) -> None:
    mirror, _ = with_groups(east, west)
    for partition in (7, -1):
        with pytest.raises(PartitionNotInMirror) as raised:
            lookup(mirror, LookupRequest(positions=(PositionRequest("orders", partition, 4),)), a_command())
        assert "by itself" not in raised.value.operator_action
    with pytest.raises(TopicNotInMirror):
        lookup(mirror, LookupRequest(positions=(PositionRequest("pay", 0, 4),)), a_command())
    east.dead = True
    request = LookupRequest(positions=(PositionRequest("orders-eu", 0, 4), PositionRequest("orders", 7, 4)), how=BY_MAP)
    reasons = [each.row.reason for each in lookup(mirror, request, a_command()).found]
    assert reasons == ["the destination has no topic east.orders-eu", "east.orders has no partition 7"]


@pytest.mark.parametrize(
    "row",
    [each for each in TABLE if each.use is Use.FOLLOW and each.notice is Notice.REPORTED],
    ids=lambda row: f"{row.where}-{row.operations[0]}-{row.resource}",
)
def test_doctor_names_what_it_lacks(row: Requirement, east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west)
    at_source = row.where is ClusterRole.SOURCE
    needed = row.of("orders" if at_source else "east.orders")
    (east if at_source else west).denied = {(right.operation, right.resource) for right in needed.rights}
    both = {"east": east, "west": west}
    checks = doctor.clusters(("east", "west"), lambda name: both[name].side(), a_command())
    reasons = [each.reason.casefold() for each in checks if each.verdict is Verdict.FAIL]
    assert [each for each in reasons if needed.title.casefold() in each], checks


# ── what is said of it ────────────────────────────────────────────────────────────────────────────────────────────


def seen(east: GuardedCluster, west: GuardedCluster) -> MirrorStatus:
    (found,) = observe(reading(east, west), MM)
    return found


def test_its_status_says_what_can_be_said_and_is_never_go(east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west, replace(REQUEST, exclude=("orders-eu",)))
    found = seen(east, west)
    checks = {check.name: check for check in found.status.checks}
    assert {name: check.verdict.value for name, check in checks.items()} == {
        "source": "PASS",
        "topics": "PASS",
        "destination": "PASS",
        "lag": "UNKNOWN",
        "workers": "FAIL",
        "groups": "UNKNOWN",
        "positions": "UNKNOWN",
    }
    assert "tanist reconcile mm" in checks["lag"].reason
    assert "`tanist groups sync mm --destination west` commits them" in checks["positions"].reason
    assert {found.status.word(mode) for mode in Mode} == {Readiness.NO_GO}
    (limitation,) = found.status.limitations[Mode.UNPLANNED]
    assert (limitation.name, limitation.blocks) == (CopiedByAnother.name, True)
    item = board_item(found, EpochMs(1))
    assert (item["partitions"], item["lag"]["unknown"], item["troubled"]) == ({"FOLLOWED": 3}, 3, [])


def published(partition: int, until: int, **fields: Any) -> ReconciliationPublished:
    return ReconciliationPublished(
        mirror=MM,
        partition=MirrorPartition("east.orders", partition),
        run="r",
        read_at=EpochMs(a_command().clock.now() - 90_000),
        source_start=SourceOffset(0),
        source_until=SourceOffset(until),
        destination_start=DestinationOffset(0),
        destination_until=DestinationOffset(9),
        steps=1,
        chunks=1,
        **fields,
    )


def lag_after(east: GuardedCluster, west: GuardedCluster, *headers: ReconciliationPublished) -> Check:
    spec = registered(east, west, replace(REQUEST, exclude=("orders-eu",))).spec
    west.write(OFFSETS_TOPIC, *(replace(each, mirror_id=spec.mirror_id) for each in headers))
    (lag,) = [check for check in seen(east, west).status.checks if check.name == "lag"]
    return lag


def test_its_lag_is_known_as_far_as_a_reconciliation_was_published(east: GuardedCluster, west: GuardedCluster) -> None:
    """It said "nobody has compared the logs" after each of them."""
    lag = lag_after(east, west, published(0, 10), published(1, 8, lost=3), published(2, 10))
    assert (lag.verdict, lag.age_ms) == (Verdict.PASS, 90_000)
    assert lag.observed == (
        "by reconciliation, 90 s ago: 3 record(s) had no copy; at most 2 offset(s) of the source were not compared "
        "(3 of 3 partition(s))"
    )
    assert lag.reason == (
        "east.orders-1: compared up to source offset 8, 90 s ago; the source ends at 10: at most 2 offset(s) were not "
        "compared"
    )


def test_its_lag_is_unknown_where_none_was_published_or_the_logs_are_others(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    lag = lag_after(east, west, published(0, 10, source_topic_id="another"), published(1, 11))
    assert lag.verdict is Verdict.UNKNOWN
    assert "0 of 3 partition(s)" in lag.observed
    assert lag.reason.split("; ") == [
        "east.orders-0: a topic was made again since it was compared",
        "orders-0: no timestamps",
        "`tanist reconcile mm --publish`",
        "east.orders-1: compared up to source offset 11, and the source ends at 10",
        "orders-1: no timestamps",
        "`tanist reconcile mm --publish`",
        "east.orders-2: never compared",
        "orders-2: no timestamps",
        "`tanist reconcile mm --publish`",
    ]


def timed(east: GuardedCluster, west: GuardedCluster, copied: int) -> tuple[MemoryLog, MemoryLog]:
    """Both logs of the first partition: ten records, 100 ms apart, of which the first `copied` were copied."""
    source, copy = MemoryLog(), MemoryLog()
    for n in range(10):
        source.add(100 * n, str(n))
        if n < copied:
            copy.add(100 * n, str(n))
    east.times = MemoryTimes({SourcePartition("orders", n): source for n in range(3)})
    west.times = MemoryTimes({MirrorPartition("east.orders", n): copy for n in range(3)})
    return source, copy


@pytest.mark.parametrize(("copied", "seconds"), [(10, "0.0"), (7, "0.3"), (1, "0.9")])
def test_without_a_reconciliation_its_lag_is_known_by_time(
    east: GuardedCluster, west: GuardedCluster, copied: int, seconds: str
) -> None:
    timed(east, west, copied)
    lag = lag_after(east, west)
    assert (lag.verdict, lag.observed) == (Verdict.PASS, f"by time: {seconds} s at most (3 of 3 partition(s))")
    assert f"east.orders-0: the copy's last record is {seconds} s older than the source's" in lag.reason


def test_where_some_logs_were_compared_its_lag_is_said_both_ways(east: GuardedCluster, west: GuardedCluster) -> None:
    timed(east, west, 7)
    lag = lag_after(east, west, published(1, 8))
    assert lag.verdict is Verdict.PASS
    assert lag.observed == (
        "by reconciliation, 90 s ago: 0 record(s) had no copy; at most 2 offset(s) of the source were not compared "
        "(1 of 3 partition(s)); by time: 0.3 s at most (2 of 3 partition(s))"
    )


@pytest.mark.parametrize(
    ("copied", "kind", "why"),
    [(0, TimestampType.CREATE, "the copy has no record yet"), (5, TimestampType.LOG_APPEND, "LogAppendTime")],
)
def test_its_lag_is_unknown_where_times_do_not_tell_it(
    east: GuardedCluster, west: GuardedCluster, copied: int, kind: TimestampType, why: str
) -> None:
    _, copy = timed(east, west, copied)
    copy.type = kind
    lag = lag_after(east, west)
    assert lag.verdict is Verdict.UNKNOWN
    assert lag.reason.startswith("east.orders-0: never compared; ")
    assert why in lag.reason
    assert "`tanist reconcile mm --publish`" in lag.reason


def test_its_lag_with_a_silent_source_says_up_to_where_the_logs_were_compared(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    lag_after(east, west, published(0, 10))
    east.dead = True
    (lag,) = [check for check in seen(east, west).status.checks if check.name == "lag"]
    assert lag.verdict is Verdict.UNKNOWN
    assert "compared up to source offset 10, 90 s ago; where the source ends now is unknown" in lag.reason


def test_its_status_names_copies_that_do_not_fit(east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west)
    (topics,) = [check for check in seen(east, west).status.checks if check.name == "topics"]
    assert topics.verdict is Verdict.FAIL
    assert topics.reason == "orders-eu: the destination has no topic east.orders-eu"


def test_the_lag_of_a_mirror_without_any_copy_is_unknown(east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west, replace(REQUEST, include=("orders-eu",)))
    (lag,) = [check for check in seen(east, west).status.checks if check.name == "lag"]
    assert (lag.verdict, lag.reason) == (Verdict.UNKNOWN, "no partition has a copy")


def test_its_status_with_a_silent_source_is_unknown(east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west)
    east.dead = True
    checks = {check.name: check for check in seen(east, west).status.checks}
    assert checks["source"].verdict is checks["topics"].verdict is Verdict.UNKNOWN
    assert checks["destination"].observed == "3 of 3 answer"


def test_a_destination_that_is_another_cluster_now_is_said_and_nothing_is_read(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    registered(east, west)
    west.id = "another"
    checks = {check.name: check for check in seen(east, west).status.checks}
    assert "CLUSTER_ID_MISMATCH" in checks["source"].reason
    assert seen(east, west).rows == ()


def test_the_next_step_moves_its_groups(east: GuardedCluster, west: GuardedCluster) -> None:
    registered(east, west)
    found = guide(seen(east, west).situation)
    assert found.stage is NextStage.FOLLOWED
    assert [step.command for step in found.steps] == [
        "tanist fetcher run --destination west",
        "tanist groups sync mm --destination west",
    ]
    assert not any(CopiedByAnother.name in missing for missing in found.missing)
    west.write(STATE_TOPIC, a_worker(at=a_command().clock.now()))
    assert [step.command for step in guide(seen(east, west).situation).steps] == [
        "tanist groups sync mm --destination west"
    ]
    now = a_command().clock.now()
    west.write(STATE_TOPIC, GroupsSynced(mirror=MM, positions=3, withheld=1, at=now, renewed_at=now))
    assert guide(seen(east, west).situation).steps == ()


@pytest.mark.parametrize(
    ("every", "age", "late"), [(0, 170, False), (0, 190, True), (600, 1700, False), (600, 1900, True)]
)
def test_positions_that_are_not_committed_any_more_are_noticed(
    every: int, age: int, late: bool, east: GuardedCluster, west: GuardedCluster
) -> None:
    registered(east, west, replace(REQUEST, sync=SyncSettings(sync_groups_seconds=every)))
    at = EpochMs(a_command().clock.now() - 1000 * age)
    west.write(
        STATE_TOPIC,
        a_worker(at=a_command().clock.now()),
        GroupsSynced(mirror=MM, positions=3, withheld=1, at=at, renewed_at=at),
    )
    found = seen(east, west).situation
    (check,) = [each for each in found.status.checks if each.name == "positions"]
    assert (check.verdict, check.age_ms) == (Verdict.UNKNOWN if late else Verdict.PASS, 1000 * age)
    assert check.observed == "3 position(s), 1 of them withheld"
    how = "`tanist groups sync mm --destination west` commits them; the DAG `mirror_group_offsets` does it on schedule"
    assert check.reason == (how if late else "")
    assert [step.command for step in guide(found).steps] == (
        ["tanist groups sync mm --destination west"] if late else []
    )


def test_s0_6_a_group_that_is_new_at_the_source_is_in_the_next_sync(east: GuardedCluster, west: GuardedCluster) -> None:
    """Groups are listed anew each time: there is no interval of its own to refresh them."""
    mirror, here = with_groups(east, west)
    seen = list[list[str]]()
    for group in ("a", "b"):
        here.commit(group, SourcePartition("orders", 0), 4)
        done = sync_groups(mirror, SyncRequest(chosen=Chosen(strategy="map")), a_command())
        seen.append([row.group for row in done.rows])
    assert seen == [["a"], ["a", "b"]]


def test_the_sync_of_a_schedule_goes_by_the_reconciliation_that_was_published(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    """As `mirror_group_offsets` runs it, which names no strategy, after `mirror_reconciliation`."""
    mirror, here = with_groups(east, west)
    here.commit("g", SourcePartition("orders", 0), 4)
    one_step = reconciled(1, destination_topic="east.orders", destination_until=10)
    publish(west.side(), mirror.spec, "r1", EpochMs(1), [one_step], a_command())
    (row,) = sync_positions(mirror, a_command()).items
    assert (row["strategy"], row["precision"], row["destination_offset"]) == ("reconciled", "exact", 4)
    assert row["committed"]


def test_a_sync_of_all_groups_is_recorded_and_one_of_some_is_not(east: GuardedCluster, west: GuardedCluster) -> None:
    mirror, _ = with_groups(east, west)
    sync_locked(mirror, SyncRequest(chosen=Chosen(groups=("g",), strategy="map")), a_command())
    assert west.view(STATE_TOPIC).groups_synced(MM) is None
    done = sync_locked(mirror, SyncRequest(chosen=Chosen(strategy="map")), a_command())
    synced = west.view(STATE_TOPIC).groups_synced(MM)
    assert synced is not None
    assert (synced.positions, synced.withheld) == (len(done.rows), len(done.withheld))


@pytest.mark.parametrize(("minutes", "again"), [(59, False), (61, True)])
def test_positions_that_have_not_moved_are_committed_again_once_an_hour(
    east: GuardedCluster, west: GuardedCluster, minutes: int, again: bool
) -> None:
    """Offsets of a group that nobody reads with expire."""
    mirror, _ = with_groups(east, west)
    clock = JumpingClock()

    def synced() -> GroupsSynced:
        sync_locked(mirror, SyncRequest(chosen=Chosen(strategy="map")), a_command(clock))
        found = west.view(STATE_TOPIC).groups_synced(MM)
        assert found is not None
        return found

    first = synced()
    clock.jump(60 * minutes)
    second = synced()
    assert first.renewed_at == first.at
    assert second.renewed_at == (second.at if again else first.at)


@pytest.mark.parametrize(
    ("every", "runs"),
    [(0, [60, 120, 180]), (60, [60, 120, 180]), (30, [60, 120, 180]), (120, [120]), (90, [120, 180]), (3600, [])],
)
def test_s0_6_positions_are_committed_at_the_interval_of_the_mirror(every: int, runs: list[int]) -> None:
    spec = a_mirror(sync_groups_seconds=every)
    assert [now for now in (60, 120, 180) if sync_is_due(spec, now - 60, now)] == runs


@pytest.mark.parametrize("apart", [60, 120, 37, 290])
def test_s0_6_no_interval_is_missed_however_late_the_runs_are(apart: int) -> None:
    """Due only in the minute in which an interval ended, half of them were missed where a run takes two minutes."""
    spec = a_mirror(sync_groups_seconds=300)
    runs = range(30, 86_400, apart)
    due = [now for before, now in pairwise(runs) if sync_is_due(spec, before, now)]
    assert [now // 300 for now in due] == list(range(1, runs[-1] // 300 + 1))
