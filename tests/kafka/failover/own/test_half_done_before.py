"""What a version before has left half done is finished by this one: a failover, a reversal, a replay, an abort.

The other version runs from its commit, with the libraries of this one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, fail_over, records, tanist
from tests.kafka.failover.conftest import COMMAND_SECONDS, Pair, running
from tests.kafka.failover.own.returning import messages
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Answer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
COMMIT: Final = "eb4e5d4"
"""Here the way back was a machine of its own, beside that of failovers."""
ROOT: Final = Path(__file__).parents[4]
EAST: Final = ClusterSpec(
    name="east",
    heap_mb=384,
    properties={"transaction.partition.verification.enable": "false", "transaction.max.timeout.ms": "3600000"},
)
OLD_QUICK: Final = tuple(each for each in QUICK if each != "--although-it-answers")
KILLED_ABORT: Final = """
import os, signal, sys
from tanist.usecases.failback import aborting
abort = aborting._abort
def once(*given):
    abort(*given)
    os.kill(os.getpid(), signal.SIGKILL)
aborting._abort = once
from tanist.cli.app import run
run()
"""
"""The command line, which dies when it has aborted one transaction."""


class Before:
    """The version of `COMMIT`."""

    def __init__(self, home: Path, pair: Pair) -> None:
        self.home = home
        self.pair = pair
        archive = home / "before.tar"
        subprocess.run(["git", "archive", "-o", archive, COMMIT, "include", "tests"], cwd=ROOT, check=True)
        with tarfile.open(archive) as packed:
            packed.extractall(home, filter="data")

    def runs(self, code: str, *arguments: str, user: str = "mirror") -> subprocess.CompletedProcess[str]:
        """`code` in a process of its own, with these arguments of the command line."""
        path = os.pathsep.join(map(str, (self.home / "include", self.home)))
        environment = self.pair.environment(user) | {"PYTHONPATH": path, "TANIST_DESTINATION": "west"}
        argv = [sys.executable, "-c", code, *arguments]
        return subprocess.run(
            argv, cwd=self.home, env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )

    def item(self, *arguments: str, user: str = "mirror") -> dict[str, Any]:
        """What its command line says about one thing."""
        done = self.runs("from tanist.cli.app import run; run()", *arguments, "--destination", "west", user=user)
        assert done.returncode == 0, done.stdout + done.stderr
        (found,) = json.loads(done.stdout)["items"]
        return dict(found)

    def dies(self, code: str, *arguments: str, user: str = "mirror") -> None:
        """As `runs`; it kills itself."""
        done = self.runs(code, *arguments, user=user)
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("before")
    with running(guardian, client_config, home, source=EAST, authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


@pytest.fixture(scope="module")
def before(own: Pair, tmp_path_factory: pytest.TempPathFactory) -> Before:
    made = Before(tmp_path_factory.mktemp("code"), own)
    told = made.runs("import tanist; print(tanist.__file__)")
    assert told.stdout.startswith(str(made.home)), told.stderr
    return made


def copied(pair: Pair, mirror: str, topic: str) -> None:
    """A mirror of one topic, with ten records that are copied."""
    pair.east.topic(topic)
    assert pair.east.writes(topic, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", topic)
    tanist(pair, "west", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")


@pytest.mark.parametrize("point", ["after:fence", "after:seal", "after:configs"])
def test_a_failover(own: Pair, before: Before, point: str) -> None:
    mirror = topic = f"failed-{point.partition(':')[2]}"
    copied(own, mirror, topic)
    plan = before.item("failover", "plan", mirror, "--mode", "planned", "--json")["plan_hash"]
    before.item(
        "failover", "approve", mirror, plan, "--mode", "planned", "--reason", "drill", "--json", user="approver"
    )
    before.dies("from tests.kafka.failover.killed import main; main()", point, mirror, plan, str(own.home / plan))
    assert own.tanist("failover", "status", mirror, "--json", expected=None).item["status"] == "RUNNING"
    done = own.tanist("failover", "run", mirror, "--plan", plan, *QUICK, "--evidence", str(own.home / plan)).item
    assert done["status"] == "DONE"
    assert own.west.writes(topic, range(10, 14))
    assert sorted(int(value or 0) for _, _, value in own.west.read(topic)) == list(range(14))


@pytest.mark.parametrize("point", ["lifted", "state"])
def test_a_reversal(own: Pair, before: Before, point: str) -> None:
    mirror = topic = f"reversed-{point}"
    copied(own, mirror, topic)
    fail_over(own, mirror, "west")
    assert own.west.writes(topic, range(10, 14))
    plan = before.item("mirrors", "reverse", mirror, "--dry-run", "--json")["plan_hash"]
    approval = ("--approve", plan, "--reason", "drill", "--json")
    before.item("mirrors", "reverse", mirror, *approval, user="approver")
    before.dies("from tests.kafka.failover.killed_reversal import main; main()", point, mirror, "west")
    assert "MIRROR_LOCKED" in tanist(own, "west", "mirrors", "alter", mirror, "--on-loss", "fail", expected=1).err
    tanist(own, "west", "mirrors", "reverse", mirror)
    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    assert own.west.writes(topic, range(14, 18))
    tanist(own, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    found = records(own.east, topic)
    assert found == records(own.west, topic)
    assert sorted(int(value or 0) for _, _, value in found) == list(range(18))


def dies_with(pair: Pair, mirror: str, topic: str, values: Sequence[int]) -> None:
    """The source dies with records that nobody copied, and returns after the failover."""
    tanist(pair, "west", "mirrors", "pause", mirror, "--topic", topic)
    tanist(pair, "west", "mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "200s")
    producer = Producer(pair.east.client())
    for value in values:
        producer.produce(topic, b"%d" % value + bytes(300), b"k%d" % value, partition=0)
    assert producer.flush(30) == 0
    plan = pair.approved(mirror, mode="unplanned")
    pair.tanist("failover", "run", mirror, "--plan", plan, *QUICK, expected=None)
    assert pair.tanist("failover", "status", mirror, "--json").item["status"] == "DONE"


def survey(pair: Pair, mirror: str) -> list[dict[str, Any]]:
    return list(
        json.loads(pair.tanist("failback", "survey", "--no-rescue", mirror, "--json", expected=None).out)["items"]
    )


def once_free(pair: Pair, *command: str) -> dict[str, Any]:
    """What a command answers that holds the lock of a process of the version before, which nothing proves dead."""
    answers: list[Answer] = []

    def free() -> bool:
        answers.append(pair.tanist(*command, expected=None))
        return "MIRROR_LOCKED" not in answers[-1].err

    until(free, 60)
    assert answers[-1].code == 0, answers[-1]
    return answers[-1].item


def test_a_replay(own: Pair, before: Before) -> None:
    mirror = topic = "replayed"
    copied(own, mirror, topic)
    dies_with(own, mirror, topic, range(100, 140))
    until(lambda: all(row["final"] for row in survey(own, mirror)), 60)
    own.tanist("failback", "rescue", mirror)
    chosen = ("--replay", "safe", "--drop", "conflict")
    plan = before.item("failback", "decide", mirror, *chosen, "--json")["plan_hash"]
    before.item("failback", "approve", mirror, plan, *chosen, "--reason", "drill", "--json", user="approver")
    asked = ("appended", "2", str(own.home / "evidence"), mirror, plan)
    before.dies("from tests.kafka.failover.own.returning import main; main()", *asked)
    some = len(messages(own.west.client(group_id="q", enable_partition_eof="true"), topic, 0))
    done = once_free(own, "failback", "replay", mirror, "--plan", plan, "--json")
    assert sum(row["replayed"] for row in done["tails"]) == 40
    values = [
        each.value().rstrip(b"\0")
        for each in messages(own.west.client(group_id="q", enable_partition_eof="true"), topic, 0)
    ]
    assert 5 < some < len(values)
    assert sorted(int(value) for value in values if int(value) >= 100) == list(range(100, 140)), "each of them once"


def test_an_abort_of_transactions(own: Pair, before: Before) -> None:
    mirror = topic = "held"
    copied(own, mirror, topic)
    tanist(own, "west", "mirrors", "pause", mirror, "--topic", topic)
    tanist(own, "west", "mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "200s")
    for name in ("first", "second"):
        producer = Producer(own.east.client() | {"transactional.id": name, "transaction.timeout.ms": "3000000"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"1000", b"k", partition=0)
        assert producer.flush(30) == 0
    plan = own.approved(mirror, mode="unplanned")
    own.tanist("failover", "run", mirror, "--plan", plan, *QUICK, expected=None)
    assert own.tanist("failover", "status", mirror, "--json").item["status"] == "DONE"
    command = ("failback", "abort-transactions", mirror)
    until(lambda: own.tanist(*command, "--dry-run", "--json", expected=None).code == 0, 60)
    shown = before.item(*command, "--dry-run", "--json")
    assert [each["transactional_id"] for each in shown["transactions"]] == ["first", "second"]
    before.item(*command, "--approve", shown["plan_hash"], "--reason", "drill", "--json", user="approver")
    before.dies(KILLED_ABORT, *command, "--plan", shown["plan_hash"], "--destination", "west")
    (left,) = once_free(own, *command, "--plan", shown["plan_hash"], "--json")["transactions"]
    assert (left["transactional_id"], left["aborted"]) == ("second", True)
    assert own.tanist(*command, "--dry-run", "--json").item["transactions"] == []
    assert [value for _, _, value in own.east.read(topic, isolation="read_committed") if value == b"1000"] == []
