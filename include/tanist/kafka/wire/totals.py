"""What the connections of one thread to one cluster have exchanged: counters that only grow."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tanist.kafka.protocol.certificates import valid_until

if TYPE_CHECKING:
    from tanist.domain.endpoint import Address, Endpoint

CLIENT: Final = "client"
"""The key of our own certificate among those of the brokers."""


@dataclass(slots=True)
class ConnectionTotals:
    """Counted by the thread that owns the connections; any thread may read it.

    `requests`: all that were sent; `fetches`: those for records. `throttled_ms`: as brokers report it in answers to
    fetches and appends (`throttle_time_ms`). `failures`: connections that could not be opened. `certificates`: until
    when a certificate is valid, ms since 1970, as the last connection has seen it: by address of a broker, or `CLIENT`.
    """

    requests: int = 0
    fetches: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    connections: int = 0
    failures: int = 0
    throttled_ms: int = 0
    certificates: dict[str, int] = field(default_factory=dict)

    def opened(self, address: Address, endpoint: Endpoint, until: float | None) -> None:
        """A connection was opened. `until`: the end of the broker's certificate, seconds since 1970; None: no TLS."""
        self.connections += 1
        if until is not None:
            self.certificates[str(address)] = round(until * 1000)
        if (own := client_certificate_until(endpoint)) is not None:
            self.certificates[CLIENT] = own


def client_certificate_until(endpoint: Endpoint) -> int | None:
    """The end of our own certificate as its file has it now, ms since 1970; None: there is none that can be read."""
    if endpoint.tls is None or endpoint.tls.certificate_location is None:
        return None
    try:
        return valid_until(Path(endpoint.tls.certificate_location).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
