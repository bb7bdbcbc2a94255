"""A destination gets its state back from an export that is older than a failover, or from logs that have a tail."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import LAG, begin, fail_over, reverse, tanist
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.lost_state import delete_state
from tests.kafka.failover.own.test_withdrawn_reversal import is_fenced
from tests.kafka.failover.test_real import QUICK
from tests.kafka.failover.test_reserve import steadily
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
TAIL: Final = range(100, 108)
"""Records that only east has."""


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("older-state")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        yield pair


def begin_both(pair: Pair) -> None:
    for at in ("west", "east"):
        begin(pair, at)


def stop_both(pair: Pair) -> None:
    for at in ("west", "east"):
        pair.workers[at].send(signal.SIGKILL)


def in_step(pair: Pair, at: str, mirror: str) -> None:
    tanist(pair, at, "mirrors", "wait", mirror, *LAG)


def created(pair: Pair, mirror: str) -> None:
    """From east to west, of one topic of the mirror's name."""
    pair.east.topic(mirror)
    assert pair.east.writes(mirror, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", mirror)
    in_step(pair, "west", mirror)


def exported(pair: Pair, name: str) -> str:
    file = str(pair.home / f"{name}.jsonl")
    tanist(pair, "west", "state", "export", "--file", file)
    return file


def unplanned(pair: Pair, mirror: str, *options: str) -> None:
    """To west, while nothing of east answers."""
    how = ("--mode", "unplanned", *options)
    plan = tanist(pair, "west", "failover", "plan", mirror, *how, "--json").item["plan_hash"]
    tanist(pair, "west", "failover", "approve", mirror, plan, *how, "--reason", "drill", user="approver")
    tanist(pair, "west", "failover", "run", mirror, "--plan", plan, *QUICK, expected=None)


def returned_with_a_tail(pair: Pair, mirror: str, *options: str) -> None:
    """After an unplanned failover east has eight records that west lacks, in offsets that it has reserved."""
    created(pair, mirror)
    steadily(pair.east, mirror, 4, 1000)
    in_step(pair, "west", mirror)
    stop_both(pair)
    pair.east.cluster.kill()
    unplanned(pair, mirror, *options)
    assert pair.west.writes(mirror, range(200, 206))
    pair.east.cluster.start()
    rows: list[dict[str, Any]] = []

    def answered() -> bool:
        seen = tanist(pair, "west", "failback", "survey", mirror, "--dry-run", "--json", expected=None)
        rows[:] = json.loads(seen.out)["items"]
        return bool(rows)

    until(answered, 60)
    reserved = [row["partition"] for row in rows if row["reserve_end"] > row["old_end"]]
    producer = Producer(pair.east.client(acks="all"))
    for number in TAIL:
        producer.produce(mirror, b"%d" % number, partition=reserved[0])
    assert producer.flush(20) == 0
    begin_both(pair)


def checks(pair: Pair, at: str, mirror: str) -> dict[str, dict[str, Any]]:
    found = tanist(pair, at, "status", mirror, "--json", expected=None).item["checks"]
    return {each["name"]: each for each in found}


def surveyed(pair: Pair, mirror: str) -> list[dict[str, Any]]:
    """Once every verdict is final."""
    survey = ("failback", "survey", "--no-rescue", mirror)
    until(lambda: tanist(pair, "west", *survey, "--dry-run", expected=None).code != 3, 60)
    found: list[dict[str, Any]] = json.loads(tanist(pair, "west", *survey, "--json").out)["items"]
    return found


def test_an_export_that_is_older_than_an_unplanned_failover_fences_the_source_that_returns(own: Pair) -> None:
    """Both clusters took records for good, `tanist status` had no pending fence, and there was nothing to survey."""
    begin_both(own)
    created(own, "older")
    file = exported(own, "older")
    steadily(own.east, "older", 4, 1000)
    in_step(own, "west", "older")
    stop_both(own)
    assert own.east.writes("older", TAIL)
    own.east.cluster.kill()
    unplanned(own, "older")
    lineage = json.loads(tanist(own, "west", "state", "dump", "--key", "lineage/older").out)["value"]
    assert own.west.writes("older", range(200, 206))
    delete_state(own.west)
    restore = ("state", "restore", file, "--mirror", "older")
    assert "SOURCE_STATE_UNKNOWN" in tanist(own, "west", *restore, expected=3).err
    done = tanist(own, "west", *restore, "--without-source")
    assert "older was failed over since the export" in done.err
    assert "its source fence is pending until a fetcher of 'west' reaches 'east'" in done.err
    assert "the lineage of this failover is read from its log" in done.err
    again = json.loads(tanist(own, "west", "state", "dump", "--key", "lineage/older").out)["value"]
    assert again["old_ends"] == lineage["old_ends"]
    own_offsets = [first_of(own, "older", n) for n in range(2)]
    for planned, read, first in zip(lineage["reserve_ends"], again["reserve_ends"], own_offsets, strict=True):
        assert planned <= read <= first
    own.east.cluster.start()
    fences = checks(own, "west", "older")["fences"]
    assert (fences["verdict"], fences["observed"][:9]) == ("FAIL", "1 pending")
    begin_both(own)
    until(lambda: checks(own, "west", "older")["fences"]["verdict"] == "PASS", 60)
    assert is_fenced(own.east, "older")
    assert not is_fenced(own.west, "older")
    tails = surveyed(own, "older")
    assert {each["verdict"] for each in tails} == {"TAIL"}
    assert sum(each["records"] for each in tails) == len(TAIL)
    found = checks(own, "west", "older")
    assert (found["fences"]["verdict"], found["tails"]["verdict"]) == ("PASS", "FAIL")
    assert found["left_behind"]["observed"].startswith("8 offsets")
    reverse(own, "older", "west", "--accept", "TAIL_UNDECIDED")
    in_step(own, "east", "older")
    assert not is_fenced(own.west, "older")
    stop_both(own)


def first_of(pair: Pair, topic: str, partition: int) -> int:
    """The offset of the first record that a client has written at west."""
    found = pair.west.read(topic, isolation="read_committed")
    return next(offset for n, offset, value in found if n == partition and int(value or 0) in range(200, 206))


def test_exports_from_before_and_during_a_circle_are_refused_and_the_logs_have_the_mirror(own: Pair) -> None:
    """One named the live primary as the old source, the other one led every command to and fro."""
    begin_both(own)
    created(own, "circle")
    before = exported(own, "before")
    fail_over(own, "circle", "west")
    reverse(own, "circle", "west")
    in_step(own, "east", "circle")
    during = exported(own, "during")
    fail_over(own, "circle", "east")
    reverse(own, "circle", "east")
    in_step(own, "west", "circle")
    assert own.east.writes("circle", range(100, 110))
    in_step(own, "west", "circle")
    stop_both(own)
    delete_state(own.west)
    for file in (before, during):
        refused = tanist(own, "west", "state", "restore", file, "--mirror", "circle", expected=1)
        assert "STATE_OUTDATED" in refused.err
        assert "`tanist state rebuild`" in refused.err
    assert "UNKNOWN_MIRROR" in tanist(own, "west", "mirrors", "describe", "circle", expected=1).err
    tanist(own, "west", "state", "rebuild", "--source", "east", "--mirror", "circle", "--topic", "circle")
    begin_both(own)
    tanist(own, "west", "mirrors", "resume", "circle", "--topic", "circle")
    in_step(own, "west", "circle")
    assert own.west.read("circle", isolation="read_committed") == own.east.read("circle", isolation="read_committed")
    stop_both(own)


@pytest.mark.parametrize("options", [(), ("--reserve", "40")], ids=["far", "near"])
def test_a_mirror_that_was_reversed_over_an_undecided_tail_is_rebuilt(own: Pair, options: tuple[str, ...]) -> None:
    """Near the end of the log the tail was compared with a source that never had it; the advice was to delete it."""
    mirror = "near" if options else "far"
    begin_both(own)
    returned_with_a_tail(own, mirror, *options)
    assert sum(each["records"] for each in surveyed(own, mirror)) == len(TAIL)
    reverse(own, mirror, "west", "--accept", "TAIL_UNDECIDED")
    in_step(own, "east", mirror)
    stop_both(own)
    delete_state(own.east)
    before = own.east.read(mirror, isolation="read_committed")
    assert sum(int(value or 0) in TAIL for _, _, value in before) == len(TAIL)
    adopted = ("mirrors", "create", "other", "--source", "west", "--topic", mirror, "--adopt", "--dry-run")
    assert "copying begins at offset" in tanist(own, "east", *adopted).err
    done = tanist(own, "east", "state", "rebuild", "--source", "west", "--mirror", mirror, "--topic", mirror)
    assert f"warning: {mirror}: whether anybody has decided about the divergent tail of promotion 1" in done.err
    begin_both(own)
    tanist(own, "east", "mirrors", "resume", mirror, "--topic", mirror)
    assert own.west.writes(mirror, range(206, 212))
    in_step(own, "east", mirror)
    found = [each for each in own.east.read(mirror, isolation="read_committed") if int(each[2] or 0) not in TAIL]
    assert found == own.west.read(mirror, isolation="read_committed")
    refused = tanist(own, "east", "failover", "plan", mirror, expected=None)
    assert (refused.code != 0, "TAIL_UNDECIDED" in refused.out + refused.err) == (True, True)
    assert checks(own, "east", mirror)["tail_findings"]["verdict"] == "FAIL"
    accept = ("failback", "accept", mirror, "--finding", "TAIL_UNDECIDED", "--reason", "drill")
    tanist(own, "east", *accept)
    assert checks(own, "east", mirror)["tail_findings"]["verdict"] == "PASS"
    fail_over(own, mirror, "east")
    stop_both(own)
