"""A destination that lets everybody do everything where no ACL is about it: the first ACL would shut out the mirror."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist.domain.acls import AclBinding
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import ALL, ALLOW, LITERAL, READ, TOPIC, Pair, give, running
from tests.kafka.failover.test_real import rules_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

MIRROR: Final = "lenient"
LENIENT: Final = {"allow.everyone.if.no.acl.found": "true"}


def nothing(_cluster: SandboxCluster) -> None:
    """Neither cluster has an ACL."""


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    source = ClusterSpec(name="east", authorizer=True, heap_mb=384, properties=LENIENT)
    home = tmp_path_factory.mktemp("lenient")
    with running(guardian, client_config, home, source=source, properties=LENIENT, grants=nothing) as pair:
        pair.worker()
        yield pair


def synced(pair: Pair) -> list[tuple[str, str]]:
    answer = pair.tanist("metadata", "sync", MIRROR, "--yes", "--json")
    items: list[dict[str, Any]] = json.loads(answer.out)["items"]
    return [(each["verdict"], each["name"]) for each in items if each["kind"] == "access"]


def test_an_acl_that_would_shut_out_the_mirror_waits_until_the_mirror_has_its_own(own: Pair) -> None:
    """S3.7."""
    reader = AclBinding(TOPIC, MIRROR, LITERAL, "User:app", "*", READ, ALLOW)
    own.east.topic(MIRROR)
    assert own.east.writes(MIRROR, range(10))
    own.tanist("mirrors", "create", MIRROR, "--source", "east", "--topic", MIRROR, "--acl", "*;*;*;*;User:app")
    own.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "100s")
    mirror = AclBinding(TOPIC, MIRROR, LITERAL, "User:mirror", "*", ALL, ALLOW)
    give(own.east.cluster, mirror, reader._replace(operation=ALL))
    name = f"allow User:app READ on topic {MIRROR}"
    assert synced(own) == [("SKIPPED", name)]
    assert not rules_of(own.west)
    assert own.east.writes(MIRROR, range(10, 20))
    own.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "100s")
    give(own.west.cluster, mirror)
    assert synced(own) == [("CHANGED", name)]
    assert rules_of(own.west) >= {mirror, reader}
    assert own.east.writes(MIRROR, range(20, 30))
    own.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "100s")
    assert len(own.west.read(MIRROR)) == 30
