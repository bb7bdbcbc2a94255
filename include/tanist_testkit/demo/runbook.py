"""Plan, approval and run of a failover, as an operator types them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tanist_testkit.demo.stage import WEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist_testkit.demo.stage import Stage


def planned(stage: Stage, mirror: str, mode: str, *more: str, at: tuple[str, ...] = WEST) -> dict[str, Any]:
    """A plan that was shown. `at`: option that names the cluster that takes over."""
    (plan,) = stage.tanist.run("failover", "plan", mirror, *at, "--mode", mode, *more)
    cost = plan["forecast"]
    stage.screen.note(f"plan {plan['plan_hash']}: {', '.join(step['id'] for step in plan['steps'])}")
    for each in plan["limitations"]:
        stage.screen.note(f"accept {each['name']}: {each['detail']}")
    seen, most = f"as seen {cost['age_ms']} ms ago", f"an estimated {cost['estimate']} by now"
    stage.screen.note(f"forecast: {cost['offsets_at_risk']} offsets at risk, {seen}, {most}")
    return plan


def take_over(stage: Stage, plan: Mapping[str, Any], reason: str, **limits: int) -> None:
    """Has the plan approved, and runs it to its end. `limits`: parameters of the DAG, `max_loss` and `fence_proof`."""
    if stage.airflow:
        stage.airflow.take_over(plan["mirror"], reason, {"mode": plan["mode"], **limits})
        return
    by_hand(stage, plan, reason, WEST, **limits)


def by_hand(stage: Stage, plan: Mapping[str, Any], reason: str, at: tuple[str, ...] = WEST, **limits: int) -> None:
    """The same without Airflow."""
    approve(stage, plan, reason, at=at)
    proof = ("--fence-proof", f"{limits['fence_proof']}s") if "fence_proof" in limits else ()
    (record,) = stage.tanist.run(*run(stage, plan, *proof, at=at), quiet=False)
    stage.screen.note(f"{record['status']}, {record['seconds']} s of work")


def approve(stage: Stage, plan: Mapping[str, Any], reason: str, at: tuple[str, ...] = WEST) -> None:
    """An approval of the plan, by its hash alone."""
    arguments = (plan["mirror"], plan["plan_hash"], *at, "--reason", reason)
    (approval,) = stage.tanist.run("failover", "approve", *arguments)
    stage.screen.note(f"approved by {approval['approver']}: {reason}")


def run(stage: Stage, plan: Mapping[str, Any], *more: str, at: tuple[str, ...] = WEST) -> tuple[str, ...]:
    """The command that runs an approved plan."""
    kept = ("--evidence", evidence(stage, plan))
    return ("failover", "run", plan["mirror"], *at, "--plan", plan["plan_hash"], *more, *kept)


def moved(stage: Stage, group: str) -> list[Mapping[str, Any]]:
    """The positions of a group that the last failover has committed, by its evidence.

    What is translated right after a source has died may be less: what was read of it last is not stored yet.
    """
    last = max(stage.home.evidence.glob("*/evidence.json"), key=lambda each: each.stat().st_mtime)
    events = json.loads(last.read_text())["events"]
    rows = [each["detail"]["rows"] for each in events if (each["step"], each["what"]) == ("groups", "done")]
    return [row for row in rows[-1] if row["group"] == group]


def evidence(stage: Stage, plan: Mapping[str, Any]) -> str:
    """The folder of a plan that was run."""
    return str(stage.home.evidence / plan["plan_hash"])
