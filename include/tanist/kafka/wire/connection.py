"""One connection to one broker: frames out and in, a login, and the versions that both sides speak."""

from __future__ import annotations

import math
import struct
import time
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import (
    AuthenticationFailed,
    ConnectionLost,
    MalformedFrame,
    Stopped,
    TanistError,
    TimedOut,
    Unreachable,
    UnsupportedVersion,
    WrongListener,
)
from tanist.domain.names import EpochMs, iso_time
from tanist.kafka.protocol.codes import NONE, error_for
from tanist.kafka.protocol.frames import correlation_id
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.login import log_in
from tanist.kafka.wire.messages import ApiVersionsRequest, read_answer
from tanist.kafka.wire.totals import ConnectionTotals, client_certificate_until
from tanist.kafka.wire.transport import Transport, readable_within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

    from tanist.domain.endpoint import Address, Endpoint
    from tanist.kafka.wire.messages import ApiMessage
    from tanist.kafka.wire.transport import StopSignal
    from tanist.ports.clock import Deadline

FRAME_LIMIT: Final = 256 << 20
"""Bytes. A longer frame is not Kafka's protocol."""
_LENGTH: Final = struct.Struct(">i")
_RELOGIN_AT: Final = 0.8  # of the session's lifetime; the Java client takes 0.85 to 0.95
_UNREADABLE: Final = (struct.error, IndexError, ValueError, TypeError, KeyError, OverflowError, MemoryError)


class ReceiveBuffer:
    """Memory that grows to the largest frame and is reused: a new frame overwrites the last one."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self.limit = limit
        self._memory = memoryview(bytearray(64 << 10))

    def take(self, size: int) -> memoryview:
        """The first `size` bytes. Views of a frame before stay readable only if this had to grow."""
        if size > len(self._memory):
            self._memory = memoryview(bytearray(min(self.limit, size + size // 4)))
        return self._memory[:size]


class Connection:
    """Owned by one thread; only `interrupt` may be called from another. Answers come in the order of the requests.

    After any error but a TimedOut that found nothing to read it is closed, and further calls say ConnectionLost.
    """

    def __init__(self, transport: Transport, address: Address, endpoint: Endpoint, client_id: str) -> None:
        self.endpoint = endpoint
        self.client_id = client_id
        self.address = address
        self.peer = f"{address} of cluster {endpoint.name!r}"
        self.in_flight = 0
        self.closed = False
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.totals = ConnectionTotals()
        """Where it is counted what it exchanges."""
        self.transport = transport
        self._proven = False  # it has answered what a listener with a login refuses before the login
        self._last_correlation = 0
        self._login_again_at = math.inf

    @classmethod
    def open(
        cls,
        address: Address,
        endpoint: Endpoint,
        client_id: str,
        by: Deadline,
        stop: StopSignal,
        totals: ConnectionTotals | None = None,
    ) -> Connection:
        """Connect, learn the broker's versions, log in. `stop`, set by any thread, ends this and every later wait.

        `totals`: where it is counted, together with others.

        Raises:
            Unreachable: nothing listens at the address, or the listener disconnects.
            AuthenticationFailed: user, password, mechanism or a certificate is not accepted.
            WrongListener: the listener uses another protocol than the endpoint is configured for.
            TimedOut: the deadline has passed. Stopped: `stop` was set.
        """
        counted = totals or ConnectionTotals()
        try:
            connection = cls(Transport.open(address, endpoint, stop, by), address, endpoint, client_id)
            connection.totals = counted
            connection._begin(by)
        except Stopped:
            raise
        except TanistError as refused:
            counted.failures += 1
            _must_be_valid(endpoint, refused)
            raise
        counted.opened(address, endpoint, connection.transport.certificate_until)
        return connection

    def _begin(self, by: Deadline) -> None:
        try:
            self._learn_versions(by)
            self._log_in(by)
        except BaseException as error:
            self.close()
            if isinstance(error, ConnectionLost):
                raise Unreachable(f"{error.reason} before its first answer; {_hint(self.endpoint)}") from error
            raise

    def _learn_versions(self, by: Deadline) -> None:
        answer = self.call(ApiVersionsRequest(version=0), by)
        if answer.error_code != NONE:
            raise error_for(answer.error_code, f"{self.peer}: ApiVersions")
        self.versions = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}

    def _log_in(self, by: Deadline) -> None:
        if self.endpoint.sasl is None:
            return
        self._login_again_at = math.inf
        lifetime = log_in(self, self.endpoint.sasl, by)
        if lifetime:
            self._login_again_at = time.monotonic() + lifetime / 1000 * _RELOGIN_AT

    @property
    def login_due(self) -> bool:
        """The session ends soon: `send` logs in again, but only with nothing in flight. Collect the answers first."""
        return time.monotonic() >= self._login_again_at

    @property
    def lost(self) -> bool:
        """Whether it is closed: by us, or by the broker while idle (`connections.max.idle.ms`)."""
        return self.closed or (not self.in_flight and self.transport.readable)

    @property
    def readable(self) -> bool:
        """Whether an answer, or the end of the connection, is there already."""
        return self.closed or self.transport.readable

    def version(self, request: type[ApiMessage], lowest: int, highest: int) -> int:
        """The newest version of `request` from `lowest` to `highest` that the broker supports.

        Raises:
            UnsupportedVersion: the broker supports none of them.
        """
        theirs = self.versions.get(request.API_KEY)
        if theirs is None or theirs[0] > highest or theirs[1] < lowest:
            spoken = "not at all" if theirs is None else f"in versions {theirs[0]} to {theirs[1]}"
            wanted = f"{request.__name__} in versions {lowest} to {highest}"
            raise UnsupportedVersion(f"{self.peer}: Tanist needs {wanted}; the broker supports it {spoken}")
        return min(highest, theirs[1])

    def speaks(self, api_key: int, version: int) -> bool:
        """Whether the broker understands `version` of a request that is packed by hand."""
        lowest, highest = self.versions.get(api_key, (0, -1))
        return lowest <= version <= highest

    def next_correlation_id(self) -> int:
        self._last_correlation = (self._last_correlation + 1) & 0x7FFFFFFF
        return self._last_correlation

    def send(self, views: Sequence[bytes | memoryview], by: Deadline) -> None:
        """One whole request, its size first; a login before it if one is due and nothing is in flight."""
        self._must_be_open()
        try:
            if self.in_flight == 0 and self.login_due:
                self._log_in(by)
            self.transport.send(views, by)
        except BaseException:
            self.close()
            raise
        self.in_flight += 1
        self.totals.requests += 1
        self.totals.sent_bytes += sum(map(len, views))

    def receive(self, buffer: ReceiveBuffer, by: Deadline) -> memoryview:
        """The next answer, correlation id first, in `buffer`: valid until the buffer is used again.

        Raises:
            TimedOut: nothing was received; the answer may still be received by another call.
            ConnectionLost, WrongListener, MalformedFrame, Stopped: the connection is closed.
        """
        self._must_be_open()
        prefix = memoryview(bytearray(_LENGTH.size))
        try:
            got = self.transport.receive_some(prefix, by)
        except TimedOut:
            raise
        except BaseException:
            self.close()
            raise
        try:
            self.transport.receive(prefix[got:], by)
            frame = buffer.take(self._size(bytes(prefix), buffer.limit))
            self.transport.receive(frame, by)
        except BaseException:
            self.close()
            raise
        self.in_flight -= 1
        self.totals.received_bytes += len(frame) + _LENGTH.size
        return frame

    def _size(self, prefix: bytes, limit: int) -> int:
        size: int = _LENGTH.unpack(prefix)[0]
        if _LENGTH.size <= size <= limit:
            return size
        if prefix.startswith((b"\x15\x03", b"\x16\x03")):
            raise WrongListener(f"{self.peer}: the listener uses TLS, this connection does not")
        if prefix == b"HTTP":
            raise WrongListener(f"{self.peer}: a web server answers there")
        raise MalformedFrame(f"{self.peer}: an answer of {size} bytes ({prefix!r}); at most {limit} are taken")

    def call(self, request: ApiMessage, by: Deadline) -> Any:
        """Send a message of kafka-python and wait for its answer; nothing else may be in flight.

        Raises:
            MalformedFrame: the answer belongs to another request, or cannot be decoded.
            TimedOut, ConnectionLost, Stopped: as everywhere; the connection is closed, the request may have been done.
        """
        number = self.next_correlation_id()
        request.with_header(correlation_id=number, client_id=self.client_id)
        self.send([bytes(request.encode(header=True, framed=True))], by)
        try:
            answer = self._decode(request, number, self.receive(ReceiveBuffer(), by))
        except ConnectionLost as lost:
            self.close()
            self._explain(lost)
        except BaseException:
            self.close()
            raise
        self._proven = self._proven or bool(self.versions)
        return answer

    def _decode(self, request: ApiMessage, number: int, frame: memoryview) -> ApiMessage:
        if correlation_id(frame) != number:
            raise MalformedFrame(f"{self.peer}: answer {correlation_id(frame)} to request {number}")
        try:
            return read_answer(request, bytes(frame))
        except _UNREADABLE as broken:
            kind = type(request).__name__.replace("Request", "Response")
            raise MalformedFrame(f"{self.peer}: {kind} of {len(frame)} bytes: {broken}") from broken

    def _explain(self, lost: ConnectionLost) -> NoReturn:
        """A listener that disconnects at the first request usually requires SASL."""
        if self._proven or not self.versions:
            raise lost
        raise Unreachable(f"{lost.reason} before its first answer; {_hint(self.endpoint)}") from lost

    def _must_be_open(self) -> None:
        if self.closed:
            raise ConnectionLost(f"{self.peer}: the connection is closed")

    def close(self) -> None:
        self.closed = True
        self.transport.close()


def wait_for_any(connections: Sequence[Connection], seconds: float) -> None:
    """Wait until any of them is readable, at most so long; not at all, if there is none.

    Raises:
        Stopped: the signal of the connections was set.
    """
    if connections and not any(each.closed for each in connections):
        readable_within([each.transport for each in connections], seconds)


def _must_be_valid(endpoint: Endpoint, refused: TanistError) -> None:
    """Raise AuthenticationFailed if our certificate has ended: brokers do not say so, and some hang up."""
    until = client_certificate_until(endpoint)
    if until is not None and until <= SystemClock().now() and isinstance(refused, AuthenticationFailed | Unreachable):
        file = endpoint.tls and endpoint.tls.certificate_location
        raise AuthenticationFailed(
            f"{refused.reason}; our certificate {file} has ended at {iso_time(EpochMs(until))}: renew it"
        ) from refused


def _hint(endpoint: Endpoint) -> str:
    return f"this is typical for a listener that is not {endpoint.security_protocol}"
