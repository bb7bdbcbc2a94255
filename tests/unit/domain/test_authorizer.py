"""Writers whom no ACL names: super users, and everybody where a topic has no ACL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.acl_entries import AclEntry
from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.names import BrokerId
from tanist.domain.write_access import Authorizer, others_may_write

if TYPE_CHECKING:
    from tanist.domain.write_access import ConfigsReported

APP = AclEntry("User:app", "*", allowed=True)
MIRROR = "User:mirror"
HIDDEN_SUPERS: ConfigsReported = {"super.users": None}
HIDDEN_OPENNESS: ConfigsReported = {"allow.everyone.if.no.acl.found": None}


def why(*brokers: ConfigsReported, bare: bool = False) -> str:
    authorizer = Authorizer(
        enabled=True,
        configs={BrokerId(n): each for n, each in enumerate(brokers, 1)},
        bare=frozenset({"orders"} if bare else ()),
    )
    return others_may_write("orders", () if bare else (APP,), authorizer, [MIRROR])


def test_nobody_else_can_write_where_brokers_have_no_super_users() -> None:
    assert why({}, {}) == ""


def test_hidden_super_users_of_a_single_broker_are_named() -> None:
    assert why({}, HIDDEN_SUPERS) == "super.users is set on broker 2, which hides whom it lists"
    assert "brokers 1, 2" in why(HIDDEN_SUPERS, HIDDEN_SUPERS)


def test_super_users_who_are_reported_count_unless_they_are_the_mirror() -> None:
    assert why({"super.users": f"{MIRROR}; "}) == ""
    assert why({"super.users": MIRROR}, {"super.users": f"User:CN=a,O=b;{MIRROR};User:ops"}) == (
        "super.users lists User:CN=a,O=b, User:ops"
    )


@pytest.mark.parametrize(
    ("configs", "word"),
    [
        (HIDDEN_OPENNESS, "is set (its value is hidden) on broker 1"),
        ({"allow.everyone.if.no.acl.found": "TRUE"}, "is true on broker 1"),
        ({"allow.everyone.if.no.acl.found": "false"}, ""),
        ({}, ""),
    ],
)
def test_a_topic_without_acls_may_be_open_to_everybody(configs: ConfigsReported, word: str) -> None:
    found = why(configs, bare=True)
    assert found == (f"no ACL is about the topic, and allow.everyone.if.no.acl.found {word}" if word else "")
    assert why(configs) == "", "an ACL is about it, so only ACLs count"


def test_a_broker_that_does_not_report_its_configs_is_unknown_and_not_good() -> None:
    found = why({}, ClusterAuthorizationFailed("DESCRIBE_CONFIGS is missing"))
    assert found == "who the super users of broker 2 are is unknown: DESCRIBE_CONFIGS is missing"


def test_without_an_authorizer_everybody_may_write() -> None:
    assert others_may_write("orders", (), Authorizer(enabled=False)) == "the cluster has no authorizer"
