"""Free ports on the loopback interface."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from typing import Final

from tanist.domain.errors import PortTaken

HOST: Final = "127.0.0.1"


_RANGE: Final = range(20_000, 32_000)
"""Below what systems use for outgoing connections: a broker that is down for a while gets its port back."""


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports that nobody listens on at this moment; somebody else may take one before we do.

    Raises:
        PortTaken: there are not as many.
    """
    found: list[int] = []
    for port in secrets.SystemRandom().sample(_RANGE, len(_RANGE)):
        if len(found) == count:
            break
        with suppress(PortTaken):
            check_free(port)
            found.append(port)
    if len(found) < count:
        raise PortTaken(f"no free port on {HOST} from {_RANGE.start} to {_RANGE.stop - 1}")
    return tuple(found)


def check_free(port: int) -> None:
    """Raises PortTaken when somebody listens on `port`."""
    try:
        _bound(port).close()
    except OSError as problem:
        raise PortTaken(f"port {port} on {HOST} is taken ({problem.strerror})") from problem


def _bound(port: int) -> socket.socket:
    """A bound socket. Connections in TIME_WAIT do not count as taken, as for a broker.

    Nor does another one of these: until one listens, Linux binds several with SO_REUSEADDR to one port.
    """
    opened = socket.socket()
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((HOST, port))
    except BaseException:
        opened.close()
        raise
    return opened
