"""Who is denied WRITE on mirror topics, when, and that it is stored first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist.domain.acl_entries import ANYBODY, AclEntry
from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.checks import Verdict
from tanist.domain.errors import AuthorizationFailed, Interrupted, MirrorExists
from tanist.domain.metadata import Change, Outcome
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import Selection
from tanist.usecases.metadata.compare import MetadataRequest
from tanist.usecases.metadata.sync import sync
from tanist.usecases.mirrors import desire, writers
from tanist.usecases.mirrors.administer import Alteration, alter
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.state.found_state import RebuildTools
from tanist.usecases.state.rebuild import rebuild
from tanist.usecases.status.doctor import clusters
from tests.builders import DR, a_command, a_worker
from tests.fakes.failover import GuardedCluster

if TYPE_CHECKING:
    from tanist.domain.checks import Check
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.ports.cluster import Cluster

REQUEST: Final = CreateRequest(mirror="dr", include=("orders.*",), deny_writers=True)
WRITERS: Final = (
    AclEntry("User:app", "*", allowed=True),
    AclEntry("User:mirror", "*", allowed=True),
    AclEntry("User:far", "10.0.0.1", allowed=True),
    AclEntry("User:kept", "*", allowed=True),
    AclEntry("User:kept", "*", allowed=False),
)


@pytest.fixture
def east() -> GuardedCluster:
    east = GuardedCluster("east")
    east.with_topic("orders", 2, 10).with_topic("payments")
    return east


@pytest.fixture
def west() -> GuardedCluster:
    """Its ACLs name the topics before there are any."""
    return GuardedCluster("west", rules=dict.fromkeys(("orders", "payments"), WRITERS))


class Refusing:
    """The port `Opening`: whom it would deny is stored already, and it does not."""

    def __init__(self, real: Any, cluster: GuardedCluster) -> None:
        self.real, self.cluster = real, cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def deny(self, topics: Any, by: Any) -> Any:
        view = self.cluster.view(STATE_TOPIC)
        for name, who in topics.items():
            stored = view.topic(DR, name)
            assert stored is not None
            assert set(stored.denied) >= set(who)
        return dict.fromkeys(topics, ClusterAuthorizationFailed("no"))

    def undeny(self, topics: Any, by: Any) -> Any:
        return dict.fromkeys(topics, ClusterAuthorizationFailed("no"))


def denied(cluster: GuardedCluster, topic: str) -> set[str]:
    return {who for at, who in cluster.deny if at == topic}


def test_all_but_the_mirror_are_denied_who_may_write_and_are_not_denied_already(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    created = create(REQUEST, east.side(), west.side(), a_command())
    assert denied(west, "orders") == {"User:app", "User:far"}
    (topic,) = west.view(STATE_TOPIC).mirrored(DR)
    assert topic.denied == created.topics[0].denied == ("User:app", "User:far")
    assert not created.warnings
    desire.add("dr", Selection(("payments",)), west.side(), lambda _: east.side(), a_command())
    assert denied(west, "payments") == {"User:app", "User:far"}


def test_others_are_denied_by_default_and_not_in_a_dry_run(east: GuardedCluster, west: GuardedCluster) -> None:
    create(replace(REQUEST, deny_writers=None), east.side(), west.side(), a_command(dry_run=True))
    assert not west.deny
    create(replace(REQUEST, deny_writers=None), east.side(), west.side(), a_command())
    assert denied(west, "orders") == {"User:app", "User:far"}
    assert not create(REQUEST, east.side(), west.side(), a_command()).changed
    with pytest.raises(MirrorExists, match="deny_writers True, not False"):
        create(replace(REQUEST, deny_writers=False), east.side(), west.side(), a_command())


def test_nobody_is_denied_for_a_mirror_that_does_not_want_it(east: GuardedCluster, west: GuardedCluster) -> None:
    create(replace(REQUEST, deny_writers=False), east.side(), west.side(), a_command())
    sync(MetadataRequest(mirror="dr"), west.side(), lambda _: east.side(), a_command())
    assert not west.deny
    assert not create(replace(REQUEST, deny_writers=None), east.side(), west.side(), a_command()).changed
    assert not west.deny


def test_a_command_that_ended_before_the_acls_were_created_is_completed_by_the_same_one(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    """Whom it denies is stored before, so no ACL is left that a failover would not remove."""
    refusing: Cluster = replace(west.side(), opening=Refusing(west.side().opening, west))
    with pytest.raises(Interrupted, match="lacks ALTER on Cluster kafka-cluster"):
        create(REQUEST, east.side(), refusing, a_command())
    assert not west.deny
    assert not create(REQUEST, east.side(), west.side(), a_command()).changed
    assert denied(west, "orders") == {"User:app", "User:far"}


def test_those_who_cannot_be_denied_are_named(east: GuardedCluster) -> None:
    west = GuardedCluster("west", rules={"orders": (AclEntry(ANYBODY, "*", allowed=True),)})
    created = create(REQUEST, east.side(), west.side(), a_command())
    assert created.warnings == (f"MIRROR_TOPIC_WRITABLE: orders: an ACL allows {ANYBODY} to write",)
    assert not west.deny


def test_without_an_authorizer_only_who_asks_for_it_is_told_that_nobody_is_denied(east: GuardedCluster) -> None:
    west = GuardedCluster("west", authorizer=False)
    assert create(replace(REQUEST, deny_writers=None), east.side(), west.side(), a_command()).warnings == ()
    altered = alter("dr", Alteration(deny_writers=True), west.side(), a_command())
    assert altered.warnings == ("MIRROR_TOPIC_WRITABLE: nobody is denied WRITE: 'west' has no authorizer",)
    assert alter("dr", Alteration(deny_writers=False), west.side(), a_command()).warnings == ()
    other = GuardedCluster("other", authorizer=False)
    assert create(REQUEST, east.side(), other.side(), a_command()).warnings[0].endswith("'other' has no authorizer")


def test_a_login_that_may_not_deny_anybody_is_told_which_permission_it_lacks(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    west.denied = {("ALTER", "kafka-cluster")}
    for context in (a_command(dry_run=True), a_command()):
        with pytest.raises(AuthorizationFailed, match=r"ALTER on Cluster kafka-cluster .*--no-deny-writers"):
            create(REQUEST, east.side(), west.side(), context)
    assert STATE_TOPIC not in west.topics
    create(replace(REQUEST, deny_writers=False), east.side(), west.side(), a_command())
    with pytest.raises(AuthorizationFailed, match="ALTER on Cluster kafka-cluster"):
        alter("dr", Alteration(deny_writers=True), west.side(), a_command())
    assert spec(west).deny_writers is False


def test_who_may_run_failovers_is_named_and_not_denied(east: GuardedCluster, west: GuardedCluster) -> None:
    """Such as the login of fetchers that have not started yet: their mirror could not be written to."""
    west.operating = {"User:far", "User:mirror"}
    created = create(REQUEST, east.side(), west.side(), a_command())
    assert denied(west, "orders") == {"User:app"}
    (warning,) = created.warnings
    assert warning.startswith("MIRROR_TOPIC_WRITABLE: orders: User:far may write, and is not denied because")


# ── later ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sync_denies_who_got_an_acl_since_and_writes_nothing_else(east: GuardedCluster, west: GuardedCluster) -> None:
    create(replace(REQUEST, include=("orders", "payments")), east.side(), west.side(), a_command())
    assert synced(east, west) == []
    west.rules["orders"] += (AclEntry("User:new", "*", allowed=True),)
    before = len(west.states[STATE_TOPIC])
    assert synced(east, west) == [("orders", "deny", "CHANGED", "User:new")]
    assert denied(west, "orders") == {"User:app", "User:far", "User:new"}
    assert denied(west, "payments") == {"User:app", "User:far"}
    assert topic(west).denied == ("User:app", "User:far", "User:new")
    assert before < len(west.states[STATE_TOPIC])
    before = len(west.states[STATE_TOPIC])
    assert synced(east, west) == []
    assert len(west.states[STATE_TOPIC]) == before


def test_a_sync_stores_whom_it_denies_before_and_completes_one_that_was_killed(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    create(REQUEST, east.side(), west.side(), a_command())
    west.rules["orders"] += (AclEntry("User:new", "*", allowed=True),)
    real = west.side()
    refusing: Cluster = replace(real, opening=Refusing(real.opening, west))
    (row,) = sync(MetadataRequest(mirror="dr"), refusing, lambda _: east.side(), a_command()).rows
    assert row.verdict is Outcome.FAILED
    assert "lacks ALTER on Cluster kafka-cluster" in row.reason
    assert "User:new" in topic(west).denied
    assert "User:new" not in denied(west, "orders")
    assert synced(east, west) == [("orders", "deny", "CHANGED", "User:new")]


def test_a_sync_denies_on_paused_topics_and_on_those_it_takes_in(east: GuardedCluster, west: GuardedCluster) -> None:
    create(replace(REQUEST, include=("orders|bills",)), east.side(), west.side(), a_command())
    desire.set_desired("dr", Selection(("orders",)), desire.paused, west.side(), a_command())
    west.rules["orders"] += (AclEntry("User:new", "*", allowed=True),)
    west.rules["bills"] = (AclEntry("User:app", "*", allowed=True),)
    east.with_topic("bills")
    assert ("bills", "deny", "CHANGED", "User:app") in synced(east, west)
    assert "User:new" in denied(west, "orders")
    assert denied(west, "bills") == {"User:app"}
    assert topic(west, "bills").denied == ("User:app",)


def test_a_login_that_fetchers_use_later_is_allowed_again(east: GuardedCluster, west: GuardedCluster) -> None:
    create(REQUEST, east.side(), west.side(), a_command())
    now = west.clock.now()
    alive = a_worker(started_at=now, at=now, principal="User:far")
    west.write(STATE_TOPIC, alive)
    assert synced(east, west) == [("orders", "allow", "CHANGED", "User:far")]
    assert denied(west, "orders") == {"User:app"}
    assert topic(west).denied == ("User:app",)
    assert synced(east, west) == []


def test_acls_that_may_not_be_seen_are_reported_and_the_sync_continues(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    create(REQUEST, east.side(), west.side(), a_command())

    class Blind:
        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def read(self, by: Any) -> Any:
            raise ClusterAuthorizationFailed("no")

    blind: Cluster = replace(west.side(), acls=Blind(west.side().acls))
    east.topics["orders"] = replace(east.topics["orders"], configs={"retention.ms": "5000"})
    rows = sync(MetadataRequest(mirror="dr"), blind, lambda _: east.side(), a_command()).rows
    found = {str(row.change): row for row in rows}
    assert found["deny"].verdict is Outcome.UNKNOWN
    assert "lacks DESCRIBE on Cluster kafka-cluster" in found["deny"].reason
    assert found["remember"].verdict is Outcome.CHANGED


# ── switched ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_switching_it_off_allows_exactly_those_again_who_were_denied(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    west.deny.add(("orders", "User:kept"))
    create(REQUEST, east.side(), west.side(), a_command())
    off = Alteration(deny_writers=False)
    assert alter("dr", off, west.side(), a_command(dry_run=True)).changed
    assert denied(west, "orders") == {"User:app", "User:far", "User:kept"}
    assert alter("dr", off, west.side(), a_command()).changed
    assert denied(west, "orders") == {"User:kept"}
    assert topic(west).denied == ()
    assert not alter("dr", off, west.side(), a_command()).changed
    assert synced(east, west) == []
    assert alter("dr", Alteration(deny_writers=True), west.side(), a_command()).changed
    assert denied(west, "orders") == {"User:app", "User:far", "User:kept"}
    assert not alter("dr", Alteration(deny_writers=True), west.side(), a_command()).changed
    assert topic(west).denied == ("User:app", "User:far")


@pytest.mark.parametrize("deny_writers", [True, False])
def test_a_switch_that_was_interrupted_is_completed_by_the_same_command(
    deny_writers: bool, east: GuardedCluster, west: GuardedCluster
) -> None:
    create(replace(REQUEST, deny_writers=not deny_writers), east.side(), west.side(), a_command())
    wanted = Alteration(deny_writers=deny_writers)
    refusing: Cluster = replace(west.side(), opening=Refusing(west.side().opening, west))
    with pytest.raises(Interrupted, match="lacks ALTER on Cluster kafka-cluster"):
        alter("dr", wanted, refusing, a_command())
    assert topic(west).denied == ("User:app", "User:far")
    alter("dr", wanted, west.side(), a_command())
    assert denied(west, "orders") == ({"User:app", "User:far"} if deny_writers else set())
    assert topic(west).denied == (("User:app", "User:far") if deny_writers else ())


# ── a lost state ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("deny_writers", [True, False])
def test_a_rebuild_of_a_mirror_that_exists_leaves_its_choice_open(
    deny_writers: bool, east: GuardedCluster, west: GuardedCluster
) -> None:
    """It said MIRROR_ALREADY_EXISTS, as it compared a choice that nobody had made."""
    create(replace(REQUEST, deny_writers=deny_writers), east.side(), west.side(), a_command())
    nothing: Any = None
    tools = RebuildTools(prefixes=nothing, inspection=nothing, paired=nothing)
    again = rebuild(replace(REQUEST, deny_writers=None), east.side(), west.side(), tools, a_command())
    assert not again.changed
    assert again.spec.deny_writers is deny_writers


def test_whom_a_lost_mirror_has_denied_is_named(west: GuardedCluster) -> None:
    (warning,) = writers.left_denied(["orders", "payments", "none"], west.side(), a_command().by)
    assert warning.startswith("orders, payments: User:kept was perhaps denied WRITE by the lost mirror")
    assert writers.left_denied(["orders"], GuardedCluster("w", authorizer=False).side(), a_command().by) == ()


def test_doctor_reports_in_peacetime_that_nobody_could_be_denied(east: GuardedCluster, west: GuardedCluster) -> None:
    create(REQUEST, east.side(), west.side(), a_command())
    sides = {"east": east.side(), "west": west.side()}
    name = "other writers of dr on west"
    assert {each.name: each.verdict for each in doctor(sides)}[name] is Verdict.PASS
    west.denied = {("ALTER", "kafka-cluster")}
    (found,) = (each for each in doctor(sides) if each.name == name)
    assert found.verdict is Verdict.FAIL
    assert "Alter on Cluster" in found.reason or "ALTER on Cluster" in found.reason


def doctor(sides: dict[str, Cluster]) -> tuple[Check, ...]:
    return clusters(tuple(sides), sides.__getitem__, a_command())


def spec(cluster: GuardedCluster) -> MirrorSpec:
    found = cluster.view(STATE_TOPIC).mirror(DR)
    assert found is not None
    return found


def topic(cluster: GuardedCluster, name: str = "orders") -> TopicDesired:
    found = cluster.view(STATE_TOPIC).topic(DR, name)
    assert found is not None
    return found


def synced(east: GuardedCluster, west: GuardedCluster) -> list[tuple[str, str, str, str | None]]:
    """The rows about other writers of a sync."""
    rows = sync(MetadataRequest(mirror="dr"), west.side(), lambda _: east.side(), a_command()).rows
    wanted = (Change.DENY, Change.ALLOW)
    return [(row.topic, str(row.change), str(row.verdict), row.destination) for row in rows if row.change in wanted]
