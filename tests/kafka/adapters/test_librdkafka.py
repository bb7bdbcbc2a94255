"""Why a cluster does not answer: told by name, and long before the time is up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError

from tanist.domain.broker_errors import PolicyViolation, UnknownTopicOrPartition
from tanist.domain.endpoint import Address, Endpoint, Sasl, SaslMechanism, Secret, Tls
from tanist.domain.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerError,
    OperatorFenced,
    TanistError,
    TimedOut,
    Unreachable,
)
from tanist.domain.log_ends import LogEnds
from tanist.domain.names import MirrorPartition
from tanist.kafka.adapters.access import KafkaAccess
from tanist.kafka.adapters.compacted_topic import CompactedTopic, TopicLayout
from tanist.kafka.adapters.librdkafka import ConnectionErrorTracker, Operation, configuration, translate
from tanist.kafka.adapters.logs import KafkaLogs
from tanist.kafka.adapters.membership import GroupMembership
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.access import Permission, Verdict
from tanist.ports.topics import NewTopic
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tests.conftest import ClusterFactory

CLOCK = SystemClock()
SOON = CLOCK.deadline
HERE = Endpoint(name="here", bootstrap=(Address("h1", 9092), Address("::1", 9093)))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, Unreachable),
        (KafkaError._ALL_BROKERS_DOWN, Unreachable),
        (KafkaError._RESOLVE, Unreachable),
        (KafkaError._AUTHENTICATION, AuthenticationFailed),
        (KafkaError._SSL, AuthenticationFailed),
        (KafkaError._TIMED_OUT, TimedOut),
        (KafkaError._MSG_TIMED_OUT, TimedOut),
        (KafkaError._FENCED, OperatorFenced),
        (KafkaError.PRODUCER_FENCED, OperatorFenced),
        (KafkaError._UNKNOWN_TOPIC, UnknownTopicOrPartition),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, AuthorizationFailed),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationFailed),
        (KafkaError.POLICY_VIOLATION, PolicyViolation),
        (KafkaError._INVALID_ARG, BrokerError),
    ],
)
def test_every_error_of_librdkafka_has_one_of_ours(code: int, kind: type[TanistError]) -> None:
    error = translate(KafkaError(code), Operation("read topic t", "READ on topic t"), HERE)
    assert type(error) is kind
    assert "read topic t of here" in error.reason


def test_a_missing_right_is_named() -> None:
    refused = translate(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), Operation("x", "READ on topic t"), HERE)
    assert "needs READ on topic t" in refused.reason


def test_an_endpoint_becomes_librdkafkas_words() -> None:
    secure = replace(
        HERE,
        tls=Tls(ca_location="/ca", verify_hostname=False),
        sasl=Sasl(mechanism=SaslMechanism.PLAIN, username="u", password=Secret("p")),
    )
    found = configuration(secure, "test", ConnectionErrorTracker(secure), group_id="g")
    assert (
        found.items()
        >= {
            "bootstrap.servers": "h1:9092,[::1]:9093",
            "client.id": "tanist-test",
            "security.protocol": "SASL_SSL",
            "sasl.password": "p",
            "ssl.ca.location": "/ca",
            "ssl.endpoint.identification.algorithm": "none",
            "group.id": "g",
        }.items()
    )
    assert "ssl.key.location" not in found


def test_logs_tell_their_ends_and_hand_out_ids(clusters: Mapping[str, SandboxCluster], topic_name: str) -> None:
    endpoint = clusters["east"].endpoint()
    with over(KafkaTopics, endpoint) as topics, over(KafkaLogs, endpoint) as logs:
        topics.create([NewTopic(name=topic_name, partitions=2, replication_factor=1)], SOON(20))
        here, gone = MirrorPartition(topic_name, 1), MirrorPartition("no-such-topic", 0)
        found = logs.ends([here, gone], SOON(10))
        ends = found[here]
        assert isinstance(ends, LogEnds)
        assert (ends.start, ends.last_stable, ends.high_watermark) == (0, 0, 0)
        assert isinstance(found[gone], UnknownTopicOrPartition)
        assert 0 <= logs.new_producer_id(SOON(20)) < logs.new_producer_id(SOON(20))


def test_with_an_authorizer_every_refusal_names_its_reason(cluster_factory: ClusterFactory, topic_name: str) -> None:
    cluster = cluster_factory("guarded", brokers=1, authorizer=True)
    admin, mirror = cluster.endpoint(), cluster.endpoint_for("mirror")
    assert mirror.sasl
    wrong = replace(mirror, sasl=replace(mirror.sasl, password=Secret("wrong")))
    layout = TopicLayout(partitions=2, allow_small=True)
    with over(KafkaTopics, admin) as topics:
        topics.create([NewTopic(name=topic_name, partitions=1, replication_factor=1)], SOON(20))
    CompactedTopic.open(admin, "__state", SOON(20), layout=layout, create=True).close()

    began = CLOCK.monotonic()
    with pytest.raises(AuthenticationFailed), over(KafkaTopics, wrong) as topics:
        topics.names(SOON(30))
    with pytest.raises(AuthenticationFailed):
        CompactedTopic.open(wrong, "__state", SOON(30), layout=layout)
    stranger = GroupMembership(wrong, "__state")
    with pytest.raises(AuthenticationFailed):
        stranger.poll(SOON(30))
    stranger.leave()
    assert CLOCK.monotonic() - began < 15, "a wrong password is no time-out"

    with over(KafkaTopics, mirror) as topics:
        assert topics.names(SOON(10)) == ()
        answer = topics.create([NewTopic(name="new", partitions=1, replication_factor=1)], SOON(10))["new"]
        assert isinstance(answer, AuthorizationFailed)
        assert "CREATE on topic new" in answer.reason
    with pytest.raises(AuthorizationFailed, match="DESCRIBE on topic __state"):
        CompactedTopic.open(mirror, "__state", SOON(10), layout=layout)
    check_rights(admin, mirror, topic_name)


def check_rights(admin: Endpoint, mirror: Endpoint, topic: str) -> None:
    rights = [
        Permission(operation=operation, resource_type=kind, resource=resource, needed_for="the test")
        for operation, kind, resource in (
            ("READ", "Topic", topic),
            ("ALTER", "Cluster", "kafka-cluster"),
            ("READ", "Group", "g"),
            ("WRITE", "Topic", "not-there"),
            ("WRITE", "TransactionalId", "t"),
        )
    ]
    reported, unknown, lacking = Verdict.PASS, Verdict.UNKNOWN, Verdict.FAIL
    assert verdicts(admin, rights) == [reported, reported, reported, unknown, unknown]
    assert verdicts(mirror, rights) == [lacking, lacking, lacking, lacking, unknown]


def verdicts(endpoint: Endpoint, rights: list[Permission]) -> list[Verdict]:
    with over(KafkaAccess, endpoint) as access:
        held = access.check(rights, SOON(40))  # the first group makes its broker create a topic of 50 partitions
    assert all(each.reason for each in held if each.verdict is not Verdict.PASS)
    return [each.verdict for each in held]


def test_a_connection_that_is_lost_in_the_handshake_is_no_wrong_password() -> None:
    """One step of a failover in a few hundred ended with AUTHENTICATION_FAILED, which nobody tries again."""
    text = "SASL SCRAM-SHA-512 mechanism handshake failed: Local: Broker transport failure: (after 0ms in state DOWN)"
    lost, doing, errors = (
        KafkaError(KafkaError._AUTHENTICATION, text),
        Operation("read topic t", "READ"),
        ConnectionErrorTracker(HERE),
    )
    errors(lost)
    assert errors.login_error(doing) is None
    assert isinstance(translate(lost, doing, HERE), Unreachable)
