"""What every Configs does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.errors import CouldNotTell
from tests.contracts.reached import SOON, wait_until

if TYPE_CHECKING:
    from tests.contracts.reached import Reached

pytestmark = pytest.mark.timeout(120)
EXPIRATION = "producer.id.expiration.ms"


def test_what_is_set_for_all_brokers_applies_to_each(reached: Reached) -> None:
    assert int(reached.configs.broker(SOON(10))[EXPIRATION]) > 0, "what nobody has set is told, too"
    for value in ("111111111", "222222222"):
        assert reached.configs.set_for_all_brokers(EXPIRATION, value, SOON(10)) is None
        wait_until(partial(applies, reached, value))


def applies(reached: Reached, value: str) -> bool:
    return reached.configs.broker(SOON(10))[EXPIRATION] == value


def test_a_refusal_to_set_is_an_answer_and_a_refusal_to_tell_is_raised(reached: Reached) -> None:
    reached.world.deny("ALTER_CONFIGS", "Cluster", "kafka-cluster")
    before = reached.configs.broker(SOON(10))[EXPIRATION]
    assert isinstance(reached.configs.set_for_all_brokers(EXPIRATION, "1", SOON(10)), ClusterAuthorizationFailed)
    assert reached.configs.broker(SOON(10))[EXPIRATION] == before
    reached.world.deny("DESCRIBE_CONFIGS", "Cluster", "kafka-cluster")
    with pytest.raises(ClusterAuthorizationFailed):
        reached.configs.broker(SOON(10))


def test_of_a_dead_cluster_nothing_is_told(dead: Reached) -> None:
    with pytest.raises(CouldNotTell):
        dead.configs.broker(SOON(0.5))
    assert isinstance(dead.configs.set_for_all_brokers(EXPIRATION, "1", SOON(0.5)), CouldNotTell)
