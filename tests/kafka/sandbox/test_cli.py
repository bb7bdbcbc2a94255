"""`tanist sandbox` as its users meet it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tanist.domain.logins import Login, Origin
from tanist.kafka.adapters.access import KafkaAccess
from tanist.kafka.wire.clock import SystemClock
from tanist.settings import load
from tanist_testkit.cli.sandbox import app
from tests.ports import over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INCLUDE = Path(__file__).parents[3] / "include"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "sandbox"
    yield directory
    CliRunner().invoke(app, ["down", "--dir", str(directory)])


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def items(printed: str) -> list[dict[str, Any]]:
    whole = json.loads(printed)
    assert whole["schema_version"] == 1
    assert whole["errors"] == []
    assert whole["as_of_ms"] > 0
    return list(whole["items"])


def test_a_cluster_of_no_directory_is_one_error(home: Path) -> None:
    for command in ("kill", "start"):
        code, _, reported = run(command, "east", "--dir", home)
        assert (code, reported.count("\n")) == (2, 1)
        assert reported.startswith("error: INVALID_CONFIG: no cluster 'east'")


def test_users_log_in_with_certificates_where_they_were_asked_for(home: Path) -> None:
    """The configuration that `up` writes names one, and the cluster knows whose it is."""
    code, _, reported = run("up", "--name", "east", "--client-certificates", "--dir", home)
    assert code == 0, reported
    endpoint = load(home / "tanist.toml", {}).endpoint("east")
    assert endpoint.sasl is None
    with over(KafkaAccess, endpoint) as access:
        seen = access.login([], SystemClock().deadline(20))
    assert seen.login == Login("User:CN=admin,OU=Tanist sandbox", Origin.CERTIFICATE)
    assert seen.authorizer
    assert (home / "east" / "secrets" / "app.key").stat().st_mode & 0o077 == 0


def test_up_again_kill_start_down(home: Path, nothing_left: Callable[[Path], None]) -> None:
    code, printed, _ = run("up", "--name", "east", "--authorizer", "--json", "--dir", home)
    assert code == 0
    [east] = items(printed)
    [broker] = east["brokers"]
    assert broker["alive"]
    assert east["bootstrap_servers"] == f"127.0.0.1:{broker['port']}"

    code, printed, reported = run("up", "--name", "east", "--authorizer", "--json", "--dir", home)
    assert (code, items(printed)) == (0, [east])
    assert "already up" in reported

    code, _, reported = run("up", "--name", "east", "--dir", home)
    assert code == 2
    assert reported.startswith("error: INVALID_CONFIG: east exists")

    connection = tomllib.loads((home / "tanist.toml").read_text(encoding="utf-8"))["clusters"]["east"]
    assert connection["security_protocol"] == "SASL_PLAINTEXT"
    assert connection["allow_small_state"] is True
    assert Path(connection["sasl_password_file"]).stat().st_mode & 0o777 == 0o600

    code, printed, _ = run("kill", "east", "--broker", "1", "--json", "--dir", home)
    assert (code, items(printed)[0]["brokers"][0]["alive"]) == (0, False)
    code, printed, _ = run("start", "east", "-o", "json", "--dir", home)
    assert (code, items(printed)[0]["cluster_id"]) == (0, east["cluster_id"])

    assert run("down", "--delete", "--dir", home)[0] == 0
    nothing_left(home)
    assert items(run("status", "--json", "--dir", home)[1]) == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_up_leaves_nothing(
    home: Path, sign: signal.Signals, nothing_left: Callable[[Path], None]
) -> None:
    command = [sys.executable, "-m", "tanist_testkit.cli.sandbox", "up", "--dir", str(home)]
    environment = os.environ | {"PYTHONPATH": str(INCLUDE)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as up:
        assert up.stderr is not None
        next(line for line in up.stderr if "waiting" in line)
        up.send_signal(sign)
        assert up.wait(10) == (130 if sign == signal.SIGINT else -sign)
    nothing_left(home)


def test_a_missing_java_is_one_line(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, printed, reported = run("up", "--json", "--dir", home)
    assert code == 2
    assert "error: MISSING_DEPENDENCY: no `java` on PATH" in reported
    assert "Traceback" not in reported
    assert json.loads(printed)["errors"][0]["name"] == "MISSING_DEPENDENCY"


def test_an_unknown_cluster_is_named_with_the_known_ones(home: Path) -> None:
    home.mkdir()
    code, _, reported = run("kill", "north", "--dir", home)
    assert code == 2
    assert "no cluster 'north'" in reported
    assert "only: none" in reported
