"""Mirrors with mapped offsets whose copies have other names than at the source, as they are typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.kafka.failover.test_mapped import WAIT, committed, values
from tests.kafka.failover.test_metadata import grow
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair


def test_copied_grown_added_to_and_failed_over_under_the_names_of_the_copies(pair: Pair) -> None:
    pair.worker()
    for topic in ("re-a", "re-b"):
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(10))
    create = ("mirrors", "create", "re", "--source", "east", "--offsets", "mapped", "--rename", "dr.{topic}")
    pair.tanist(*create, "--topic", "re-a")
    pair.tanist("mirrors", "add", "re", "--topic", "re-b")
    pair.tanist("mirrors", "wait", "re", *WAIT)
    for topic in ("re-a", "re-b"):
        assert values(committed(pair.west, f"dr.{topic}")) == values(committed(pair.east, topic))
    rows = json.loads(pair.tanist("mirrors", "describe", "re", "--json").out)["items"]
    assert {row["topic"]: row["source_topic"] for row in rows} == {"dr.re-a": "re-a", "dr.re-b": "re-b"}

    grow(pair.east, "re-a", 3)
    assert pair.east.writes("re-a", range(10, 22), partitions=3)
    pair.tanist("metadata", "sync", "re")
    pair.tanist("mirrors", "wait", "re", *WAIT)
    pair.east.commit("re-group", "re-a", 4)
    until(lambda: "re-group" in pair.tanist("state", "dump", "--key", "group/re").out, 40)

    plan = pair.approved("re")
    pair.tanist("failover", "run", "re", "--plan", plan, *QUICK)
    copy, source = committed(pair.west, "dr.re-a", 3), committed(pair.east, "re-a", 3)
    assert values(copy) == values(source)
    assert len(source) == 3
    assert pair.west.committed("re-group", "dr.re-a") == copy[0][4][0]
    assert pair.west.writes("dr.re-a", range(100, 104))
    assert not pair.east.writes("re-a", range(1))
    status = pair.tanist("failover", "status", "re", "--json").item
    assert status["status"] == "DONE"
    assert '"topic": "re-a"' in pair.tanist("fence", "show", "re", "--json").out
    status = pair.tanist("status", "re", "--json", expected=None).item
    (fences,) = (each for each in status["checks"] if each["check"] == "fences")
    assert fences["verdict"] == "PASS", fences
