"""`tanist status` and `tanist next` are run without the other commands."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import pytest
import typer

from tanist.cli import app, looking, main

HEAVY = ("tanist.fetcher.service", "tanist.spark_submit", "tanist.cli.failover", "tanist.wiring.fetcher")


def commands(of: typer.Typer) -> dict[str, Any]:
    return cast("dict[str, Any]", cast("Any", typer.main.get_command(of)).commands)


@pytest.mark.parametrize("name", sorted(main.LOOKING))
def test_alone_a_command_is_what_it_is_among_the_others(name: str) -> None:
    alone, among = commands(looking.app), commands(app.app)
    assert set(alone) == main.LOOKING
    assert alone[name].callback.__name__ == among[name].callback.__name__
    assert [each.opts for each in alone[name].params] == [each.opts for each in among[name].params]
    assert alone[name].help == among[name].help


@pytest.mark.parametrize("name", sorted(main.LOOKING))
def test_it_waits_for_nothing_to_be_imported_that_it_does_not_use(name: str) -> None:
    code = (
        f"import sys; sys.argv = ['tanist', {name!r}, '--help']\n"
        "from tanist.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(sorted(each for each in sys.modules if each.startswith({HEAVY!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"tanist {name} [OPTIONS]" in done.stdout or f"-c {name} [OPTIONS]" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
