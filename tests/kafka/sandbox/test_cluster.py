"""Real brokers: they answer, they keep what they were given, they refuse whom they do not know."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tanist.domain.endpoint import SaslMechanism
from tanist.domain.errors import Misconfigured, PortTaken
from tanist_testkit.sandbox import ports, state
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig, ClusterFactory

TIMEOUT = 15.0


@pytest.fixture(scope="module")
def secured(guardian: Guardian) -> Iterator[SandboxCluster]:
    cluster = SandboxCluster.new(ClusterSpec(name="vault", authorizer=True, tls=True), guardian=guardian)
    with cluster:
        yield cluster


def test_two_clusters_answer_and_differ(clusters: Mapping[str, SandboxCluster], client_config: ClientConfig) -> None:
    seen: dict[str, str | None] = {}
    for name, cluster in clusters.items():
        seen[name] = AdminClient(client_config(cluster.endpoint())).list_topics(timeout=TIMEOUT).cluster_id
        assert seen[name] == cluster.cluster_id
        assert [broker.alive for broker in cluster.brokers] == [True]
    assert seen["east"] != seen["west"]


@pytest.mark.long  # the faults of the fetcher kill brokers of three, and start them again, in every `make test`
def test_a_broker_of_three_is_killed_and_comes_back_with_its_data(
    cluster_factory: ClusterFactory, client_config: ClientConfig, topic_name: str
) -> None:
    cluster = cluster_factory("trio")
    config = client_config(cluster.endpoint())
    admin = AdminClient(config)
    admin.create_topics([NewTopic(topic_name, 3, 3)])[topic_name].result(TIMEOUT)
    _produce(config, topic_name, [b"before"])
    cluster.kill(2)
    assert [broker.alive for broker in cluster.brokers] == [True, False, True]
    _produce(config, topic_name, [b"while one was down"])
    cluster.start_broker(2)
    assert all(broker.alive for broker in cluster.brokers)
    assert len(admin.list_topics(timeout=TIMEOUT).brokers) == 3
    assert _consume(config, topic_name, 2) == {b"before", b"while one was down"}


@pytest.mark.parametrize("mechanism", list(SaslMechanism))
def test_every_mechanism_logs_in(
    secured: SandboxCluster, client_config: ClientConfig, mechanism: SaslMechanism
) -> None:
    config = client_config(secured.endpoint_for("app", mechanism))
    assert AdminClient(config).list_topics(timeout=TIMEOUT).cluster_id == secured.cluster_id


def test_a_wrong_password_is_refused(secured: SandboxCluster, client_config: ClientConfig) -> None:
    reported: list[KafkaError] = []
    config = client_config(secured.endpoint_for("app"), sasl_password="guessed")  # noqa: S106
    config |= {"error_cb": reported.append, "log_level": 0}
    admin = AdminClient(config)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(0)
    assert KafkaError._AUTHENTICATION in {error.code() for error in reported}


def test_a_certificate_of_another_authority_is_refused(secured: SandboxCluster, client_config: ClientConfig) -> None:
    config = client_config(secured.endpoint_for("app"))
    del config["ssl.ca.location"]
    with pytest.raises(KafkaException):
        AdminClient({**config, "log_level": 0}).list_topics(timeout=2)


def test_ordinary_users_may_nothing(secured: SandboxCluster, client_config: ClientConfig, topic_name: str) -> None:
    wish = NewTopic(topic_name, 1, 1)
    app = AdminClient(client_config(secured.endpoint_for("app")))
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        app.create_topics([wish])[topic_name].result(TIMEOUT)
    admin = AdminClient(client_config(secured.endpoint()))
    admin.create_topics([wish])[topic_name].result(TIMEOUT)


def test_secrets_stay_private(secured: SandboxCluster) -> None:
    password = secured.endpoint()
    assert password.sasl is not None
    secret = password.sasl.password.reveal()
    assert secret not in repr(secured) + repr(password)
    holders = [file for file in secured.directory.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]
    assert {file.name for file in holders} == {"admin.password", "server.properties"}
    assert {file.stat().st_mode & 0o777 for file in (*holders, secured.directory / "secrets/server.pem")} == {0o600}


def test_a_taken_port_is_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        cluster = SandboxCluster.new(ClusterSpec(name="late", ports=(port,)), tmp_path / "late")
        with pytest.raises(PortTaken, match=f"port {port} "):
            cluster.start()
        cluster.close()


@contextmanager
def _losing_its_port(
    guardian: Guardian, monkeypatch: pytest.MonkeyPatch, name: str
) -> Iterator[tuple[SandboxCluster, int]]:
    """A new cluster, and the port of its broker, which somebody else has taken since it was chosen."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken, free = other.getsockname()[1], ports.free_ports(1)
        monkeypatch.setattr(state, "free_ports", lambda _: (*free, taken))
        cluster = SandboxCluster.new(ClusterSpec(name=name), guardian=guardian)
        monkeypatch.setattr(state, "free_ports", ports.free_ports)
        yield cluster, taken


def test_a_port_lost_to_somebody_faster_is_replaced(
    guardian: Guardian, client_config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _losing_its_port(guardian, monkeypatch, "second") as (cluster, taken), cluster:
        assert cluster.brokers[0].port != taken
        _freeze_and_thaw(cluster, AdminClient(client_config(cluster.endpoint(), socket_timeout_ms="1000")))


def test_a_port_lost_while_other_clusters_are_launched_is_replaced_too(
    guardian: Guardian, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demo launches all before it waits for one: it ended with PORT_TAKEN."""
    with _losing_its_port(guardian, monkeypatch, "launched") as (cluster, taken):
        try:
            cluster.launch()
            cluster.start()
            assert cluster.brokers[0].port != taken
        finally:
            cluster.close()


def test_no_port_is_given_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller and a broker of the demo were told to listen on the same one."""
    monkeypatch.setattr(ports, "_RANGE", range(31_990, 32_000))
    for _ in range(50):
        assert len(set(ports.free_ports(3))) == 3


def _freeze_and_thaw(cluster: SandboxCluster, admin: AdminClient) -> None:
    cluster.pause(1)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    assert cluster.brokers[0].alive
    cluster.unpause(1)
    assert admin.list_topics(timeout=TIMEOUT).cluster_id == cluster.cluster_id


WRONG = (
    {"name": "../up"},
    {"name": "a", "brokers": 0},
    {"name": "a", "ports": (1, 2)},
    {"name": "a", "client_certificates": True, "tls": True},
)


@pytest.mark.parametrize("wrong", WRONG)
def test_an_impossible_cluster_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Misconfigured):
        ClusterSpec(**wrong)  # type: ignore[arg-type]


def _produce(config: dict[str, Any], topic: str, values: list[bytes]) -> None:
    producer = Producer({**config, "acks": "all"})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT) == 0


def _consume(config: dict[str, Any], topic: str, count: int) -> set[bytes]:
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(count, timeout=TIMEOUT)
    finally:
        consumer.close()
    return {value for message in messages if (value := message.value()) is not None}
