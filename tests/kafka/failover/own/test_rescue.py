"""What only an old source has is copied to quarantine: each committed record once, whatever is killed."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.own.returning import configs, killed, messages
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
MIRROR: Final = "back"
TOPICS: Final = ("tail", "same")
FIRST: Final = SystemClock().now() - 60_000
"""When the first record of the tail was written, ms since 1970."""


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("rescue")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        pair.worker()
        yield pair


def written_by_nobody_else(pair: Pair) -> list[tuple[bytes | None, bytes | None]]:
    """Forty records in partition 0 of `tail`, with headers, of which a transaction aborts ten; then a null key."""
    options = {"transactional.id": "tail", "linger.ms": "0"}
    producer = Producer(pair.east.client() | options)
    producer.init_transactions(30)
    kept: list[tuple[bytes | None, bytes | None]] = []
    for n in range(4):
        producer.begin_transaction()
        for m in range(10):
            key, value = b"k%d" % m, b"%d-" % n + bytes(400)
            producer.produce(
                "tail",
                value,
                key,
                partition=0,
                headers=[("h", b"%d" % n), ("none", None)],
                timestamp=FIRST + n,
            )
            if n != 2:
                kept.append((key, value))
        assert producer.flush(30) == 0
        producer.commit_transaction(30) if n != 2 else producer.abort_transaction(30)
    return kept


def copied_in_part(pair: Pair) -> None:
    """A transaction with a record in `same`, which is copied, and one in partition 1 of `tail`, which is not."""
    pair.tanist("mirrors", "pause", MIRROR, "--topic", "tail")
    pair.tanist("mirrors", "wait", MIRROR, "--for", "state=PAUSED", "--topic", "tail", "--timeout", "200s")
    producer = Producer(pair.east.client() | {"transactional.id": "torn"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic, partition in (("same", 0), ("tail", 1)):
        producer.produce(topic, b"torn", b"torn", partition=partition)
    producer.commit_transaction(30)
    until(lambda: len(pair.west.read("same")) == 11, 30)


def dies_with_a_tail(pair: Pair) -> list[tuple[bytes | None, bytes | None]]:
    pair.mirror(MIRROR, *TOPICS)
    copied_in_part(pair)
    pair.worker().send(signal.SIGKILL)
    kept = written_by_nobody_else(pair)
    until(lambda: len(pair.east.read("tail", isolation="read_committed")) == 11 + len(kept), 20)
    pair.east.cluster.kill()
    pair.tanist("failover", "run", MIRROR, "--plan", pair.approved(MIRROR, mode="unplanned"), *QUICK, expected=None)
    assert pair.tanist("failover", "status", MIRROR, "--json").item["status"] == "DONE"
    pair.east.cluster.start()
    return kept


def state(pair: Pair, key: str) -> list[dict[str, Any]]:
    out = pair.tanist("state", "dump", "--key", key, "--json").out
    return list(json.loads(out)["items"])


def test_tail_is_rescued_once_whatever_is_killed(own: Pair) -> None:
    kept = dies_with_a_tail(own)
    early = own.tanist("failback", "rescue", MIRROR, "--json", expected=3)
    assert "not in force" in early.err
    assert configs(own, "tail")["retention.ms"] == "-1"
    own.worker("w2")
    until(
        lambda: own.tanist("failback", "survey", "--no-rescue", MIRROR, expected=None).code != 3,
        30,
        lambda: own.tanist("failback", "survey", "--no-rescue", MIRROR, "--json", expected=None),
    )
    until(lambda: configs(own, "same")["cleanup.policy"] == "compact", 20)
    assert (configs(own, "tail")["retention.ms"], configs(own, "same")["retention.ms"]) == ("-1", "604800000")

    points = [("created", 1), ("prepared", 1), ("appended", 1), ("appended", 2), ("appended", 3), ("copied", 1)]
    for point, number in points:
        assert killed(own, point, number, MIRROR) == -9, (point, number)
    items = json.loads(own.tanist("failback", "rescue", MIRROR, "--json", "--evidence", str(own.home / "e")).out)[
        "items"
    ]
    tail, torn = [item for item in items if item["records"]]
    assert (torn["topic"], torn["partition"], torn["rescued"]) == ("tail", 1, 1)
    assert (tail["topic"], tail["partition"], tail["rescued"], tail["stage"]) == ("tail", 0, 30, "NOT_DECIDED")
    found = messages(own.west.client(group_id="q", enable_partition_eof="true"), tail["quarantine"], 0)
    assert [(each.key(), each.value()) for each in found] == kept
    assert {each.timestamp()[1] for each in found} == {FIRST + n for n in (0, 1, 3)}
    headers = [each.headers() for each in found]
    assert {tuple(each[:2]) for each in headers} == {(("h", b"%d" % n), ("none", None)) for n in (0, 1, 3)}
    offsets = [int(dict(each[2:])["tanist.origin.offset"]) for each in headers]
    assert offsets == sorted(set(offsets))
    assert dict(headers[0][2:])["tanist.origin.topic"] == b"tail"
    manifest = json.loads((own.home / "e" / "manifest.json").read_text())
    (written,) = [each for each in manifest["tails"] if each["records"] == 30]
    assert (written["digest"], written["records"]) == (tail["digest"], 30)
    (parts,) = manifest["torn_transactions"]
    assert [(each["topic"], each["partition"]) for each in (parts["tail"], *parts["copied"])] == [
        ("tail", 1),
        ("same", 0),
    ]
    again = own.tanist("failback", "rescue", MIRROR, "--json")
    assert len(messages(own.west.client(group_id="q", enable_partition_eof="true"), tail["quarantine"], 0)) == 30, again
