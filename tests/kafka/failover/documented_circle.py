"""A mirror of logins that have the documented permissions and no others: as it begins, and what a circle leaves."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Final

from tanist.domain.acls import AclBinding
from tests.kafka.failover.both_ways import LAG, begin, records, tanist
from tests.kafka.failover.conftest import ALLOW, DENY, LITERAL, TOPIC, WRITE, give, running
from tests.kafka.failover.documented_rights import grant_documented
from tests.kafka.failover.test_real import rules_of
from tests.kafka.failover.test_writers_of_a_reversed_mirror import approvals_at_the_old_source

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tanist_testkit.sandbox.spec import ClusterSpec
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair

ORDERS: Final = "orders"
READERS: Final = "readers"
Rules = tuple[set[object], set[object]]
"""The ACLs of east and of west."""


def with_documented_rights(
    guardian: Guardian, config: ClientConfig, home: Path, source: ClusterSpec
) -> AbstractContextManager[Pair]:
    grants = partial(grant_documented, topic=ORDERS, group=READERS)
    return running(guardian, config, home, source=source, grants=grants)


def copied(pair: Pair) -> Rules:
    """Fetchers of both clusters, ten records copied, a group at 3, `doctor` content; the ACLs now."""
    app = pair.east.cluster.spec.principal("app")
    give(pair.east.cluster, AclBinding(TOPIC, ORDERS, LITERAL, app, "*", WRITE, ALLOW))
    pair.worker()
    approvals_at_the_old_source(pair)
    begin(pair, "east")
    pair.east.topic(ORDERS)
    assert pair.east.writes(ORDERS, range(10))
    pair.east.commit(READERS, ORDERS, 3)
    tanist(pair, "west", "mirrors", "create", ORDERS, "--source", "east", "--topic", ORDERS)
    tanist(pair, "west", "mirrors", "wait", ORDERS, *LAG)
    checks = json.loads(tanist(pair, "west", "doctor", "--json", expected=None).out)["items"]
    lacking = [each["check"] for each in checks if each["verdict"] != "PASS"]
    assert lacking == ["producer.id.expiration.ms of east"], "its operators' own matter"
    return rules_of(pair.east), rules_of(pair.west)


def west_took_over(pair: Pair) -> None:
    """And was written to, and read from."""
    assert pair.west.committed(READERS, ORDERS) == 3
    assert pair.west.writes(ORDERS, range(10, 20))
    assert not pair.east.writes(ORDERS, range(1))
    pair.west.commit(READERS, ORDERS, 7)


def east_took_over_again(pair: Pair) -> None:
    """And is written to."""
    assert pair.east.committed(READERS, ORDERS) == 7
    assert pair.east.writes(ORDERS, range(20, 30))
    assert not pair.west.writes(ORDERS, range(1))


def all_is_as_it_was(pair: Pair, before: Rules) -> None:
    """Every acknowledged record is in both clusters, and the ACLs are those of before.

    The mirror stays denied WRITE where it was shut out: at the cluster that took over last.
    """
    tanist(pair, "west", "mirrors", "wait", ORDERS, *LAG)
    mirror = pair.east.cluster.spec.principal("mirror")
    shut_out = AclBinding(TOPIC, ORDERS, LITERAL, mirror, "*", WRITE, DENY)
    assert (rules_of(pair.east), rules_of(pair.west)) == (before[0] | {shut_out}, before[1])
    found = records(pair.west, ORDERS)
    assert found == records(pair.east, ORDERS)
    assert sorted(int(value or b"-1") for _, _, value in found) == list(range(30))
