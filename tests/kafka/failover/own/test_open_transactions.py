"""Transactions of an old source that stay open after its return: named, and aborted by an approved plan."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer
from kafka.protocol.producer import ProduceRequest

from tanist.domain.names import BrokerId
from tanist.kafka.protocol.batch import crc32c, filler_batch, header_of, split
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import init_producer_id
from tanist.kafka.wire.router import Router
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.own.test_survey import survey
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
MIRROR: Final = "back"
COMMAND: Final = ("failback", "abort-transactions", MIRROR)
EAST: Final = ClusterSpec(
    name="east",
    heap_mb=384,
    properties={"transaction.partition.verification.enable": "false", "transaction.max.timeout.ms": "3600000"},
)


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("transactions")
    with running(guardian, client_config, home, source=EAST, authorizer=False) as pair:
        pair.worker()
        yield pair


def leaves_open(pair: Pair) -> None:
    """A transaction with records in partition 0 of `held`, and in a topic that is not mirrored."""
    options = {"transactional.id": "never-ended", "transaction.timeout.ms": "3000000", "linger.ms": "0"}
    producer = Producer(pair.east.client() | options)
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic in ("held", "aside"):
        producer.produce(topic, b"1000", b"k", partition=0)
    assert producer.flush(30) == 0


def leaves_hanging(pair: Pair, topic: str) -> int:
    """A transactional batch in partition 1 of `topic` of which no coordinator knows; its producer id.

    A broker that verifies transactions refuses it: `EAST` does not.
    """
    by = SystemClock().deadline(20)
    router = Router(pair.east.cluster.endpoint(), "tanist-test")
    number = init_producer_id(router, by)
    ((_, batch),) = split(memoryview(filler_batch(1, number, 0, 0, SystemClock().now())))
    whole = bytearray(batch)
    whole[22] |= 0x10
    whole[17:21] = crc32c(memoryview(whole)[21:]).to_bytes(4, "big")
    assert header_of(memoryview(whole)).is_transactional
    router.refresh([topic], by)
    kind = ProduceRequest.TopicProduceData
    data = kind(name=topic, partition_data=[kind.PartitionProduceData(index=1, records=bytes(whole))])
    leader = router.topics()[topic].partitions[1].leader
    connection = router.connection(BrokerId(leader or 0), by)
    request: Any = ProduceRequest(transactional_id="hanging", acks=-1, timeout_ms=9000, topic_data=[data], version=8)
    answer: Any = connection.call(request, by)
    assert answer.responses[0].partition_responses[0].error_code == 0
    router.close()
    return int(number)


def returns(own: Pair) -> int:
    """The source dies with two open transactions, and returns; the producer id of the hanging one."""
    own.east.topic("aside")
    own.mirror(MIRROR, "held")
    own.worker().send(signal.SIGKILL)
    assert own.east.writes("held", range(100, 104))
    leaves_open(own)
    hanging = leaves_hanging(own, "held")
    own.east.cluster.kill()
    own.tanist("failover", "run", MIRROR, "--plan", own.approved(MIRROR, mode="unplanned"), *QUICK, expected=None)
    assert own.tanist("failover", "status", MIRROR, "--json").item["status"] == "DONE"
    own.east.cluster.start()
    early = own.tanist(*COMMAND, "--dry-run", expected=None)
    assert "SOURCE_NOT_FENCED" in early.err
    own.worker("w2")
    until(lambda: (rows := survey(own)[1]) and "not in force" not in str(rows), 60)
    return hanging


def test_open_transactions_of_a_returned_source_are_named_and_aborted_by_approval(own: Pair) -> None:
    hanging = returns(own)
    code, rows = survey(own)
    assert code == 3
    assert "'never-ended'" in rows["held", 0]["reason"]
    assert f"producer id {hanging}" in rows["held", 1]["reason"]
    assert all("tanist failback abort-transactions" in row["reason"] for row in rows.values())
    assert "SURVEY_NOT_FINAL" in own.tanist("mirrors", "reverse", MIRROR, "--dry-run", expected=None).err

    shown = own.tanist(*COMMAND, "--dry-run", "--json").item
    named, lost = shown["transactions"]
    assert (named["transactional_id"], named["state"]) == ("never-ended", "Ongoing")
    assert {at["topic"] for at in named["partitions"]} == {"held", "aside"}
    assert (lost["transactional_id"], lost["producer_id"], lost["state"]) == (None, hanging, "Hanging")
    plan = shown["plan_hash"]
    assert "NOT_APPROVED" in own.tanist(*COMMAND, "--plan", plan, expected=1).err
    assert "ANOTHER_PLAN" in own.tanist(*COMMAND, "--approve", "0" * 16, "--reason", "x", expected=1).err
    own.tanist(*COMMAND, "--approve", plan, "--reason", "drill", user="approver")
    dry = own.tanist(*COMMAND, "--plan", plan, "--dry-run", "--json").item
    assert [each["aborted"] for each in dry["transactions"]] == [False, False]
    done = own.tanist(*COMMAND, "--plan", plan, "--json").item
    assert [each["aborted"] for each in done["transactions"]] == [True, True]
    assert own.tanist(*COMMAND, "--plan", plan, "--json").item["transactions"] == []
    assert own.tanist(*COMMAND, "--dry-run", "--json").item["plan_hash"] is None
    none = own.tanist(*COMMAND, "--approve", plan, "--reason", "x", expected=1)
    assert "NO_OPEN_TRANSACTIONS" in none.err

    code, rows = survey(own)
    assert {row["final"] for row in rows.values()} == {True}
    assert [row["records"] for _, row in sorted(rows.items())] == [2, 2], "nothing of an aborted transaction counts"
    values = [value for _, _, value in own.east.read("aside", isolation="read_committed")]
    assert values == []
