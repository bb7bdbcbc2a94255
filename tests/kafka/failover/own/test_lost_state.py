"""All state topics of a destination are lost: its mirrors go on without copying anything again."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import LAG, begin, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import COMMAND_SECONDS, Pair, running
from tests.kafka.failover.killed_restore import POINTS, REBUILD_POINTS
from tests.kafka.failover.lost_state import (
    TOPICS,
    delete_state,
    dumped,
    go,
    identical,
    logs,
    lose,
    states,
    working,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
KILLED = "tests.kafka.failover.killed_restore:main"
forks.preload("tests.kafka.failover.killed_restore")
REST_SECONDS = 3.0
QUICK = ("--fence-proof", "1s", "--drain", "30s", "--budget", "2s", "--although-it-answers")


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home: Path = tmp_path_factory.mktemp("lost-state")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        yield pair


def nothing_is_copied_until_somebody_says_so(pair: Pair) -> None:
    before = logs(pair)
    write(pair, range(400, 500))
    pair.worker("w2")
    pair.clock.wait(REST_SECONDS)
    assert states(pair) == {("STOPPED", "PAUSED", 308)}
    assert pair.tanist("status", "dr", "--json", expected=None).item["planned"] != "GO"
    assert logs(pair) == before


def test_a_mirror_whose_state_is_restored_goes_on_without_copying_anything_again(own: Pair) -> None:
    """The restoration is killed between its steps, and run again; what was copied since the export stays."""
    working(own)
    file = str(own.home / "west.jsonl")
    exported = own.tanist("state", "export", "--file", file, "--json").item
    assert exported["mirrors"] == ["dr"]
    assert own.tanist("state", "restore", file, "--json").item["changed"] is False
    write(own, range(200, 300))
    own.tanist("mirrors", "wait", "dr", *LAG)
    lose(own)
    write(own, range(300, 400))
    before = logs(own)
    rehearsed = own.tanist("state", "restore", file, "--dry-run", "--json").item
    assert (rehearsed["changed"], rehearsed["topics"]) == (True, list(TOPICS))
    assert "UNKNOWN_MIRROR" in own.tanist("mirrors", "describe", "dr", expected=1).err
    for point in POINTS:
        done = forks.Command(KILLED, (point, file), own.environment(), own.home).wait(COMMAND_SECONDS)
        assert done.code == -9, (point, done.err)
    again = own.tanist("state", "restore", file, "--json").item
    assert (again["changed"], again["promoted"]) == (False, [])
    assert states(own) == {("STOPPED", "PAUSED", 308)}
    assert logs(own) == before
    nothing_is_copied_until_somebody_says_so(own)
    go(own)
    identical(own)
    assert "STATE_IS_NEWER" in own.tanist("state", "restore", file, expected=1).err


def test_a_mirror_whose_state_is_rebuilt_from_its_logs_goes_on_without_copying_anything_again(own: Pair) -> None:
    """Only its logs are left. The rebuild is killed between its steps, and run again."""
    working(own)
    (spec,) = (each["value"] for each in dumped(own, "mirror/dr"))
    used = [spec[name] for name in ("data_id", "filler_id")]
    own.east.topic("lost.new")
    before = logs(own)
    lose(own)
    write(own, range(200, 300))
    asked = ("state", "rebuild", "--source", "east", "--mirror", "dr", "--topic", "lost.*", "--json")
    rehearsed = json.loads(own.tanist(*asked, "--dry-run").out)["items"]
    assert [each["topic"] for each in rehearsed] == list(TOPICS)
    assert "UNKNOWN_MIRROR" in own.tanist("mirrors", "describe", "dr", expected=1).err
    for point in REBUILD_POINTS:
        done = forks.Command(KILLED, (point, "dr", "lost.*"), own.environment(), own.home).wait(COMMAND_SECONDS)
        assert done.code == -9, (point, done.err)
    again = own.tanist(*asked)
    assert "nothing was changed" in again.err
    assert {each["state"] for each in json.loads(again.out)["items"]} == {"PAUSED"}
    (spec,) = (each["value"] for each in dumped(own, "mirror/dr"))
    assert [spec[name] for name in ("data_id", "filler_id")] == used
    assert logs(own) == before
    nothing_is_copied_until_somebody_says_so(own)
    go(own)
    identical(own)

    plan = own.approved("dr", "--topic", TOPICS[1])
    own.tanist("failover", "run", "dr", "--plan", plan, *QUICK)
    assert own.west.writes(TOPICS[1], range(1000, 1010))
    before = logs(own)
    lose(own)
    assert "MIRROR_TOPIC_PROMOTED" in own.tanist(*asked, expected=1).err
    assert own.west.writes(TOPICS[0], range(2000, 2001))
    refused = own.tanist(*asked, "--exclude", TOPICS[1], expected=1)
    assert "DESTINATION_NOT_A_PREFIX" in refused.err
    assert f"{TOPICS[0]}-0" in refused.err
    own.clock.wait(1)
    assert logs(own)[1] == before[1]


def test_a_reversed_mirror_is_rebuilt_at_its_old_source_and_fails_over_back(own: Pair) -> None:
    """The beginning of that log was written by clients, and its producers were never a mirror's."""
    own.east.topic("circle")
    assert own.east.writes("circle", range(10))
    for at in ("west", "east"):
        begin(own, at)
    tanist(own, "west", "mirrors", "create", "dr", "--source", "east", "--topic", "circle")
    fail_over(own, "dr", "west")
    assert own.west.writes("circle", range(100, 110))
    reverse(own, "dr", "west")
    tanist(own, "east", "mirrors", "wait", "dr", *LAG)
    own.workers["east"].send(signal.SIGKILL)
    delete_state(own.east)
    assert own.west.writes("circle", range(110, 120))
    before = records(own.east, "circle")
    tanist(own, "east", "state", "rebuild", "--source", "west", "--mirror", "dr", "--topic", "circle")
    begin(own, "east")
    own.clock.wait(REST_SECONDS)
    assert records(own.east, "circle") == before
    tanist(own, "east", "mirrors", "resume", "dr", "--topic", "circle")
    fail_over(own, "dr", "east")
    found = records(own.west, "circle")
    assert records(own.east, "circle") == found
    assert sorted(int(value or 0) for _, _, value in found) == [*range(10), *range(100, 120)]
    counted = tanist(own, "east", "state", "dump", "--key", "generation/dr/circle").out
    assert json.loads(counted)["value"]["count"] == 2
