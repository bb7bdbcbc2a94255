"""Failovers through Airflow: one user asks for a run of the DAG, another one answers its gate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import ProcessFailed, Unreachable
from tanist.settings import load
from tanist_testkit.demo.promises import promise
from tanist_testkit.sandbox.airflow.connections import APPROVES, connections, variables
from tanist_testkit.sandbox.airflow.rest import ENDED, AirflowRefused
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tanist.ports.clock import Clock, Deadline
    from tanist_testkit.demo.promises import Promise
    from tanist_testkit.sandbox.airflow.rest import Rest
    from tanist_testkit.sandbox.airflow.service import Airflow
    from tanist_testkit.sandbox.environment import Environment
    from tanist_testkit.screen import Screen

DAG: Final = "mirror_failover"
GATE: Final = "approve"
OPTION: Final = "Approve"
DONE: Final = "DONE"
ASKS: Final = "op"
RUN_SECONDS: Final = 600.0
READ_SECONDS: Final = 5.0
"""Nobody answers a plan that was not read. Airflow may lose an answer that comes at once, and asks again then."""
PERSON_SECONDS: Final = 3600.0
"""As long as the gate waits for an answer."""
_POLL_SECONDS: Final = 0.4
_HEAD: Final = 2
"""Paragraphs of the question that are shown: the plan, its forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRun:
    """One that has ended. `question`: as its gate showed it. `states`: of its tasks. `why`: of tasks that failed.

    `plan`: the hash of what was run. `approver`: the user of Airflow in whose name the approval stands in Kafka.
    `refused`: how often Airflow refused an answer of who had asked.
    """

    id: str
    mirror: str
    question: str
    asked_by: str
    verdict: str
    why: Mapping[str, str]
    plan: str
    approver: str
    states: Mapping[str, str | None]
    refused: int


def of_runs(runs: Sequence[DagRun], *, tried: bool) -> Iterator[Promise]:
    """`tried`: who had asked tried to approve, too."""
    states = Counter(state or "never begun" for run in runs for state in run.states.values())
    done = sum(run.verdict == DONE for run in runs)
    ended = f"{done} times {DONE}, {', '.join(f'{n} {state}' for state, n in states.items())}"
    yield promise("runs", f"{len(runs)} times {DONE}, {states.total()} success", ended, words=len(runs))
    run_plans = [run.plan if run.plan in run.question else "another plan" for run in runs]
    yield promise("shown", ", ".join(run.plan for run in runs), ", ".join(run_plans))
    expected = ", ".join(_approved(ASKS, APPROVES, refused=tried) for _ in runs)
    seen = ", ".join(_approved(run.asked_by, run.approver, refused=run.refused > 0) for run in runs)
    yield promise("four eyes", expected, seen, words=", though they try" if tried else "")


def _approved(asked_by: str, approver: str, *, refused: bool) -> str:
    return f"{asked_by} asked{' (and was refused)' if refused else ''}, {approver} approved"


class DagWatch:
    """One run as it goes on: every task is shown as it changes, and the gate is answered once each time that it asks.

    `refused`: how often an answer of who had asked was refused.
    """

    def __init__(self, screen: Screen, clock: Clock, run: tuple[str, str], page: str) -> None:
        """`run`: names of the DAG and of its run. `page`: where a person answers the gate."""
        self._screen, self._clock, self._run, self._page = screen, clock, run, page
        self._states: dict[str, str | None] = {}
        self._asks = False
        self.refused = 0

    def until_over(self, asks: Rest, approves: Rest | None, seconds: float) -> dict[str, str | None]:
        """The states of its tasks in the end. `approves`: who answers the gate; None: a person does.

        Raises:
            TimedOut: it has not ended within `seconds`.
        """
        by, clock = self._clock.deadline(seconds), self._clock
        late = f"run {self._run[1]} of {self._run[0]} has not ended"
        until(lambda: self._over(asks, approves), by, clock, lambda: f"{late}: {self._states}", _POLL_SECONDS)
        return self._states

    def _over(self, asks: Rest, approves: Rest | None) -> bool:
        """Whether it is; one look at it. An Airflow that does not answer on a busy machine is asked again."""
        try:
            over = asks.run(*self._run)["state"] in ENDED
            for task in asks.tasks(*self._run):
                before, self._states[task.id] = self._states.get(task.id), task.state
                if task.state != before and task.state not in {None, "scheduled", "queued"}:
                    self._screen.note(f"  {task.id}: {task.state}")
                    self._screen.say(f"{task.id} is {task.state}")
            self._gate(asks, approves)
        except Unreachable as silent:
            self._screen.note(f"  {silent.reason}")
            return False
        return over

    def _gate(self, asks: Rest, approves: Rest | None) -> None:
        before, self._asks = self._asks, self._states.get(GATE) == "awaiting_input"
        if before or not self._asks:
            return
        for gate in asks.gates(*self._run):
            for part in (gate["subject"], *gate["body"].split("\n\n")[:_HEAD]):
                self._screen.note(f"    {part.replace('**', '')}")
        if approves:
            self._answer(asks)
            self._screen.say(f"{approves.user} reads the plan")
            self._clock.wait(READ_SECONDS)
            self._answer(approves)
        else:
            self._screen.event(f"answer it: {self._page}")
            self._screen.say(f"waiting for a person's answer: {self._page}")

    def _answer(self, person: Rest) -> None:
        try:
            person.answer(*self._run, GATE, OPTION)
        except AirflowRefused as refusal:
            if refusal.status == HTTPStatus.FORBIDDEN:
                self.refused += 1
                self._screen.note(f"    {person.user} answers {OPTION} and is refused: no respondent")
        else:
            self._screen.note(f"    {person.user} answers {OPTION}")


class AirflowRuns:
    """The Airflow beside the clusters. `interactive`: a person answers the gates, logged in as the user who may."""

    def __init__(self, screen: Screen, clock: Clock, home: Environment, airflow: Airflow, *, interactive: bool) -> None:
        self._screen, self._clock, self._home, self._airflow = screen, clock, home, airflow
        self._interactive = interactive
        self._runs: list[DagRun] = []

    def start(self, by: Deadline) -> None:
        """Returns when Airflow is healthy, and knows both clusters, the DAG and who may approve."""
        self._screen.say(f"waiting until all of it is healthy, logs: {self._airflow.directory}")
        settings = load(self._home.config, {})
        ours = {"TANIST_DESTINATIONS": "west", "TANIST_EVIDENCE": str(self._home.evidence)}
        self._airflow.start(connections(settings), variables(settings) | ours)
        with self._airflow.rest("admin") as admin:
            admin.wait_for_dag(DAG, by)
            admin.unpause(DAG)
        self._screen.say(f"{ASKS} will ask for failovers, {APPROVES} may approve them")

    def take_over(self, mirror: str, reason: str, wanted: Mapping[str, Any]) -> None:
        """Has `mirror` failed over, with these parameters of the DAG. Raises TanistError."""
        with self._airflow.rest(ASKS) as asks, self._airflow.rest(APPROVES) as approves:
            ended = self._ended(mirror, reason, wanted, asks, approves)
        self._runs.append(ended)
        if ended.verdict != DONE:
            raise ProcessFailed(f"{ended.verdict} {ended.why}: {self._page(ended.id)}")
        self._screen.note(f"{DONE}: asked for by {ended.asked_by}, approved by {ended.approver}")

    def _ended(self, mirror: str, reason: str, wanted: Mapping[str, Any], asks: Rest, approves: Rest) -> DagRun:
        conf = {"destination": "west", "mirror": mirror, "validate": "nothing", **wanted}
        run = asks.trigger(DAG, conf, note=reason)
        page = self._page(run)
        self._screen.note(f"{ASKS} asks Airflow for {DAG} of mirror {mirror}: {page}")
        door = f"{page}/tasks/{GATE}/required_actions   (as {APPROVES}, password in {self._airflow.passwords})"
        watch = DagWatch(self._screen, self._clock, (DAG, run), door)
        answers, seconds = (None, PERSON_SECONDS) if self._interactive else (approves, RUN_SECONDS)
        states, report = watch.until_over(asks, answers, seconds), asks.result(DAG, run, "report")
        return DagRun(
            id=run,
            mirror=mirror,
            question="".join(gate["body"] for gate in asks.gates(DAG, run)),
            asked_by=str(asks.run(DAG, run)["triggering_user_name"]),
            verdict=str(report["verdict"]),
            why=report["failed"],
            plan=str(report.get("plan_hash")),
            approver=str(report.get("approver")).partition(" via Airflow")[0],
            states=states,
            refused=watch.refused,
        )

    def promises(self) -> Iterator[Promise]:
        """Of the runs so far."""
        return of_runs(self._runs, tried=not self._interactive)

    def links(self) -> Iterator[str]:
        """What there is to see in it."""
        users = f"{ASKS}, {APPROVES} or admin, passwords in {self._airflow.passwords}"
        yield f"Airflow: {self._airflow.url}   ({users})"
        yield f"its page on whether a failover could start: {self._airflow.url}/tanist/"
        for run in self._runs:
            yield f"the run of {run.mirror}: {self._page(run.id)}"
            yield f"its evidence: {(self._home.evidence / run.plan / 'evidence.html').as_uri()}"

    def _page(self, run: str) -> str:
        return f"{self._airflow.url}/dags/{DAG}/runs/{run}"
