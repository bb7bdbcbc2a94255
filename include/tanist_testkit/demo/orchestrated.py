"""Takeovers through Airflow: one user asks for a run of the DAG, another one answers its gate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import ProcessFailed
from tanist.settings import load
from tanist_testkit.demo.context import DemoContext
from tanist_testkit.demo.dag_runs import DONE, DagRun, judge_runs
from tanist_testkit.demo.dag_watch import GATE, DagWatch
from tanist_testkit.demo.runbooks import Link
from tanist_testkit.sandbox.airflow.connections import APPROVES, connections, variables

if TYPE_CHECKING:
    from tanist_testkit.demo.promises import Promise
    from tanist_testkit.demo.runbooks import Wanted
    from tanist_testkit.sandbox.airflow.rest import Rest
    from tanist_testkit.sandbox.airflow.service import Airflow

DAG: Final = "mirror_failover"
REPORT: Final = "report"
ASKS: Final = "op"
RUN_SECONDS: Final = 240.0
_MORE_RUNS: Final = 2
"""After a run whose answer Airflow has lost."""
PERSON_SECONDS: Final = 3600.0
"""As long as the gate waits for an answer."""


@dataclass(slots=True)
class Orchestrated(DemoContext):
    """`interactive`: a person answers the gates, logged in as the user who may."""

    airflow: Airflow
    interactive: bool = False
    runs: list[DagRun] = field(default_factory=list)

    def prepare(self) -> None:
        """Returns when Airflow is healthy, and knows both clusters, the DAG and who may approve."""
        with self.screen.step("Airflow, which was started beside the clusters, is told of them") as step:
            step.detail = f"waiting until all of it is healthy, logs: {self.airflow.directory}"
            settings = load(self.environment.config, {})
            ours = {"TANIST_DESTINATIONS": "west", "TANIST_EVIDENCE": str(self.environment.evidence)}
            self.airflow.start(connections(settings), variables(settings) | ours)
            with self.airflow.rest("admin") as admin:
                admin.wait_for_dag(DAG, self.soon())
                admin.unpause(DAG)
            for link in self._doors():
                self.screen.note(f"{link.name}: {link.place}")
            step.detail = f"{ASKS} will ask for failovers, {APPROVES} may approve them"

    def take_over(self, wanted: Wanted) -> None:
        with self.airflow.rest(ASKS) as asks, self.airflow.rest(APPROVES) as approves:
            ended = self._approval_request(wanted, asks, approves)
            for _ in range(_MORE_RUNS):
                if ended.lost:
                    self.screen.note("Airflow has lost the answer, so nothing was done: it is asked for again")
                    ended = self._approval_request(wanted, asks, approves)
        self.runs.append(ended)
        if ended.verdict != DONE:
            raise ProcessFailed(f"{ended.verdict} {ended.report['failed']}: {self._page(ended.id)}")
        self.screen.note(f"{DONE}: asked for by {ended.asked_by}, approved by {ended.report['approver']}")

    def _approval_request(self, wanted: Wanted, asks: Rest, approves: Rest) -> DagRun:
        run = asks.trigger(DAG, _parameters(wanted), note=wanted.reason)
        self.screen.note(f"{ASKS} asks Airflow for {DAG} of mirror {wanted.mirror}: {self._page(run)}")
        return self._watched(run, wanted.mirror, asks, None if self.interactive else approves)

    def _watched(self, run: str, mirror: str, asks: Rest, approves: Rest | None) -> DagRun:
        door = (
            f"{self._page(run)}/tasks/{GATE}/required_actions   (as {APPROVES}, password in {self.airflow.passwords})"
        )
        watch = DagWatch(self.screen, self.clock, (DAG, run), door)
        states = watch.until_over(asks, approves, RUN_SECONDS if approves else PERSON_SECONDS)
        return DagRun(
            id=run,
            mirror=mirror,
            question="".join(gate["body"] for gate in asks.gates(DAG, run)),
            asked_by=str(asks.run(DAG, run)["triggering_user_name"]),
            report=asks.result(DAG, run, REPORT),
            states=states,
            refused=watch.refused,
        )

    def promises(self) -> tuple[Promise, ...]:
        return judge_runs(self.runs, ASKS, APPROVES, tried=not self.interactive)

    def links(self) -> tuple[Link, ...]:
        runs = (Link(f"the run of {run.mirror}", self._page(run.id)) for run in self.runs)
        pages = (Link(f"its evidence, {run.mirror}", self._evidence(run)) for run in self.runs)
        return (*self._doors(), *runs, *pages)

    def _doors(self) -> tuple[Link, ...]:
        users = f"{ASKS}, {APPROVES} or admin, passwords in {self.airflow.passwords}"
        return (
            Link("Airflow", f"{self.airflow.url}   ({users})"),
            Link("its page on whether a failover could start", f"{self.airflow.url}/tanist/"),
        )

    def _page(self, run: str) -> str:
        return f"{self.airflow.url}/dags/{DAG}/runs/{run}"

    def _evidence(self, run: DagRun) -> str:
        return (self.environment.evidence / run.plan / "evidence.html").as_uri()


def _parameters(wanted: Wanted) -> dict[str, Any]:
    given = {"max_loss": wanted.max_loss, "fence_proof": wanted.fence_proof}
    chosen = {name: value for name, value in given.items() if value is not None}
    return {"destination": "west", "mirror": wanted.mirror, "mode": wanted.mode, "validate": "nothing"} | chosen
