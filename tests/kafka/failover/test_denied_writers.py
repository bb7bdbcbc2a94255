"""Only the mirror may write to a mirror topic, until a failover undoes exactly that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.acls import AclBinding
from tests.kafka.failover.conftest import ALLOW, DENY, LITERAL, TOPIC, WRITE, give
from tests.kafka.failover.test_real import QUICK, rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka.failover.conftest import Answer, Pair

pytestmark = pytest.mark.long
PREFIXED = 4


def items(answer: Answer) -> list[dict[str, Any]]:
    return list(json.loads(answer.out)["items"])


def named(rules: Iterable[object]) -> set[tuple[str, int]]:
    """The principal and the permission type of each."""
    return {(rule.principal, rule.permission) for rule in rules if isinstance(rule, AclBinding)}


def test_clients_may_write_to_a_mirror_topic_only_after_its_failover(pair: Pair) -> None:
    """Whatever pattern allows them to; a DENY that was there before stays."""
    prefixed = AclBinding(TOPIC, "shut-", PREFIXED, "User:batch", "*", WRITE, ALLOW)
    own = AclBinding(TOPIC, "shut-1", LITERAL, "User:other", "*", WRITE, DENY)
    literal = AclBinding(TOPIC, "shut-1", LITERAL, "User:other", "*", WRITE, ALLOW)
    give(pair.west.cluster, prefixed, own, literal)
    before = rules_of(pair.west)
    pair.worker()
    pair.east.topic("shut-1")
    assert pair.east.writes("shut-1", range(10))
    pair.tanist("mirrors", "create", "shut", "--source", "east", "--topic", "shut-1")
    assert not pair.west.writes("shut-1", range(1))
    added = named(rules_of(pair.west) - before)
    assert added == {("User:app", DENY), ("User:batch", DENY)}
    late = AclBinding(TOPIC, "shut-1", LITERAL, "User:operator", "*", WRITE, ALLOW)
    give(pair.west.cluster, late)
    before |= {late}
    synced = items(pair.tanist("metadata", "sync", "shut", "--json"))
    denied = [(each["change"], each["verdict"], each["destination"]) for each in synced if each["change"] == "deny"]
    assert denied == [("deny", "CHANGED", "User:operator")]
    assert not pair.west.writes("shut-1", range(1), user="operator")
    assert not [each for each in items(pair.tanist("metadata", "sync", "shut", "--json")) if each["change"] == "deny"]
    pair.tanist("mirrors", "alter", "shut", "--no-deny-writers")
    assert rules_of(pair.west) == before
    pair.tanist("mirrors", "alter", "shut", "--deny-writers")
    assert named(rules_of(pair.west) - before) == added | {("User:operator", DENY)}
    pair.tanist("mirrors", "wait", "shut", "--for", "lag=0", "--timeout", "200s")
    planned = pair.tanist("failover", "plan", "shut", "--json").item
    assert "OTHERS_MAY_WRITE" not in {each["name"] for each in planned["limitations"]}
    pair.tanist("failover", "run", "shut", "--plan", pair.approved("shut"), *QUICK)
    assert pair.west.writes("shut-1", range(100, 104))
    after = rules_of(pair.west)
    assert before <= after
    assert named(after - before) == {("User:mirror", DENY)}
    pair.tanist("mirrors", "delete", "shut", "--abandon-fence", "--reason", "drill", "--yes")
    assert rules_of(pair.west) == after
