"""A circle of logins that have the documented permissions and no others: every record, every ACL, every position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kafka.failover import documented_circle as circle
from tests.kafka.failover.both_ways import fail_over, reverse
from tests.kafka.failover.conftest import CERTIFICATES, EAST
from tests.kafka.failover.documented_circle import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair


@pytest.fixture(
    params=[pytest.param(EAST, id="scram"), pytest.param(CERTIFICATES, id="certificates", marks=pytest.mark.long)]
)
def least(
    request: pytest.FixtureRequest,
    guardian: Guardian,
    client_config: ClientConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("least")
    with circle.with_documented_rights(guardian, client_config, home, request.param) as pair:
        yield pair


def test_a_circle_with_documented_permissions_loses_nothing_and_leaves_acls_as_they_were(least: Pair) -> None:
    """`doctor` passed and the plan was GO, but approve and run lacked permissions that no page named."""
    before = circle.copied(least)
    fail_over(least, ORDERS, "west")
    circle.west_took_over(least)
    reverse(least, ORDERS, "west")
    fail_over(least, ORDERS, "east")
    circle.east_took_over_again(least)
    reverse(least, ORDERS, "east")
    circle.all_is_as_it_was(least, before)
