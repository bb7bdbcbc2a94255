"""One table from Kafka's error codes to our classes. librdkafka's own negative codes are mapped in `clusters`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tanist.domain import broker_errors
from tanist.domain.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Mapping


def _leaves(base: type[BrokerError]) -> Mapping[int, type[BrokerError]]:
    """Every class of `broker_errors` by its code: the classes are the table's only source."""
    found = [kind for kind in vars(broker_errors).values() if isinstance(kind, type) and issubclass(kind, base)]
    return MappingProxyType({kind.code: kind for kind in found if kind is not base})


BY_CODE: Final = _leaves(BrokerError)
NONE: Final = 0


def error_for(code: int, context: str) -> BrokerError:
    """The error that `code` stands for; `context` names the thing. An unknown code is told by number."""
    if kind := BY_CODE.get(code):
        return kind(context)
    return BrokerError(f"{context}: error code {code}")
