"""What brokers tell of rights, from what a cluster in memory denies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.acl_entries import AclEntry
from tanist.domain.logins import Login, LoginSeen, Origin, unbound
from tanist.ports.access import AclCheck, Permission, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.ports.clock import Deadline
    from tests.fakes.cluster import MemoryCluster


class MemoryAccess:
    """The port `Access`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def check(self, rights: Sequence[Permission], by: Deadline) -> tuple[AclCheck, ...]:
        self._cluster.answer()
        return tuple(AclCheck(permission=right, verdict=self._verdict(right)) for right in rights)

    def login(self, topics: Sequence[str], by: Deadline) -> LoginSeen:
        self._cluster.answer()
        may = {topic: self._cluster.may("WRITE", topic) for topic in topics}
        ours = (AclEntry(self._cluster.principal, "*", allowed=True),)
        rules = {topic: self._cluster.rules.get(topic, ours) for topic in topics}
        login = Login(self._cluster.principal, Origin.SASL)
        return LoginSeen(login=login, authorizer=True, unbound=unbound(self._cluster.principal, may, rules))

    def _verdict(self, right: Permission) -> Verdict:
        if right.resource_type == "Topic":
            return self._of_a_topic(right.operation, right.resource)
        if right.resource_type == "Cluster":
            return self._operations(right.operation, right.resource)
        if right.resource_type == "Group":
            seen = self._cluster.may("DESCRIBE", right.resource)
            return self._operations(right.operation, right.resource) if seen else Verdict.FAIL
        return Verdict.UNKNOWN  # brokers have no answer that tells of a transactional id

    def _of_a_topic(self, operation: str, topic: str) -> Verdict:
        if not self._cluster.may("DESCRIBE", topic):
            return Verdict.FAIL
        if topic in self._cluster.topics:
            return self._operations(operation, topic)
        return self._of_an_absent_topic(operation, topic)

    def _of_an_absent_topic(self, operation: str, topic: str) -> Verdict:
        """ACLs tell of it, to those who may see them."""
        creatable = operation == "CREATE" and self._cluster.may("CREATE", "kafka-cluster")
        if creatable or operation == "DESCRIBE":
            return Verdict.PASS
        return self._operations(operation, topic) if self._cluster.may("DESCRIBE", "kafka-cluster") else Verdict.UNKNOWN

    def _operations(self, operation: str, resource: str) -> Verdict:
        return Verdict.PASS if self._cluster.may(operation, resource) else Verdict.FAIL
