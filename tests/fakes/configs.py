"""Configurations of brokers in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.errors import TanistError
from tanist.domain.names import BrokerId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.ports.clock import Deadline
    from tests.fakes.cluster import MemoryCluster

BROKER_DEFAULTS = {
    "producer.id.expiration.ms": "86400000",
    "auto.create.topics.enable": "true",
    "transaction.max.timeout.ms": "900000",
    "transaction.partition.verification.enable": "true",
}


class MemoryConfigs:
    """The port `Configs`."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def broker(self, by: Deadline) -> Mapping[str, str]:
        self._permit("DESCRIBE_CONFIGS")
        return dict(self._cluster.broker_configs)

    def each_broker(
        self, names: Collection[str], by: Deadline
    ) -> Mapping[BrokerId, Mapping[str, str | None] | TanistError]:
        self._cluster.answer()
        return {BrokerId(n): self._of_broker(n, names) for n in range(1, self._cluster.brokers + 1)}

    def _of_broker(self, broker: int, names: Collection[str]) -> Mapping[str, str | None] | TanistError:
        """What only an authorizer knows is in `files`; its values are hidden."""
        if not self._cluster.may("DESCRIBE_CONFIGS", "kafka-cluster"):
            return ClusterAuthorizationFailed("DESCRIBE_CONFIGS on the cluster")
        known = {name: value for name, value in self._cluster.broker_configs.items() if name in names}
        return known | dict.fromkeys(self._cluster.files.get(broker, frozenset()) & set(names))

    def set_for_all_brokers(self, name: str, value: str, by: Deadline) -> TanistError | None:
        try:
            self._permit("ALTER_CONFIGS")
        except TanistError as error:
            return error
        self._cluster.calls.append(f"set {name}")
        self._cluster.broker_configs[name] = value
        return None

    def _permit(self, operation: str) -> None:
        self._cluster.answer()
        if not self._cluster.may(operation, "kafka-cluster"):
            raise ClusterAuthorizationFailed(f"{operation} on the cluster")
