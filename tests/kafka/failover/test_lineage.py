"""Of any offset of a failed-over topic it is told which cluster wrote it, with either cluster dead."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tanist_testkit.sandbox import forks
from tests.kafka.failover.conftest import COMMAND_SECONDS, Answer
from tests.kafka.failover.test_real import QUICK

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

pytestmark = pytest.mark.long


def lineage(pair: Pair, mirror: str, where: str | None, *options: str) -> Answer:
    asked = ("mirrors", "lineage", mirror, "--json", *options, *(("--destination", where) if where else ()))
    done = forks.Command(forks.COMMANDS, asked, pair.environment(), pair.home).wait(COMMAND_SECONDS)
    return Answer(done.code, done.out, done.err)


def told(answer: Answer) -> list[dict[str, Any]]:
    assert answer.code == 0, answer.err
    return list(json.loads(answer.out)["items"])


def test_either_cluster_tells_which_of_them_wrote_an_offset(pair: Pair) -> None:
    pair.worker()
    pair.mirror("line", "line")
    nothing = lineage(pair, "line", "west")
    assert (nothing.code, "no promotion" in nothing.err) == (0, True)
    pair.tanist("failover", "run", "line", "--plan", pair.approved("line"), *QUICK)
    assert pair.west.writes("line", range(100, 104))
    both = told(lineage(pair, "line", "west"))
    assert [(s["partition"], s["start"], s["end"], s["cluster"], s["reserved"]) for s in both] == [
        (0, 0, 5, "east", False),
        (0, 5, None, "west", False),
        (1, 0, 5, "east", False),
        (1, 5, None, "west", False),
    ]
    assert {tuple(s["stored_on"]) for s in both} == {("east", "west")}
    assert {int(value or 0) < 100 for _, offset, value in pair.west.read("line") if offset < 5} == {True}
    assert {s["cluster"] for s in told(lineage(pair, "line", "west", "--offset", "4"))} == {"east"}
    assert {s["cluster"] for s in told(lineage(pair, "line", "west", "--offset", "5"))} == {"west"}
    unknown = lineage(pair, "line", "west", "--topic", "lines")
    assert (unknown.code, "TOPIC_NOT_IN_MIRROR" in unknown.err) == (1, True)
    pair.east.cluster.kill()
    try:
        alone = lineage(pair, "line", "west")
        assert [{**s, "stored_on": None} for s in told(alone)] == [{**s, "stored_on": None} for s in both]
        assert "warning: east does not answer" in alone.err
    finally:
        pair.east.cluster.start()
    pair.west.cluster.kill()
    try:
        for where in ("east", None):
            found = told(lineage(pair, "line", where))
            assert [(s["start"], s["end"], s["cluster_id"]) for s in found] == [
                (s["start"], s["end"], s["cluster_id"]) for s in both
            ]
        missing = lineage(pair, "lines", "east")
        assert (missing.code, "UNKNOWN_MIRROR" in missing.err) == (1, True)
    finally:
        pair.west.cluster.start()
