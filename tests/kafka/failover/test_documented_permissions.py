"""A circle of logins that have the documented permissions and no others: every record, every ACL, every position."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tanist.kafka.wire.admin import AclBinding
from tests.kafka.failover.both_ways import begin, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import ALLOW, CERTIFICATES, DENY, EAST, LITERAL, TOPIC, WRITE, give, running
from tests.kafka.failover.documented_rights import grant_documented
from tests.kafka.failover.test_real import rules_of
from tests.kafka.failover.test_writers_of_a_reversed_mirror import approvals_at_the_old_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair

ORDERS, READERS = "orders", "readers"


@pytest.fixture(
    params=[pytest.param(EAST, id="scram"), pytest.param(CERTIFICATES, id="certificates", marks=pytest.mark.long)]
)
def least(
    request: pytest.FixtureRequest,
    guardian: Guardian,
    client_config: ClientConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    home, grants = tmp_path_factory.mktemp("least"), partial(grant_documented, topic=ORDERS, group=READERS)
    with running(guardian, client_config, home, source=request.param, grants=grants) as pair:
        yield pair


def test_a_circle_with_documented_permissions_loses_nothing_and_leaves_acls_as_they_were(least: Pair) -> None:
    """`doctor` passed and the plan was GO, but approve and run lacked permissions that no page named.

    The mirror stays denied WRITE where it was shut out: at the cluster that took over last.
    """
    both = (least.east, least.west)
    give(
        least.east.cluster,
        AclBinding(TOPIC, ORDERS, LITERAL, least.east.cluster.spec.principal("app"), "*", WRITE, ALLOW),
    )
    least.worker()
    approvals_at_the_old_source(least)
    begin(least, "east")
    least.east.topic(ORDERS)
    assert least.east.writes(ORDERS, range(10))
    least.east.commit(READERS, ORDERS, 3)
    tanist(least, "west", "mirrors", "create", ORDERS, "--source", "east", "--topic", ORDERS)
    tanist(least, "west", "mirrors", "wait", ORDERS, "--for", "lag=0", "--timeout", "200s")
    checks = json.loads(tanist(least, "west", "doctor", "--json", expected=None).out)["items"]
    lacking = [each["check"] for each in checks if each["verdict"] != "PASS"]
    assert lacking == ["producer.id.expiration.ms of east"], "its operators' own matter"
    before = [rules_of(side) for side in both]

    fail_over(least, ORDERS, "west")
    assert least.west.committed(READERS, ORDERS) == 3
    assert least.west.writes(ORDERS, range(10, 20))
    assert not least.east.writes(ORDERS, range(1))
    least.west.commit(READERS, ORDERS, 7)
    reverse(least, ORDERS, "west")
    fail_over(least, ORDERS, "east")
    assert least.east.committed(READERS, ORDERS) == 7
    assert least.east.writes(ORDERS, range(20, 30))
    assert not least.west.writes(ORDERS, range(1))
    reverse(least, ORDERS, "east")
    tanist(least, "west", "mirrors", "wait", ORDERS, "--for", "lag=0", "--timeout", "200s")

    home, away = (rules_of(side) for side in both)
    shut_out = AclBinding(TOPIC, ORDERS, LITERAL, least.east.cluster.spec.principal("mirror"), "*", WRITE, DENY)
    assert (home, away) == (before[0] | {shut_out}, before[1])
    found = records(least.west, ORDERS)
    assert found == records(least.east, ORDERS)
    assert sorted(int(value or b"-1") for _, _, value in found) == list(range(30))
