"""How long the commands and the workers of a mirror with many partitions take.

    python -m bench.scale [PARTITIONS]

Between two clusters of one broker each, with authorizers: from `mirrors create` until all partitions are MIRRORING;
from kill -9 of one of two workers until what was written after that is copied; `status` and `next`; and a planned
failover, with its proof.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.rigs import report
from tanist.cli.main import collect_rarely
from tanist.domain.names import MirrorPartition
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import End
from tanist.kafka.wire.router import Router
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.processes import Guardian
from tests.conftest import librdkafka
from tests.kafka.failover.conftest import EAST, running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kafka.failover.conftest import Pair

PARTITIONS: Final = 2_000
A_TOPIC: Final = 10
"""Partitions."""
MIRROR: Final = "scale"
PROOF_SECONDS: Final = 1
LIMITS: Final = {"mirroring_s": 10.0, "take_over_s": 10.0, "failover_work_s": 8.0, "status_s": 2.0, "next_s": 2.0}
"""Seconds, of 2,000 partitions; `status` and `next` also of 10,000."""


def measure(partitions: int = PARTITIONS) -> dict[str, Any]:
    """Seconds of each."""
    collect_rarely()  # the commands run in this process, and are to take as long as in one of their own
    with ExitStack() as stack:
        guardian = stack.enter_context(Guardian())
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tanist-bench-")))
        heap_mb = max(EAST.heap_mb, partitions // 10)  # with 384, a broker of 10,000 collects garbage, and dies
        source = replace(EAST, heap_mb=heap_mb)
        pair = stack.enter_context(running(guardian, librdkafka, home, source=source))
        topics = [f"{MIRROR}-{n}" for n in range(partitions // A_TOPIC)]
        for topic in topics:
            pair.east.topic(topic, A_TOPIC)
        assert pair.east.writes_to(topics, range(A_TOPIC), partitions=A_TOPIC)  # noqa: S101
        pair.worker("w1")
        return {"partitions": partitions} | _times(pair, topics)


def _times(pair: Pair, topics: Sequence[str]) -> dict[str, Any]:
    began = time.monotonic()
    long = ("--timeout", "300s")
    pair.tanist("mirrors", "create", MIRROR, "--source", "east", "--topic", f"{MIRROR}-.*", *long)
    created = time.monotonic() - began
    pair.tanist("mirrors", "wait", MIRROR, "--for", "state=MIRRORING", *long)
    mirroring = time.monotonic() - began
    pair.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", *long)
    pair.worker("w2")
    time.sleep(20)  # noqa: TID251  # the group has settled
    take_over = _taken_over(pair, topics)
    status = _typed(pair, "status", MIRROR, *long)
    following = _typed(pair, "next", MIRROR)
    plan = pair.tanist("failover", "plan", MIRROR, *long, "--json").item["plan_hash"]
    pair.tanist("failover", "approve", MIRROR, plan, "--reason", "bench", *long, user="approver")
    asked = ("failover", "run", MIRROR, "--plan", plan, "--fence-proof", f"{PROOF_SECONDS}s", "--json")
    run = pair.tanist(*asked).item
    return {
        "created_s": round(created, 1),
        "mirroring_s": round(mirroring, 1),
        "take_over_s": round(take_over, 1),
        "status_s": round(status, 1),
        "next_s": round(following, 1),
        "failover_work_s": run["seconds"],
        "proof_s": run["proof_seconds"],
    }


def _typed(pair: Pair, *words: str) -> float:
    began = time.monotonic()
    pair.tanist(*words, expected=None)
    return time.monotonic() - began


def _taken_over(pair: Pair, topics: Sequence[str]) -> float:
    """Seconds from the end of a worker until each partition has the record that was written after it."""
    at = [MirrorPartition(topic, n) for topic in topics for n in range(A_TOPIC)]
    pair.workers["w1"].send(signal.SIGKILL)
    began = time.monotonic()
    assert pair.east.writes_to(topics, range(A_TOPIC), partitions=A_TOPIC)  # noqa: S101
    with Router(pair.west.cluster.endpoint_for("admin"), "bench") as router:

        def copied() -> bool:
            ends = requests.list_offsets(router, dict.fromkeys(at, End.HIGH_WATERMARK), Deadline(time.monotonic() + 9))
            return all(end == 2 for end in ends.values())  # noqa: PLR2004  # the first record, and this one

        until(copied, 120)
    return time.monotonic() - began


def missed(found: dict[str, Any]) -> list[str]:
    """The targets that were not reached, in words."""
    return [f"{name}: {found[name]}, more than {most}" for name, most in LIMITS.items() if found[name] > most]


if __name__ == "__main__":
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    sys.exit(report(lambda: measure(partitions), missed))
