"""The next step that a command prints is the one to take."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tanist.airflow.verdict import VerdictSeen, verdict
from tanist.cli import failover_runs
from tanist.cli.options import Session
from tanist.domain.failback.reversal import TailUndecided
from tanist.domain.problems import Problems
from tanist.domain.records import RunStatus
from tanist.usecases.failback.reversal_route import ReversalEnded, ReversalWithdrawn
from tanist.wiring.registry import ClusterRegistry
from tests.builders import a_run
from tests.unit.cli.in_memory import three_mirrors, use
from tests.unit.usecases.failover.in_memory import FailoverWorld
from tests.unit.usecases.returning import returned

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.domain.errors import TanistError
    from tests.kafka.cli.conftest import Tanist


@pytest.fixture
def typed(tmp_path: Path) -> tuple[str, ...]:
    """The options of a command at a destination in memory."""
    file = tmp_path / "tanist.toml"
    file.write_text('[clusters.west]\nbootstrap_servers = "127.0.0.1:1"\n')
    return ("--destination", "west", "--config", str(file))


@pytest.fixture
def failed_over(monkeypatch: pytest.MonkeyPatch) -> FailoverWorld:
    """A mirror of west that has failed over, and that commands find."""
    world = FailoverWorld()
    world.run(world.approve().plan)
    monkeypatch.setattr(Session, "mirror", lambda _session, _name: SimpleNamespace(returned=lambda: returned(world)))
    return world


def test_the_plan_of_a_reversal_names_the_command_that_approves_it_and_the_one_that_runs_it(
    failed_over: FailoverWorld, tanist: Tanist, typed: tuple[str, ...]
) -> None:
    """It said to run the same command again: with --approve, which approved it once more."""
    options = ("--exclude", "payments")
    planned = tanist("mirrors", "reverse", "dr", *typed, *options, "--dry-run")
    assert planned.code == 0, planned.err
    assert "same command" not in planned.err
    plan = re.search(r"--approve (\w+) --reason", planned.err)
    assert plan is not None
    run = "tanist mirrors reverse dr --destination west --exclude payments"
    why = "--reason 'the old source is back'"
    assert f"approve and run it with: {run} --plan {plan[1]} {why}" in planned.err.splitlines()
    assert f"or approve it with another login: {run} --approve {plan[1]} {why}" in planned.err.splitlines()
    assert f"then run it with: {run}" in planned.err.splitlines()
    approved = tanist("mirrors", "reverse", "dr", *typed, *options, "--approve", plan[1], "--reason", "drill")
    assert (approved.code, approved.err.splitlines()[-1]) == (0, f"run it with: {run}")


@pytest.mark.parametrize(
    ("why", "advice"),
    [
        (ReversalWithdrawn("plan 1 is withdrawn: LOG_CHANGED"), "`tanist next dr --destination west` says"),
        (TailUndecided("orders-0"), "`tanist next dr --destination west` says what to do"),
        (Problems([TailUndecided("orders-0")]), "`tanist next dr --destination west` says"),
    ],
)
def test_a_reversal_that_cannot_be_repeated_is_not_to_be_repeated(
    monkeypatch: pytest.MonkeyPatch, tanist: Tanist, typed: tuple[str, ...], why: TanistError, advice: str
) -> None:
    """`run the same command again` stood beside `plan and approve the reversal again`."""
    found = FailoverWorld().clusters()
    monkeypatch.setattr(Session, "mirror", lambda *_: found)
    monkeypatch.setattr(ClusterRegistry, "open_mirror", lambda *_: found)
    done = SimpleNamespace(record=a_run(status=RunStatus.DONE), left=(), broken=())
    nothing: dict[str, object] = {
        "group_mismatches": [],
        "may_be_reused": {},
        "reserve_estimated": [],
        "group_problems": [],
    }
    monkeypatch.setattr(failover_runs, "run_plan", lambda *_, **__: done)
    monkeypatch.setattr(failover_runs, "outcome_item", lambda *_: nothing)

    def refused(*_: object) -> None:
        raise why

    monkeypatch.setattr(failover_runs, "reverse_after", refused)
    answer = tanist("failover", "run", "dr", "--plan", "cafe", *typed)
    assert answer.code == 1
    assert f"the failover is done, the reversal after it is not: {advice}" in answer.err
    assert "same command" not in answer.err


def test_the_verdict_of_a_dag_does_not_repeat_what_was_withdrawn() -> None:
    done = a_run(status=RunStatus.DONE)
    seen = VerdictSeen(record=done, failed={}, not_reversed="SURVEY_NOT_FINAL: orders-0", destination="west")
    assert "trigger it again" in verdict(seen)
    said = verdict(replace(seen, not_reversed=str(ReversalWithdrawn("plan 1 is withdrawn"))))
    assert "trigger it again" not in said
    assert said.endswith("`tanist mirrors reverse dr --destination west --dry-run` shows the plan to approve")


def test_what_was_ended_without_a_change_does_not_claim_a_source_fence() -> None:
    """Where the old source has taken over again, its fences are those of the primary: there are none."""
    assert ReversalEnded.name == ReversalWithdrawn.name
    assert "source fence" not in str(ReversalEnded("plan 1 is withdrawn"))


def test_a_mirror_whose_destination_is_down_is_told_of_without_naming_the_destination(
    tanist: Tanist, typed: tuple[str, ...]
) -> None:
    """It was an error and nothing else: whoever asked did not learn what to do."""
    asked = tanist("next", "dr", *typed[2:], "--json")
    assert asked.code == 3
    said = json.loads(asked.out)
    (item,) = said["items"]
    assert (item["destination"], item["stage"]) == ("west", "UNREACHABLE")
    assert item["next"][0]["command"] == "tanist doctor"
    assert [error["name"] for error in said["errors"]] == ["UNREACHABLE"]


def test_a_refusal_names_the_mirror_in_its_commands(
    failed_over: FailoverWorld, tanist: Tanist, typed: tuple[str, ...]
) -> None:
    """It said NAME, which nobody can copy."""
    refused = tanist("failback", "replay", "dr", *typed, "--plan", "0123456789abcdef")
    assert refused.code != 0
    assert " NAME" not in refused.err, refused.err
    assert "`tanist failback replay dr --destination west --reason" in refused.err, refused.err


def test_a_silent_source_of_shown_mirrors_may_be_the_destination_of_others_that_are_not_seen(
    monkeypatch: pytest.MonkeyPatch, tanist: Tanist
) -> None:
    """Nobody learned that mirrors were missing from the list: the source was named as that of the others only."""
    use(monkeypatch, worlds := three_mirrors())
    note = "note: north does not answer: mirrors that lead to it, if there are any, are not shown"
    assert (json.loads(tanist("next", "--json").out)["unseen"], tanist("next").err) == ([], "")
    worlds[1].east.dead = True
    asked = tanist("next", "--json")
    assert (asked.code, json.loads(asked.out)["unseen"]) == (0, ["north"])
    assert tanist("next").err.splitlines() == [note]
    assert json.loads(tanist("next", "stock", "--json").out)["unseen"] == [], "of one mirror all was asked for"


def test_a_silent_cluster_that_is_the_source_of_no_shown_mirror_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tanist: Tanist
) -> None:
    use(monkeypatch, worlds := three_mirrors())
    worlds[2].west.dead = True
    asked = tanist("next", "--json")
    assert (asked.code, json.loads(asked.out)["unseen"]) == (3, [])
    assert [each["name"] for each in json.loads(asked.out)["errors"]] == ["UNREACHABLE"]
    assert {each["destination"] for each in json.loads(asked.out)["items"]} == {"west"}
    assert tanist("next", "--destination", "west").code == 0, "it was not asked"


def test_a_mistyped_name_is_answered_with_the_names_of_the_mirrors_that_there_are(
    monkeypatch: pytest.MonkeyPatch, tanist: Tanist
) -> None:
    """The source has no state topics, as it is the destination of none: the typo was to be rebuilt there."""
    use(monkeypatch, [FailoverWorld()])
    for words in ((), ("--destination", "east")):
        asked = tanist("next", "typo", *words, "--json")
        assert asked.code == 3
        (item,) = json.loads(asked.out)["items"]
        assert item["missing"][0] == "no cluster that answers has a mirror 'typo'; there are: dr at west"
        decided = {each["decision"] for each in item["next"] if each["command"] != "tanist doctor"}
        assert decided == {"the state topics of east are lost, and there is no export", "it is a new mirror at east"}
    wrong = tanist("next", "typo", "--destination", "west")
    assert (wrong.code, wrong.errors) == (1, ["UNKNOWN_MIRROR"])
    assert "it has: dr" in wrong.err
