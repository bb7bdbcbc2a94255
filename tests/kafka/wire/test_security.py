"""Logins, certificates and permissions, against a broker with TLS, SASL and an authorizer."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acls import AclBinding
from tanist.domain.broker_errors import ClusterAuthorizationFailed, TopicAuthorizationFailed
from tanist.domain.endpoint import Endpoint, SaslMechanism, Secret, Tls
from tanist.domain.errors import AuthenticationFailed, CouldNotTell, Unreachable, WrongListener
from tanist.domain.names import BrokerId, MirrorPartition
from tanist.kafka.protocol.batch import filler_batch
from tanist.kafka.protocol.frames import FetchLimits, FetchPosition, ProduceBatch
from tanist.kafka.wire import admin
from tanist.kafka.wire.connection import Connection, ReceiveBuffer
from tanist.kafka.wire.hot import Appends, Fetches
from tanist.kafka.wire.requests import End, Markers, init_producer_id, list_offsets, write_markers
from tanist.kafka.wire.router import Router
from tanist.kafka.wire.transport import StopSignal
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.credentials import make_certificates
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.conftest import librdkafka
from tests.kafka.fetcher.rig import until
from tests.leading import leads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian


SESSION_MS = 3_000
TOPIC, USER, ANYONE = 2, "User:app", "*"
LITERAL, ALLOW, WRITE, CREATE = 3, 3, 4, 5


def soon(seconds: float = 20) -> Deadline:
    return Deadline(time.monotonic() + seconds)


@pytest.fixture(scope="module")
def secured(guardian: Guardian) -> Iterator[SandboxCluster]:
    """TLS and SASL; a session ends after `SESSION_MS` unless the client logs in again."""
    spec = ClusterSpec(
        name="secured", authorizer=True, tls=True, properties={"connections.max.reauth.ms": str(SESSION_MS)}
    )
    cluster = SandboxCluster.new(spec, guardian=guardian)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def stop() -> Iterator[StopSignal]:
    with StopSignal() as signal:
        yield signal


def opened(endpoint: Endpoint, stop: StopSignal) -> Connection:
    return Connection.open(endpoint.bootstrap[0], endpoint, "test", soon(), stop)


@pytest.mark.parametrize("mechanism", [SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512])
def test_the_right_password(secured: SandboxCluster, mechanism: SaslMechanism) -> None:
    with Router(secured.endpoint_for("mirror", mechanism), "test") as router:
        router.refresh(None, soon())
        assert router.cluster_id == secured.cluster_id


@pytest.mark.parametrize("mechanism", list(SaslMechanism))
def test_the_wrong_password_is_refused_by_name(
    secured: SandboxCluster, mechanism: SaslMechanism, stop: StopSignal
) -> None:
    """Or the mechanism is, where the listener does not offer it."""
    endpoint = secured.endpoint_for("mirror", mechanism)
    assert endpoint.sasl is not None
    wrong = replace(endpoint, sasl=replace(endpoint.sasl, password=Secret("wr0ng")))
    with pytest.raises(AuthenticationFailed) as refused:
        opened(wrong, stop)
    assert "secured" in refused.value.reason
    assert "mirror" in refused.value.reason or "not offered" in refused.value.reason
    assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize("name", ["nobody", "a=b,c"])
def test_an_unknown_user(secured: SandboxCluster, name: str, stop: StopSignal) -> None:
    """A name that SCRAM must escape is a user like any other, not a broken message."""
    endpoint = secured.endpoint_for("mirror")
    assert endpoint.sasl is not None
    with pytest.raises(AuthenticationFailed, match=name):
        opened(replace(endpoint, sasl=replace(endpoint.sasl, username=name)), stop)


def test_a_certificate_of_another_authority(secured: SandboxCluster, stop: StopSignal, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    wrong = replace(secured.endpoint(), tls=Tls(ca_location=str(tmp_path / "ca.pem")))
    with pytest.raises(AuthenticationFailed, match="certificate is not accepted"):
        opened(wrong, stop)


def test_a_client_without_tls(secured: SandboxCluster, stop: StopSignal) -> None:
    for endpoint in (replace(secured.endpoint(), tls=None), replace(secured.endpoint(), tls=None, sasl=None)):
        with pytest.raises((WrongListener, Unreachable), match=r"TLS|PLAINTEXT"):
            opened(endpoint, stop)


def test_a_client_without_a_login(secured: SandboxCluster) -> None:
    with (
        Router(replace(secured.endpoint(), sasl=None), "test") as router,
        pytest.raises(CouldNotTell, match="a listener that is not SSL"),
    ):
        router.refresh(None, soon())


def test_a_session_is_prolonged_before_it_ends_with_appends_in_flight(secured: SandboxCluster) -> None:
    """Twice, well beyond its lifetime; without a new login the broker hangs up. Large batches go through TLS whole."""
    with Router(secured.endpoint(), "test") as router:
        at = topic(router, secured, "sessions")
        producer_id = init_producer_id(router, soon())
        writing = Appends(router.connection(BrokerId(1), soon(), "append"))
        reading = Fetches(router.connection(BrokerId(1), soon(), "fetch"))
        buffer, sequence, end = ReceiveBuffer(), 0, time.monotonic() + 1.9 * SESSION_MS / 1000
        while time.monotonic() < end:
            batch = memoryview(filler_batch(50_000, producer_id, 0, sequence, time.time_ns() // 1_000_000))
            writing.post([ProduceBatch(at.topic, at.partition, batch)], soon())
            if writing.in_flight == 3:
                assert [each.base_offset for each in writing.collect(soon()).partitions] == [sequence - 100_000]
            reading.post([FetchPosition(at.topic, 0, 0, 1 << 20)], FetchLimits(max_wait_ms=10), soon())
            assert reading.receive(buffer, soon()).partitions[0].error_code == 0
            sequence += 50_000
        while writing.in_flight:
            assert [each.error_code for each in writing.collect(soon()).partitions] == [0]
        assert list_offsets(router, {at: End.HIGH_WATERMARK}, soon()) == {at: sequence}


def topic(router: Router, cluster: SandboxCluster, name: str) -> MirrorPartition:
    """A new one, whose leader knows that it leads."""
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    client = AdminClient(librdkafka(cluster.endpoint()))  # must outlive its futures
    client.create_topics([NewTopic(name, 1, 1)])[name].result(20)
    until(lambda: leads(router, name, 1, soon()), 20)
    return MirrorPartition(name, 0)


def test_what_is_not_permitted_is_named_and_can_be_granted_and_taken_away(secured: SandboxCluster) -> None:
    with Router(secured.endpoint(), "test") as boss, Router(secured.endpoint_for("app"), "test") as app:
        at = topic(boss, secured, "orders")
        assert isinstance(list_offsets(app, {at: End.EARLIEST}, soon())[at], TopicAuthorizationFailed)
        with pytest.raises(ClusterAuthorizationFailed):
            init_producer_id(app, soon())
        boss.refresh([at.topic], soon())
        rule = AclBinding(TOPIC, at.topic, LITERAL, USER, ANYONE, WRITE, ALLOW)
        assert admin.create_acls(boss, [rule], soon()) == [None]
        until(lambda: admin.describe_acls(boss, admin.AccessFilter(principal=USER), soon()) == (rule,), 20)
        with pytest.raises(ClusterAuthorizationFailed):
            admin.describe_acls(app, admin.AccessFilter(), soon())
        assert init_producer_id(app, soon()) >= 0
        app.refresh([at.topic], soon())
        until(lambda: list_offsets(app, {at: End.EARLIEST}, soon()) == {at: 0}, 20)
        refused = write_markers(app, {at: Markers(1, 0, [0])}, soon())[at]
        assert isinstance(refused, ClusterAuthorizationFailed)
        assert admin.delete_acls(boss, [admin.AccessFilter(principal=USER)], soon()) == [(rule,)]
        until(lambda: admin.describe_acls(boss, admin.AccessFilter(principal=USER), soon()) == (), 20)
