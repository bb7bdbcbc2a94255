"""Ten switchovers to and fro, under producers and groups that follow the primary."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.sandbox.spec import ClusterSpec
from tanist_testkit.verify import clients
from tanist_testkit.verify.comparing import compare
from tanist_testkit.verify.flows import Flow
from tanist_testkit.verify.reading import bounds, read
from tanist_testkit.verify.traces import Trace, merged
from tanist_testkit.verify.writing import Load
from tests.kafka.failover.both_ways import begin, fail_over, reverse, tanist
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.own.following import FollowingGroup
from tests.kafka.fetcher.rig import until
from tests.storm.accounts import Reader, of_compacted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tanist_testkit.verify.traces import Place, Traces
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import KafkaSide
    from tests.storm.accounts import Latest

pytestmark = pytest.mark.long
MIRROR: Final = "ten"
FLOWS: Final = (
    Flow(topic="plain", partitions=2, rate=40, idempotent=False),
    Flow(topic="idempotent", partitions=2, rate=40, compression="lz4"),
    Flow(topic="transactions", partitions=2, rate=40, transactional=True),
    Flow(topic="keyed", partitions=2, rate=20, keys=20),
)
TOPICS: Final = [flow.topic for flow in FLOWS if not flow.keys]
COMPACTED: Final = [flow.topic for flow in FLOWS if flow.keys]
RECORDS: Final = 100
"""That each group reads at least, and producers write, between two switchovers."""
CLOCK: Final = SystemClock()
SOON: Final = CLOCK.deadline


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("switchovers")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def test_ten_switchovers_keep_every_record_at_its_offset_and_groups_in_their_place(own: Pair) -> None:
    """Nothing is lost, nothing is repeated in a log, and all offsets are the same on both clusters.

    `billing` leaves before each failover, every second time after a poll that it has not committed: exactly these
    polls are delivered once more. `audit` reads at the old primary until the failover is over: only what it read there
    meanwhile may be delivered once more.
    """
    sides = {"east": own.east, "west": own.west}
    new = [flow.new_topic(1, min_isr=1) for flow in FLOWS]
    clients.create_topics(servers(own.east), new, SOON(60), CLOCK)
    tanist(own, "west", "mirrors", "create", MIRROR, "--source", "east", "--topic", "|".join([*TOPICS, *COMPACTED]))
    billing, audit = (FollowingGroup(name, TOPICS, COMPACTED) for name in ("billing", "audit"))
    here, there = "east", "west"
    loads = [writing(own.east, 0)]
    for number in range(10):
        for group in (billing, audit):
            group.read_at(servers(sides[here]))
            group.must_get_more(RECORDS)
        billing.leave(dies=number % 2 == 1)
        audit.expect_move()
        until(partial(can_fail_over, own, there), 60)
        fail_over(own, MIRROR, there, copied="state=MIRRORING")
        audit.leave()
        loads[-1].stop(SOON(60))
        loads.append(writing(sides[there], number + 1))
        until(partial(is_final, own, there), 60)
        reverse(own, MIRROR, there)
        here, there = there, here
    loads[-1].stop(SOON(60))
    tanist(own, there, "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", "200s")
    written = Counter(each for trace in must_be_identical(own, loads).values() for each in trace.digests)
    keys = must_have_equal_keys(own, loads)
    for group in (billing, audit):
        group.read_at(servers(sides[here]))
        group.must_get(written)
        group.leave(drained=True)
        assert group.latest == keys
    assert billing.delivered == written + billing.unsettled
    assert not (audit.delivered - written) - audit.unsettled
    described = tanist(own, there, "mirrors", "lineage", MIRROR, "--topic", "plain", "--json")
    assert {"east", "west"} >= {row["cluster"] for row in json.loads(described.out)["items"]}


def servers(side: KafkaSide) -> str:
    return side.cluster.bootstrap_servers


def writing(side: KafkaSide, number: int) -> Load:
    """Producers of all kinds, of which some records are acknowledged by now."""
    load = Load(servers(side), FLOWS, CLOCK, number)
    load.start()
    load.until(RECORDS, SOON(60))
    return load


def can_fail_over(pair: Pair, at: str) -> bool:
    """Whether a plan has nothing that blocks it: it may have, until the reversed mirror has reported."""
    shown = tanist(pair, at, "failover", "plan", MIRROR, "--json", expected=None)
    return bool(shown.out) and not any(each["blocks"] for each in shown.item["limitations"])


def is_final(pair: Pair, at: str) -> bool:
    """Whether coordinators of the old source have ended what its producers left open."""
    return tanist(pair, at, "failback", "survey", "--no-rescue", MIRROR, expected=None).code == 0


def log(side: KafkaSide, topics: list[str]) -> tuple[Traces, Latest]:
    """Every committed record, and the last one of each key."""
    reader = Reader()
    places = clients.places(servers(side), topics, SOON(60), CLOCK)
    logs = bounds(servers(side), places, SOON(60), CLOCK)
    found = read(servers(side), logs, committed=True, by=SOON(60), clock=CLOCK, digest_of=reader.identity)
    return {place: Trace(trace.offsets, trace.digests) for place, trace in found.items()}, reader.latest


def must_be_identical(pair: Pair, loads: list[Load]) -> Traces:
    """Both logs, which have each record that was acknowledged, once, at its offset."""
    (east, _), (west, _) = (log(side, TOPICS) for side in (pair.east, pair.west))
    acknowledged = merged([load.traces() for load in loads])
    for place, found in east.items():
        verdict = compare(place, found, west[place])
        assert not verdict.differences, verdict
        assert len(set(found.digests)) == len(found), place
        at = dict(zip(found.offsets, found.digests, strict=True))
        theirs = acknowledged[place]
        astray = [n for n, each in zip(theirs.offsets, theirs.digests, strict=True) if at.get(n) != each]
        assert not astray, place
        assert set(theirs.unplaced) <= set(found.digests), place
    return east


def must_have_equal_keys(pair: Pair, loads: list[Load]) -> dict[Place, dict[bytes, int]]:
    """The last record of each key, which is not older than the last one that was acknowledged."""
    (_, east), (_, west) = (log(side, COMPACTED) for side in (pair.east, pair.west))
    writers = [writer for load in loads for writer in load.writers]
    for place in east:
        known = [writer.latest[place] for writer in writers if place in writer.latest]
        wrong = list(of_compacted({"east": east[place], "west": west[place]}, known, place))
        assert not wrong
    return {place: {key: record.digest for key, record in keys.items()} for place, keys in east.items()}
