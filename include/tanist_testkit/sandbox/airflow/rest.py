"""Airflow's REST API as one of its users, for the sandbox, the demo and tests.

with Rest(url, "op", password) as op:
    run = op.trigger("mirror_failover", {"mirror": "m1"})
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx

from tanist.domain.errors import Refused, TimedOut, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from tanist.domain.endpoint import Secret
    from tanist.ports.clock import Deadline

_T = TypeVar("_T")

ENDED: Final = frozenset({"success", "failed"})
"""The states in which a run stays."""
_SECONDS: Final = 30.0  # for one request
_POLL: Final = 0.2


class AirflowRefused(Refused):
    """Airflow has said no. `status`: the HTTP status: 403 for a user who may not, 409 for a second answer."""

    name = "AIRFLOW_REFUSED"
    operator_action = "see the reason; the user's role may not be enough"

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowConnection:
    """An Airflow connection; `extra` may hold secrets and is not shown."""

    id: str
    type: str
    host: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task instance. `index`: -1 for one that is not mapped; `state` is None before it is scheduled."""

    id: str
    index: int
    state: str | None
    tries: int


class Rest:
    """Every method raises AirflowRefused (Airflow said no) and Unreachable (it did not answer, or failed).

    Methods that wait raise TimedOut as well.
    """

    def __init__(self, url: str, user: str, password: Secret) -> None:
        """Logs in with the first request."""
        self._url, self.user, self._password = url, user, password
        # loopback only: no proxy of the environment may see the password
        self._http = httpx.Client(base_url=url, timeout=_SECONDS, trust_env=False)

    def __repr__(self) -> str:
        return f"Rest({self._url!r}, {self.user!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends its connections."""
        self._http.close()

    # ── DAGs and runs ─────────────────────────────────────────────────────────────────────────────────────────────

    def dag(self, dag: str) -> dict[str, Any]:
        """The DAG as the API shows it."""
        return self._get(f"/dags/{quote(dag)}")

    def wait_for_dag(self, dag: str, by: Deadline) -> dict[str, Any]:
        """When Airflow has read its file. What is wrong with files is in the error."""

        def known() -> dict[str, Any] | None:
            return _or_none(lambda: self.dag(dag))

        return _poll(known, by, lambda: f"{dag} is not known; files with errors: {self.import_errors() or 'none'}")

    def import_errors(self) -> dict[str, str]:
        """Files that cannot be read, and why."""
        return {each["filename"]: each["stack_trace"] for each in self._get("/importErrors")["import_errors"]}

    def pause(self, dag: str, *, paused: bool = True) -> None:
        """New runs wait until it is unpaused."""
        self.call("PATCH", f"/dags/{quote(dag)}", {"is_paused": paused})

    def unpause(self, dag: str) -> None:
        """Runs may start."""
        self.pause(dag, paused=False)

    def trigger(self, dag: str, conf: Mapping[str, Any] | None = None, note: str | None = None) -> str:
        """The id of the new run."""
        body = {"logical_date": None, "conf": dict(conf or {}), "note": note}
        return str(self.call("POST", f"/dags/{quote(dag)}/dagRuns", body)["dag_run_id"])

    def run(self, dag: str, run: str) -> dict[str, Any]:
        """The run as the API shows it: `state`, `triggering_user_name`, ..."""
        return self._get(_run(dag, run))

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """The newest first."""
        return list(self._get(f"/dags/{quote(dag)}/dagRuns?order_by=-run_after&limit=100")["dag_runs"])

    def wait_for_run(self, dag: str, run: str, by: Deadline) -> str:
        """Its last state: `success` or `failed`."""

        def ended() -> str | None:
            state = str(self.run(dag, run)["state"])
            return state if state in ENDED else None

        return _poll(ended, by, lambda: f"run {run} of {dag} has not ended: {self.tasks(dag, run)}")

    def tasks(self, dag: str, run: str) -> tuple[TaskState, ...]:
        """The instances of all tasks of a run."""
        found = self._get(f"{_run(dag, run)}/taskInstances?limit=1000")["task_instances"]
        return tuple(TaskState(each["task_id"], each["map_index"], each["state"], each["try_number"]) for each in found)

    def wait_for_task(self, dag: str, run: str, task: str, states: frozenset[str], by: Deadline) -> TaskState:
        """When one instance of `task` is in one of `states`."""

        def there() -> TaskState | None:
            return next((t for t in self.tasks(dag, run) if t.id == task and t.state in states), None)

        return _poll(there, by, lambda: f"{task} of {run} is in none of {sorted(states)}: {self.tasks(dag, run)}")

    def result(self, dag: str, run: str, task: str, key: str = "return_value") -> Any:
        """What the task has returned."""
        return self._get(f"{_run(dag, run)}/taskInstances/{quote(task)}/xcomEntries/{quote(key)}")["value"]

    def log(self, dag: str, run: str, task: str, *, tries: int = 1, index: int = -1) -> str:
        """What one try of a task has logged, one line per event, with its fields."""
        path = f"{_run(dag, run)}/taskInstances/{quote(task)}/logs/{tries}?map_index={index}&full_content=true"
        content = self._get(path)["content"]
        return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in content)

    # ── gates ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def gates(self, dag: str, run: str) -> tuple[dict[str, Any], ...]:
        """The gates that a run has reached, answered or not: `subject`, `body`, `options`, `assigned_users`, ..."""
        return tuple(self._get(f"{_run(dag, run)}/hitlDetails")["hitl_details"])

    def answer(
        self, dag: str, run: str, task: str, option: str, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Answers a gate. `params`: none, or all of those that it asks for.

        Airflow may lose an answer within the first seconds of `awaiting_input`, and fails the task: wait a little.
        """
        body = {"chosen_options": [option], "params_input": dict(params or {})}
        return self.call("PATCH", f"{_run(dag, run)}/taskInstances/{quote(task)}/-1/hitlDetails", body)

    # ── connections, variables ────────────────────────────────────────────────────────────────────────────────────────

    def put_connection(self, connection: AirflowConnection) -> None:
        """Makes it, or replaces one of that name."""
        body = {
            "connection_id": connection.id,
            "conn_type": connection.type,
            "host": connection.host,
            "extra": json.dumps(dict(connection.extra)),
        }
        self._put("/connections", connection.id, body)

    def connection(self, name: str) -> dict[str, Any]:
        """As the API shows it: secrets masked."""
        return self._get(f"/connections/{quote(name)}")

    def put_variable(self, key: str, value: str) -> None:
        """Makes it, or replaces its value."""
        self._put("/variables", key, {"key": key, "value": value})

    def _put(self, place: str, name: str, body: Mapping[str, Any]) -> None:
        there = f"{place}/{quote(name)}"
        if _or_none(lambda: self._get(there)) is None:
            self.call("POST", place, body)
        else:
            self.call("PATCH", there, body)

    # ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Any request; `path` is below /api/v2."""
        if "Authorization" not in self._http.headers:
            self._log_in()
        return self._send(method, f"/api/v2{path}", body)

    def _get(self, path: str) -> dict[str, Any]:
        return self.call("GET", path)

    def _log_in(self) -> None:
        given = {"username": self.user, "password": self._password.reveal()}
        token = self._send("POST", "/auth/token", given)["access_token"]
        self._http.headers["Authorization"] = f"Bearer {token}"

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        # without the task logs as JSON, Airflow streams them as lines
        headers = {"Accept": "application/json"}
        try:
            answer = self._http.request(method, path, json=body, headers=headers)
        except httpx.TransportError as problem:
            raise Unreachable(f"{method} {self._url}{path}: {type(problem).__name__}: {problem}") from problem
        return _content(answer, f"{self.user}: {method} {path}")


def health(url: str) -> dict[str, Any]:
    """What Airflow says of itself, by part, without a login. Raises Unreachable."""
    return _ask(url, "/api/v2/monitor/health", 5.0)


def prepare_for_tasks(url: str, seconds: float) -> None:
    """Ask the execution API something, and wait for the answer.

    An api-server generates all versions of that API when it is first asked, in its event loop (`Cadwyn.__call__`): for
    half a minute on a busy machine it answers nobody, and the first task fails, which asks five times for 5 s.

    Raises:
        Unreachable.
    """
    _ask(url, "/execution/health", max(seconds, 1.0))


def _ask(url: str, path: str, seconds: float) -> dict[str, Any]:
    try:
        answer = httpx.get(url + path, timeout=seconds, trust_env=False)
    except httpx.TransportError as problem:
        raise Unreachable(f"{url}{path}: {type(problem).__name__}: {problem}") from problem
    return _content(answer, path)


def _content(answer: httpx.Response, doing: str) -> dict[str, Any]:
    if answer.is_success:
        return dict(answer.json()) if answer.content else {}
    said = f"{doing}: {answer.status_code} {_detail(answer)}"
    raise Unreachable(said) if answer.is_server_error else AirflowRefused(said, answer.status_code)


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase


def _run(dag: str, run: str) -> str:
    return f"/dags/{quote(dag)}/dagRuns/{quote(run)}"


def _or_none(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    try:
        return ask()
    except AirflowRefused as refusal:
        if refusal.status == httpx.codes.NOT_FOUND:
            return None
        raise


def _poll(ask: Callable[[], _T | None], by: Deadline, late: Callable[[], str]) -> _T:
    """An Airflow that is too busy to answer is asked again."""
    while True:
        with suppress(Unreachable):
            if (found := ask()) is not None:
                return found
        if not by.left(time.monotonic()):
            raise TimedOut(late())
        time.sleep(_POLL)
