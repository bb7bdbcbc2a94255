"""The status page: for whom, with what, how often it asks, and that what it does not know is never green."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tanist.airflow import status_cache as module
from tanist.airflow.page import render
from tanist.airflow.status_cache import StatusCache
from tanist.domain.checks import Check, Mode, Verdict
from tanist.domain.circle import MirrorPlace, PendingReversal, ReversalStatus
from tanist.domain.errors import NoStateTopic, Unreachable
from tanist.domain.failover.health import Status
from tanist.domain.lag import KnownEnd, PartitionRow
from tanist.domain.limitation import Limitation
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, MirrorPartition, ProducerId, SourceOffset
from tanist.domain.next_steps.situation import MirrorSituation
from tanist.domain.offset_map import OffsetMap
from tanist.domain.records import FailoverRun, MirrorSpec, RunStatus, WorkerAlive
from tanist.domain.states import DesiredState, MirrorState
from tanist.usecases.status.observe import MirrorStatus
from tanist.usecases.status.status_view import STALE_MS, aged, board_item
from tests.builders import a_topic
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fastapi.testclient import TestClient

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using `httpx` with `starlette.testclient`"),
]
ROOT = Path(__file__).parents[2]
PATHS = ("/tanist/", "/tanist/status.json")
EVIL = "<script>alert('x')</script>"


def row(n: int, state: MirrorState, end: int | None = 10) -> PartitionRow:
    return PartitionRow(
        mirror=MirrorName("dr"),
        partition=MirrorPartition("orders", n),
        desired=DesiredState.MIRRORING,
        state=state,
        source=KnownEnd(SourceOffset(10), EpochMs(0)),
        destination_end=None if end is None else DestinationOffset(end),
        map=OffsetMap(),
        observed=None,
    )


def seen(at: int, mirror: str = "dr", *, reason: str = "") -> MirrorStatus:
    """A mirror whose source does not answer."""
    checks = (
        Check(name="source", verdict=Verdict.UNKNOWN, observed="does not answer", limit="answers", reason=reason),
        Check(name="destination", verdict=Verdict.PASS, observed="3 of 3"),
    )
    down = Limitation("SOURCE_DOWN", reason, blocks=True, unknown=True)
    gone = Limitation("SOURCE_NOT_DRAINED", reason, usual=True)
    spec = MirrorSpec(
        mirror=MirrorName(mirror),
        source="east",
        destination="west",
        source_cluster_id="e",
        destination_cluster_id="w",
        data_id=ProducerId(1),
        marker_id=ProducerId(2),
        start_id=ProducerId(3),
        created_at=EpochMs(0),
    )
    run = FailoverRun(
        mirror=spec.mirror,
        plan="cafe",
        plan_json="",
        approval="a",
        approver="carol",
        runner="op@host pid 1",
        status=RunStatus.ABORTED,
        started_at=EpochMs(at - 60_000),
        at=EpochMs(at),
    )
    worker = WorkerAlive(
        worker="airflow-host-7", version="0.1", host="host", started_at=EpochMs(0), at=EpochMs(at - 2_000)
    )
    return MirrorStatus(
        spec=spec,
        situation=MirrorSituation(
            place=MirrorPlace(spec=spec, mirrored=(a_topic(),)),
            destination="west",
            status=Status(
                mirror=spec.mirror, limitations={Mode.PLANNED: (down,), Mode.UNPLANNED: (gone,)}, checks=checks
            ),
            source_answers=False,
            source_gone=True,
            rows=(row(0, MirrorState.MIRRORING), row(1, MirrorState.FAILED, 4), row(2, MirrorState.MIRRORING, None)),
        ),
        workers=(worker,),
        runs=(run,),
    )


def item(at: int, **more: Any) -> dict[str, Any]:
    return board_item(seen(at, **more), EpochMs(at), lambda plan: f"/evidence/{plan}")


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────────────────────


def page(*items: dict[str, Any], errors: Sequence[dict[str, Any]] = ()) -> str:
    return render({"as_of_ms": 0, "items": [{**each, "age_ms": 1_000} for each in items], "errors": errors})


def test_a_mirror_is_shown_most_urgent_first() -> None:
    """Verdicts before reasons before tables; what has failed before what lags."""
    found = item(100_000)
    assert found["partitions"] == {"FAILED": 1, "MIRRORING": 2}
    assert found["lag"] == {"offsets": 6, "unknown": 1, "bytes": None, "ms": None, "age_ms": 100_000}
    assert [each["partition"] for each in found["troubled"]] == [1, 2]
    assert found["last_failover"]["approver"] == "carol"
    assert found["workers"][0] | {"version": ""} == {
        "worker": "airflow-host-7",
        "host": "host",
        "version": "",
        "started_at_ms": 0,
        "age_ms": 2_000,
        "alive": True,
        "principal": None,
    }
    text = page(found)
    words = ("? UNKNOWN", "✓ GO", "Partitions</dt>", "6 offsets, source observed 101 s ago")
    order = [text.index(word) for word in (*words, "ABORTED", "/evidence/cafe", "airflow-host-7", "All 2")]
    assert order == sorted(order)


def test_a_reversal_that_is_not_done_is_shown_with_the_command_that_completes_it() -> None:
    """The page said DONE, and the new primary was not mirrored."""
    left = PendingReversal(
        status=ReversalStatus.PENDING, plan="cafe", approver="carol", next_command="tanist failover run dr --plan cafe"
    )
    mirror = seen(100_000)
    found = board_item(replace(mirror, situation=replace(mirror.situation, reversal=left)), EpochMs(100_000))
    assert found["pending_reversal"]["next"] == "tanist failover run dr --plan cafe"
    text = page(found)
    assert text.index("Last failover") < text.index("PENDING") < text.index("tanist failover run dr --plan cafe")
    assert "<dt>Reversal</dt>" not in page(item(100_000))


def test_the_next_step_is_shown_and_of_an_old_answer_only_that_it_is_asked_again() -> None:
    found = item(100_000)
    command = "tanist failover plan dr --destination west --mode unplanned"
    assert [each["command"] for each in found["next"]] == [command]
    assert f"fail over without the source: <code>{command}</code>" in page(found)
    old = aged(found, EpochMs(100_000 + STALE_MS + 1))
    assert [each["command"] for each in old["next"]] == ["tanist next dr --destination west"]


def test_every_value_is_escaped() -> None:
    """Names and reasons come from clusters, which others write to."""
    error = {"name": EVIL, "reason": EVIL, "action": EVIL}
    text = page(item(100_000, mirror=EVIL, reason=EVIL), errors=[error])
    assert EVIL not in text
    assert "alert(" in text
    assert len(re.findall(r"<script", text)) == 1


def test_no_colour_stands_alone_and_nothing_comes_from_elsewhere() -> None:
    """Each verdict has its word and its sign; no font, image, style or script of anybody's."""
    text = page(item(100_000))
    for classes, said in re.findall(r'<(?:p|td) class="word(?:-of)?[^"]*?([A-Z-]*)">([^<]*)<', text):
        assert said.strip().startswith(("✓ ", "✕ ", "? ", "! ")) or classes == "", said
    assert "http" not in re.sub(r"http-equiv|HTTP", "", text)
    assert "src=" not in text


# ── how it is read ────────────────────────────────────────────────────────────────────────────────────────────────


class Cluster:
    """What is read, how often, and what goes wrong with it."""

    def __init__(self, clock: JumpingClock) -> None:
        self.clock, self.reads = clock, 0
        self.error: Exception | None = None
        self.held = threading.Event()
        self.held.set()

    def __call__(self, destination: str) -> list[dict[str, Any]]:
        self.reads += 1
        if destination == "west":
            self.held.wait(20)
        if self.error:
            raise self.error
        return [item(self.clock.now(), mirror=f"to-{destination}")]


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def cluster(clock: JumpingClock) -> Iterator[Cluster]:
    cluster = Cluster(clock)
    yield cluster
    cluster.held.set()


def status_answer(cluster: Cluster, *names: str) -> Callable[[], dict[str, Any]]:
    readings = StatusCache(cluster, lambda: names, cluster.clock)
    return lambda: asyncio.run(readings.answer())


def test_many_who_look_are_one_reading(cluster: Cluster, clock: JumpingClock) -> None:
    readings = StatusCache(cluster, lambda: ["west"], clock)

    async def crowd() -> list[dict[str, Any]]:
        return await asyncio.gather(*(readings.answer() for _ in range(50)))

    assert all(len(answer["items"]) == 1 for answer in asyncio.run(crowd()))
    assert cluster.reads == 1
    clock.jump(module.FRESH_SECONDS + 1)
    asyncio.run(crowd())
    assert cluster.reads == 2


def test_a_destination_that_hangs_delays_nobody(
    cluster: Cluster, clock: JumpingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are shown, it is named; nobody piles up behind it."""
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)
    cluster.held.clear()
    ask = status_answer(cluster, "west", "north")
    ask()
    answer = ask()
    assert [each["mirror"] for each in answer["items"]] == ["to-north"]
    (error,) = answer["errors"]
    assert error["destination"] == "west"
    assert error["reason"] == "'west' has not answered yet; the request times out after 20 s"
    assert cluster.reads == 2
    cluster.held.set()
    assert {each["mirror"] for each in ask()["items"]} == {"to-north", "to-west"}


def test_what_cannot_be_read_again_grows_old_and_then_unknown(cluster: Cluster, clock: JumpingClock) -> None:
    ask = status_answer(cluster, "west")
    ask()
    cluster.error = Unreachable("west is gone")
    clock.jump(10)
    answer = ask()
    assert answer["items"][0]["unplanned"] == "GO"
    assert answer["items"][0]["age_ms"] == 10_000
    assert answer["errors"][0]["reason"] == "west is gone"
    clock.jump(STALE_MS / 1000)
    (old,) = ask()["items"]
    assert (old["planned"], old["unplanned"]) == ("UNKNOWN", "UNKNOWN")
    assert old["checks"][0]["reason"].startswith("the last answer was planned UNKNOWN, unplanned GO")
    assert "✓ GO" not in render(answer | {"items": [old]})


def test_a_cluster_that_is_only_a_source_is_no_warning(cluster: Cluster) -> None:
    """It was NO_STATE_TOPIC on every page of an installation that names both clusters; without a mirror it still is."""

    def read(destination: str) -> list[dict[str, Any]]:
        if destination != "west":
            raise NoStateTopic(f"{destination!r} has no topic __mirror_state")
        return cluster(destination)

    def answer(*names: str) -> dict[str, Any]:
        return asyncio.run(StatusCache(read, lambda: names, cluster.clock).answer())

    both = answer("east", "west")
    assert (both["errors"], [each["only_source"] for each in both["items"]]) == ([], [True])
    assert "east (only a source)" in render(both)
    assert "only a source" not in render(answer("west"))
    (error,) = answer("north", "west")["errors"]
    assert (error["name"], error["destination"]) == ("NO_STATE_TOPIC", "north")


def test_a_mirror_that_was_seen_and_is_gone_is_no_cluster_that_is_only_a_source(cluster: Cluster) -> None:
    """Its state topic is lost, although another mirror copies from it."""
    ask = status_answer(cluster, "west", "east")
    assert ask()["errors"] == []
    cluster.error = NoStateTopic("no topic __mirror_state")
    cluster.clock.jump(module.FRESH_SECONDS + 1)
    assert {each["destination"] for each in ask()["errors"]} == {"east", "west"}


def test_a_bug_is_told_without_its_words(cluster: Cluster) -> None:
    """What an unexpected error says might be a secret: it goes to the log."""
    cluster.error = RuntimeError("password=S3cret")
    (error,) = status_answer(cluster, "west")()["errors"]
    assert error["name"] == "INTERNAL"
    assert error["reason"] == "reading 'west' ended in RuntimeError: see the log"


def test_without_a_destination_the_page_says_what_to_set(cluster: Cluster) -> None:
    (error,) = status_answer(cluster)()["errors"]
    assert "TANIST_DESTINATIONS" in error["reason"]


# ── for whom ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """The app behind Airflow's own logins and roles."""
    from airflow.api_fastapi.app import init_auth_manager  # noqa: PLC0415 -- its settings are made by conftest
    from airflow.utils.db import initdb  # noqa: PLC0415
    from fastapi import FastAPI  # noqa: PLC0415
    from fastapi.testclient import TestClient  # noqa: PLC0415

    from tanist.airflow import web  # noqa: PLC0415

    initdb()
    airflow = FastAPI()
    init_auth_manager(airflow)
    airflow.mount(web.PREFIX, web.app)
    clock = JumpingClock()
    web.app.state.readings = StatusCache(Cluster(clock), lambda: ["west"], clock)
    yield TestClient(airflow)
    web.app.state.readings = StatusCache()


def headers(client: TestClient, user: str) -> dict[str, str]:
    token = client.post("/auth/token", json={"username": user, "password": user}).json()["access_token"]
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("path", [*PATHS, "/tanist/docs", "/tanist/redoc", "/tanist/openapi.json"])
def test_nobody_reads_without_signing_in(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in ({401} if path in PATHS else {404})


@pytest.mark.parametrize("path", PATHS)
def test_a_login_that_airflow_has_not_given_opens_nothing(client: TestClient, path: str) -> None:
    """A token of another Airflow is signed by another key; a cookie is no better than a header."""
    head, _, body = headers(client, "viewer")["Authorization"].rpartition(".")
    forged = f"{head}.{body[::-1]}"
    assert client.get(path, headers={"Authorization": forged}).status_code in {401, 403}
    assert client.get(path, headers={"Cookie": f"_token={forged.removeprefix('Bearer ')}"}).status_code in {401, 403}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("user", ["viewer", "user", "op", "admin"])
def test_whoever_may_see_the_deployment_may_read_and_nobody_may_write(client: TestClient, user: str, path: str) -> None:
    signed_in = headers(client, user)
    assert client.get(path, headers=signed_in).status_code == 200
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert client.request(method, path, headers=signed_in).status_code == 405


def test_no_path_is_without_a_guard(client: TestClient) -> None:
    """The guard belongs to the app, so that a path cannot forget it."""
    from fastapi.routing import APIRoute  # noqa: PLC0415

    from tanist.airflow import web  # noqa: PLC0415

    assert {f"{web.PREFIX}{route.path}" for route in web.app.routes if isinstance(route, APIRoute)} == set(PATHS)
    assert len(web.app.routes) == len(PATHS)
    assert web.app.router.dependencies


def test_its_json_is_shaped_as_that_of_the_command_line(client: TestClient) -> None:
    answer = client.get("/tanist/status.json", headers=headers(client, "viewer")).json()
    assert set(answer) == {"schema_version", "as_of_ms", "items", "errors"}
    assert answer["schema_version"] == 1
    assert {"mirror", "planned", "unplanned", "checks"} <= set(answer["items"][0])


def test_the_page_may_load_nothing_and_only_airflow_may_frame_it(client: TestClient) -> None:
    answer = client.get("/tanist/", headers=headers(client, "viewer"))
    policy = answer.headers["content-security-policy"]
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'self'" in policy
    assert answer.headers["cache-control"] == "no-store"


# ── the plugin ────────────────────────────────────────────────────────────────────────────────────────────────────

BUILT = {"api-server": "1 tanist True"} | dict.fromkeys(
    ("scheduler", "dag-processor", "triggerer", "tasks"), "0 tanist False"
)
PLUGIN = """
import os, sys
import airflow.plugins_manager  # what every component has loaded
sys.path.insert(0, "plugins")
assert "tanist_plugin" not in sys.modules and "tanist.airflow.web" not in sys.modules
for component in sys.argv[1:]:
    if os.fork():
        assert os.wait()[1] == 0, component
        continue
    sys.argv = ["airflow", component]
    from tanist_plugin import TanistPlugin
    page = "tanist.airflow.web" in sys.modules
    print(component, len(TanistPlugin.fastapi_apps), TanistPlugin.external_views[0]["url_route"], page, flush=True)
    os._exit(0)
"""


def test_the_page_is_built_in_the_api_server_and_nowhere_else() -> None:
    """The file is imported in every component, and again in every task; here in processes split off from one."""
    found = subprocess.run(
        [sys.executable, "-c", PLUGIN, *BUILT], cwd=ROOT, capture_output=True, text=True, timeout=80, check=True
    )
    assert found.stdout.splitlines()[-len(BUILT) :] == [f"{name} {built}" for name, built in BUILT.items()]
