"""Bytes to and from one address, over TCP or TLS: blocking in style, bounded by a Deadline, stoppable."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import socket
import ssl
import time
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeAlias, TypeVar

from tanist.domain.errors import (
    AuthenticationFailed,
    ConnectionLost,
    Misconfigured,
    Stopped,
    TanistError,
    TimedOut,
    Unreachable,
    WrongListener,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from tanist.domain.endpoint import Address, Endpoint, Tls
    from tanist.ports.clock import Deadline


class StopSignal:
    """Once set it stays set; every wait on a connection that shares it then raises Stopped, also while connecting.

    The wait polls a socket pair of the signal beside its own socket: nobody closes a socket under another thread.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)  # noqa: FBT003
        self._set = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def set(self) -> None:
        """From any thread, any number of times."""
        self._set = True
        with contextlib.suppress(OSError):  # full: it was set before; closed: nobody waits any more
            self._writer.send(b"!")

    @property
    def is_set(self) -> bool:
        return self._set

    def check(self) -> None:
        """Raise Stopped once the signal is set."""
        if self._set:
            raise Stopped("this process is stopping")

    def fileno(self) -> int:
        return self._reader.fileno()

    def wait(self, seconds: float) -> None:
        """Wait, unless the signal ends it with Stopped."""
        self.check()
        poller = select.poll()
        poller.register(self._reader, select.POLLIN)
        poller.poll(math.ceil(seconds * 1000))
        self.check()

    def close(self) -> None:
        """By its owner, after the last connection that shares it."""
        self._reader.close()
        self._writer.close()


_Resolved: TypeAlias = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]
_T = TypeVar("_T")
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
_SOCKET_BUFFER: Final = 4 << 20
_VIEWS_AT_ONCE: Final = 512  # below IOV_MAX, which is 1024 on Linux and macOS
_WORTH_A_CALL: Final = 16 << 10  # smaller views are joined before they are encrypted: one TLS record holds 16 KiB


class Transport:
    """One socket. Every error names the peer; after any but a TimedOut with nothing moved it can only be closed."""

    def __init__(self, sock: socket.socket, peer: str, stop: StopSignal) -> None:
        self._socket = sock
        self._peer = peer
        self._stop = stop
        self._poller = select.poll()
        self._poller.register(stop.fileno(), select.POLLIN)

    @classmethod
    def open(cls, address: Address, endpoint: Endpoint, stop: StopSignal, by: Deadline) -> Transport:
        """Connect, and shake hands if the endpoint has TLS.

        Raises:
            Unreachable: nothing listens there, the name is unknown, or the listener hangs up on us.
            AuthenticationFailed: a certificate was not accepted, on either side.
            WrongListener: what answers does not speak TLS.
            TimedOut, Stopped: while connecting.
        """
        peer = f"{address} of cluster {endpoint.name!r}"
        context = None if endpoint.tls is None else _tls_context(endpoint.tls, endpoint.name)
        reasons: list[str] = []
        for family, kind, protocol, _, target in _resolve(address, peer):
            transport = cls(socket.socket(family, kind, protocol), peer, stop)
            try:
                transport._connect(target, by)
                if context is not None:
                    transport._secure(context, address.host, by)
            except OSError as refused:
                transport.close()
                reasons.append(refused.strerror or str(refused))
            except BaseException:
                transport.close()
                raise
            else:
                return transport
        raise Unreachable(f"{peer}: {', '.join(dict.fromkeys(reasons))}")

    def _connect(self, target: object, by: Deadline) -> None:
        sock = self._socket
        sock.setblocking(False)  # noqa: FBT003
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(target)  # type: ignore[arg-type]  # as getaddrinfo gave it
        if code == errno.EINPROGRESS:
            self._wait(select.POLLOUT, by, "connecting")
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))

    def _secure(self, context: ssl.SSLContext, host: str, by: Deadline) -> None:
        secured = context.wrap_socket(
            self._socket, server_hostname=host, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
        self._socket = secured
        try:
            self._eventually(secured.do_handshake, select.POLLIN, by, "the TLS handshake")
        except ConnectionLost as lost:
            hint = "this is typical for a listener without TLS"
            raise Unreachable(f"{lost.reason} during the TLS handshake; {hint}") from lost

    @property
    def is_tls(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket)

    @property
    def certificate_until(self) -> float | None:
        """The end of the validity of the peer's certificate, seconds since 1970; None: it has shown none."""
        shown = self._socket.getpeercert() if isinstance(self._socket, ssl.SSLSocket) else None
        until = shown.get("notAfter") if shown else None
        return ssl.cert_time_to_seconds(until) if isinstance(until, str) else None

    def send(self, views: Sequence[bytes | memoryview], by: Deadline) -> None:
        """All of `views`, one after another."""
        self._stop.check()
        if self.is_tls:
            self._send_secured(views, by)
        else:
            self._send_plain(list(views), by)

    def _send_plain(self, views: list[bytes | memoryview], by: Deadline) -> None:
        first = 0
        while first < len(views):
            some = views[first : first + _VIEWS_AT_ONCE]
            sent = self._eventually(partial(self._socket.sendmsg, some), select.POLLOUT, by, "sending")
            while first < len(views) and sent >= len(views[first]):
                sent -= len(views[first])
                first += 1
            if sent:
                views[first] = memoryview(views[first])[sent:]

    def _send_secured(self, views: Sequence[bytes | memoryview], by: Deadline) -> None:
        pending = bytearray()
        for view in views:
            if len(view) < _WORTH_A_CALL:
                pending += view
                continue
            self._send_whole(bytes(pending), by)
            pending.clear()
            self._send_whole(view, by)
        self._send_whole(bytes(pending), by)

    def _send_whole(self, view: bytes | memoryview, by: Deadline) -> None:
        rest = memoryview(view)
        while rest:
            rest = rest[self._eventually(partial(self._socket.send, rest), select.POLLOUT, by, "sending") :]

    def receive_some(self, view: memoryview, by: Deadline) -> int:
        """At least one byte into `view`; how many."""
        self._stop.check()
        count = self._eventually(partial(self._socket.recv_into, view), select.POLLIN, by, "waiting for an answer")
        if not count:
            raise ConnectionLost(f"{self._peer}: closed by the other side")
        return count

    def receive(self, view: memoryview, by: Deadline) -> None:
        """Fill `view`."""
        while view:
            view = view[self.receive_some(view, by) :]

    @property
    def readable(self) -> bool:
        """Whether something can be received now, be it only the news that the other side has closed."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        look = select.poll()
        look.register(self._socket, select.POLLIN)
        return bool(look.poll(0))

    def _eventually(self, operation: Callable[[], _T], events: int, by: Deadline, doing: str) -> _T:
        """The result of `operation`, tried at once and again whenever the socket is ready for it."""
        while True:
            try:
                return operation()
            except BlockingIOError:
                wanted = events
            except ssl.SSLWantReadError:
                wanted = select.POLLIN
            except ssl.SSLWantWriteError:
                wanted = select.POLLOUT
            except ssl.SSLError as refused:
                raise self._told_by_tls(refused) from refused
            except OSError as lost:
                raise ConnectionLost(f"{self._peer}: {lost.strerror or lost}") from lost
            self._wait(wanted, by, doing)

    def _told_by_tls(self, error: ssl.SSLError) -> TanistError:
        reason = error.reason or str(error)
        match error:
            case ssl.SSLCertVerificationError():
                return AuthenticationFailed(
                    f"{self._peer}: the broker's certificate is not accepted: {error.verify_message}"
                )
            case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
                return ConnectionLost(f"{self._peer}: closed by the other side")
            case _ if "ALERT" in reason:
                return AuthenticationFailed(f"{self._peer}: the broker refused the TLS handshake: {reason}")
            case _ if reason in _NOT_TLS:
                return WrongListener(f"{self._peer}: the listener does not speak TLS ({reason})")
            case _:
                return ConnectionLost(f"{self._peer}: {reason}")

    def _wait(self, events: int, by: Deadline, doing: str) -> None:
        self._poller.register(self._socket, events)
        ready = self._poller.poll(math.ceil(by.left(time.monotonic()) * 1000))
        self._stop.check()
        if not ready:
            raise TimedOut(f"{self._peer}: timed out {doing}")

    def listen(self, poller: select.poll) -> None:
        """Have `poller` wake when this is readable, or the stop signal is set."""
        poller.register(self._socket, select.POLLIN)
        poller.register(self._stop.fileno(), select.POLLIN)

    def check(self) -> None:
        """Raise Stopped once the stop signal is set."""
        self._stop.check()

    def close(self) -> None:
        self._socket.close()


def readable_within(transports: Sequence[Transport], seconds: float) -> None:
    """Wait until any of them, of one stop signal, is readable, at most so long.

    Raises:
        Stopped: the signal was set.
    """
    if any(each.readable for each in transports):
        return
    poller = select.poll()
    for each in transports:
        each.listen(poller)
    poller.poll(math.ceil(seconds * 1000))
    transports[0].check()


def _resolve(address: Address, peer: str) -> Sequence[_Resolved]:
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except socket.gaierror as unknown:
        raise Unreachable(f"{peer}: the host name does not resolve: {unknown.strerror}") from unknown


def _tls_context(tls: Tls, cluster: str) -> ssl.SSLContext:
    """Read anew for every connection, so that renewed certificates are taken up."""
    try:
        context = ssl.create_default_context(cafile=tls.ca_location)
        context.check_hostname = tls.verify_hostname
        if tls.certificate_location is not None:
            password = None if tls.key_password is None else tls.key_password.reveal()
            context.load_cert_chain(tls.certificate_location, tls.key_location, password)
    except OSError as broken:
        files = f"{tls.ca_location}, {tls.certificate_location}, {tls.key_location}"
        raise Misconfigured(f"cluster {cluster!r}: certificates ({files}) cannot be read: {broken}") from broken
    return context
