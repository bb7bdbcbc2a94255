"""Producers write to the old source while a reversal is under way: it is withdrawn, and their records are a tail."""

from __future__ import annotations

import json
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer

from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import KILLED, begin, records, tanist
from tests.kafka.failover.conftest import COMMAND_SECONDS, Pair, running
from tests.kafka.failover.own.test_reverse import rules_and_state
from tests.kafka.failover.test_real import QUICK
from tests.kafka.failover.test_reserve import steadily
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Answer, KafkaSide

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("withdrawn")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def returned(pair: Pair, topic: str) -> None:
    """The mirror of `topic`, which has its name, has failed over from a dead source, which is back without a tail."""
    pair.east.topic(topic)
    assert pair.east.writes(topic, range(10))
    tanist(pair, "west", "mirrors", "create", topic, "--source", "east", "--topic", topic)
    tanist(pair, "west", "mirrors", "wait", topic, "--for", "lag=0", "--timeout", "200s")
    steadily(pair.east, topic, 4, 1000)
    tanist(pair, "west", "mirrors", "wait", topic, "--for", "lag=0", "--timeout", "200s")
    for worker in pair.workers.values():
        worker.send(signal.SIGKILL)
    pair.east.cluster.kill()
    how = ("--mode", "unplanned")
    plan = tanist(pair, "west", "failover", "plan", topic, *how, "--json").item["plan_hash"]
    tanist(pair, "west", "failover", "approve", topic, plan, *how, "--reason", "drill", user="approver")
    tanist(pair, "west", "failover", "run", topic, "--plan", plan, *QUICK, expected=None)
    assert pair.west.writes(topic, range(200, 210))
    pair.east.cluster.start()
    for side in ("west", "east"):
        begin(pair, side)
    until(lambda: survey(pair, topic).code == 0, 60)


def survey(pair: Pair, mirror: str) -> Answer:
    return tanist(pair, "west", "failback", "survey", "--no-rescue", mirror, "--json", expected=None)


def approved(pair: Pair, mirror: str) -> str:
    plan = tanist(pair, "west", "mirrors", "reverse", mirror, "--dry-run", "--json").item["plan_hash"]
    tanist(pair, "west", "mirrors", "reverse", mirror, "--approve", plan, "--reason", "drill", user="approver")
    return str(plan)


def died(pair: Pair, point: str, mirror: str) -> None:
    done = forks.Command(KILLED, (point, mirror, "west"), pair.environment(), pair.home).wait(COMMAND_SECONDS)
    assert done.code == -9, done.err


def tails(pair: Pair, mirror: str) -> int:
    return sum(row["records"] for row in json.loads(survey(pair, mirror).out)["items"])


def is_fenced(side: KafkaSide, topic: str) -> bool:
    """Records of a few bytes pass a source fence without an authorizer."""
    return not sent(Producer(side.client(message_timeout_ms="5000")), topic, b"x" * 500)


def sent(producer: Producer, topic: str, value: bytes) -> bool:
    """Whether it is acknowledged; False: it is too large for a source fence."""
    answers: list[KafkaError | None] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _message: answers.append(error))
    producer.flush(20)
    (found,) = answers
    assert found is None or found.code() == KafkaError.MSG_SIZE_TOO_LARGE, found
    return found is None


def decides(pair: Pair, mirror: str, tail: list[int]) -> None:
    """Rescue the tail, and leave it in quarantine."""
    tanist(pair, "west", "failback", "rescue", mirror)
    quarantined = pair.west.read(f"__mirror_quarantine.{mirror}")
    assert sorted(int(value or 0) for _, _, value in quarantined) == tail
    drop = [word for name in ("safe", "conflict", "unordered", "expired") for word in ("--drop", name)]
    plan = tanist(pair, "west", "failback", "decide", mirror, *drop, "--json").item["plan_hash"]
    tanist(pair, "west", "failback", "approve", mirror, plan, *drop, "--reason", "drill", user="approver")
    tanist(pair, "west", "failback", "replay", mirror, "--plan", plan)


def in_step(pair: Pair, mirror: str, tail: list[int]) -> None:
    """Apart from `tail`, which only the old source has, both clusters have the same records at the same offsets."""
    tanist(pair, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    east = records(pair.east, mirror)
    assert sorted(int(value or 0) for _, _, value in east if int(value or 0) in tail) == tail
    assert [row for row in east if int(row[2] or 0) not in tail] == records(pair.west, mirror)


def test_records_written_while_a_reversal_was_interrupted_are_no_history(own: Pair) -> None:
    """It is withdrawn, killed wherever: the old source is as it was, the records are its tail, the approval is used."""
    mirror, tail = "window", list[int]()
    returned(own, mirror)
    before = configs(own, mirror)
    for point in ("withdrawing", "fenced", "undone"):
        approved(own, mirror)
        died(own, "lifted", mirror)
        late = range(300 + len(tail), 304 + len(tail))
        assert own.east.writes(mirror, late)
        tail += late
        died(own, point, mirror)
        locked = tanist(own, "west", "mirrors", "alter", mirror, "--on-loss", "fail", expected=1)
        assert "MIRROR_LOCKED" in locked.err
        withdrawn = tanist(own, "west", "mirrors", "reverse", mirror, expected=1)
        assert "REVERSAL_WITHDRAWN" in withdrawn.err
        assert "LOG_CHANGED_SINCE_SURVEY: window-0: producers have written to offsets" in withdrawn.err
        assert is_fenced(own.east, mirror)
        assert configs(own, mirror) == before
        assert tails(own, mirror) == len(tail)
        again = tanist(own, "west", "mirrors", "reverse", mirror, expected=1)
        assert "TAIL_UNDECIDED" in again.err
        decides(own, mirror, tail)
    (move,) = json.loads(tanist(own, "west", "state", "dump", "--key", f"moved/{mirror}", "--json").out)["items"]
    assert len({*move["value"]["used"], move["value"]["approval"]}) == 3, "no approval of them may count again"
    approved(own, mirror)
    tanist(own, "west", "mirrors", "reverse", mirror)
    in_step(own, mirror, tail)


def configs(pair: Pair, topic: str) -> object:
    """At the old source, while retention is held there."""
    return rules_and_state(pair, "east", topic)[-1]


def test_an_approval_holds_for_one_reversal(own: Pair) -> None:
    """Withdrawn on request it is used, though the clusters make the same plan again."""
    mirror = "once"
    returned(own, mirror)
    none = tanist(own, "west", "mirrors", "reverse", mirror, "--withdraw", "--reason", "drill", expected=1)
    assert "NO_UNFINISHED_REVERSAL" in none.err
    before, plan = configs(own, mirror), approved(own, mirror)
    died(own, "configured", mirror)
    why = ("--withdraw", "--reason", "the producers could not be stopped")
    tanist(own, "west", "mirrors", "reverse", mirror, *why, "--dry-run")
    withdrawn = tanist(own, "west", "mirrors", "reverse", mirror, *why, "--json")
    assert withdrawn.item == {"mirror": mirror, "plan_hash": plan, "changed": True}
    assert "the producers could not be stopped" in withdrawn.err
    assert configs(own, mirror) == before
    used = tanist(own, "west", "mirrors", "reverse", mirror, expected=1)
    assert "was used by a run that is WITHDRAWN (the producers could not be stopped)" in used.err
    assert approved(own, mirror) == plan
    tanist(own, "west", "mirrors", "reverse", mirror)
    in_step(own, mirror, [])


def test_a_producer_that_keeps_trying_is_acknowledged_where_a_survey_finds_it(own: Pair) -> None:
    """Whatever moment its record gets in, it is in a tail, or in a topic that has failed by name."""
    mirror, stop, acknowledged = "tries", threading.Event(), list[int]()
    returned(own, mirror)
    client = own.east.client(message_timeout_ms="3000", acks="all", linger_ms="0")
    thread = threading.Thread(target=keeps_trying, args=(client, mirror, stop, acknowledged))
    approved(own, mirror)
    thread.start()
    done = tanist(own, "west", "mirrors", "reverse", mirror, expected=None)
    stop.set()
    thread.join(30)
    assert acknowledged, "it has lost the race"
    if done.code:
        assert "REVERSAL_WITHDRAWN" in done.err
        assert tails(own, mirror) == len(acknowledged)
    else:
        until(lambda: "FOREIGN_WRITE" in tanist(own, "east", "mirrors", "describe", mirror).out, 60)


def keeps_trying(client: dict[str, Any], topic: str, stop: threading.Event, acknowledged: list[int]) -> None:
    """One record at a time; a refused one is sent again at once."""
    producer, number = Producer(client), 300
    while not stop.is_set():
        if sent(producer, topic, b"%d" % number + b" " * 200):
            acknowledged.append(number)
            number += 1


@pytest.mark.parametrize("point", ["settling", "state"])
def test_records_written_before_the_mirror_has_claimed_the_log_are_foreign_writes(own: Pair, point: str) -> None:
    """Their offsets are beyond those where copying begins, which are stored by then or about to be."""
    mirror = f"claim-{point}"
    returned(own, mirror)
    own.workers["east"].send(signal.SIGSTOP)
    approved(own, mirror)
    frozen = forks.Command(KILLED, (point, mirror, "west", "SIGSTOP"), own.environment(), own.home)
    until(lambda: frozen.stopped, 60)
    assert own.east.writes(mirror, range(300, 304))
    frozen.send(signal.SIGCONT)
    assert frozen.wait(COMMAND_SECONDS).code == 0
    own.workers["east"].send(signal.SIGCONT)
    until(lambda: "FOREIGN_WRITE" in tanist(own, "east", "mirrors", "describe", mirror).out, 60)
    assert tanist(own, "east", "mirrors", "status", mirror, expected=None).code != 0
