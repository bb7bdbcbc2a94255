"""Configurations of brokers, over `kafka.wire`: the Python client of librdkafka cannot set the cluster-wide default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.kafka.wire.admin import ConfigKind, ConfigResource, ConfigValue, alter_configs, describe_configs
from tanist.kafka.wire.router import share

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.names import BrokerId
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_ALL_BROKERS: Final = ConfigResource(ConfigKind.BROKER, "")
"""Cluster-wide dynamic configs (KIP-226)."""


class KafkaConfigs:
    """The port `Configs` over `tanist.kafka.wire`. Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def broker(self, by: Deadline) -> Mapping[str, str]:
        self._router.refresh([], by)
        one = ConfigResource(ConfigKind.BROKER, str(min(self._router.brokers)))
        return _values(describe_configs(self._router, one, None, by))

    def each_broker(
        self, names: Collection[str], by: Deadline
    ) -> Mapping[BrokerId, Mapping[str, str | None] | TanistError]:
        self._router.refresh([], by)
        brokers = sorted(self._router.brokers)
        return {
            broker: self._of_broker(broker, names, share(by, len(brokers) - index))
            for index, broker in enumerate(brokers)
        }

    def _of_broker(
        self, broker: BrokerId, names: Collection[str], by: Deadline
    ) -> Mapping[str, str | None] | TanistError:
        try:
            found = describe_configs(self._router, ConfigResource(ConfigKind.BROKER, str(broker)), names, by)
        except Stopped:
            raise
        except TanistError as error:
            return error
        return {name: each.value for name, each in found.items()}

    def set_for_all_brokers(self, name: str, value: str, by: Deadline) -> TanistError | None:
        try:
            alter_configs(self._router, _ALL_BROKERS, {name: value}, by)
        except TanistError as error:
            return error
        return None


def _values(found: Mapping[str, ConfigValue]) -> dict[str, str]:
    return {name: each.value for name, each in found.items() if each.value is not None}
