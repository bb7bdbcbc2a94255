"""Configurations as they apply, defaults included; `ports.topics` tells what was set on a topic itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline


class Configs(Protocol):
    def effective(self, topics: Sequence[str], by: Deadline) -> Mapping[str, Mapping[str, str] | TanistError]:
        """Every config that applies to each topic, whoever set it; the names are all that this cluster knows."""
        ...

    def broker(self, by: Deadline) -> Mapping[str, str]:
        """Every config that applies to one of the brokers.

        Raises:
            ClusterAuthorizationFailed: DESCRIBE_CONFIGS on the cluster is missing.
        """
        ...

    def set_for_all_brokers(self, name: str, value: str, by: Deadline) -> TanistError | None:
        """Set a dynamic config of the whole cluster; None: done."""
        ...

    def close(self) -> None: ...
