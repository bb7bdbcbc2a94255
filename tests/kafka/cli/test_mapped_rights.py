"""A mirror with mapped offsets needs what a producer may do, and nothing besides: each right is taken away once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.records import GROUPS_TOPIC
from tanist.domain.rights import TABLE, ClusterRole, Each, Notice, Requirement, Use
from tests.kafka.cli.test_rights import USER, Guarded, as_admin, configured, guarded
from tests.kafka.failover.documented_rights import acl_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kafka.cli.conftest import Broker, Tanist

__all__ = ["configured", "guarded"]
MIRROR: Final = "least"
OLD: Final = "least-old"
"""A topic that both clusters have; that of the destination is empty."""
LEAST: Final = [
    row
    for row in TABLE
    if row.use in {Use.COPY, Use.SERVE, Use.MAPPED, Use.POSITIONS} and row.notice is not Notice.OPTIONAL
]
AT_DESTINATION: Final = [row for row in LEAST if row.where is ClusterRole.DESTINATION]
AT_SOURCE: Final = [row for row in LEAST if row.where is ClusterRole.SOURCE]
NOT_OF_CREATE: Final = {GROUPS_TOPIC, "tanist-fetchers"}
"""What only fetchers need, once they run."""


def grant(guarded: Guarded, rows: Iterable[Requirement], *topics: str, mirrors: tuple[str, ...] = (MIRROR,)) -> None:
    """Exactly these rows of the table: of these topics, and of the mirrors."""
    names = {Each.TOPIC: topics, Each.POSITIONS: mirrors}
    needed = [row.of(name).rights[0] for row in rows for name in names.get(row.resource, ("",))]  # type: ignore[call-overload]
    guarded.only({acl_of(each, f"User:{USER}") for each in needed})


def is_told(row: Requirement) -> bool:
    """Whether `create` needs it at a destination that has the topics and the state topics already."""
    there = row.resource_type == "Topic" and row.operations == ("CREATE",)
    twice = row.resource_type == "TransactionalId" and row.use is Use.MAPPED  # it is that of the lock
    return row.resource not in NOT_OF_CREATE and not there and not twice


def without(row: Requirement, rows: Iterable[Requirement]) -> list[Requirement]:
    return [each for each in rows if (each.operations, each.resource) != (row.operations, row.resource)]


def title(row: Requirement) -> str:
    return f"{row.operations[0]}-{row.resource}".replace(" ", "_")


@pytest.fixture
def topics(guarded: Guarded, east: Broker, west: Broker) -> tuple[str, ...]:
    """At both sides: as the destination and as the source."""
    admin = as_admin(guarded)
    for cluster in (admin, east):
        if OLD not in cluster.topics():
            cluster.topic(OLD)
    return (OLD,)


def create(tanist: Tanist, source: str, destination: str, *options: str) -> tuple[int, str]:
    answer = tanist(
        "mirrors", "create", MIRROR, "-s", source, "-d", destination, "--topic", OLD, "--offsets", "mapped", *options
    )
    return answer.code, answer.err


@pytest.mark.usefixtures("configured")
def test_a_producers_rights_are_enough_at_the_destination(
    tanist: Tanist, guarded: Guarded, east: Broker, topics: tuple[str, ...], topic_name: str
) -> None:
    east.topic(topic_name, 2)
    grant(guarded, AT_DESTINATION, *topics, topic_name, mirrors=("made",))
    made = tanist(
        "mirrors", "create", "made", "-s", "east", "-d", "guarded", "--topic", topic_name, "--offsets", "mapped"
    )
    assert made.code == 0, made.err
    assert "lacks DESCRIBE on Cluster kafka-cluster, ALTER on Cluster kafka-cluster, which failovers need" in made.err
    assert "(--no-grant-writers)" in made.err
    assert "(--no-fence-source)" not in made.err, "the source has no authorizer"
    (listed,) = (
        each for each in tanist("mirrors", "list", "-d", "guarded", "--json").items if each["mirror"] == "made"
    )
    assert (listed["offsets"], listed["transaction_ms"], listed["data_id"]) == ("mapped", 500, -1)
    described = tanist("mirrors", "describe", "made", "-d", "guarded", "--json").items
    assert {(each["offsets"], each["transaction_ms"]) for each in described} == {("mapped", 500)}
    checks = {row["check"]: row for row in tanist("doctor", "--json").items}
    rights = checks["rights of made on guarded"]
    assert (rights["verdict"], "missing" in rights["reason"]) == ("UNKNOWN", False), rights
    assert rights["reason"].count(" on Topic ") == rights["reason"].count(f" on Topic {GROUPS_TOPIC}"), "no fetcher ran"
    kinds = checks["kinds of mirror to guarded"]
    assert (kinds["verdict"], kinds["observed"]) == ("PASS", "mapped offsets")
    assert "for identical offsets it lacks ALTER or CLUSTER_ACTION on Cluster" in kinds["reason"]
    assert checks["kinds of mirror to east"]["observed"] == "identical or mapped offsets"
    assert "it also needs WRITE on TransactionalId tanist-*" in kinds["reason"]
    guarded.allow()
    same = tanist("mirrors", "create", "same", "-s", "east", "-d", "guarded", "--topic", OLD)
    assert same.code == 1


@pytest.mark.parametrize(
    ("uses", "kinds", "lacking"),
    [
        ({Use.COPY, Use.IDENTICAL}, "identical offsets", "for mapped offsets it lacks READ on Group tanist-"),
        (
            {Use.COPY, Use.MAPPED, Use.POSITIONS},
            "mapped offsets",
            "for identical offsets it lacks ALTER or CLUSTER_ACTION",
        ),
        ({Use.COPY, Use.IDENTICAL, Use.MAPPED, Use.POSITIONS}, "identical or mapped offsets", ""),
        ({Use.COPY}, "none", "for identical offsets it lacks ALTER or CLUSTER_ACTION on Cluster kafka-cluster"),
    ],
    ids=["identical", "mapped", "both", "none"],
)
@pytest.mark.usefixtures("configured")
def test_doctor_says_which_kinds_of_mirror_a_login_can_have(
    tanist: Tanist, guarded: Guarded, uses: set[Use], kinds: str, lacking: str
) -> None:
    """A login for each, and no other rights than the table has for it, of all topics and of any mirror."""
    rows = [row for row in TABLE if row.use in uses and row.where is ClusterRole.DESTINATION]
    grant(guarded, rows, "*", mirrors=("MIRROR", "made"))
    (found,) = (row for row in tanist("doctor", "--json").items if row["check"] == "kinds of mirror to guarded")
    assert (found["observed"], found["verdict"]) == (kinds, "PASS"), found
    assert lacking in found["reason"]


@pytest.mark.parametrize("row", [row for row in AT_DESTINATION if is_told(row)], ids=title)
@pytest.mark.usefixtures("configured")
def test_a_right_that_is_missing_at_the_destination_is_named_before_anything_is_written(
    tanist: Tanist, guarded: Guarded, topics: tuple[str, ...], row: Requirement
) -> None:
    grant(guarded, AT_DESTINATION, *topics)
    code, told = create(tanist, "east", "guarded", "--dry-run")
    assert code == 0, told
    grant(guarded, without(row, AT_DESTINATION), *topics)
    code, told = create(tanist, "east", "guarded")
    assert code == 1, told
    assert row.resource_type.casefold() in told.replace("transactional id", "transactionalid").casefold(), told
    assert row.operations[0] in told, told


@pytest.mark.parametrize("row", AT_SOURCE, ids=title)
@pytest.mark.usefixtures("configured")
def test_a_right_that_is_missing_at_the_source_is_named(
    tanist: Tanist, guarded: Guarded, west: Broker, topics: tuple[str, ...], row: Requirement
) -> None:
    """With them a mirror can be made: who may write to the topics is not known then."""
    grant(guarded, AT_SOURCE, *topics)
    code, told = create(tanist, "guarded", "west", "--dry-run")
    assert (code, "a failover grants nobody WRITE" in told) == (0, True), told
    before = west.topics()
    grant(guarded, without(row, AT_SOURCE), *topics)
    code, told = create(tanist, "guarded", "west")
    assert code == 1, told
    assert row.operations[0] in told or "needs DESCRIBE" in told or "lacks DESCRIBE" in told, told
    assert west.topics() == before
