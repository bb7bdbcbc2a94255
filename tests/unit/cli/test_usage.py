"""What the command line says before any cluster is asked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import typer

from tanist.cli.app import app
from tanist.cli.options import Session
from tanist.cli.output import emit, fail, guard, never_silent
from tanist.domain.errors import Misconfigured, UnknownMirror
from tanist.usecases.failover import abort, planning, status
from tanist.wiring.registry import ClusterRegistry
from tests.reference import commands_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Tanist


def plain(table: str) -> str:
    """The words of a help text, without its frame and line breaks."""
    return " ".join(re.findall(r"[^\s│]+", table))


@pytest.mark.parametrize(
    "typed",
    [
        ("mirrors", "list", "--json", "--nonsense"),
        ("mirrors", "creat", "--json"),
        ("mirrors", "describe", "-o", "json", "--timeout", "soon"),
        ("status", "--output", "json", "--timeout", "0"),
        ("status", "--output=json", "a", "b"),
    ],
)
def test_a_usage_error_stands_in_the_json_too(tanist: Tanist, typed: tuple[str, ...]) -> None:
    answer = tanist(*typed)
    assert (answer.code, answer.errors, answer.items) == (2, ["INVALID_USAGE"], [])
    (error,) = json.loads(answer.out)["errors"]
    assert error["name"] == "INVALID_USAGE"
    assert error["reason"] in answer.err


def test_a_usage_error_prints_nothing_to_standard_output_without_json(tanist: Tanist) -> None:
    answer = tanist("mirrors", "list", "--nonsense")
    assert (answer.code, answer.errors, answer.out) == (2, ["INVALID_USAGE"], "")


def test_an_approval_without_a_reason_is_refused_before_a_cluster_is_asked(
    tanist: Tanist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It connected first, and ended as TIMED_OUT where a cluster was silent."""
    file = tmp_path / "tanist.toml"
    file.write_text('[clusters.west]\nbootstrap_servers = "127.0.0.1:1"\n')

    def asked(*_: object) -> NoReturn:
        raise AssertionError("a cluster was asked")

    monkeypatch.setattr(Session, "mirror", asked)
    where = ("--destination", "west", "--config", str(file))
    for reason in ("", " "):
        answer = tanist("failover", "approve", "dr", "0123456789abcdef", *where, "--reason", reason)
        assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
        assert "--reason" in answer.err


def test_a_configuration_with_several_problems_ends_like_any_other_error(tanist: Tanist, tmp_path: Path) -> None:
    file = tmp_path / "tanist.toml"
    file.write_text("[clusters.a]\nx = 1\n[clusters.b]\ny = 2\n")
    answer = tanist("mirrors", "list", "--config", str(file))
    assert answer.code == 2
    assert re.search(r"\S \(correct it and run the same command again\)$", answer.err.strip())


@pytest.mark.parametrize(
    "typed",
    [
        ("failover", "approve", "dr", "1c0ffee2", "--reason", "t\udcfcst"),
        ("failover", "abort", "dr", "--reason", "t\udcfcst"),
        ("mirrors", "create", "t\udcfcst", "--source", "east", "--topic", "."),
        ("status", "--t\udcfcst"),
    ],
)
def test_bytes_that_are_no_text_are_a_usage_error(tanist: Tanist, typed: tuple[str, ...]) -> None:
    answer = tanist(*typed, "--json")
    assert (answer.code, answer.errors) == (2, ["INVALID_USAGE"])
    assert "t\\udcfcst' is not UTF-8" in answer.err


def test_line_breaks_in_a_reason_do_not_break_an_error_into_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever wrote the reason: an older version, or a broker."""
    with pytest.raises(typer.Exit), guard():
        raise Misconfigured("it was\nerror: FORGED: x\x1b[2J")
    fail("INVALID_USAGE", "it was\nerror: FORGED: x", "see `tanist --help`", as_json=False)
    reported = capsys.readouterr().err
    assert len(reported.splitlines()) == reported.count("it was error: FORGED: x") == 2
    assert "\x1b" not in reported


@pytest.mark.parametrize("typed", [("approve", "dr", "1c0ffee2"), ("abort", "dr")])
def test_a_reason_is_one_line_whatever_was_typed(
    tanist: Tanist, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...]
) -> None:
    """Others read it later, in tables and in lines of errors."""

    def heard(*given: Any, **named: Any) -> NoReturn:
        raise Misconfigured(repr(named["terms"].reason if "terms" in named else given[-1]))

    monkeypatch.setattr(Session, "mirror", lambda *_: None)
    monkeypatch.setattr(status, "runs", lambda *_: ())
    monkeypatch.setattr(planning, "approve_typed", heard)
    monkeypatch.setattr(abort, "abort", heard)
    answer = tanist("failover", *typed, "--reason", "east is\non fire\x1b[2J\u2028")
    assert "'east is on fire [2J'" in answer.err


def test_an_abort_has_time_on_a_busy_night(tanist: Tanist) -> None:
    assert "(default: 120s)" in plain(tanist("failover", "abort", "--help").out)


@pytest.mark.parametrize("command", ["failover run", "failover approve", "mirrors describe", "mirrors remove"])
def test_defaults_in_the_help_have_one_pair_of_parentheses(tanist: Tanist, command: str) -> None:
    reported = tanist(*command.split(), "--help").out
    assert "default: (" not in reported
    assert "(default:" in reported


def test_help_lists_no_timeout_where_nothing_ends(tanist: Tanist) -> None:
    assert "--timeout" not in tanist("fetcher", "run", "--help").out
    assert tanist("fetcher", "run", "--timeout", "1s").errors == ["INVALID_USAGE"]


@pytest.mark.parametrize("command", ["create", "add", "pause", "resume", "alter"])
def test_a_command_that_never_asks_says_so(tanist: Tanist, command: str) -> None:
    """`--yes` is taken everywhere, for scripts; only `delete`, `remove` (and both `sync`, and `demo`) ask."""
    assert "this command does not ask" in plain(tanist("mirrors", command, "--help").out)


@pytest.mark.parametrize("command", ["mirrors delete", "mirrors remove", "metadata sync", "groups sync", "demo"])
def test_a_command_that_asks_says_so(tanist: Tanist, command: str) -> None:
    reported = plain(tanist(*command.split(), "--help").out)
    assert "Do not ask for confirmation." in reported
    assert "does not ask" not in reported


@pytest.mark.parametrize("moment", ["tanist.cli.app", "typer", "tanist.domain.errors", "tanist.cli.failover"])
def test_ctrl_c_while_everything_is_imported_shows_no_traceback(moment: str) -> None:
    """The first half second of every command: 130, and not a word."""
    impatient = (
        "import os, signal, sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        name == {moment!r} and os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from tanist.cli.main import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", impatient, "fsm"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_the_reason_of_an_abandoned_fence_is_promised_to_nobody(tanist: Tanist) -> None:
    """The mirror's records go with it: nobody could read the reason later."""
    answer = tanist("mirrors", "delete", "dr", "--destination", "west", "--abandon-fence", "--yes")
    assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
    assert "printed with the commands and not stored" in plain(answer.err)
    assert "printed, not stored" in plain(tanist("mirrors", "delete", "--help").out)


def test_a_value_that_is_no_choice_is_named_without_words_of_a_library(tanist: Tanist) -> None:
    """It began with "Value error"."""
    answer = tanist("validate", "dr", "--destination", "west", "--level", "foo")
    assert (answer.code, answer.errors) == (2, ["INVALID_USAGE"])
    assert "Invalid value for '--level': 'foo' is not one of" in answer.err


def test_every_command_that_takes_topics_can_leave_some_out() -> None:
    """The error of an expression with lookaround advised `--exclude`, which a dozen commands did not have."""
    lacking = []
    for path, command in commands_of("tanist", typer.main.get_command(app)):
        options = {name: each.metavar for each in command.params for name in each.opts}
        if options.get("--topic") == "REGEX" and "--exclude" not in options:
            lacking.append(path)
    assert lacking == []


def test_the_fence_of_no_topic_is_set_where_none_is_named(tanist: Tanist) -> None:
    assert "no topic is selected: give --topic REGEX" in tanist("fence", "set", "dr", "--exclude", "a").err


def test_a_table_shows_a_time_as_a_date_and_json_as_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    first: dict[str, Any] = {"mirror": "dr", "expires_at_ms": 1_700_000_000_000, "age_ms": 5}
    items = [first, {"mirror": "m2", "expires_at_ms": None}]
    emit(items, ("mirror", "expires_at_ms", "age_ms"), as_json=False)
    table = capsys.readouterr().out
    assert table.split() == ["MIRROR", "EXPIRES-AT", "AGE-MS", "dr", "2023-11-14T22:13:20.000Z", "5", "m2", "-", "-"]
    emit(items, ("mirror", "expires_at_ms"), as_json=True)
    assert json.loads(capsys.readouterr().out)["items"] == items


def test_a_long_operation_is_never_silent_for_long() -> None:
    """`failback replay` said nothing for 58 s while a broker was away."""
    said: list[str] = []
    heard = threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        if len(said) > 2:
            heard.set()

    with never_silent(tell, 0.05) as hear:
        hear("append: begins")
        assert heard.wait(10)
    assert said[0] == "append: begins"
    assert all(each.endswith("the last step was: append: begins") for each in said[1:])
    assert said[1].startswith("has said nothing for 0 s; ")
    assert "tanist-never-silent" not in {each.name for each in threading.enumerate()}, "it ends with the operation"


NOBODY = '[clusters.east]\nbootstrap_servers = "127.0.0.1:1"\n[clusters.west]\nbootstrap_servers = "127.0.0.1:1"\n'


def test_a_mirror_from_a_cluster_to_itself_is_refused_before_the_network_is_asked(
    tanist: Tanist, tmp_path: Path
) -> None:
    """It was UNREACHABLE where the cluster did not answer."""
    (tmp_path / "tanist.toml").write_text(NOBODY)
    same = ("mirrors", "create", "dr", "--source", "east", "--destination", "east", "--topic", ".*")
    answer = tanist(*same, "--config", str(tmp_path / "tanist.toml"))
    assert (answer.code, answer.errors) == (1, ["SAME_CLUSTER"])


@pytest.mark.parametrize(
    "typed",
    [("failover", "plan", "dr"), ("failover", "status", "dr"), ("fence", "show", "dr"), ("failback", "decide", "dr")],
)
def test_a_command_that_reads_finds_the_destination(
    tanist: Tanist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: tuple[str, ...]
) -> None:
    """`failover plan` without one ended with 2."""
    (tmp_path / "tanist.toml").write_text(NOBODY)

    def found(_registry: ClusterRegistry, mirror: str, _context: object) -> NoReturn:
        raise UnknownMirror(f"looked for {mirror} everywhere")

    monkeypatch.setattr(ClusterRegistry, "destinations", found)
    answer = tanist(*typed, "--config", str(tmp_path / "tanist.toml"))
    assert (answer.code, answer.errors) == (1, ["UNKNOWN_MIRROR"])
    assert "looked for dr everywhere" in answer.err


def test_a_command_that_changes_something_does_not_guess_its_destination(tanist: Tanist, tmp_path: Path) -> None:
    (tmp_path / "tanist.toml").write_text(NOBODY)
    answer = tanist("failover", "run", "dr", "--plan", "cafe", "--config", str(tmp_path / "tanist.toml"))
    assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
