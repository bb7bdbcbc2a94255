"""A principal without rights: what is missing is named, on either side, and nothing is changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tanist.domain.acls import AclBinding
from tanist.domain.names import mirror_name
from tanist.domain.rights import TABLE, ClusterRole, Each, Notice, Use
from tanist.kafka.wire.admin import AccessFilter, create_acls, delete_acls
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.conftest import librdkafka
from tests.kafka.cli.conftest import Broker, section
from tests.kafka.cli.test_copied_by_another import stamped
from tests.kafka.failover.documented_rights import acl_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tests.kafka.cli.conftest import Tanist


TOPIC, GROUP, CLUSTER, TRANSACTION = 2, 3, 4, 5
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 4, 5, 6, 7, 8, 10, 11
LITERAL, ALLOW = 3, 3
USER: Final = "mirror"


class Guarded:
    """A cluster with an authorizer, and what its user `mirror` may do."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster

    def allow(self, *rights: tuple[int, int]) -> None:
        """Exactly these (resource type, operation), on everything of that type."""
        rules = [
            AclBinding(
                kind, "kafka-cluster" if kind == CLUSTER else "*", LITERAL, f"User:{USER}", "*", operation, ALLOW
            )
            for kind, operation in rights
        ]
        self.only(rules)

    def only(self, rules: Collection[AclBinding]) -> None:
        """Exactly these ACLs of its."""
        by = Deadline(time.monotonic() + 20)
        with Router(self.cluster.endpoint(), "test") as router:
            delete_acls(router, [AccessFilter(principal=f"User:{USER}")], by)
            assert not any(create_acls(router, [*rules], by))


ALL_OF_SOURCE = ((TOPIC, READ), (TOPIC, DESCRIBE_CONFIGS), (CLUSTER, DESCRIBE))
ALL_OF_DESTINATION = (
    *((TOPIC, right) for right in (READ, WRITE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS)),
    *((CLUSTER, right) for right in (CREATE, ALTER, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS)),
    (GROUP, READ),
    (TRANSACTION, WRITE),
)


@pytest.fixture(scope="module")
def guarded(guardian: Guardian) -> Iterator[Guarded]:
    with SandboxCluster.new(ClusterSpec(name="guarded", authorizer=True, heap_mb=384), guardian=guardian) as cluster:
        yield Guarded(cluster)


@pytest.fixture
def configured(
    clusters: Mapping[str, SandboxCluster], guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    file = tmp_path / "tanist.toml"
    file.write_text("".join(map(section, clusters.values())) + section(guarded.cluster, USER))
    monkeypatch.setenv("TANIST_CONFIG", str(file))
    return file


def test_a_wrong_password_is_told(tanist: Tanist, configured: Path, guarded: Guarded) -> None:
    configured.write_text(section(guarded.cluster, USER, "not the password"))
    start = time.monotonic()
    answer = tanist("mirrors", "list", "-d", "guarded")
    assert (answer.code, answer.errors) == (3, ["AUTHENTICATION_FAILED"])
    assert time.monotonic() - start < 10


def test_with_every_right_a_mirror_is_created(
    tanist: Tanist, configured: Path, guarded: Guarded, east: Broker, topic_name: str
) -> None:
    guarded.allow(*ALL_OF_DESTINATION)
    east.topic(topic_name)
    answer = tanist("mirrors", "create", topic_name, "-s", "east", "-d", "guarded", "--topic", topic_name)
    assert answer.code == 0, answer.err
    (warning,) = (line for line in answer.err.splitlines() if "warning" in line)
    assert f"MIRROR_TOPIC_WRITABLE: {topic_name}: super.users is set on broker 1" in warning


@pytest.mark.parametrize(
    ("without", "named"),
    [
        ((CLUSTER, ALTER), "ALTER"),
        ((CLUSTER, CREATE), "CREATE"),
        ((TOPIC, WRITE), "WRITE"),
        ((TRANSACTION, WRITE), "transactional id"),
    ],
)
@pytest.mark.usefixtures("configured")
def test_a_missing_right_at_the_destination_is_named(
    tanist: Tanist,
    guarded: Guarded,
    east: Broker,
    topic_name: str,
    without: tuple[int, int],
    named: str,
) -> None:
    guarded.allow(*ALL_OF_DESTINATION)
    assert tanist("mirrors", "create", "first", "-s", "east", "-d", "guarded").code == 0
    before = tanist("state", "dump", "-d", "guarded").out
    guarded.allow(*(right for right in ALL_OF_DESTINATION if right != without))
    east.topic(topic_name)
    answer = tanist("mirrors", "create", mirror_name(topic_name), "-s", "east", "-d", "guarded", "--topic", topic_name)
    assert answer.code == 1, answer.err
    assert set(answer.errors) == {"MIRROR_AUTHORIZATION_FAILED"}, answer.err
    assert named in answer.err
    assert ("--no-deny-writers" in answer.err) is (without == (CLUSTER, ALTER))
    guarded.allow(*ALL_OF_DESTINATION)
    assert tanist("state", "dump", "-d", "guarded").out == before
    missing = tanist("mirrors", "describe", topic_name, "-d", "guarded")
    assert missing.errors == ["UNKNOWN_MIRROR"]


@pytest.mark.parametrize(
    ("without", "named"),
    [
        ((TOPIC, READ), "READ"),
        ((TOPIC, DESCRIBE_CONFIGS), "DESCRIBE_CONFIGS"),
        ((CLUSTER, DESCRIBE), "DESCRIBE on Cluster"),
    ],
)
@pytest.mark.usefixtures("configured")
def test_a_missing_right_at_the_source_is_named(
    tanist: Tanist,
    guarded: Guarded,
    west: Broker,
    topic_name: str,
    without: tuple[int, int],
    named: str,
) -> None:
    guarded.allow(*ALL_OF_DESTINATION)
    tanist("mirrors", "create", "first", "-s", "east", "-d", "guarded")
    guarded.allow((TOPIC, DESCRIBE), *(right for right in ALL_OF_SOURCE if right != without))
    source = "first-topic"
    admin = as_admin(guarded)
    if source not in admin.topics():
        admin.topic(source)
    before = west.topics()
    answer = tanist("mirrors", "create", topic_name, "-s", "guarded", "-d", "west", "--topic", source)
    assert (answer.code, set(answer.errors)) == (1, {"MIRROR_AUTHORIZATION_FAILED"}), answer.err
    assert named in answer.err
    assert west.topics() == before


def test_a_source_topic_that_we_may_not_even_see_is_not_called_unknown(
    tanist: Tanist, configured: Path, guarded: Guarded, topic_name: str
) -> None:
    guarded.allow((CLUSTER, DESCRIBE))
    admin = as_admin(guarded)
    if "hidden" not in admin.topics():
        admin.topic("hidden")
    answer = tanist("mirrors", "create", topic_name, "-s", "guarded", "-d", "west", "--topic", "hidden")
    assert answer.errors == ["MIRROR_AUTHORIZATION_FAILED"], answer.err


def as_admin(guarded: Guarded) -> Broker:
    """The guarded cluster as its super user sees it."""
    return Broker(AdminClient(librdkafka(guarded.cluster.endpoint())))


# ── a mirror that somebody else copies ────────────────────────────────────────────────────────────────────────────

OF_FOLLOWING: Final = [
    row for row in TABLE if row.use in {Use.FOLLOW, Use.GROUPS, Use.SERVE} and row.notice is not Notice.OPTIONAL
]


@pytest.mark.parametrize("where", ClusterRole)
@pytest.mark.usefixtures("configured")
def test_what_the_table_has_is_enough_beside_copies_of_others(
    where: ClusterRole,
    tanist: Tanist,
    clusters: Mapping[str, SandboxCluster],
    guarded: Guarded,
    topic_name: str,
) -> None:
    """From the registration to commits of its groups, and to its removal."""
    copy, name, group = f"dr-{topic_name}", f"by-{topic_name}"[:60].rstrip(".-_"), f"app {topic_name}"
    here = [row for row in OF_FOLLOWING if row.where is where]
    assert "Cluster" not in {row.resource_type for row in here}
    source, destination = ("guarded", "west") if where is ClusterRole.SOURCE else ("east", "guarded")
    both = {**clusters, "guarded": guarded.cluster}
    for cluster, topic in ((source, topic_name), (destination, copy)):
        Broker(AdminClient(librdkafka(both[cluster].endpoint()))).topic(topic)
        stamped(both[cluster], topic, range(10))
    consumer = Consumer(librdkafka(both[source].endpoint()) | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic_name, 0, 7)], asynchronous=False)
    consumer.close()
    names = {Each.TOPIC: topic_name, Each.COPY: copy, Each.GROUP: group}
    needed = [row.of(names.get(row.resource, "")).rights[0] for row in here]  # type: ignore[call-overload]
    guarded.only({acl_of(each, f"User:{USER}") for each in needed})

    followed = ("--copied-by", "other", "--topic", topic_name, "--rename", "dr-{topic}")
    made = tanist("mirrors", "create", name, "--source", source, "-d", destination, *followed)
    assert made.code == 0, made.err
    (row,) = tanist("groups", "translate", name, "-d", destination, "--json").items
    assert (row["group"], row["destination_offset"], row["precision"], row["proof"]) == (group, 7, "exact", "match")
    at = ("--topic", topic_name, "--partition", "0", "--offset", "5")
    for words in (("groups", "explain", name, "--group", group), ("offsets", "lookup", name, *at)):
        answer = tanist(*words, "-d", destination)
        assert answer.code == 0, answer.err
    (row,) = tanist("groups", "sync", name, "-d", destination, "--yes", "--json").items
    assert row["committed"], row
    (status,) = tanist("status", name, "-d", destination, "--json").items
    checks = {check["name"]: check["verdict"] for check in status["checks"]}
    assert {checks[each] for each in ("source", "topics", "destination", "lag", "positions")} == {"PASS"}, checks
    told = {each["check"]: each for each in tanist("doctor", "--json").items}[f"rights of {name} on guarded"]
    assert told["verdict"] != "FAIL", told["reason"]
    removed = tanist("mirrors", "remove", name, "-d", destination, "--yes")
    assert removed.code == 0, removed.err
