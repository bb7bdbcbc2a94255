"""A reversed mirror: its producers of the old direction stay fenced at its new source, whatever brokers forget."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.names import MirrorPartition, ProducerId
from tanist.domain.writer_identity import ProducerIds
from tanist.kafka.adapters.cluster import KafkaCluster
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.fencing import ProducerFence
from tanist.usecases.mirrors.create import EXPIRATION
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair

pytestmark = pytest.mark.long
FORGETFUL: Final = {"producer.id.expiration.ms": "8000", "producer.id.expiration.check.interval.ms": "500"}
AT: Final = tuple(MirrorPartition("kept", n) for n in range(2))
SOON: Final = SystemClock().deadline


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Brokers that forget producer ids within seconds, not a day."""
    home, east = tmp_path_factory.mktemp("moved"), ClusterSpec(name="east", heap_mb=384)
    with running(guardian, client_config, home, source=east, authorizer=False, properties=FORGETFUL) as pair:
        yield pair


def fences(pair: Pair, producer_ids: ProducerIds) -> set[ProducerFence]:
    """What brokers of west know of these producer ids, in all partitions."""
    west = KafkaCluster(pair.west.cluster.endpoint())
    found = west.producer_fencing.proof(dict.fromkeys(AT, producer_ids), SOON(20))
    west.close()
    assert all(isinstance(each, ProducerFence) for each in found.values()), found
    return {each for each in found.values() if isinstance(each, ProducerFence)}


def forget(pair: Pair) -> None:
    """Brokers of west forget producer ids again as early as they were told before the mirror was created."""
    west = KafkaCluster(pair.west.cluster.endpoint())
    assert west.configs.set_for_all_brokers(EXPIRATION, FORGETFUL[EXPIRATION], SOON(20)) is None
    west.close()


def ids(pair: Pair) -> ProducerIds:
    (found,) = json.loads(tanist(pair, "west", "state", "dump", "--key", "mirror/dr", "--json").out)["items"]
    return ProducerIds(*(ProducerId(found["value"][name]) for name in ("data_id", "filler_id", "start_id")))


def test_fences_of_the_old_direction_are_renewed_after_brokers_have_forgotten_them(own: Pair) -> None:
    """By a fetcher of the new source; nobody else knows of them."""
    begin(own, "west")
    begin(own, "east")
    own.east.topic("kept")
    assert own.east.writes("kept", range(10))
    tanist(own, "west", "mirrors", "create", "dr", "--source", "east", "--topic", "kept")
    old = ids(own)
    fail_over(own, "dr", "west")
    assert fences(own, old) == {ProducerFence.FENCED}
    reverse(own, "dr", "west")
    own.workers["west"].send(signal.SIGKILL)
    forget(own)
    until(lambda: ProducerFence.FENCED not in fences(own, old), 40)
    begin(own, "west")
    until(lambda: fences(own, old) == {ProducerFence.FENCED}, 40)
    assert own.west.writes("kept", range(100, 104))
    tanist(own, "east", "mirrors", "wait", "dr", "--for", "lag=0", "--timeout", "200s")
    assert records(own.east, "kept") == records(own.west, "kept")
