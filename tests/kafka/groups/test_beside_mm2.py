"""The how-to `beside-mirrormaker` beside a real MirrorMaker 2: its ten commands and their ways back, and the robot."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench import mm2_run
from bench.load import Load
from bench.pair import DESTINATION, SOURCE, Pair, create_topic, running
from tanist.domain.names import MirrorPartition
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.fetcher.rig import RigCluster, until
from tests.kafka.groups.readers import commit, committed
from tests.robot import Robot
from tests.scenarios import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist_testkit.sandbox.forks import CommandResult

pytestmark = pytest.mark.long  # a real MirrorMaker 2, and a job in Spark

PAGE: Final = Path(__file__).parents[3] / "docs" / "beside-mirrormaker.md"
TOPIC: Final = "orders"
RECORDS: Final = 3_000
GROUPS: Final = {"billing": RECORDS - 7, "audit": RECORDS - 1_500, "done": RECORDS}
"""Committed at the source."""
UNPROVED: Final = 3
"""Exit code where something cannot be found out, such as what nobody has compared."""
COMMAND_SECONDS: Final = 300.0
COPIED_SECONDS: Final = 180.0
_FLOW: Final = {
    "emit.checkpoints.interval.seconds": 1,
    "refresh.groups.interval.seconds": 1,
    "sync.group.offsets.enabled": "false",
    "tasks.max": 1,
}


@dataclass
class Beside:
    """Both clusters, while MirrorMaker 2 copies. Its copies have the offsets of the source, as nothing was aborted."""

    pair: Pair
    source: RigCluster
    destination: RigCluster

    def tanist(self, *words: str) -> CommandResult:
        return self.pair.tanist(words, COMMAND_SECONDS)

    def typed(self, words: Sequence[str]) -> CommandResult:
        """A fetcher stays in the foreground of another terminal."""
        if words[:2] == ["fetcher", "run"]:
            argv = [sys.executable, "-m", "tanist.cli.main", *words, "--config", str(self.pair.config)]
            self.pair.guardian.spawn(argv, self.pair.home / "fetcher.log")
            self.pair.clock.wait(5)
            words = ("mirrors", "list")
        return self.tanist(*words)

    def committed(self, group: str) -> int | None:
        """At the destination."""
        found = committed(self.destination.servers, group, MirrorPartition(mm2_run.copy_of(TOPIC), 0))
        return found if found >= 0 else None


@pytest.fixture(scope="module")
def beside() -> Iterator[Beside]:
    with running(SystemClock()) as pair:
        found = Beside(pair, RigCluster(pair.source), RigCluster(pair.destination))
        try:
            create_topic(pair.source, TOPIC, 1, {"retention.ms": "-1"}, pair.clock)
            writer = found.source.producer()
            for n in range(RECORDS):
                writer.produce(TOPIC, b"%d" % n, partition=0, timestamp=1_700_000_000_000 + n)
            assert writer.flush(60) == 0
            for group, offset in GROUPS.items():
                commit(pair.source.bootstrap_servers, group, {MirrorPartition(TOPIC, 0): offset})
            mm2_run.start(pair, Load(topic=TOPIC, size=0, records=0, target=0), more=_FLOW)
            copy = MirrorPartition(mm2_run.copy_of(TOPIC), 0)
            until(
                lambda: (
                    copy.topic in found.destination.admin.list_topics(timeout=20).topics
                    and found.destination.end(copy) >= RECORDS
                ),
                COPIED_SECONDS,
            )
            yield found
        finally:
            found.source.close()
            found.destination.close()


def commands(column: int) -> dict[int, list[list[str]]]:
    """The words of the commands in that column of the page's table, by step, with the names of these clusters."""
    found: dict[int, list[list[str]]] = {}
    for row in re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        cell = row[1].split(" | ")[column].replace("east", SOURCE).replace("west", DESTINATION)
        texts = re.findall(r"`tanist ([^`]+)`", cell)
        found[int(row[0])] = [shlex.split(text) for text in texts]
    return found


def groups_of(answer: CommandResult) -> dict[str, dict[str, Any]]:
    return {row["group"]: row for row in answer.items}


def test_the_ten_commands_move_every_group_and_each_has_its_way_back(beside: Beside) -> None:
    steps, back = commands(0), commands(1)
    assert sorted(steps) == list(range(1, 11))
    answers: dict[int, CommandResult] = {}
    moved: dict[str, int | None] = {}
    for number, (words,) in steps.items():
        shown = () if number == 2 else ("--json",)
        answers[number] = beside.tanist(*words, *shown)
        assert answers[number].code in ({0, 1, UNPROVED} if number == 1 else {0}), (words, answers[number].err)
        if "--dry-run" in words:
            assert {group: beside.committed(group) for group in GROUPS} == dict.fromkeys(GROUPS)
            for_real = [word for word in words if word != "--dry-run"]
            answers[number] = beside.tanist(*for_real, *shown)
            assert answers[number].code == 0, answers[number].err
        if number == 8:
            moved = {group: beside.committed(group) for group in GROUPS}
    assert set(groups_of(answers[5])) == set(GROUPS), answers[5]
    for group, position in GROUPS.items():
        assert groups_of(answers[6])[group]["destination_offset"] <= position
        assert moved[group] == groups_of(answers[8])[group]["destination_offset"] <= position
    assert moved["done"] == GROUPS["done"], "what is at the end is exact"
    assert answers[10].items[0]["destination_offset"] == 1234, "exact after the reconciliation"
    for number in (8, 3):
        for words in back[number]:
            undone = beside.tanist(*words, "--yes")  # what a person answers on a terminal
            assert undone.code == 0, (words, undone.err)
    assert "mm" not in [row["mirror"] for row in beside.tanist("mirrors", "list", "--json").items]


def test_the_robot_needs_two_commands_beside_mirrormaker(beside: Beside) -> None:
    """A fetcher, which keeps the positions for when the source is gone, and the sync."""
    (create,) = commands(0)[3]
    made = beside.tanist(*[word for word in create if word != "--dry-run"])
    assert made.code == 0, made.err
    journey = Robot(beside.typed, "mm").follow(3)
    record("beside MirrorMaker 2", journey)
    assert journey.failed == [], journey
    assert [line.split()[1:3] for line in journey.commands] == [["fetcher", "run"], ["groups", "sync"]], journey
    for group, position in GROUPS.items():
        assert (there := beside.committed(group)) is not None
        assert there <= position
