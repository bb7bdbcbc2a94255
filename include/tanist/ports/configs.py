"""Configurations of brokers; `ports.topics` tells those of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline


class Configs(Protocol):
    def broker(self, by: Deadline) -> Mapping[str, str]:
        """Every config that applies to one of the brokers.

        Raises:
            ClusterAuthorizationFailed: DESCRIBE_CONFIGS on the cluster is missing.
        """
        ...

    def set_for_all_brokers(self, name: str, value: str, by: Deadline) -> TanistError | None:
        """Set a dynamic config of the whole cluster; None: done."""
        ...
