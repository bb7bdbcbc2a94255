"""A source that lets everybody do everything with topics that no ACL matches (`allow.everyone.if.no.acl.found`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.acls import AclBinding
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import DENY, LITERAL, TOPIC, WRITE, Pair, give, grant, running
from tests.kafka.failover.test_real import QUICK, rules_of
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

MIRROR: Final = "bare"
LARGE: Final = range(10**100, 10**100 + 2)
"""Values that no near fence lets pass."""


def of_the_destination(cluster: SandboxCluster) -> None:
    """The source has no ACL of anything."""
    if cluster.spec.name == "west":
        grant(cluster)


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    lenient = {"allow.everyone.if.no.acl.found": "true"}
    source = ClusterSpec(name="east", authorizer=True, heap_mb=384, properties=lenient)
    home = tmp_path_factory.mktemp("bare")
    with running(guardian, client_config, home, source=source, grants=of_the_destination) as pair:
        pair.worker()
        yield pair


def test_a_source_fence_took_read_from_the_mirror_and_its_deny_of_the_destination_was_named_by_nobody(
    own: Pair,
) -> None:
    """A DENY for everybody as the first ACL of a topic: the drain waited for records that it could not fetch.

    The plan was GO, and the producer was refused by both clusters afterwards.
    """
    own.east.topic(MIRROR)
    assert own.east.writes(MIRROR, LARGE)
    give(own.west.cluster, AclBinding(TOPIC, MIRROR, LITERAL, "User:app", "*", WRITE, DENY))
    acls = rules_of(own.east)
    own.tanist("mirrors", "create", MIRROR, "--source", "east", "--topic", MIRROR)
    own.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "100s")
    planned = own.tanist("failover", "plan", MIRROR, "--json", expected=None).item
    named = {each["name"]: each["detail"] for each in planned["limitations"]}
    assert f"{MIRROR}: User:app" in named["WRITERS_LOCKED_OUT"]
    assert f"no ACL of the source matches {MIRROR}" in named["NEAR_FENCE"]

    own.tanist("failover", "run", MIRROR, "--plan", own.approved(MIRROR), *QUICK)
    until(lambda: not own.east.writes(MIRROR, LARGE), 10)
    read = own.east.read(MIRROR)
    assert len(read) == len(LARGE), "readers keep access behind the fence"
    assert own.west.read(MIRROR) == read
    assert rules_of(own.east) == acls
    checks = own.tanist("status", MIRROR, "--json", expected=None).item["checks"]
    (access,) = (each for each in checks if each["check"] == "access")
    assert (access["verdict"], f"{MIRROR}: User:app" in access["reason"]) == ("FAIL", True)

    own.tanist("fence", "lift", MIRROR, "--promoted")
    until(lambda: own.east.writes(MIRROR, LARGE), 10)
    assert rules_of(own.east) == acls
