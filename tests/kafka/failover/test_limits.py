"""S3.13: a limit as people set it, kept by two workers together, and altered while they copy."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import MirrorPartition
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import End
from tanist.kafka.wire.router import Router
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter
from tests.kafka.fetcher.rig import soon, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka.failover.conftest import Pair

KB, MB = 1_000, 1_000_000
PARTITIONS, SECONDS = 8, 10.0
TOPIC = "limited-by-two"
OVERHEAD = 1.02
"""Of a record of 1 kB in its batch."""


class Copied:
    """How much of the topic is at the destination."""

    def __init__(self, pair: Pair) -> None:
        self.router = Router(pair.west.cluster.endpoint_for("admin"), "test")
        self.ends = {MirrorPartition(TOPIC, n): End.HIGH_WATERMARK for n in range(PARTITIONS)}

    def bytes(self) -> float:
        found = requests.list_offsets(self.router, self.ends, soon())
        return sum(end for end in found.values() if isinstance(end, int)) * KB * OVERHEAD

    def per_second(self, seconds: float) -> float:
        began, before = time.monotonic(), self.bytes()
        time.sleep(seconds)  # noqa: TID251  # the rate is what is tested
        return (self.bytes() - before) / (time.monotonic() - began)


@pytest.fixture
def copied(pair: Pair) -> Iterator[Copied]:
    found = Copied(pair)
    yield found
    found.router.close()


def test_two_workers_keep_a_limit_together_that_is_altered_and_taken_away(pair: Pair, copied: Copied) -> None:
    """Each has the share of the partitions that it owns. A rate of 0 is refused, and changes nothing.

    From below they come as near as a machine does that other tests keep busy.
    """
    pair.east.topic(TOPIC, PARTITIONS)
    writer = LogWriter(pair.east.client(batch_size="16384"))
    value = os.urandom(KB)
    writer.write(TOPIC, (FlowRecord(n % PARTITIONS, value=value) for n in range(40 * MB // KB)))
    assert writer.producer.flush(60) == 0
    for name in ("w1", "w2"):
        pair.worker(name)
    pair.tanist("mirrors", "create", "lim", "--source", "east", "--topic", TOPIC, "--limit", "1MB/s")
    until(lambda: copied.bytes() > MB, 60)
    found = copied.per_second(SECONDS)
    assert 0.4 * MB < found < 1.07 * MB, found
    items = json.loads(pair.tanist("mirrors", "describe", "lim", "--json").out)["items"]
    assert [(each["limit"], each["topic_limits"]) for each in items] == [(MB, [])] * PARTITIONS
    assert "at most 1MB/s" in pair.tanist("mirrors", "describe", "lim").err
    refused = pair.tanist("mirrors", "alter", "lim", "--limit", "0", expected=2)
    assert "is a rate of 0" in refused.err
    pair.tanist("mirrors", "alter", "lim", "--limit", "none", "--topic-limit", f"{TOPIC}=3MB/s")
    time.sleep(2)  # noqa: TID251  # until both workers have read it
    faster = copied.per_second(5)
    assert 1.1 * MB < faster < 3.3 * MB, faster
    pair.tanist("mirrors", "alter", "lim", "--topic-limit", "none")
    pair.tanist("mirrors", "wait", "lim", "--for", "lag=0", "--timeout", "60s")
    pair.workers["w2"].send(signal.SIGTERM)
