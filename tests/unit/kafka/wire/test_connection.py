"""What a connection says when the other side is absent, slow, silent, a liar, or something else altogether."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tanist.domain.endpoint import Address, Endpoint, Sasl, SaslMechanism, Secret, Tls
from tanist.domain.errors import (
    ConnectionLost,
    MalformedFrame,
    Misconfigured,
    Stopped,
    TanistError,
    TimedOut,
    Unreachable,
    UnsupportedVersion,
    WrongListener,
)
from tanist.kafka.wire.connection import Connection, ReceiveBuffer
from tanist.kafka.wire.messages import MetadataRequest
from tanist.kafka.wire.router import Router
from tanist.kafka.wire.transport import StopSignal
from tanist.ports.clock import Deadline
from tests.unit.kafka.wire.liars import frame, server, take_request, versions_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ALL = {3: (0, 12), 18: (0, 3)}


def within(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)


@pytest.fixture
def stop() -> Iterator[StopSignal]:
    with StopSignal() as signal:
        yield signal


def opened(endpoint: Endpoint, stop: StopSignal, seconds: float = 5) -> Connection:
    return Connection.open(endpoint.bootstrap[0], endpoint, "test", within(seconds), stop)


def metadata() -> MetadataRequest:
    return MetadataRequest(
        topics=[],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        version=8,
    )


def honest_until_asked(then: Callable[[socket.socket, bytes], object]) -> Callable[[socket.socket], None]:
    """Answers ApiVersions, and leaves the next request to `then`."""

    def behave(peer: socket.socket) -> None:
        peer.sendall(versions_answer(take_request(peer), ALL))
        if request := take_request(peer):
            then(peer, request)

    return behave


def test_nobody_listens(stop: StopSignal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    endpoint = Endpoint(name="east", bootstrap=(Address("127.0.0.1", port),))
    with pytest.raises(Unreachable, match=rf"127.0.0.1:{port} of cluster 'east': Connection refused"):
        opened(endpoint, stop)


def test_a_name_that_does_not_resolve(stop: StopSignal) -> None:
    endpoint = Endpoint(name="east", bootstrap=(Address("no-such-host.invalid", 9092),))
    with pytest.raises(
        Unreachable, match=r"no-such-host.invalid:9092 of cluster 'east': the host name does not resolve"
    ):
        opened(endpoint, stop)


def test_a_listener_that_never_answers_costs_the_deadline_and_no_more(stop: StopSignal) -> None:
    with server(lambda peer: peer.recv(1 << 20) and peer.recv(1)) as silent:
        began = time.monotonic()
        with pytest.raises(TimedOut, match=r"liar.*waiting for an answer"):
            opened(silent, stop, 0.3)
        assert 0.29 < time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", WrongListener, "web server"),
        (b"\x15\x03\x03\x00\x02\x02\x28", WrongListener, "uses TLS"),
        (b"\xff\xff\xff\xff", MalformedFrame, "-1 bytes"),
        (b"\0\0\0\x03abc", MalformedFrame, "3 bytes"),
        (b"\x7f\xff\xff\xff", MalformedFrame, "2147483647 bytes"),
        (frame(b"\0\0\0\x63" + bytes(6)), MalformedFrame, "answer 99 to request 1"),
        (frame(b"\0\0\0\x01" + bytes(2) + b"\0\0\0\x05\0\x12"), MalformedFrame, "ApiVersionsResponse"),
        (b"\0\0\0\x0aab", Unreachable, "before its first answer"),
        (b"", Unreachable, "not PLAINTEXT"),
    ],
)
def test_an_answer_that_is_none_is_named(said: bytes, error: type[TanistError], words: str, stop: StopSignal) -> None:
    def behave(peer: socket.socket) -> None:
        take_request(peer)
        peer.sendall(said)

    with server(behave) as liar, pytest.raises(error, match=words):
        opened(liar, stop)


def test_a_listener_that_hangs_up_on_the_first_real_request_may_want_a_login(stop: StopSignal) -> None:
    with server(honest_until_asked(lambda *_: None)) as secured:
        connection = opened(secured, stop)
        with pytest.raises(Unreachable, match="a listener that is not PLAINTEXT"):
            connection.call(metadata(), within(5))
        with pytest.raises(ConnectionLost, match="is closed"):
            connection.call(metadata(), within(5))


def test_tls_towards_a_listener_without_it(stop: StopSignal) -> None:
    for behave in (lambda peer: peer.sendall(b"HTTP/1.1 400 no\r\n\r\n"), lambda peer: peer.recv(9)):
        with server(behave) as plain:
            secured = Endpoint(name="liar", bootstrap=plain.bootstrap, tls=Tls())
            with pytest.raises((WrongListener, Unreachable), match="TLS"):
                opened(secured, stop)


def test_certificates_that_cannot_be_read_are_a_mistake_in_the_configuration(stop: StopSignal, tmp_path: Path) -> None:
    with server(lambda _: None) as plain:
        secured = Endpoint(name="liar", bootstrap=plain.bootstrap, tls=Tls(ca_location=str(tmp_path / "none.pem")))
        with pytest.raises(Misconfigured, match=r"none.pem"):
            opened(secured, stop)


def test_a_broker_that_is_too_old_is_named_before_anything_is_sent(stop: StopSignal) -> None:
    with server(lambda peer: peer.sendall(versions_answer(take_request(peer), {3: (0, 7)}))) as old:
        connection = opened(old, stop)
        with pytest.raises(UnsupportedVersion, match=r"MetadataRequest in versions 8 to 12; .* 0 to 7"):
            connection.version(MetadataRequest, 8, 12)
        connection.close()


@pytest.mark.parametrize("piece", [1, 3, 4096])
def test_frames_arrive_whole_however_they_are_cut(piece: int, stop: StopSignal) -> None:
    body = b"\0\0\0\x07" + bytes(range(256)) * 40

    def dribble(peer: socket.socket, _: bytes) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = frame(body)
        for at in range(0, min(len(whole), 300 * piece), piece):
            peer.sendall(whole[at : at + piece])
        peer.sendall(whole[min(len(whole), 300 * piece) :])

    with server(honest_until_asked(dribble)) as slow:
        connection = opened(slow, stop)
        connection.send([frame(b"ask")], within(5))
        assert bytes(connection.receive(ReceiveBuffer(), within(5))) == body
        assert connection.in_flight == 0
        connection.close()


def test_many_views_larger_than_the_socket_arrive_in_order(stop: StopSignal) -> None:
    """More views than one sendmsg takes, more bytes than the kernel buffers, a reader that starts late."""
    views = [bytes([n % 251]) * (n % 7 + (1 << 20 if n % 500 == 0 else 0)) for n in range(3_000)]
    received: list[bytes] = []

    def sink(peer: socket.socket) -> None:
        peer.sendall(versions_answer(take_request(peer), ALL))
        received.append(take_request(peer))

    with server(sink) as reader:
        connection = opened(reader, stop)
        connection.send([sum(map(len, views)).to_bytes(4), *views], within(10))
        with pytest.raises(ConnectionLost):
            connection.receive(ReceiveBuffer(), within(5))
    assert received == [b"".join(views)]


def test_a_reader_that_does_not_read_costs_the_deadline(stop: StopSignal) -> None:
    release = threading.Event()

    def deaf(peer: socket.socket) -> None:
        peer.sendall(versions_answer(take_request(peer), ALL))
        release.wait(5)

    with server(deaf) as reader:
        connection = opened(reader, stop)
        with pytest.raises(TimedOut, match="timed out sending"):
            connection.send([(1 << 27).to_bytes(4), bytes(1 << 27)], within(0.3))
        assert connection.closed
        release.set()


def test_a_wait_in_vain_leaves_the_answer_to_the_next_wait(stop: StopSignal) -> None:
    go = threading.Event()

    def later(peer: socket.socket, _: bytes) -> None:
        go.wait(5)
        peer.sendall(frame(b"\0\0\0\x07late"))

    with server(honest_until_asked(later)) as slow:
        connection = opened(slow, stop)
        connection.send([frame(b"ask")], within(5))
        with pytest.raises(TimedOut):
            connection.receive(ReceiveBuffer(), within(0.05))
        assert (connection.in_flight, connection.closed) == (1, False)
        go.set()
        assert bytes(connection.receive(ReceiveBuffer(), within(5)))[4:] == b"late"
        connection.close()


def test_a_frame_that_stops_in_the_middle_closes_the_connection(stop: StopSignal) -> None:
    def half(peer: socket.socket, _: bytes) -> None:
        peer.sendall(frame(bytes(100))[:50])
        peer.recv(1)

    with server(honest_until_asked(half)) as liar:
        connection = opened(liar, stop)
        connection.send([frame(b"ask")], within(5))
        with pytest.raises(TimedOut):
            connection.receive(ReceiveBuffer(), within(0.1))
        assert connection.closed


@pytest.mark.parametrize("frozen", ["connecting", "answering"])
def test_an_interrupt_from_another_thread_ends_any_wait(frozen: str) -> None:
    release = threading.Event()

    def hold(*_: object) -> None:
        release.wait(5)

    behave: Callable[[socket.socket], None] = hold if frozen == "connecting" else honest_until_asked(hold)
    with server(behave) as silent, Router(silent, "test") as router:
        timer = threading.Timer(0.2, router.interrupt)
        timer.start()
        began = time.monotonic()
        with pytest.raises(Stopped):
            router.refresh(None, within(30))
        assert time.monotonic() - began < 15
        with pytest.raises(Stopped):
            router.refresh(None, within(30))
        release.set()
        timer.join()


def test_a_dead_bootstrap_address_does_not_hide_a_living_one(stop: StopSignal) -> None:
    with server(honest_until_asked(lambda *_: None)) as alive:
        endpoint = Endpoint(name="liar", bootstrap=(Address("no-such-host.invalid", 1), *alive.bootstrap))
        with Router(endpoint, "test") as router:
            assert router.any_connection(within(5)).versions == ALL


def test_a_buffer_grows_once_and_is_used_again() -> None:
    buffer = ReceiveBuffer(limit=1 << 20)
    first = buffer.take(1 << 19)
    assert len(first) == 1 << 19
    assert buffer.take(10).obj is first.obj
    assert len(buffer.take(1 << 20)) == 1 << 20


def test_a_login_where_there_is_none(stop: StopSignal) -> None:
    def refuse(peer: socket.socket, request: bytes) -> None:
        peer.sendall(frame(request[4:8] + (34).to_bytes(2) + bytes(4)))

    with server(honest_until_asked(refuse)) as plain:
        login = Sasl(mechanism=SaslMechanism.PLAIN, username="u", password=Secret("p"))
        with pytest.raises(WrongListener, match="does not use SASL"):
            opened(Endpoint(name="liar", bootstrap=plain.bootstrap, sasl=login), stop)
