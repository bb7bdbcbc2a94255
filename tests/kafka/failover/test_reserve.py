"""After an unplanned failover no offset has two records, on both clusters together."""

from __future__ import annotations

import signal
from operator import le, lt
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At

from tanist.domain.names import MirrorName, MirrorPartition
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import End
from tanist.kafka.wire.router import Router
from tests.kafka.failover.test_real import QUICK, state
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import KafkaSide, Pair

SOON = SystemClock().deadline
RATE = 400
"""Records a second to each of two partitions."""


def mirrored(pair: Pair, name: str) -> None:
    """A mirror of an ordinary topic, which has a few records."""
    pair.east.topic(name)
    assert pair.east.writes(name, range(10))
    pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name)
    pair.tanist("mirrors", "wait", name, "--for", "lag=0", "--timeout", "200s")


def steadily(side: KafkaSide, topic: str, seconds: float, first: int, rate: int = RATE) -> int:
    """Write to both partitions, never faster than `rate`; the number behind the last record."""
    clock, producer = SystemClock(), Producer(side.client(acks="all", linger_ms="5"))
    until_then, n = clock.monotonic() + seconds, first
    while clock.monotonic() < until_then:
        for partition in range(2):
            producer.produce(topic, b"%d" % n, b"k", partition)
            n += 1
        producer.poll(0)
        clock.wait(1 / rate)
    assert producer.flush(20) == 0
    return n


def true_ends(side: KafkaSide, topic: str) -> tuple[int, int]:
    router = Router(side.cluster.endpoint(), "tanist-test")
    router.refresh([topic], SOON(10))
    found = requests.list_offsets(router, {MirrorPartition(topic, n): End.LOG_END for n in range(2)}, SOON(10))
    router.close()
    first, second = (found[MirrorPartition(topic, n)] for n in range(2))
    assert isinstance(first, int)
    assert isinstance(second, int)
    return first, second


def must_name_one_record_by_each_offset(pair: Pair, topic: str) -> None:
    """Oracle: everything that either cluster has, read from outside."""
    records: dict[tuple[int, int], set[bytes | None]] = {}
    for side in (pair.east, pair.west):
        for partition, offset, value in side.read(topic):
            records.setdefault((partition, offset), set()).add(value)
    assert not {at: values for at, values in records.items() if len(values) > 1}


def test_a_source_that_dies_while_it_is_written_to_shares_no_offset_with_the_new_primary(pair: Pair) -> None:
    """Killed in the middle of the reserve, and behind it; a group that was ahead goes on with the first new record."""
    pair.worker()
    mirrored(pair, "spent")
    written = steadily(pair.east, "spent", 4, 100)
    workers = [each for each in pair.workers.values() if each.alive]  # those of other tests, too
    for worker in workers:
        worker.send(signal.SIGSTOP)
    written = steadily(pair.east, "spent", 2, written, RATE // 2)
    source_ends = true_ends(pair.east, "spent")
    pair.east.cluster.kill()
    try:
        approved = _approved(pair)
        for point in ("seal:reserving", "seal:reserving", "seal:reserved", "seal:sealed"):
            assert pair.killed(point, "spent", approved) == -9
        for worker in workers:
            worker.send(signal.SIGCONT)
        where = ("--evidence", str(pair.home / approved))
        pair.tanist("failover", "run", "spent", "--plan", approved, *QUICK, *where)
        (entry,) = state(pair.west).lineage(MirrorName("spent"))
        assert all(map(lt, entry.old_ends, source_ends)), (entry, source_ends)
        assert all(map(le, source_ends, entry.reserve_ends)), (entry, source_ends)
        _goes_on_behind_the_reserve(pair, source_ends[0], entry.reserve_ends, written)
    finally:
        pair.east.cluster.start()
    until(lambda: state(pair.east).lineage(MirrorName("spent")) == (entry,), 40)
    assert true_ends(pair.east, "spent") == source_ends
    must_name_one_record_by_each_offset(pair, "spent")


@pytest.mark.long
def test_what_only_one_cluster_has_is_explained_by_the_lineage_and_no_difference(pair: Pair) -> None:
    """Ten records that nobody copied, ten of the new primary's own: `validate` and `reconcile` name them."""
    worker = pair.worker()
    mirrored(pair, "explained")
    steadily(pair.east, "explained", 3, 100)
    pair.tanist("mirrors", "wait", "explained", "--for", "lag=0", "--timeout", "200s")
    worker.send(signal.SIGSTOP)
    assert pair.east.writes("explained", range(9000, 9010))
    pair.east.cluster.kill()
    try:
        plan = pair.approved("explained", mode="unplanned")
        where = ("--evidence", str(pair.home / plan))
        pair.tanist("failover", "run", "explained", "--plan", plan, *QUICK, *where)
        assert pair.west.writes("explained", range(9100, 9110))
    finally:
        pair.east.cluster.start()
        worker.send(signal.SIGCONT)
    for level in ("batches", "records"):
        answer = pair.tanist("validate", "explained", "--level", level, "--json")
        for item in answer.item["partitions"]:
            assert (item["verdict"], item["only_old_source"], item["reused"]) == ("EQUAL", 5, 0), item
            assert "reserved for the old source" in item["reason"]
    answer = pair.tanist("reconcile", "explained", "--report", str(pair.home / "explained"), "--json")
    (entry,) = state(pair.west).lineage(MirrorName("explained"))
    for item in answer.item["partitions"]:
        n = item["partition"]
        assert (item["lost"], item["only_source"], item["foreign"], item["only_destination"]) == (0, 5, 0, 5), item
        tail, own = item["explained"]
        assert (tail["log"], tail["start"], tail["until"]) == ("source", entry.old_ends[n], entry.reserve_ends[n])
        assert "reserved these offsets for 'east'" in tail["reason"]
        assert (own["log"], own["start"], own["until"]) == ("destination", entry.reserve_ends[n], None)
        assert "'west' took over in promotion 1" in own["reason"]


def _approved(pair: Pair) -> str:
    plan = pair.tanist("failover", "plan", "spent", "--mode", "unplanned", "--json").item
    assert plan["reserve"]["offsets"] > RATE
    assert (plan["reserve"]["may_be_reused"], plan["reserve"]["complete"]) == ([], [])
    assert plan["reserve"]["budget"] == 300_000
    return pair.approved("spent", mode="unplanned")


def _goes_on_behind_the_reserve(pair: Pair, ahead: int, reserve_ends: tuple[int, ...], written: int) -> None:
    """New records begin behind it, and a group that is at an offset of the lost tail reads the first of them next."""
    group = Consumer(pair.west.client(group_id="ahead", auto_offset_reset="error"))
    group.commit(offsets=[At("spent", 0, ahead)], asynchronous=False)
    assert pair.west.writes("spent", range(written, written + 20))
    own = [(partition, offset) for partition, offset, value in pair.west.read("spent") if int(value or 0) >= written]
    assert len(own) == 20
    assert all(offset >= reserve_ends[partition] for partition, offset in own)
    group.assign([At("spent", 0, ahead)])
    found: list[int] = []
    until(lambda: bool(found) or _next(group, found), 40)
    group.close()
    assert found == [min(offset for partition, offset in own if partition == 0)]


def _next(group: Consumer, found: list[int]) -> bool:
    """Read one record, and keep its offset."""
    message = group.poll(1)
    if message is None or message.error():
        return False
    found.append(message.offset() or 0)
    return True


@pytest.mark.long  # the first test kills the source in the reserve
def test_a_worker_that_copies_until_the_fence_writes_nothing_into_the_reserve(pair: Pair) -> None:
    """An unplanned failover from a source that answers: the worker has records in its hands all the time."""
    pair.worker()
    mirrored(pair, "living")
    written = steadily(pair.east, "living", 3, 100)
    plan = pair.approved("living", "--max-loss", "1000000", "--reserve", "60000", mode="unplanned")
    for point in ("seal:data-half", "seal:data-fenced", "seal:lineage", "seal:sealed"):
        assert pair.killed(point, "living", plan) == -9
    where = ("--evidence", str(pair.home / plan))
    pair.tanist("failover", "run", "living", "--plan", plan, *QUICK, *where)
    (entry,) = state(pair.west).lineage(MirrorName("living"))
    ends = true_ends(pair.east, "living")
    assert all(end <= reserved for end, reserved in zip(ends, entry.reserve_ends, strict=True))
    assert pair.west.writes("living", range(written, written + 20))
    for partition, offset, value in pair.west.read("living"):
        mine = int(value or 0) >= written
        assert (offset >= entry.reserve_ends[partition]) if mine else (offset < entry.old_ends[partition])
    must_name_one_record_by_each_offset(pair, "living")


@pytest.mark.long
def test_what_is_not_reserved_is_named_with_its_cost(pair: Pair) -> None:
    """A budget of nothing, and a time that cannot be: each is said before anything is done, and by the run."""
    pair.worker()
    mirrored(pair, "named")
    steadily(pair.east, "named", 2, 100)
    plan = ("failover", "plan", "named", "--mode", "unplanned")
    seen_since = pair.tanist(*plan, "--source-dead-since", "2026-01-01T00:00:00Z", expected=1)
    assert "SOURCE_SEEN_LATER" in seen_since.err
    for wrong in (("--reserve", "much"), ("--source-dead-since", "yesterday")):
        assert pair.tanist(*plan, *wrong, expected=2).out == ""
    assert "lies in the future" in pair.tanist(*plan, "--source-dead-since", "2100-01-01T00:00:00Z", expected=2).err
    assert "reserve: " in pair.tanist(*plan).err
    steadily(pair.east, "named", 2, 1_000)
    accepted = pair.approved("named", "--reserve", "none", "--max-loss", "1000000", mode="unplanned")
    where = ("--evidence", str(pair.home / accepted), "--json")
    done = pair.tanist("failover", "run", "named", "--plan", accepted, *QUICK, *where)
    assert set(done.item["may_be_reused"]) == {"named-0", "named-1"}
    assert "warning: new records of named-0 may get offsets that the old source has used" in done.err
    assert "may_be_reused" in (pair.home / accepted / "evidence.json").read_text()
