"""Who may write before a failover may write after it, or is named; and a circle leaves the ACLs as they were."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acls import AclBinding
from tests.kafka.failover.both_ways import begin, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import ALLOW, DENY, LITERAL, TOPIC, WRITE, give
from tests.kafka.failover.test_real import rules_of
from tests.kafka.failover.test_writers_of_a_reversed_mirror import approvals_at_the_old_source
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

MIRROR = "circle"


def acl(principal: str, permission: int) -> AclBinding:
    return AclBinding(TOPIC, MIRROR, LITERAL, principal, "*", WRITE, permission)


def limitations(pair: Pair, at: str) -> dict[str, str]:
    planned = tanist(pair, at, "failover", "plan", MIRROR, "--json", expected=None).item
    return {each["name"]: each["detail"] for each in planned["limitations"]}


def check(pair: Pair, at: str, name: str) -> tuple[str, str]:
    answer = json.loads(tanist(pair, at, "status", MIRROR, "--json", expected=None).out)["items"][0]
    (found,) = (each for each in answer["checks"] if each["check"] == name)
    return found["verdict"], found["reason"]


@pytest.mark.long  # test_documented_permissions.py compares all ACLs
def test_a_deny_of_the_destination_is_named_is_not_carried_home_and_a_circle_leaves_acls_as_they_were(
    pair: Pair,
) -> None:
    """The producer was refused by both clusters after a failover that was GO and DONE, and then at home, too."""
    pair.worker()
    approvals_at_the_old_source(pair)
    begin(pair, "east")
    pair.east.topic(MIRROR)
    assert pair.east.writes(MIRROR, range(10))
    give(pair.east.cluster, acl("User:*", ALLOW))
    give(pair.west.cluster, acl("User:app", DENY))
    home = rules_of(pair.east)
    tanist(pair, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", MIRROR)
    tanist(pair, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "60s")
    away = rules_of(pair.west)
    assert f"{MIRROR}: User:app" in limitations(pair, "west")["WRITERS_LOCKED_OUT"]
    assert check(pair, "west", "writers")[0] == "FAIL"

    give(pair.east.cluster, acl("User:late", ALLOW))
    until(lambda: "SOURCE_ACLS_CHANGED" in limitations(pair, "west"), 20)
    assert f"{MIRROR}: allow User:late was added" in limitations(pair, "west")["SOURCE_ACLS_CHANGED"]
    tanist(pair, "west", "metadata", "sync", MIRROR, "--yes")
    assert "SOURCE_ACLS_CHANGED" not in limitations(pair, "west")
    home |= rules_of(pair.east)

    fail_over(pair, MIRROR, "west")
    verdict, reason = check(pair, "west", "access")
    assert verdict == "FAIL"
    assert f"{MIRROR}: User:app" in reason
    assert not pair.west.writes(MIRROR, range(1)), "its own cluster denies it"
    assert "User:late" in str(rules_of(pair.west) - away)
    reverse(pair, MIRROR, "west")
    tanist(pair, "east", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "60s")
    assert not {"WRITERS_LOCKED_OUT", "SOURCE_ACLS_CHANGED"} & limitations(pair, "east").keys()
    fail_over(pair, MIRROR, "east")
    assert check(pair, "east", "access")[0] == "PASS"
    assert pair.east.writes(MIRROR, range(100, 104)), "the DENY of the other cluster was carried home"
    added = rules_of(pair.east) - home
    assert len(added) == 1, added
    assert "User:mirror" in str(added)
    reverse(pair, MIRROR, "east")
    tanist(pair, "west", "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "60s")
    assert rules_of(pair.west) == away
    assert records(pair.east, MIRROR) == records(pair.west, MIRROR)
    pair.workers["east"].send(signal.SIGTERM)
