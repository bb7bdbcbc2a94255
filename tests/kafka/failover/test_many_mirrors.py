"""Mirrors of one destination fail over at the same time, each by connections of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Answer, Pair


def items(answer: Answer) -> dict[str, dict[str, Any]]:
    return {item["mirror"]: item for item in json.loads(answer.out)["items"]}


def test_three_mirrors_fail_over_at_the_same_time(pair: Pair, topic_name: str) -> None:
    """What else is mirrored by other tests is planned, too, and left alone."""
    names = [f"{topic_name}-{n}" for n in range(3)]
    pair.worker()
    pair.mirrors({name: (name,) for name in names})
    planned = items(pair.tanist("failover", "plan", "--all", "--json", expected=None))
    plans = [f"west/{name}={planned[name]['plan_hash']}" for name in names]
    assert {planned[name]["kept"] for name in names} == {True}
    approve = ("failover", "approve", "--all", *plans, "--reason", "drill", "--json")
    assert list(items(pair.tanist(*approve, user="approver"))) == names
    run = ("failover", "run", "--all", *plans, "--fence-proof", "2s", "--evidence", str(pair.home), "--json")
    ran = items(pair.tanist(*run))
    assert [ran[name]["status"] for name in names] == ["DONE"] * 3
    for name in names:
        assert pair.west.writes(name, range(10, 20))
    again = items(pair.tanist(*run))
    assert [again[name]["result"] for name in names] == ["DONE"] * 3
