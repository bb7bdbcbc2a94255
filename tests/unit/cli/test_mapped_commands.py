"""Every command on a mirror with mapped offsets works, or is refused by name; none trips over ids that it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
import typer

from tanist.cli.app import app
from tests.reference import commands_of
from tests.unit.cli.in_memory import use
from tests.unit.usecases.failover.mapped import MappedWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Tanist

AT: Final = "dr -d west"
NEW: Final = "new -s east -d west --topic orders --offsets mapped"
COMMANDS: Final = {
    "doctor": ("", ""),
    "failback abort-transactions": (f"{AT} --dry-run", "NO_WAY_BACK"),
    "failback accept": (f"{AT} --finding DIVERGED --reason x", "NOTHING_TO_ACCEPT"),
    "failback approve": ("dr cafe -d west --reason x", "NO_WAY_BACK"),
    "failback decide": (f"{AT} --topic orders --drop expired", "NO_WAY_BACK"),
    "failback replay": (f"{AT} --reason x", "NO_WAY_BACK"),
    "failback rescue": (AT, "NO_WAY_BACK"),
    "failback survey": (AT, "NO_WAY_BACK"),
    "failover abort": (AT, "NOTHING_TO_ABORT"),
    "failover approve": ("dr cafe -d west --reason x", "PLAN_NOT_KEPT"),
    "failover plan": (AT, ""),
    "failover plan --mode unplanned": (AT, ""),
    "failover run": (f"{AT} --plan cafe", "NOT_APPROVED"),
    "failover status": (AT, ""),
    "fence lift": (AT, "TOPIC_NOT_IN_MIRROR"),
    "fence set": (f"{AT} --topic orders", "TOPIC_NOT_IN_MIRROR"),
    "fence show": (AT, ""),
    "fetcher forget": ("w -d west", "WORKER_RUNS"),
    "fsm": ("", ""),
    "metadata diff": (AT, ""),
    "metadata sync": (AT, ""),
    "mirrors add": (f"{AT} --topic orders", "TOPIC_ALREADY_IN_MIRROR"),
    "mirrors add --adopt": (f"{AT} --topic more", "UNSUPPORTED_VERSION"),
    "mirrors alter": (f"{AT} --transaction-ms 100", ""),
    "mirrors alter --delivery at-least-once": (AT, ""),
    "mirrors alter --deny-writers": (AT, ""),
    "mirrors alter --max-start-fill 9": (AT, "INVALID_CONFIG"),
    "mirrors alter --merge-small-batches off": (AT, ""),
    "mirrors alter --offsets identical": (AT, "UNSUPPORTED_VERSION"),
    "mirrors alter --on-loss continue": (AT, ""),
    "mirrors create": (f"dr {NEW.removeprefix('new ')}", "MIRROR_ALREADY_EXISTS"),
    "mirrors create --delivery at-least-once": (NEW, "TOPIC_ALREADY_IN_MIRROR"),
    "mirrors create --holes markers": (NEW, "INVALID_CONFIG"),
    "mirrors create --into-existing": (NEW, "TOPIC_ALREADY_IN_MIRROR"),
    "mirrors create --rename x.{topic}": (NEW, ""),
    "mirrors create --start never": (NEW, "INVALID_CONFIG"),
    "mirrors create --transaction-ms 5": (NEW, "INVALID_CONFIG"),
    "mirrors delete": (f"{AT} --yes", "MIRROR_NOT_EMPTY"),
    "mirrors describe": (AT, ""),
    "mirrors lineage": (AT, ""),
    "mirrors list": ("-d west", ""),
    "mirrors pause": (f"{AT} --topic orders", ""),
    "mirrors remove": (f"{AT} --topic orders", "NOT_APPROVED"),
    "mirrors remove --keep-copy": (f"{AT} --topic orders", ""),
    "mirrors resume": (f"{AT} --topic orders", "MIRROR_TOPIC_NOT_PAUSED"),
    "mirrors reverse": (AT, "NO_WAY_BACK"),
    "mirrors seed-offsets": (f"{AT} --group old", "MIRROR_HAS_BEGUN"),
    "mirrors wait": (f"{AT} --for state=MIRRORING --timeout 1s", ""),
    "next": ("dr", ""),
    "status": ("dr", ""),
}
"""By command and option: the other words, and the error; empty: it does what it is for."""
ELSEWHERE: Final = {
    "fetcher run": "a service",
    "groups explain": "needs committed offsets",
    "groups list": "needs committed offsets",
    "groups restore": "needs committed offsets, of no mirror",
    "groups snapshot": "needs committed offsets, of no mirror",
    "groups sync": "needs committed offsets",
    "groups translate": "needs committed offsets",
    "offsets lookup": "needs records",
    "reconcile": "needs Spark",
    "state dump": "is about records of any kind",
    "state export": "is about records of any kind",
    "state rebuild": "needs logs",
    "state restore": "is about records of any kind",
    "validate": "needs Spark",
}
"""Why a command is not tried here."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MappedWorld:
    monkeypatch.chdir(tmp_path)
    found = MappedWorld()
    use(monkeypatch, [found])
    return found


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works_or_is_refused_by_name(tanist: Tanist, command: str) -> None:
    words, error = COMMANDS[command]
    answer = tanist(*command.split(), *words.split())
    assert answer.errors == ([error] if error else []), answer.err


def test_no_command_is_forgotten() -> None:
    every = {path.removeprefix("tanist ") for path, _ in commands_of("tanist", typer.main.get_command(app))}
    tried = {command.split(" --")[0] for command in COMMANDS}
    assert tried | ELSEWHERE.keys() == every
    assert not tried & ELSEWHERE.keys()


AFTER: Final = {
    "failback abort-transactions --dry-run": "NO_WAY_BACK",
    "failback rescue": "NO_WAY_BACK",
    "failback survey": "NO_WAY_BACK",
    "mirrors reverse": "NO_WAY_BACK",
    "failover status": "",
    "fence show": "",
    "mirrors describe": "",
    "mirrors lineage": "",
}


@pytest.mark.parametrize("command", AFTER)
def test_a_command_works_or_is_refused_by_name_after_a_failover(
    tanist: Tanist, world: MappedWorld, command: str
) -> None:
    world.run(world.approve().plan)
    answer = tanist(*command.split(), *AT.split())
    assert answer.errors == ([AFTER[command]] if AFTER[command] else []), answer.err
