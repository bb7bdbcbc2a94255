"""The bound: a process that passes the bytes of a topic from socket to socket, and looks at none of them."""

from __future__ import annotations

import socket
import sys
from threading import Thread
from typing import TYPE_CHECKING, Final

from bench.load import PARTITIONS, source_log
from bench.sampling import cpu_seconds
from tanist.domain.errors import ProcessFailed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.load import Load
    from bench.pair import Pair

_HOST: Final = "127.0.0.1"
_BUFFER: Final = 1 << 20
_SECONDS: Final = 120.0
_LEAST_BYTES: Final = 1 << 30
"""Passed on at least: a process counts its CPU in hundredths of a second."""


def mb_per_cpu_s(pair: Pair, load: Load) -> float:
    """MB of values, 10^6 bytes each, that one CPU-second of a relay is enough for.

    Raises:
        ProcessFailed: it ended early.
    """
    logs = [log for n in range(PARTITIONS) for log in sorted(source_log(pair, load.topic, n).glob("*.log"))]
    size = sum(log.stat().st_size for log in logs)
    times = -(-_LEAST_BYTES // size)
    with socket.create_server((_HOST, 0)) as here:
        here.settimeout(_SECONDS)
        port = str(here.getsockname()[1])
        process = pair.guardian.spawn([sys.executable, "-m", "bench.relay", port], pair.home / "relay.log")
        try:
            source, _ = here.accept()
            sink, _ = here.accept()
            with source, sink:
                sink.settimeout(_SECONDS)
                begun = cpu_seconds(process.pid)
                sender = Thread(target=_send, args=(source, logs * times), daemon=True)
                sender.start()
                if (got := _drain(sink, size * times)) != size * times:
                    raise ProcessFailed(f"the relay has passed on {got} of {size * times} bytes")
                used = cpu_seconds(process.pid) - begun
        finally:
            pair.end(process)
    return times * load.megabytes / used


def _send(to: socket.socket, logs: Iterable[Path]) -> None:
    for log in logs:
        with log.open("rb") as file:
            to.sendfile(file)


def _drain(sink: socket.socket, size: int) -> int:
    """The bytes that came, `size` at most."""
    buffer, got = bytearray(_BUFFER), 0
    while got < size and (more := sink.recv_into(buffer)):
        got += more
    return got


def main(port: int) -> None:
    """Pass on what comes on the first connection to the second."""
    buffer = memoryview(bytearray(_BUFFER))
    with socket.create_connection((_HOST, port)) as source, socket.create_connection((_HOST, port)) as sink:
        while more := source.recv_into(buffer):
            sink.sendall(buffer[:more])


if __name__ == "__main__":
    main(int(sys.argv[1]))
