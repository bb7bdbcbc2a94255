"""Failover through the command line, without a worker: plan, approve, remove, and every bad input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Answer, Broker, Tanist

WEST = ("--destination", "west")


@pytest.fixture
def mirror(
    topic_name: str, configured: Path, east: Broker, tanist: Tanist, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    """A mirror of one topic of two partitions, which nobody copies; evidence goes to a directory of the test."""
    monkeypatch.chdir(tmp_path)
    east.topic(topic_name, 2, retention_ms="12345")
    answer = tanist("mirrors", "create", topic_name, "--source", "east", *WEST, "--topic", topic_name)
    assert answer.code == 0, answer.err
    return topic_name


def planned(answer: Answer) -> dict[str, object]:
    (item,) = answer.items
    return item


def test_taking_a_topic_out_is_a_failover_of_it_by_an_approved_plan(tanist: Tanist, mirror: str) -> None:
    """A topic that never started is named for what it is, and nobody waits for it."""
    removing = ("mirrors", "remove", mirror, "--topic", mirror, *WEST)
    plan = planned(tanist(*removing, "--dry-run", "--json"))
    assert {"plan_hash", "mode", "steps", "limitations", "forecast"} <= plan.keys()
    assert isinstance(plan["steps"], list)
    assert {"id", "title", "done"} <= plan["steps"][0].keys()
    names = {limitation["name"] for limitation in plan["limitations"]}  # type: ignore[attr-defined]
    assert names == {
        *("WITHOUT_DRAIN", "PARTITION_UNKNOWN", "UNPROTECTED"),
        *("SOURCE_NOT_DRAINED", "RECORDS_UNSEEN", "GROUP_POSITIONS_OLD"),
    }
    refused = tanist(*removing)
    assert refused.errors[0] in {"NOT_APPROVED", "NO_APPROVER_TOPIC"}
    assert refused.code in {1, 3}
    chosen = str(plan["plan_hash"])
    approved = tanist("failover", "approve", mirror, chosen, *WEST, "--topic", mirror, "--reason", "drill", "--json")
    assert approved.code == 0, approved.err
    assert "was asked for" not in approved.err, "which kind of failover it is was not said, and is no refusal"
    assert str(planned(approved)["approver"]).startswith("UNPROTECTED:")
    until = ("--until", "hold", "--although-it-answers")
    held = tanist("failover", "run", mirror, "--plan", chosen, *WEST, *until, "--json")
    assert held.code == 0, held.err
    assert (planned(held)["status"], planned(held)["runner"]) == ("RUNNING", None)
    done = {step["id"] for step in planned(held)["steps"] if step["done"]}  # type: ignore[attr-defined]
    assert done >= {"hold"}
    assert not done & {"fence", "groups", "seal", "generation", "canary"}
    ended = tanist(*removing, "--fence-proof", "0", "--json")
    assert ended.code == 0, ended.err
    item = planned(ended)
    assert (item["plan_hash"], item["status"], item["past_no_return"]) == (chosen, "DONE", True)
    assert tanist("mirrors", "describe", mirror, *WEST, "--json").items == []
    again = tanist("failover", "run", mirror, "--plan", chosen, *WEST, "--json")
    assert (again.code, again.errors, planned(again)["status"]) == (0, [], "DONE")
    assert planned(tanist("failover", "status", mirror, *WEST, "--json"))["status"] == "DONE"
    assert planned(tanist("fence", "show", mirror, *WEST, "--json"))["status"] == "not proved"
    assert tanist("fence", "lift", mirror, *WEST).errors == ["FENCE_STILL_NEEDED"]
    assert planned(tanist("fence", "lift", mirror, *WEST, "--promoted", "--json"))["status"] == "lifted"
    checks = {check["name"]: check for check in planned(tanist("status", mirror, *WEST, "--json"))["checks"]}  # type: ignore[attr-defined]
    assert checks["barrier"]["verdict"] == "PASS"
    assert checks["barrier"]["observed"] == "2 of 2 proved"
    assert checks["partitions"]["verdict"] == "FAIL"
    assert checks["partitions"]["reason"].startswith("NOTHING_TO_FAIL_OVER: already failed over or removed: ")
    assert tanist("mirrors", "delete", mirror, *WEST).code == 0


def test_every_bad_input_is_one_clear_error(tanist: Tanist, mirror: str) -> None:
    plan = planned(tanist("failover", "plan", mirror, *WEST, "--json"))
    chosen = str(plan["plan_hash"])
    approve = ("failover", "approve", mirror)
    tried = {
        ("failover", "plan", "nobody", *WEST): ("UNKNOWN_MIRROR", 1),
        ("failover", "plan", "nobody"): ("UNKNOWN_MIRROR", 1),
        (*approve, chosen, "--reason", "x"): ("INVALID_CONFIG", 2),
        ("failover", "plan", mirror, *WEST, "--topic", "invoices"): ("TOPIC_NOT_IN_MIRROR", 1),
        ("failover", "plan", mirror, *WEST, "--topic", "("): ("INVALID_CONFIG", 2),
        (*approve, "0123456789abcdef", *WEST, "--reason", "x"): ("PLAN_NOT_KEPT", 1),
        (*approve, chosen, *WEST, "--reason", " "): ("INVALID_CONFIG", 2),
        ("failover", "plan", mirror, *WEST, "--max-loss", str(10**21)): ("INVALID_USAGE", 2),
        (*approve, chosen, *WEST, "--reason", "x", "--max-loss", str(2**63)): ("INVALID_USAGE", 2),
        ("failover", "abort", mirror, *WEST): ("NOTHING_TO_ABORT", 1),
        ("fence", "lift", mirror, *WEST): ("TOPIC_NOT_IN_MIRROR", 1),
        ("mirrors", "remove", mirror, *WEST): ("INVALID_CONFIG", 2),
        ("failover", "run", mirror, *WEST, "--plan", chosen, "--until", "jump"): ("INVALID_USAGE", 2),
        ("mirrors", "remove", mirror, *WEST, "--topic", "invoices"): ("TOPIC_NOT_IN_MIRROR", 1),
    }
    for arguments, (error, code) in tried.items():
        answer = tanist(*arguments)
        assert (answer.errors, answer.code) == ([error], code), answer.err
    assert plan["verdict"] == "UNKNOWN"
    blocks = {limitation["name"] for limitation in plan["limitations"] if limitation["blocks"]}  # type: ignore[attr-defined]
    assert blocks == {"PARTITION_UNKNOWN"}, "no worker has reported anything"
    assert tanist(*approve, chosen, *WEST, "--reason", "x").errors == ["PLAN_BLOCKED"]
    nobody = tanist("failover", "run", mirror, "--plan", chosen, *WEST)
    assert nobody.errors[0] in {"NOT_APPROVED", "NO_APPROVER_TOPIC"}
    assert planned(tanist("failover", "plan", mirror, *WEST, "--json"))["plan_hash"] == chosen


def test_evidence_that_cannot_be_written_stops_a_run_before_it_begins(
    tanist: Tanist, mirror: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    where = str(tmp_path / "file" / "evidence")
    answer = tanist("failover", "run", mirror, "--plan", "x", *WEST, "--evidence", where)
    assert (answer.errors, answer.code) == (["INVALID_CONFIG"], 2)
