"""Certificates: when each ends is known from the first connection on, and one that has ended is named. S3.17."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tanist.domain.endpoint import Address, Endpoint, Tls
from tanist.domain.errors import AuthenticationFailed
from tanist.kafka.wire.connection import Connection
from tanist.kafka.wire.totals import CLIENT, ConnectionTotals
from tanist.kafka.wire.transport import StopSignal
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox import credentials
from tanist_testkit.sandbox.credentials import make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY_MS = 86_400_000


class Broker:
    """A listener with TLS that wants a certificate, and answers the first request as brokers answer ApiVersions."""

    def __init__(self, home: Path, trusted: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(home / "server.pem")
        context.load_verify_locations(trusted / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._context = context
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> Address:
        return Address(*self._socket.getsockname()[:2])

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._socket.accept()
                with contextlib.suppress(OSError), self._context.wrap_socket(accepted, server_side=True) as client:
                    size: int = struct.unpack(">i", client.recv(4))[0]
                    request = client.recv(size)
                    answer = request[4:8] + struct.pack(">hi", 0, 0)  # correlation id, no error, no versions
                    client.sendall(struct.pack(">i", len(answer)) + answer)
                    client.recv(1)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    make_certificates(tmp_path / "good", ["mirror"])
    return tmp_path / "good"


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A certificate that ends this second."""
    with monkeypatch.context() as patch:
        patch.setattr(credentials, "_VALID", timedelta(0))
        make_certificates(tmp_path / "ended", ["mirror"])
    return tmp_path / "ended"


@contextlib.contextmanager
def listening(home: Path, trusted: Path) -> Iterator[Broker]:
    broker = Broker(home, trusted)
    try:
        yield broker
    finally:
        broker.close()


def connect(broker: Broker, authority: Path, own: Path, totals: ConnectionTotals) -> Connection:
    tls = Tls(
        ca_location=str(authority / "ca.pem"),
        certificate_location=str(own / "mirror.pem"),
        key_location=str(own / "mirror.key"),
    )
    endpoint = Endpoint(name="west", bootstrap=(broker.address,), tls=tls)
    with StopSignal() as stop:
        return Connection.open(broker.address, endpoint, "test", Deadline(time.monotonic() + 10), stop, totals)


def test_the_ends_of_both_certificates_are_known_from_the_first_connection_on(good: Path) -> None:
    totals = ConnectionTotals()
    with listening(good, good) as broker:
        connect(broker, good, good, totals).close()
        address = str(broker.address)
    in_days = {name: (until / 1000 - time.time()) / 86_400 for name, until in totals.certificates.items()}  # noqa: TID251
    assert {name: round(days) for name, days in in_days.items()} == {address: 30, CLIENT: 30}
    assert (totals.connections, totals.failures) == (1, 0)


def test_our_certificate_that_ended_this_second_is_named_where_the_broker_says_less(good: Path, ended: Path) -> None:
    totals = ConnectionTotals()
    with listening(good, ended) as broker, pytest.raises(AuthenticationFailed) as refused:
        connect(broker, good, ended, totals)
    assert f"our certificate {ended / 'mirror.pem'} has ended at 20" in refused.value.reason
    assert (totals.connections, totals.failures) == (0, 1)


def test_a_brokers_certificate_that_has_ended_is_named(good: Path, ended: Path) -> None:
    totals = ConnectionTotals()
    with listening(ended, good) as broker, pytest.raises(AuthenticationFailed, match="certificate has expired"):
        connect(broker, ended, good, totals)
    assert totals.failures == 1
