"""Free ports on the loopback interface."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack, suppress
from typing import Final

from tanist.domain.errors import PortTaken

HOST: Final = "127.0.0.1"


_RANGE: Final = range(20_000, 32_000)
"""Below what systems use for outgoing connections: a broker that is down for a while gets its port back."""
_TRIES: Final = 1_000


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports that nobody listens on at this moment; somebody else may take one before we do."""
    with ExitStack() as held:
        return tuple(held.enter_context(_any_bound()).getsockname()[1] for _ in range(count))


def _any_bound() -> socket.socket:
    for _ in range(_TRIES):
        with suppress(OSError):
            return _bound(secrets.choice(_RANGE))
    raise PortTaken(f"no free port on {HOST} from {_RANGE.start} to {_RANGE.stop - 1}")


def check_free(port: int) -> None:
    """Raises PortTaken when somebody listens on `port`."""
    try:
        _bound(port).close()
    except OSError as problem:
        raise PortTaken(f"port {port} on {HOST} is taken ({problem.strerror})") from problem


def _bound(port: int) -> socket.socket:
    """A bound socket. Connections in TIME_WAIT do not count as taken, as for a broker."""
    opened = socket.socket()
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
    except BaseException:
        opened.close()
        raise
    return opened
