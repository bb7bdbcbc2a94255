"""What came of failovers that went through Airflow, held against what was promised. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist_testkit.demo.dag_watch import GATE
from tanist_testkit.demo.promises import Promise, the_same

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DONE: Final = "DONE"
_RUN: Final = "Airflow: the run's page, its task `report`; tanist failover status m2 -d west"
_APPROVAL: Final = "kafka-console-consumer.sh --bootstrap-server $WEST --topic __mirror_approvals --from-beginning"


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRun:
    """One that has ended. `question`: as its gate showed it. `states`: of its tasks.

    `refused`: how often Airflow refused an answer of who had asked.
    """

    id: str
    mirror: str
    question: str
    asked_by: str
    report: Mapping[str, Any]
    states: Mapping[str, str | None]
    refused: int

    @property
    def verdict(self) -> str:
        return str(self.report["verdict"])

    @property
    def lost(self) -> bool:
        """Whether Airflow has lost the answer, on a busy machine: the gate has failed and left no reason of ours."""
        return str(self.report["failed"].get(GATE, "")).startswith("failed")

    @property
    def plan(self) -> str:
        """The hash of what was run."""
        return str(self.report.get("plan_hash"))

    @property
    def approver(self) -> str:
        """The user of Airflow in whose name the approval stands in Kafka."""
        return str(self.report.get("approver")).partition(" via Airflow")[0]


def judge_runs(runs: Sequence[DagRun], asks: str, approves: str, *, tried: bool) -> tuple[Promise, ...]:
    """`tried`: who had asked tried to approve, too."""
    tasks = Counter(state or "never begun" for run in runs for state in run.states.values())
    total = tasks.total()
    return (
        the_same(
            f"{len(runs)} failovers went through Airflow, every task of theirs done",
            f"{len(runs)} times {DONE}, {total} success",
            f"{sum(run.verdict == DONE for run in runs)} times {DONE}, "
            + ", ".join(f"{count} {state}" for state, count in tasks.items()),
            _RUN,
        ),
        the_same(
            "What was run is what the approver was shown",
            ", ".join(run.plan for run in runs),
            ", ".join(run.plan if run.plan in run.question else "another plan" for run in runs),
            _APPROVAL,
        ),
        the_same(
            "Nobody approves what they have asked for" + (", though they try" if tried else ""),
            ", ".join(_approved(asks, approves, refused=tried) for _ in runs),
            ", ".join(_approved(run.asked_by, run.approver, refused=run.refused > 0) for run in runs),
            _APPROVAL,
        ),
    )


def _approved(asked_by: str, approver: str, *, refused: bool) -> str:
    return f"{asked_by} asked{' (and was refused)' if refused else ''}, {approver} approved"
