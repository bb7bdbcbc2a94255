"""Java's own producers with batches of one record: they are merged, and stay at their offsets."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.names import TopicPartition
from tanist.kafka.protocol.batch import split
from tanist.kafka.protocol.frames import FetchLimits, Isolation
from tanist.kafka.wire import requests
from tanist.kafka.wire.router import Router
from tanist.spark_submit.java import java
from tanist_testkit.sandbox.jars import class_path
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import SOON, Pair, running
from tests.kafka.fetcher.logs import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide

pytestmark = [pytest.mark.timeout(200), pytest.mark.long]
PROGRAM: Final = Path(__file__).parent / "java" / "TinyBatches.java"
RECORDS: Final = 3_000


@pytest.fixture
def pair(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    east = ClusterSpec(name="east", heap_mb=384)
    with running(guardian, client_config, tmp_path_factory.mktemp("java"), source=east, authorizer=False) as pair:
        yield pair


def write(side: KafkaSide, topic: str, *transactional_id: str) -> None:
    """By a Java producer that sends each record as soon as it has it."""
    arguments = (side.cluster.bootstrap_servers, topic, str(RECORDS), *transactional_id)
    argv = [java(), "-cp", class_path(), str(PROGRAM), *arguments]
    subprocess.run(argv, check=True, timeout=120, capture_output=True)


def batches(side: KafkaSide, at: TopicPartition) -> int:
    """How many data batches its log has."""
    with Router(side.cluster.endpoint(), "test") as router:
        router.refresh([at.topic], SOON(10))
        position, found = 0, 0
        while headers := [header for header, _ in split(fetched(router, at, position))]:
            found += sum(not header.is_control for header in headers if header.next_offset > position)
            position = headers[-1].next_offset
    return found


def fetched(router: Router, at: TopicPartition, position: int) -> memoryview:
    limits = FetchLimits(max_wait_ms=0, isolation=Isolation.READ_UNCOMMITTED)
    answer = requests.fetch(router, {at: position}, SOON(10), limits, 1 << 20)[at]
    assert not isinstance(answer, Exception), answer
    return answer.records


def test_java_producers_with_a_record_a_batch_are_copied_at_their_offsets(pair: Pair) -> None:
    """One is idempotent, one transactional (every third transaction is aborted); a worker is killed in between."""
    plain, transactional = TopicPartition("tiny-plain", 0), TopicPartition("tiny-transactions", 0)
    for at in (plain, transactional):
        pair.east.topic(at.topic, 1)
    pair.worker()
    pair.tanist("mirrors", "create", "tiny", "--source", "east", "--topic", "tiny-.*")
    write(pair.east, plain.topic)
    pair.worker().send(signal.SIGKILL)
    write(pair.east, transactional.topic, "tiny")
    pair.worker("w2")
    write(pair.east, plain.topic)
    pair.tanist("mirrors", "wait", "tiny", "--for", "lag=0", "--timeout", "60s")
    logs = [
        read(side.cluster.bootstrap_servers, [plain, transactional], "read_committed")
        for side in (pair.east, pair.west)
    ]
    assert logs[0] == logs[1]
    assert [len(logs[0][at]) for at in (plain, transactional)] == [2 * RECORDS, RECORDS * 2 // 3]
    for at in (plain, transactional):
        assert 2 * batches(pair.west, at) < batches(pair.east, at), "they were not merged"
