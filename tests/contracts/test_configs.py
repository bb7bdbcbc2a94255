"""What every Configs does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import ClusterAuthorizationFailed
from tanist.domain.errors import CouldNotTell, TanistError
from tests.contracts.reached import SOON, Memory, wait_until

if TYPE_CHECKING:
    from tests.contracts.reached import Reached

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


def test_each_broker_tells_which_configs_of_the_authorizer_are_set_and_hides_their_values(reached: Reached) -> None:
    """What a broker does not know it hides, as it might be a password: of that, what is not set is not told of."""
    if isinstance(reached.world, Memory):
        reached.world.cluster.files = {1: frozenset({"super.users"})}
    asked = ("super.users", "of.nobody", EXPIRATION)
    (found,) = reached.configs.each_broker(asked, SOON(10)).values()
    assert not isinstance(found, TanistError)
    assert found.keys() == {"super.users", EXPIRATION}
    assert found["super.users"] is None
    assert found[EXPIRATION]
    reached.world.deny("DESCRIBE_CONFIGS", "Cluster", "kafka-cluster")
    (refused,) = reached.configs.each_broker(asked, SOON(10)).values()
    assert isinstance(refused, ClusterAuthorizationFailed)


def test_of_a_dead_cluster_nothing_is_told(dead: Reached) -> None:
    with pytest.raises(CouldNotTell):
        dead.configs.broker(SOON(0.5))
    with pytest.raises(CouldNotTell):
        dead.configs.each_broker((EXPIRATION,), SOON(0.5))
    assert isinstance(dead.configs.set_for_all_brokers(EXPIRATION, "1", SOON(0.5)), CouldNotTell)
