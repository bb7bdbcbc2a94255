"""An old source that returns: what it has that the new primary lacks, and what it has lost."""

from __future__ import annotations

import json
import shutil
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist.domain.names import MirrorPartition
from tanist.kafka.adapters.divergent_tails import KafkaDivergentTails
from tanist.kafka.wire.router import Router
from tanist.ports.tails import CopiedSpan
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import soon, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
MIRROR: Final = "back"
TOPICS: Final = ("tail", "same", "short", "other")
RESTORED: Final = ("short", "other")
SINGLE: Final = ("single", "shifted")
"""Their partition 0 gets transactions of one record."""


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("survey")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        pair.worker()
        yield pair


def log_of(pair: Pair, topic: str) -> Path:
    """Of its partition 0 at the source."""
    return pair.east.cluster.log_file(1).parent / "data" / f"{topic}-0"


def survey(pair: Pair, *options: str) -> tuple[int, dict[tuple[str, int], dict[str, Any]]]:
    """The exit code, and the rows by partition."""
    answer = pair.tanist("failback", "survey", "--no-rescue", MIRROR, "--json", *options, expected=None)
    assert answer.out, answer.err
    rows = json.loads(answer.out)["items"]
    return answer.code, {(row["topic"], row["partition"]): row for row in rows}


def dies_with_a_tail(pair: Pair) -> None:
    """Each topic has ten records and their copies, two have ten more; then `tail` gets eight that nobody copies."""
    pair.mirror(MIRROR, *TOPICS)
    for topic in RESTORED:
        shutil.copytree(log_of(pair, topic), pair.home / topic)
        assert pair.east.writes(topic, range(10, 20))
    pair.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    pair.worker().send(signal.SIGKILL)
    assert pair.east.writes("tail", range(100, 108))
    pair.east.cluster.kill()


def test_an_old_source_is_compared_with_what_has_taken_over(own: Pair) -> None:
    """Records that nobody copied, a log from a backup, and one that got other records since."""
    nothing = own.tanist("failback", "survey", "--no-rescue", "none", expected=1)
    assert "UNKNOWN_MIRROR" in nothing.err
    dies_with_a_tail(own)
    early = own.tanist("failback", "survey", "--no-rescue", MIRROR, expected=1)
    assert "NOTHING_FAILED_OVER" in early.err
    own.tanist("failover", "run", MIRROR, "--plan", own.approved(MIRROR, mode="unplanned"), *QUICK, expected=None)
    assert own.tanist("failover", "status", MIRROR, "--json").item["status"] == "DONE"
    assert own.west.writes("tail", range(200, 206))
    dead = own.tanist("failback", "survey", "--no-rescue", MIRROR, "--timeout", "10s", expected=3)
    assert "east" in dead.err

    for topic in RESTORED:
        shutil.rmtree(log_of(own, topic))
        shutil.copytree(own.home / topic, log_of(own, topic))
    own.east.cluster.start()
    assert own.east.writes("other", range(300, 308))
    code, found = survey(own, "--topic", "tail")
    assert code == 3
    assert "source fence is not in force" in found["tail", 0]["reason"]
    own.worker("w2")
    until(lambda: survey(own)[0] != 3, 60)

    code, found = survey(own)
    assert code == 1
    for partition in (0, 1):
        tail, same = found["tail", partition], found["same", partition]
        assert (tail["common_end"], tail["old_end"], tail["end"]) == (5, 5, 9)
        assert (tail["records"], tail["keys"]) == (4, 1)
        assert tail["verdict"] == ("TAIL" if tail["end"] <= tail["reserve_end"] else "OVERLAP")
        assert tail["first_ms"] <= tail["last_ms"]
        assert (same["verdict"], same["common_end"], same["end"], same["records"]) == ("NO_TAIL", 5, 5, 0)
    short, other = found["short", 0], found["other", 0]
    assert (short["verdict"], short["common_end"], short["old_end"], short["end"]) == ("SHORTER", 5, 10, 5)
    assert (other["verdict"], other["common_end"], other["old_end"], other["end"]) == ("DIVERGED", 5, 10, 9)
    assert other["records"] == 4
    assert {row["final"] for row in found.values()} == {True}


def one_record_transactions(pair: Pair, name: str, count: int, *, shifted: bool = False) -> None:
    """In partition 0 of both topics. `shifted`: in one of them markers take the offsets that records had before."""
    producer = Producer(pair.east.client() | {"transactional.id": name, "linger.ms": "0"})
    producer.init_transactions(30)
    if shifted:
        producer.begin_transaction()
        for _ in range(2):
            producer.produce("shifted", b"aborted", b"k", partition=0)
        assert producer.flush(30) == 0
        producer.abort_transaction(30)
    for number in range(count):
        producer.begin_transaction()
        for topic in SINGLE:
            producer.produce(topic, b"%s-%d" % (name.encode(), number), b"k", partition=0)
        producer.commit_transaction(30)


def restored_with_other_transactions(pair: Pair) -> None:
    """Of each topic 5 records are left at the source; 100 transactions more were copied, and 120 others came later."""
    pair.mirror(MIRROR, *SINGLE)
    for topic in SINGLE:
        shutil.copytree(log_of(pair, topic), pair.home / topic)
    one_record_transactions(pair, "copied", 100)
    pair.tanist("mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    pair.worker().send(signal.SIGKILL)
    pair.east.cluster.kill()
    pair.tanist("failover", "run", MIRROR, "--plan", pair.approved(MIRROR, mode="unplanned"), *QUICK, expected=None)
    for topic in SINGLE:
        shutil.rmtree(log_of(pair, topic))
        shutil.copytree(pair.home / topic, log_of(pair, topic))
    pair.east.cluster.start()
    one_record_transactions(pair, "others", 120, shifted=True)


def test_records_that_replaced_one_record_transactions_were_counted_as_copied(own: Pair) -> None:
    """Without an exact leader epoch the search ended at the first window: 64 offsets before L, or at L.

    What lay before was in no tail: neither surveyed nor rescued, and deleted by `mirrors reverse --recreate`.
    """
    restored_with_other_transactions(own)
    own.worker("w2")
    until(lambda: survey(own)[0] != 3, 60)
    code, found = survey(own)
    assert code == 1
    east, west = (Router(side.cluster.endpoint(), "test") for side in (own.east, own.west))
    for topic in SINGLE:
        row = found[topic, 0]
        assert (row["verdict"], row["common_end"], row["records"]) == ("DIVERGED", 5, 120)
        at = MirrorPartition(topic, 0)
        for epoch in (-1, 0, 1_000):
            span = CopiedSpan(row["old_end"], row["end"], epoch)
            assert KafkaDivergentTails(east, west).common_ends({at: span}, soon()) == {at: 5}
    for router in (east, west):
        router.close()
