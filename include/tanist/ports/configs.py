"""Configs of brokers; those of topics are in `ports.topics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.names import BrokerId
    from tanist.ports.clock import Deadline


class Configs(Protocol):
    """The brokers' configs of one cluster."""

    def broker(self, by: Deadline) -> Mapping[str, str]:
        """Every config in effect on one broker, by name.

        Raises:
            ClusterAuthorizationFailed: DESCRIBE_CONFIGS on the cluster is missing.
        """
        ...

    def each_broker(
        self, names: Collection[str], by: Deadline
    ) -> Mapping[BrokerId, Mapping[str, str | None] | TanistError]:
        """By broker that is alive, those of `names` that are set there (None: its value is hidden), or the error.

        A config that has a default is always set; one that only an authorizer knows is set if the broker's file has it.
        """
        ...

    def set_for_all_brokers(self, name: str, value: str, by: Deadline) -> TanistError | None:
        """Set a dynamic config of all brokers (the cluster-wide default); the error, or None: done."""
        ...
