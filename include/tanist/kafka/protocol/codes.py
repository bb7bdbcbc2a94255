"""The error for a code that a broker answered. librdkafka's own codes: see `kafka.adapters.librdkafka`."""

from __future__ import annotations

from typing import Final

from tanist.domain.broker_errors import BY_CODE
from tanist.domain.errors import BrokerError

NONE: Final = 0


def error_for(code: int, context: str) -> BrokerError:
    """The error of `code`; `context` names the resource. A code that is not in the table is reported by its number."""
    if kind := BY_CODE.get(code):
        return kind(context)
    return BrokerError(f"{context}: error code {code}")
