"""What `tanist demo --keep` leaves up can be looked at, and stopped, with the commands that it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.demo.chapters import say_goodbye
from tanist_testkit.demo.promises import PROMISES
from tanist_testkit.screen import Screen
from tests import quoted
from tests.quoted import Quoted

HOME = Path("/srv/a demo")


def printed(*, airflow: bool) -> list[list[str]]:
    """The commands, as a shell would split them."""
    east, west = (SimpleNamespace(name=name, bootstrap_servers=f"{name}:9092") for name in ("east", "west"))
    home: Any = SimpleNamespace(
        source=east,
        destination=west,
        directory=HOME,
        config=HOME / "tanist.toml",
        workers=SimpleNamespace(pids=lambda: {"w1": 11, "w2": 12}),
        airflow=airflow or None,
    )
    console = Console(stderr=True, width=300, record=True)
    say_goodbye(Screen(console, SystemClock()), home)
    return [shlex.split(line) for line in re.findall(r"\$ (.*)", console.export_text())]


@pytest.mark.parametrize("airflow", [False, True])
def test_every_command_that_is_printed_exists_wherever_the_demo_lives(airflow: bool) -> None:
    commands = [words for words in printed(airflow=airflow) if words[0] == "tanist"]
    assert {quoted.problem(Quoted("demo", shlex.join(words), typed=True)) for words in commands} == {""}
    assert all(str(HOME) in " ".join(words) for words in commands)
    stops = [words[1:-3] for words in commands if "down" in words]
    assert stops == ([["sandbox", "airflow", "down"]] if airflow else []) + [["sandbox", "down"]]


def test_the_workers_are_stopped_before_the_clusters() -> None:
    words = printed(airflow=True)
    assert words.index(["kill", "11", "12"]) < next(i for i, each in enumerate(words) if "down" in each)


def test_whatever_a_promise_is_checked_with_by_hand_is_set_by_what_is_printed() -> None:
    """`DIR` stood there, and `tanist` commands without a configuration."""
    (exported,) = (words[1:] for words in printed(airflow=False) if words[0] == "export")
    known = {word.partition("=")[0] for word in exported}
    by_hand = {command for _, command in PROMISES.values()}
    assert {name for command in by_hand for name in re.findall(r"\$(\w+)", command)} < known
    assert "TANIST_CONFIG" in known
    typed = [f"tanist {part}" for command in by_hand for part in re.findall(r"tanist ([^;]+)", command)]
    assert {quoted.problem(Quoted("demo", each, typed=True)) for each in typed} == {""}
