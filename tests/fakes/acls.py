"""The ACLs of a cluster in memory: all that its other fakes decide by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.broker_errors import ClusterAuthorizationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.acls import AclBinding, Acls
    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline
    from tests.fakes.cluster import MemoryCluster


class MemoryAcls:
    """The port `AclStore`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def read(self, by: Deadline) -> Acls:
        self._cluster.answer()
        found = self._cluster.acls()
        if found.authorizer and not self._cluster.may("DESCRIBE", "kafka-cluster"):
            raise ClusterAuthorizationFailed("DescribeAcls")
        return found

    def create(self, bindings: Sequence[AclBinding], by: Deadline) -> Mapping[AclBinding, TanistError | None]:
        self._cluster.answer()
        if not self._cluster.may("ALTER", "kafka-cluster"):
            return dict.fromkeys(bindings, ClusterAuthorizationFailed("CreateAcls"))
        self._cluster.calls.append(f"create {len(bindings)} ACLs")
        self._cluster.bindings |= set(bindings)
        return dict.fromkeys(bindings)

    def delete(self, bindings: Sequence[AclBinding], by: Deadline) -> Mapping[AclBinding, TanistError | None]:
        self._cluster.answer()
        if not self._cluster.may("ALTER", "kafka-cluster"):
            return dict.fromkeys(bindings, ClusterAuthorizationFailed("DeleteAcls"))
        self._cluster.calls.append(f"delete {len(bindings)} ACLs")
        self._cluster.bindings -= set(bindings)
        return dict.fromkeys(bindings)
