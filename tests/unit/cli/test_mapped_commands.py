"""Every command on a mirror with mapped offsets works, or is refused by name; none trips over ids that it has not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
import typer

from tanist.cli.app import app
from tanist.domain.names import ProducerId
from tanist.domain.records import OffsetMode
from tanist.domain.writer_identity import transactional_id_prefix
from tests.reference import commands_of
from tests.unit.cli.in_memory import use
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Tanist

NO_BUG: Final = "whatever becomes of it"
"""Its own tests say what: here it must only not be an error of Tanist's own."""
AT: Final = "dr -d west"
NEW: Final = "new -s east -d west --topic orders --offsets mapped"
COMMANDS: Final = {
    "doctor": ("", ""),
    "failback abort-transactions": (f"{AT} --dry-run", "NOTHING_FAILED_OVER"),
    "failback accept": (f"{AT} --finding DIVERGED --reason x", NO_BUG),
    "failback approve": ("dr cafe -d west --reason x", "NOTHING_TO_DECIDE"),
    "failback decide": (f"{AT} --topic orders --drop expired", "NOTHING_TO_DECIDE"),
    "failback replay": (f"{AT} --reason x", "NOTHING_TO_DECIDE"),
    "failback rescue": (AT, "NOTHING_FAILED_OVER"),
    "failback survey": (AT, "NOTHING_FAILED_OVER"),
    "failover abort": (AT, "NOTHING_TO_ABORT"),
    "failover approve": ("dr cafe -d west --reason x", "PLAN_NOT_KEPT"),
    "failover plan": (AT, NO_BUG),
    "failover plan --mode unplanned": (AT, NO_BUG),
    "failover run": (f"{AT} --plan cafe", NO_BUG),
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
    "mirrors create --rename x.{topic}": (NEW, "INVALID_CONFIG"),
    "mirrors create --transaction-ms 5": (NEW, "INVALID_CONFIG"),
    "mirrors delete": (f"{AT} --yes", "MIRROR_NOT_EMPTY"),
    "mirrors describe": (AT, ""),
    "mirrors lineage": (AT, ""),
    "mirrors list": ("-d west", ""),
    "mirrors pause": (f"{AT} --topic orders", ""),
    "mirrors remove": (f"{AT} --topic orders", NO_BUG),
    "mirrors remove --keep-copy": (f"{AT} --topic orders", "UNSUPPORTED_VERSION"),
    "mirrors resume": (f"{AT} --topic orders", "MIRROR_TOPIC_NOT_PAUSED"),
    "mirrors reverse": (AT, NO_BUG),
    "mirrors wait": (f"{AT} --for state=MIRRORING --timeout 1s", ""),
    "next": ("dr", ""),
    "status": ("dr", NO_BUG),
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
CONFIGS: Final = (("retention.ms", "-1"), ("retention.bytes", "-1"), ("cleanup.policy", "delete"))


class MappedWorld(FailoverWorld):
    """Its mirror has mapped offsets, and topics at both sides that keep their records."""

    def __init__(self) -> None:
        super().__init__(held=CONFIGS)

    def _register(self) -> None:
        none = ProducerId(-1)
        self.spec = replace(
            self.spec,
            offsets=OffsetMode.MAPPED,
            data_id=none,
            marker_id=none,
            start_id=none,
            transactional_id=transactional_id_prefix(self.mirror, "0f3b5a5e-1111"),
            transaction_ms=500,
        )
        super()._register()


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
    assert "INVALID_USAGE" not in answer.errors, answer.err
    assert answer.code != 70, answer.err
    if error != NO_BUG:
        assert answer.errors == ([error] if error else []), answer.err


def test_no_command_is_forgotten() -> None:
    every = {path.removeprefix("tanist ") for path, _ in commands_of("tanist", typer.main.get_command(app))}
    tried = {command.split(" --")[0] for command in COMMANDS}
    assert tried | ELSEWHERE.keys() == every
    assert not tried & ELSEWHERE.keys()
