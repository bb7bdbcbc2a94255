"""A server that says whatever a test wants it to say."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

from tanist.domain.endpoint import Address, Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def server(behave: Callable[[socket.socket], object]) -> Iterator[Endpoint]:
    """`behave` gets each accepted connection, one after another, on a thread; then it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, behave), daemon=True)
        thread.start()
        yield Endpoint(name="liar", bootstrap=(Address("127.0.0.1", listener.getsockname()[1]),))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _serve(listener: socket.socket, behave: Callable[[socket.socket], object]) -> None:
    with contextlib.suppress(OSError):
        while True:
            accepted, _ = listener.accept()
            with accepted, contextlib.suppress(OSError):
                behave(accepted)


def take_request(peer: socket.socket) -> bytes:
    """One request without its size; empty when the client is gone."""
    with peer.makefile("rb") as stream:
        size = int.from_bytes(stream.read(4))
        return stream.read(size)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def versions_answer(request: bytes, keys: dict[int, tuple[int, int]]) -> bytes:
    """ApiVersions v0."""
    entries = b"".join(key.to_bytes(2) + low.to_bytes(2) + high.to_bytes(2) for key, (low, high) in keys.items())
    return frame(request[4:8] + bytes(2) + len(keys).to_bytes(4) + entries)
