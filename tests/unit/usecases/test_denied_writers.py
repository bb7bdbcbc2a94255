"""`mirrors create --deny-writers`: who is denied WRITE at mirror topics, and that it is stored first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist.domain.acl_entries import ANYBODY, AclEntry
from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.errors import Interrupted, MirrorExists
from tanist.domain.names import MirrorName
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.mirrors import desire
from tanist.usecases.mirrors.create import CreateRequest, create
from tests.fakes.failover import GuardedCluster
from tests.unit.usecases.commands import a_run

if TYPE_CHECKING:
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


def denied(cluster: GuardedCluster, topic: str) -> set[str]:
    return {who for at, who in cluster.deny if at == topic}


def test_all_but_the_mirror_are_denied_who_may_write_and_are_not_denied_already(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    created = create(REQUEST, east.side(), west.side(), a_run())
    assert denied(west, "orders") == {"User:app", "User:far"}
    (topic,) = west.view(STATE_TOPIC).mirrored(MirrorName("dr"))
    assert topic.denied == created.topics[0].denied == ("User:app", "User:far")
    assert not created.warnings
    desire.add("dr", ["payments"], west.side(), lambda _: east.side(), a_run())
    assert denied(west, "payments") == {"User:app", "User:far"}


def test_without_the_option_and_in_a_dry_run_nobody_is_denied(east: GuardedCluster, west: GuardedCluster) -> None:
    create(REQUEST, east.side(), west.side(), a_run(dry_run=True))
    assert not west.deny
    create(replace(REQUEST, deny_writers=None), east.side(), west.side(), a_run())
    assert not west.deny
    with pytest.raises(MirrorExists, match="deny_writers False, not True"):
        create(REQUEST, east.side(), west.side(), a_run())


def test_a_command_that_ended_before_the_acls_were_created_is_completed_by_the_same_one(
    east: GuardedCluster, west: GuardedCluster
) -> None:
    """Whom it denies is stored before, so no ACL is left that a failover would not remove."""

    class Refusing:
        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def deny(self, topics: Any, by: Any) -> Any:
            (stored,) = west.view(STATE_TOPIC).mirrored(MirrorName("dr"))
            assert stored.denied == topics["orders"]
            return dict.fromkeys(topics, ClusterAuthorizationFailed("no"))

    refusing: Cluster = replace(west.side(), opening=Refusing(west.side().opening))
    with pytest.raises(Interrupted, match="lacks ALTER on Cluster kafka-cluster"):
        create(REQUEST, east.side(), refusing, a_run())
    assert not west.deny
    assert not create(REQUEST, east.side(), west.side(), a_run()).changed
    assert denied(west, "orders") == {"User:app", "User:far"}


@pytest.mark.parametrize("authorizer", [True, False])
def test_those_who_cannot_be_denied_are_named(authorizer: bool, east: GuardedCluster) -> None:
    rules: dict[str, tuple[AclEntry, ...]] = {"orders": (AclEntry(ANYBODY, "*", allowed=True),)} if authorizer else {}
    west = GuardedCluster("west", authorizer=authorizer, rules=rules)
    created = create(REQUEST, east.side(), west.side(), a_run())
    why = f"an ACL allows {ANYBODY} to write" if authorizer else "the cluster has no authorizer"
    assert created.warnings == (f"MIRROR_TOPIC_WRITABLE: orders: {why}",)
    assert not west.deny
