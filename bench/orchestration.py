"""What Airflow adds to a failover: seconds from the approver's yes until every topic takes a record, both ways.

    python -m bench.orchestration [PARTITIONS]

`measure` starts two clusters of its own with authorizers, one broker each, a fetcher and a whole Airflow, and ends
them. Both ways are planned failovers of as many partitions and wait as long for the proof of the fence; a client of the
destination that tries again and again sees the end.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.rigs import report
from tanist.domain.errors import TimedOut
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox.airflow.home import AirflowSpec
from tanist_testkit.sandbox.airflow.service import Airflow
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.verify.flows import FlowRecord
from tanist_testkit.verify.writing import LogWriter
from tests.conftest import librdkafka
from tests.kafka.failover.conftest import DESCRIBE, TOPIC, WRITE, give, rules, running

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from tanist_testkit.sandbox.airflow.rest import Rest
    from tests.kafka.failover.conftest import KafkaSide, Pair

PARTITIONS: Final = 300
A_TOPIC: Final = 10
"""Partitions."""
PROOF_SECONDS: Final = 1
READING_SECONDS: Final = 2.0
RUNS: Final = 3
"""At most, where Airflow loses an answer."""
DAG: Final = "mirror_failover"
GATE: Final = "approve"
LIMIT_SECONDS: Final = 10.0
"""From the start of the run until all 300 partitions can be written to, without the proof of the fence."""
PROJECT: Final = Path(__file__).resolve().parents[1]


def measure(partitions: int = PARTITIONS) -> dict[str, Any]:
    """Seconds of both ways, and of the run itself without its waits for proofs."""
    with ExitStack() as stack:
        guardian = stack.enter_context(Guardian())
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tanist-bench-")))
        pair = stack.enter_context(running(guardian, librdkafka, home))
        _may_write_afterwards(pair)
        pair.worker()
        for name in ("cli", "dag"):
            _mirror(pair, name, partitions // A_TOPIC)
        run, cli = _by_cli(pair, _topics("cli", partitions // A_TOPIC))
        dag = _by_dag(pair, guardian, _topics("dag", partitions // A_TOPIC))
    return {
        "partitions": partitions,
        "cli_s": round(cli, 1),
        "dag_s": round(dag, 1),
        "overhead_s": round(dag - cli, 1),
        "run_s": run["seconds"],
        "proof_s": run["proof_seconds"],
    }


def _may_write_afterwards(pair: Pair) -> None:
    """`operator` writes at the source, and so at the destination from the moment on in which it is opened."""
    give(pair.east.cluster, *rules("operator", (TOPIC, WRITE)))
    give(pair.west.cluster, *rules("operator", (TOPIC, DESCRIBE)))


def _topics(mirror: str, count: int) -> tuple[str, ...]:
    return tuple(f"{mirror}-{n}" for n in range(count))


def _mirror(pair: Pair, name: str, topics: int) -> None:
    """A mirror whose every partition has ten records, all of it copied."""
    for topic in _topics(name, topics):
        pair.east.topic(topic, A_TOPIC)
        assert pair.east.writes(topic, range(10 * A_TOPIC), partitions=A_TOPIC)  # noqa: S101
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", f"{name}-.*")
    pair.tanist("mirrors", "wait", name, "--for", "lag=0", "--timeout", "90s")


# ── both ways ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _by_cli(pair: Pair, topics: tuple[str, ...]) -> tuple[dict[str, Any], float]:
    """What the run says of itself; seconds from the start of `failover approve`."""
    plan = pair.tanist("failover", "plan", "cli", "--json").item["plan_hash"]
    said: list[dict[str, Any]] = []

    def work() -> None:
        pair.tanist("failover", "approve", "cli", plan, "--reason", "bench", user="approver")
        asked = ("failover", "run", "cli", "--plan", plan, "--fence-proof", f"{PROOF_SECONDS}s", "--json")
        said.append(pair.tanist(*asked).item)

    began = time.monotonic()
    worker = threading.Thread(target=work)
    worker.start()
    seconds = _all_open(pair.west, topics) - began
    worker.join(100)
    return said[0], seconds


def _by_dag(pair: Pair, guardian: Guardian, topics: tuple[str, ...]) -> float:
    """Seconds from the answer of the gate."""
    spec = AirflowSpec(dags=PROJECT / "dags", plugins=PROJECT / "plugins")
    airflow = Airflow.new(spec, pair.home / "airflow", guardian=guardian)
    try:
        airflow.start(pair.connections(), {"TANIST_APPROVERS": "op2", "TANIST_EVIDENCE": str(pair.home)}, 120)
        with airflow.rest("op") as op, airflow.rest("op2") as op2:
            op.wait_for_dag(DAG, _soon())
            op.unpause(DAG)
            wanted = {"mirror": "dag", "destination": "west", "fence_proof": PROOF_SECONDS, "validate": "nothing"}
            run, began = _approved(op, op2, wanted)
            seconds = _all_open(pair.west, topics) - began
            assert op.wait_for_run(DAG, run, _soon()) == "success"  # noqa: S101
        return seconds
    finally:
        airflow.close()


def _approved(asks: Rest, approves: Rest, wanted: dict[str, Any]) -> tuple[str, float]:
    """A run, and when its gate was answered, by somebody who had read it for two seconds.

    One whose answer Airflow loses has failed before anything: it is asked for again, and not counted.
    """
    for _ in range(RUNS):
        run = asks.trigger(DAG, wanted)
        approves.wait_for_task(DAG, run, GATE, frozenset({"awaiting_input"}), _soon())
        time.sleep(READING_SECONDS)  # noqa: TID251
        began = time.monotonic()
        approves.answer(DAG, run, GATE, "Approve")
        if approves.wait_for_task(DAG, run, GATE, frozenset({"success", "failed"}), _soon()).state == "success":
            return run, began
        asks.wait_for_run(DAG, run, _soon())
    raise TimedOut(f"none of {RUNS} runs has taken the answer of its gate")


def _soon(seconds: float = 120) -> Deadline:
    return Deadline(time.monotonic() + seconds)


# ── when it is over ───────────────────────────────────────────────────────────────────────────────────────────────


def _all_open(west: KafkaSide, topics: tuple[str, ...]) -> float:
    """When the last partition of `topics` has taken a record of a client; monotonic seconds."""
    from confluent_kafka import KafkaException

    quick = {
        "linger_ms": "0",
        "message_timeout_ms": "5000",
        "topic_metadata_refresh_interval_ms": "200",
    }
    writer = LogWriter(west.client("operator", acks="all", **quick) | {"log_level": 2})
    closed = {(topic, partition) for topic in topics for partition in range(A_TOPIC)}
    by = _soon(300)
    while closed:
        assert by.left(time.monotonic()), f"{len(closed)} partitions cannot be written to"  # noqa: S101
        taken: set[tuple[str, int]] = set()
        for topic, partition in closed:
            with suppress(KafkaException):  # it knows already that it may not
                writer.write(topic, [FlowRecord(partition, value=b"mine")], partial(_report, taken, topic))
        writer.producer.flush(10)
        closed -= taken
        time.sleep(0.1)  # noqa: TID251
    return time.monotonic()


def _report(taken: set[tuple[str, int]], topic: str, record: FlowRecord, error: KafkaError | None, _: object) -> None:
    if error is None:
        taken.add((topic, record.partition))


def missed(found: dict[str, Any]) -> list[str]:
    """The targets that were not reached, in words."""
    return [f"the run took {found['run_s']} s"] if found["run_s"] > LIMIT_SECONDS else []


if __name__ == "__main__":
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    sys.exit(report(lambda: measure(partitions), missed))
