"""Plans are kept at the destination, whoever is at work there; logins that may only read plan all the same."""

from __future__ import annotations

import json
import shlex
import time
from typing import TYPE_CHECKING

from tanist_testkit.sandbox import forks
from tests.kafka.failover.conftest import COMMAND_SECONDS

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

READS_ONLY = "approver"


def typed(command: str) -> tuple[str, ...]:
    """What is printed, typed: without the destination, which the pair adds."""
    words = shlex.split(command)
    at = words.index("--destination")
    return tuple(words[1:at] + words[at + 2 :])


def test_a_plan_is_kept_and_its_hash_alone_is_approved_and_run_while_others_plan(pair: Pair, topic_name: str) -> None:
    """Planning during a failover that waits for its proof must not end it: it writes as workers do."""
    pair.worker()
    pair.mirror(topic_name, topic_name)
    plan = pair.tanist("failover", "plan", topic_name, "--topic", topic_name, "--max-loss", "7", "--json").item
    assert plan["kept"] is True
    assert typed(plan["approve"])[:4] == ("failover", "approve", topic_name, plan["plan_hash"])
    assert not {"--topic", "--max-loss", "--mode"} & set(typed(plan["approve"]))
    approved = pair.tanist(*typed(plan["approve"]), user="approver")
    assert "7 offsets tolerated" in approved.err
    run = ("failover", "run", topic_name, "--plan", plan["plan_hash"], "--fence-proof", "6s", "--json")
    environment = pair.environment() | {"TANIST_DESTINATION": "west"}
    asked = (*run, "--evidence", str(pair.home / topic_name))
    going = forks.Command(forks.COMMANDS, asked, environment, pair.home)
    for tolerated in range(3):
        pair.tanist("failover", "plan", topic_name, "--max-loss", str(tolerated), "--json", expected=None)
    done = going.wait(COMMAND_SECONDS)
    assert done.code == 0, done.err
    assert json.loads(done.out)["items"][0]["status"] == "DONE"


def test_a_login_that_may_only_read_plans_and_is_told_the_whole_command(pair: Pair, topic_name: str) -> None:
    pair.worker()
    pair.mirror(topic_name, topic_name)
    began = time.monotonic()
    asked = ("--mode", "unplanned", "--reserve", "2s")
    answer = pair.tanist("failover", "plan", topic_name, *asked, "--json", user=READS_ONLY)
    assert time.monotonic() - began < 20
    plan = answer.item
    assert plan["kept"] is False
    assert "WRITE on topic __mirror_state" in answer.err
    assert {"--max-loss", "--reserve", "--mode"} <= set(typed(plan["approve"]))
    alone = pair.tanist(
        "failover", "approve", topic_name, plan["plan_hash"], "--reason", "x", user="approver", expected=1
    )
    assert "PLAN_NOT_KEPT" in alone.err
    pair.tanist(*typed(plan["approve"]), user="approver")


def test_what_is_next_leads_from_a_kept_plan_to_the_reversal(pair: Pair, topic_name: str) -> None:
    """Plan, approval and run as `tanist next` prints them; before and behind them it asks for nothing of the kind."""
    pair.worker()
    pair.mirror(topic_name, topic_name)

    def following() -> tuple[str, list[str]]:
        item = pair.tanist("next", topic_name, "--json").item
        return item["stage"], [step["command"] for step in item["next"]]

    before, steps = following()
    assert before in {"MIRRORING", "NOT_READY"}
    assert not [each for each in steps if " failover " in each]
    plan = pair.tanist("failover", "plan", topic_name, "--json").item
    assert following() == ("PLANNED", [plan["approve"]])
    pair.tanist(*typed(plan["approve"]), user="approver")
    stage, (run,) = following()
    assert stage == "APPROVED"
    where = ("--fence-proof", "1s", "--evidence", str(pair.home / topic_name), "--json")
    assert pair.tanist(*typed(run), *where).item["status"] == "DONE"
    stage, steps = following()
    assert stage == "FAILED_OVER"
    assert steps[0].startswith(f"tanist mirrors reverse {topic_name} --destination west")
    refused = pair.tanist("failover", "plan", topic_name, expected=1)
    assert refused.err.splitlines()[-1] == f"next: tanist next {topic_name} --destination west", "it is a decision"
