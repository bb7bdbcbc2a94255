"""Commands that come with the testkit."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tanist.cli import extensions

if TYPE_CHECKING:
    from tests.kafka.cli.conftest import Tanist


@pytest.mark.parametrize("command", sorted(extensions.TESTKIT))
def test_without_the_testkit_its_commands_say_in_one_line_which_package_brings_them(
    tanist: Tanist, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(extensions, "entry_points", lambda **_: ())
    answer = tanist(command, "--help")
    assert answer.errors == ["MISSING_DEPENDENCY"]
    assert "pip install tanist-testkit" in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("command", sorted(extensions.TESTKIT))
def test_a_command_of_the_testkit_is_one_of_tanist(tanist: Tanist, command: str) -> None:
    answer = tanist(command, "--help")
    assert answer.code == 0
    assert f"tanist {command} [OPTIONS]" in answer.out


def test_the_help_names_the_commands_of_the_testkit_and_loads_none() -> None:
    code = (
        "import sys; from tanist.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(name for name in sys.modules if name.startswith('tanist_testkit')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(command in done.stdout for command in extensions.TESTKIT)
    assert done.stdout.splitlines()[-1] == "[]"
