"""A mirror that loses its permission to write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tanist.domain.acls import AclBinding
from tests.kafka.failover.conftest import DENY, LITERAL, TOPIC, WRITE, give, take
from tests.kafka.failover.test_metadata import write
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair


def test_a_mirror_that_may_not_write_any_more_says_so_and_continues_when_it_may(pair: Pair) -> None:
    """It was MIRRORING without an error, with a lag that grew: reading both logs again succeeded each time."""
    pair.worker()
    pair.east.topic("denied")
    pair.tanist("mirrors", "create", "denied", "--source", "east", "--topic", "denied")
    pair.tanist("mirrors", "wait", "denied", "--for", "state=MIRRORING", "--timeout", "200s")
    rule = AclBinding(TOPIC, "denied", LITERAL, pair.west.cluster.spec.principal("mirror"), "*", WRITE, DENY)
    give(pair.west.cluster, rule)
    write(pair.east, "denied", range(2), range(10))

    def rows() -> list[dict[str, Any]]:
        return list(json.loads(pair.tanist("mirrors", "describe", "denied", "--json").out)["items"])

    until(lambda: {row["error"] for row in rows()} == {"TOPIC_AUTHORIZATION_FAILED"}, 30, rows)
    take(pair.west.cluster, rule)
    pair.tanist("mirrors", "wait", "denied", "--for", "lag=0", "--timeout", "200s")
    until(lambda: {row["error"] for row in rows()} == {None}, 30, rows)
    assert pair.west.read("denied") == pair.east.read("denied")
