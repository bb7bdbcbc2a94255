"""A worker of a mapped mirror that was frozen before a failover and wakes when nobody remembers its id any more."""

from __future__ import annotations

import signal
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.names import MirrorPartition
from tanist.kafka.wire.requests import End, list_offsets
from tanist.kafka.wire.router import Router
from tanist.kafka.wire.transactions import transactional_producers
from tests.kafka.failover.conftest import SOON, running
from tests.kafka.failover.test_dead_source import PARTITIONS, busily
from tests.kafka.failover.test_mapped import WAIT
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until, value

if TYPE_CHECKING:
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
# their short sibling is the worker that is frozen in tests/kafka/fetcher/test_mapped_limits.py
FORGETFUL: Final = {
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}
LEADERS_TOO: Final = {"producer.id.expiration.ms": "4000", "producer.id.expiration.check.interval.ms": "500"}


def ends(pair: Pair, topic: str, end: End) -> dict[MirrorPartition, int]:
    with closing(Router(pair.west.cluster.endpoint(), "tanist-test")) as router:
        router.refresh([topic], SOON(20))
        wanted = {MirrorPartition(topic, n): end for n in range(PARTITIONS)}
        return {at: value(found) for at, found in list_offsets(router, wanted, SOON(20)).items()}


def known_ids(pair: Pair, mirror: str) -> set[str]:
    with closing(Router(pair.west.cluster.endpoint(), "tanist-test")) as router:
        return {each for each in transactional_producers(router, SOON(20)) if each.startswith(f"tanist-{mirror}-")}


@pytest.mark.parametrize(
    ("delivery", "forgets"),
    [("exactly-once", FORGETFUL | LEADERS_TOO), ("at-least-once", FORGETFUL)],
    ids=["exactly-once", "at-least-once"],
)
def test_it_writes_nothing(
    guardian: Guardian, client_config: ClientConfig, tmp_path: Path, delivery: str, forgets: dict[str, str]
) -> None:
    """At least once rests on leaders that remember the fence, as docs/mirroring.md says: for 24 hours, by default."""
    with running(guardian, client_config, tmp_path, properties=forgets) as pair:
        worker, name = pair.worker(), "late"
        pair.east.topic(name, PARTITIONS)
        assert pair.east.writes(name, range(PARTITIONS), partitions=PARTITIONS)
        mapped = ("--offsets", "mapped", "--delivery", delivery)
        pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name, *mapped)
        pair.tanist("mirrors", "wait", name, *WAIT)
        with busily(pair.east, name):
            pair.clock.wait(4)
            worker.send(signal.SIGSTOP)
            pair.clock.wait(1)
        plan = pair.approved(name, mode="unplanned")
        pair.tanist("failover", "run", name, "--plan", plan, *QUICK)
        assert pair.west.writes(name, range(PARTITIONS), partitions=PARTITIONS)
        until(lambda: not known_ids(pair, name), 60)
        before = ends(pair, name, End.LOG_END)
        worker.send(signal.SIGCONT)
        pair.clock.wait(10)
        assert worker.alive
        assert ends(pair, name, End.LOG_END) == before == ends(pair, name, End.LAST_STABLE)
        assert pair.tanist("failover", "status", name, "--json").item["status"] == "DONE"
