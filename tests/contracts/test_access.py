"""What every Access does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acls import AclBinding, AclOperation, AclPattern, AclPermission, AclResource
from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.errors import CouldNotTell
from tanist.domain.logins import Origin
from tanist.kafka.adapters.access import KafkaAccess, login_of
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.router import Router
from tanist.ports.access import Permission, Verdict
from tanist.ports.topics import NewTopic
from tests.contracts.reached import SOON, allow_everything, wait_until
from tests.ports import over

if TYPE_CHECKING:
    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.contracts.reached import Reached

CLUSTER = "kafka-cluster"


def verdicts(reached: Reached, *asked: tuple[str, str, str]) -> list[Verdict]:
    """One for each (operation, resource type, resource), in that order."""
    rights = [Permission(operation=o, resource_type=kind, resource=name, needed_for="") for o, kind, name in asked]
    found = reached.access.check(rights, SOON(10))
    assert [each.permission for each in found] == rights
    return [each.verdict for each in found]


def test_each_right_is_told_by_itself(reached: Reached, topic_name: str) -> None:
    reached.topic(topic_name)
    reached.world.deny("READ", "Topic", topic_name)
    reached.world.deny("ALTER", "Cluster", CLUSTER)
    denied = (("READ", "Topic", topic_name), ("ALTER", "Cluster", CLUSTER))
    granted = (("WRITE", "Topic", topic_name), ("CREATE", "Cluster", CLUSTER))
    assert verdicts(reached, *denied, *granted) == [Verdict.FAIL] * 2 + [Verdict.PASS] * 2


def test_of_a_topic_that_we_may_not_see_every_right_is_lacking(reached: Reached, topic_name: str) -> None:
    """Whether it is there or not; a right on the whole cluster is none on it."""
    there, missing = topic_name, f"{topic_name}-missing"
    reached.topic(there)
    for name in (there, missing):
        reached.world.deny("DESCRIBE", "Topic", name)
    asked = [(operation, "Topic", name) for operation in ("DESCRIBE", "WRITE") for name in (there, missing)]
    assert verdicts(reached, *asked) == [Verdict.FAIL] * 4


def test_rights_on_a_topic_that_is_not_there_are_told_by_acls(reached: Reached, topic_name: str) -> None:
    """Brokers report none of them; who may not see ACLs does not know."""
    asked = [(operation, "Topic", topic_name) for operation in ("WRITE", "DESCRIBE", "CREATE", "READ")]
    assert verdicts(reached, *asked) == [Verdict.PASS] * 4
    reached.world.deny("WRITE", "Topic", topic_name)
    assert verdicts(reached, *asked) == [Verdict.FAIL, Verdict.PASS, Verdict.PASS, Verdict.PASS]
    reached.world.deny("DESCRIBE", "Cluster", CLUSTER)
    assert verdicts(reached, asked[0], asked[1], asked[3]) == [Verdict.UNKNOWN, Verdict.PASS, Verdict.UNKNOWN]


def test_rights_on_a_group_are_told_whether_it_is_there_or_not(reached: Reached, topic_name: str) -> None:
    """Also to the first who asks, for whom its coordinator has to be made."""
    one, other, unseen = (f"{topic_name}-{n}" for n in range(3))
    reached.world.deny("READ", "Group", other)
    reached.world.deny("DESCRIBE", "Group", unseen)
    asked = [("READ", "Group", name) for name in (one, other, unseen)]
    assert verdicts(reached, *asked) == [Verdict.PASS, Verdict.FAIL, Verdict.FAIL]


def test_rights_that_no_broker_tells_are_unknown(reached: Reached) -> None:
    assert verdicts(reached, ("WRITE", "TransactionalId", "tanist-dr")) == [Verdict.UNKNOWN]


def test_who_may_write_is_not_told_to_everybody(reached: Reached, topic_name: str) -> None:
    """And that is no empty answer."""
    reached.topic(topic_name)
    assert set(reached.acls.read(SOON(10)).writing([topic_name])) == {topic_name}
    reached.world.deny("DESCRIBE", "Cluster", CLUSTER)
    with pytest.raises(ClusterAuthorizationFailed):
        reached.acls.read(SOON(10))


def test_acls_of_any_type_are_created_and_deleted_exactly(reached: Reached) -> None:
    """S3.7. The same again is no error, and an ACL that is like it stays."""
    prefixed = (AclResource.GROUP, "reader-", AclPattern.PREFIXED, "User:nobody")
    read = AclBinding(*prefixed, "*", AclOperation.READ, AclPermission.ALLOW)
    here = read._replace(host="10.0.0.1")
    transactions = read._replace(resource_type=AclResource.TRANSACTIONAL_ID, operation=AclOperation.WRITE)
    made = (read, here, transactions, read._replace(permission=AclPermission.DENY))

    def found() -> set[AclBinding]:
        return {each for each in reached.acls.read(SOON(10)).bindings if each.principal == "User:nobody"}

    for _ in range(2):
        assert reached.acls.create(made, SOON(10)) == dict.fromkeys(made)
    wait_until(lambda: found() == set(made))
    for _ in range(2):
        assert reached.acls.delete(made[:1], SOON(10)) == {read: None}
    wait_until(lambda: found() == set(made[1:]))
    assert reached.acls.delete(made[1:], SOON(10)) == dict.fromkeys(made[1:])
    wait_until(lambda: not found())


def test_a_login_is_told_with_whether_rules_bind_it(reached: Reached, topic_name: str) -> None:
    """A right that rules explain says nothing against it, and neither does one that was taken."""
    reached.topic(topic_name)
    seen = reached.access.login([topic_name], SOON(10))
    assert (seen.login.principal, seen.login.origin, seen.authorizer) == ("User:approver", Origin.SASL, True)
    assert seen.unbound == ""
    reached.world.deny("WRITE", "Topic", topic_name)
    assert reached.access.login([topic_name], SOON(10)).unbound == ""


def test_a_super_user_and_a_wrong_name_are_told_by_rights_no_rule_gives(
    guarded: SandboxCluster, topic_name: str
) -> None:
    """Before anything is taken over, and without changing anything."""
    wrong = replace(guarded.endpoint_for("approver"), principal="User:somebody")
    with over(KafkaTopics, guarded.endpoint()) as topics, Router(guarded.endpoint(), "tanist-test") as router:
        allow_everything(router)
        assert topics.create([NewTopic(name=topic_name, partitions=1, replication_factor=1)], SOON(10))
    for endpoint, origin in ((guarded.endpoint(), Origin.SASL), (wrong, Origin.SETTING)):
        with over(KafkaAccess, endpoint) as access:
            seen = access.login([topic_name], SOON(10))
        assert seen.login.origin is origin
        assert f"no ACL allows {seen.login.principal} to write to {topic_name}" in seen.unbound
    assert login_of(replace(guarded.endpoint(), sasl=None)).principal is None


def test_nothing_asked_is_nothing_answered(reached: Reached) -> None:
    assert reached.access.check([], SOON(1)) == ()


def test_a_dead_cluster_grants_nothing(dead: Reached) -> None:
    with pytest.raises(CouldNotTell):
        dead.access.check([Permission(operation="READ", resource_type="Topic", resource="t", needed_for="")], SOON(0.5))
