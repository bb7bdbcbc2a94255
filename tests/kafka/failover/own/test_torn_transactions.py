"""Transactions that were copied in part are named, and only they, whatever times their producers gave to records."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
MIRROR: Final = "back"
TOPICS: Final = ("ahead", "behind")
NOW: Final = SystemClock().now()
HOUR_MS: Final = 3_600_000


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("torn")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        pair.worker()
        yield pair


def transact(producer: Producer, value: bytes, time: int) -> None:
    """A transaction with a record in partition 0 of each topic."""
    producer.begin_transaction()
    for topic in TOPICS:
        producer.produce(topic, value, b"k", partition=0, timestamp=time)
    producer.commit_transaction(30)


def committed(pair: Pair, topic: str) -> set[bytes | None]:
    """The values at the source whose transaction has its marker."""
    return {value for _, _, value in pair.east.read(topic, isolation="read_committed")}


def dies_with_a_torn_transaction(pair: Pair) -> None:
    """Of producer `late` one transaction is torn, half an hour ahead; of `early` three are copied, one is in tails."""
    pair.mirror(MIRROR, *TOPICS)
    late, early = (Producer(pair.east.client() | {"transactional.id": name}) for name in ("late", "early"))
    for producer in (late, early):
        producer.init_transactions(30)
    for number in range(3):
        transact(early, b"copied", NOW - HOUR_MS + number)
    pair.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    pair.tanist("mirrors", "pause", MIRROR, "--topic", "behind")
    pair.tanist("mirrors", "wait", MIRROR, "--for", "state=PAUSED", "--topic", "behind", "--timeout", "200s")
    transact(late, b"torn", NOW + HOUR_MS // 2)
    until(lambda: b"torn" in {value for _, _, value in pair.west.read("ahead")}, 30)
    pair.worker().send(signal.SIGKILL)
    transact(early, b"whole", NOW - HOUR_MS + 9)
    until(lambda: all(b"whole" in committed(pair, topic) for topic in TOPICS), 20)
    pair.east.cluster.kill()
    pair.tanist("failover", "run", MIRROR, "--plan", pair.approved(MIRROR, mode="unplanned"), *QUICK, expected=None)
    assert pair.tanist("failover", "status", MIRROR, "--json").item["status"] == "DONE"
    pair.east.cluster.start()


def place(part: dict[str, Any]) -> tuple[str, int]:
    return part["topic"], part["partition"]


def test_torn_transactions_are_told_from_whole_ones_by_their_markers(own: Pair) -> None:
    """The torn one was not listed, as its records had a later time; and a whole one was, with three others."""
    dies_with_a_torn_transaction(own)
    own.worker("w2")
    survey = ("failback", "survey", "--no-rescue", MIRROR, "--json")
    until(lambda: own.tanist(*survey, expected=None).code != 3, 60, lambda: own.tanist(*survey, expected=None))
    done = own.tanist("failback", "rescue", MIRROR, "--json", "--evidence", str(own.home / "e"))
    rescued = {place(row): row["rescued"] for row in json.loads(done.out)["items"] if row["rescued"]}
    assert rescued == {("ahead", 0): 1, ("behind", 0): 2}
    (torn,) = json.loads((own.home / "e" / "manifest.json").read_text())["torn_transactions"]
    assert (place(torn["tail"]), [place(each) for each in torn["copied"]]) == (("behind", 0), [("ahead", 0)])
    assert torn["possibly_copied"] == []
    assert done.err.count("has records in the tail of") == 1
