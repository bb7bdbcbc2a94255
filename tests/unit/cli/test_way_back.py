"""The whole way back as it is typed: the command line in this process, on clusters in memory."""

from __future__ import annotations

import json
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tanist.cli import failover_runs, options
from tanist.domain.failover.facts import OpenTransaction
from tanist.domain.names import EpochMs
from tanist.domain.selection import EVERY_TOPIC
from tanist.domain.states import MirrorState
from tanist.usecases.approvals import ApprovalTerms
from tanist.usecases.failback.deciding import decide_at_once
from tanist.usecases.failback.replay import ReplayTools, replay
from tanist.usecases.failover.tools import GroupsMoved, Tools
from tests.builders import DR
from tests.robot import Robot
from tests.unit.usecases.failover.in_memory import Killed
from tests.unit.usecases.way_back import TAIL_PARTITION, MemoryRegistry, WayBack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.kafka.cli.conftest import Answer, Tanist

WEST, EAST = ("--destination", "west"), ("--destination", "east")
QUARANTINE = "__mirror_quarantine.orders"
WHY = ("--reason", "as agreed")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where commands write evidence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TANIST_FOUR_EYES", raising=False)
    monkeypatch.setattr(failover_runs, "Tools", partial(Tools, move_groups=lambda *_: GroupsMoved(rows=())))
    return tmp_path


def used(monkeypatch: pytest.MonkeyPatch, made: WayBack) -> WayBack:
    """The clusters that commands reach."""
    monkeypatch.setattr(options, "ClusterRegistry", MemoryRegistry(made))
    monkeypatch.setattr(options, "SystemClock", lambda *_: made.clock)
    return made


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, home: Path) -> WayBack:
    del home
    return used(monkeypatch, WayBack())


@pytest.fixture
def open_world(monkeypatch: pytest.MonkeyPatch, home: Path) -> WayBack:
    """No cluster has an authorizer."""
    del home
    made = used(monkeypatch, WayBack(authorizer=False))
    made.east.rules.clear()
    return made


def item(answer: Answer) -> Any:
    assert answer.code == 0, answer.err
    return json.loads(answer.out)["items"][0]


def test_seven_commands_lead_the_whole_way_back_with_a_tail(world: WayBack, tanist: Tanist) -> None:
    """No hash but that of the failover, no decision: what is safe is replayed, the rest stays in quarantine."""
    typed: list[tuple[str, ...]] = []

    def types(*words: str) -> Any:
        typed.append(words)
        return item(tanist(*words, "--json"))

    tail = types("failback", "survey", DR, *WEST)
    assert (tail["records"], tail["rescued"], tail["quarantine"]) == (3, 3, "__mirror_quarantine.orders")
    (replayed,) = types("failback", "replay", DR, *WEST, "--reason", "as agreed")["tails"]
    assert (replayed["records"], replayed["replayed"], replayed["dropped"]) == (3, 1, 2)
    assert types("mirrors", "reverse", DR, *WEST, "--reason", "east is back")["destination"] == "east"
    assert types("mirrors", "wait", DR, *EAST, "--for", "lag=0")["lag"] == 0
    plan = types("failover", "plan", DR, *EAST, "--reverse")["plan_hash"]
    types("failover", "approve", DR, plan, *EAST, "--reason", "home again")
    done = types("failover", "run", DR, *EAST, "--plan", plan, "--fence-proof", "0.1")
    assert (done["status"], done["reversal"]["destination"]) == ("DONE", "west")
    assert len(typed) == 7


def test_a_robot_finds_the_way_back_by_itself(world: WayBack, tanist: Tanist) -> None:
    """It knows nothing of the product: it types what `tanist next` says until nothing is to be done."""

    def types(words: Sequence[str]) -> Answer:
        if words[:2] == ["fetcher", "run"]:  # stays in the foreground of another terminal
            for _ in range(20):
                world.clock.wait(1)
            if world.home() is world.west:
                world.observe(MirrorState.MIRRORING)
                world.follow_groups(world.west, world.spec.mirror_id)
            words = ("status", "dr")
        return tanist(*words)

    robot = Robot(types, "dr", settled=0.0)
    back = robot.follow(4)
    assert [each.split(" dr ")[0] for each in back.commands] == [
        "tanist failback survey",
        "tanist failback replay",
        "tanist mirrors reverse",
        "tanist fetcher run --destination east",
    ]
    assert (back.failed, len(back.decisions)) == ([], 1)
    home = robot.follow(4, "tanist failover plan dr --destination east --reverse")
    assert home.failed == []
    assert [each.split(" dr ")[0] for each in home.commands] == [
        "tanist failover plan",
        "tanist failover approve",
        "tanist failover run",
        "tanist fetcher run --destination west",
    ]
    assert world.home() is world.west


def test_a_refusal_ends_with_what_is_next(world: WayBack, tanist: Tanist) -> None:
    del world
    refused = tanist("failover", "plan", DR, *WEST)
    assert (refused.code, refused.errors) == (1, ["TOPIC_NOT_IN_MIRROR"])
    assert refused.err.splitlines()[-1] == "next: tanist failback survey dr --destination west"
    assert tanist("failover", "plan", DR).err.splitlines() == refused.err.splitlines(), "it has found the destination"
    (error,) = json.loads(tanist("failover", "plan", DR, *WEST, "--json").out)["errors"]
    assert error["next"] == ["tanist failback survey dr --destination west"]


@pytest.mark.usefixtures("world")
def test_a_survey_and_the_status_of_failovers_have_the_steps_that_next_has(tanist: Tanist) -> None:
    for words in (("failback", "survey"), ("failover", "status")):
        said = json.loads(tanist(*words, DR, *WEST, "--json").out)["next"]
        assert said == item(tanist("next", DR, *WEST, "--json"))["next"]
        assert said[0]["command"].startswith("tanist failback replay dr --destination west --reason ")
        assert "next: tanist next dr --destination west" in tanist(*words, DR, *WEST).err.splitlines()


def rescued(world: WayBack) -> list[str]:
    return sorted(topic for topic in world.west.topics if topic.startswith("__mirror_quarantine"))


def test_a_survey_rescues_once_and_says_what_was_rescued_before(world: WayBack, tanist: Tanist) -> None:
    looked = item(tanist("failback", "survey", DR, *WEST, "--no-rescue", "--json"))
    assert (looked["verdict"], looked["stage"], looked["rescued"], rescued(world)) == ("TAIL", "NOT_RESCUED", 0, [])
    item(tanist("failback", "survey", DR, *WEST, "--dry-run", "--json"))
    assert rescued(world) == []
    first, again = (tanist("failback", "survey", DR, *WEST) for _ in range(2))
    assert f"3 record(s) that nobody has decided about are in {QUARANTINE}, 3 of them copied" in first.err
    assert f"are in {QUARANTINE}, rescued before: nothing was copied" in again.err
    assert (first.code, again.code, world.west.ends[TAIL_PARTITION._replace(topic=QUARANTINE)][2]) == (0, 0, 3)


def test_a_survey_says_what_is_in_the_way_of_a_rescue(world: WayBack, tanist: Tanist) -> None:
    """A producer may still write; what was found of the other topic is rescued."""
    world.east.deny = {each for each in world.east.deny if each[0] != "orders"}
    stopped = tanist("failback", "survey", DR, *WEST)
    assert (stopped.code, rescued(world)) == (3, [])
    assert "orders-0 is not rescued: its source fence is not in force" in stopped.err
    assert "a running fetcher of west sets a pending source fence" in stopped.err


def test_a_survey_stands_though_nobody_may_write_where_it_would_be_rescued_to(
    world: WayBack, tanist: Tanist, home: Path
) -> None:
    (home / "evidence").write_text("a file, where a folder should be")
    answer = tanist("failback", "survey", DR, *WEST, "--json")
    assert (answer.code, answer.errors, len(answer.items)) == (2, ["INVALID_CONFIG"], 3)
    assert json.loads(answer.out)["errors"][0]["name"] == "INVALID_CONFIG"
    assert (answer.items[0]["stage"], rescued(world)) == ("NOT_RESCUED", [])


@pytest.mark.usefixtures("world")
def test_a_decision_that_nobody_makes_replays_what_is_safe_and_names_all_of_it(tanist: Tanist) -> None:
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    shown = tanist("failback", "decide", DR, *WEST)
    assert f"replay 1 safe; keep in quarantine ({QUARANTINE}) 1 conflict, 1 unordered: plan " in shown.err
    made = item(tanist("failback", "decide", DR, *WEST, "--json"))
    assert (made["default"], made["records"]["safe"], made["quarantine"]) == (True, 1, [QUARANTINE])
    partly = tanist("failback", "decide", DR, *WEST, "--replay", "safe")
    assert (partly.code, partly.errors) == (1, ["CLASSES_NOT_DECIDED"])
    every = ("--replay", "safe", "--replay", "conflict", "--drop", "unordered")
    other = item(tanist("failback", "decide", DR, *WEST, *every, "--json"))
    plan = f"failback replay dr --destination west --plan {other['plan_hash']}"
    approve = f"failback approve dr {other['plan_hash']} --destination west"
    why = "--topic orders --reason 'as advised by tanist'"
    said = tanist("failback", "decide", DR, *WEST, *every, "--topic", "orders").err.splitlines()[-3:]
    assert said == [
        f"approve and run it with: tanist {plan} {why}",
        f"or approve it with another login: tanist {approve} {why}",
        f"then run it with: tanist {plan}",
    ]
    assert (other["default"], other["plan_hash"] == made["plan_hash"]) == (False, False)
    approved = item(tanist("failback", "approve", DR, other["plan_hash"], *WEST, *WHY, "--json"))
    assert approved["plan_hash"] == other["plan_hash"], "the hash says what becomes of each class"
    done = item(tanist("failback", "replay", DR, *WEST, "--plan", other["plan_hash"], "--json"))
    assert (done["tails"][0]["replayed"], done["tails"][0]["dropped"]) == (2, 1)


DROP_ALL = ("--drop", "safe", "--drop", "conflict", "--drop", "unordered")


@pytest.mark.usefixtures("world")
def test_a_decision_that_somebody_has_approved_is_not_overridden_by_the_default(tanist: Tanist) -> None:
    """`tanist next` advised to replay what is safe, which approved another plan beside it and replayed a record."""
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    plan = item(tanist("failback", "decide", DR, *WEST, *DROP_ALL, "--json"))["plan_hash"]
    item(tanist("failback", "approve", DR, plan, *WEST, *WHY, "--json"))
    (step,) = item(tanist("next", DR, *WEST, "--json"))["next"]
    assert step["command"] == f"tanist failback replay dr --destination west --plan {plan}"
    assert tanist("failback", "replay", DR, *WEST, *WHY).errors == ["DECISION_APPROVED"]
    done = item(tanist(*shlex.split(step["command"])[1:], "--json"))
    assert (done["status"], done["tails"][0]["replayed"], done["tails"][0]["dropped"]) == ("DONE", 0, 3)


def test_a_replay_that_was_begun_is_not_continued_by_one_that_says_otherwise(world: WayBack, tanist: Tanist) -> None:
    """All classes were dropped on the command line, and a record was replayed."""
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    clusters, terms = world.opened().returned(), ApprovalTerms.of("drill", 60)
    plan = decide_at_once(None, EVERY_TOPIC, {}, clusters, world.command(), terms=terms, show=lambda _: None)

    def kill(_point: str) -> None:
        raise Killed

    with pytest.raises(Killed):
        replay(plan, clusters, ReplayTools(manifest=lambda _: None, checkpoint=kill), world.command())
    world.clock.jump(60)
    refused = tanist("failback", "replay", DR, *WEST, *WHY, *DROP_ALL)
    assert refused.errors == ["DECISION_UNFINISHED"]
    assert f"plan {plan} is begun, and says: replay safe" in refused.err


@pytest.mark.usefixtures("world")
def test_a_replay_needs_a_plan_or_a_reason_and_names_the_command_that_approves(tanist: Tanist) -> None:
    assert tanist("failback", "replay", DR, *WEST).errors == ["INVALID_CONFIG"]
    assert tanist("failback", "replay", DR, *WEST, "--plan", "0" * 16, "--drop", "safe").errors == ["INVALID_CONFIG"]
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    missing = tanist("failback", "replay", DR, *WEST, "--plan", "0" * 16)
    assert missing.errors == ["NOT_APPROVED"]
    assert f"tanist failback approve dr {'0' * 16} --destination west" in missing.err
    another = tanist("failback", "replay", DR, *WEST, "--plan", "0" * 16, *WHY)
    assert another.errors == ["ANOTHER_DECISION"]


def test_a_replay_that_was_killed_is_continued_by_the_same_command(world: WayBack, tanist: Tanist) -> None:
    """Its tails are decided by then, so nothing else could be planned."""
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    clusters, terms = world.opened().returned(), ApprovalTerms.of("drill", 60)
    plan = decide_at_once(None, EVERY_TOPIC, {}, clusters, world.command(), terms=terms, show=lambda _: None)

    def kill(point: str) -> None:
        if point == "appended":
            raise Killed

    with pytest.raises(Killed):
        replay(plan, clusters, ReplayTools(manifest=lambda _: None, checkpoint=kill), world.command())
    count = len(world.west.approvals)
    world.clock.jump(60)
    done = item(tanist("failback", "replay", DR, *WEST, *WHY, "--json"))
    assert (done["plan_hash"], done["status"], done["tails"][0]["replayed"]) == (plan, "DONE", 1)
    assert len(world.west.approvals) == count, "what has begun is not approved again"


def test_a_dry_run_of_a_replay_shows_the_decision_and_approves_nothing(world: WayBack, tanist: Tanist) -> None:
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    count = len(world.west.approvals)
    shown = item(tanist("failback", "replay", DR, *WEST, *WHY, "--dry-run", "--json"))
    assert (shown["records"]["safe"], len(world.west.approvals)) == (1, count)


def test_with_four_eyes_what_is_next_leads_from_a_tail_to_its_replay(
    world: WayBack, tanist: Tanist, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`failback decide` was next, and next again: it named a plan, and no command that approves it."""
    del world
    monkeypatch.setenv("TANIST_FOUR_EYES", "on")
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    (look,) = item(tanist("next", DR, *WEST, "--json"))["next"]
    shown = tanist(*shlex.split(look["command"])[1:]).err.splitlines()
    assert [each.split(": tanist ")[0] for each in shown[-2:]] == ["approve it with another login", "then run it with"]
    for line in shown[-2:]:
        assert tanist(*shlex.split(line.split(": tanist ")[1])).code == 0, line
    (then,) = item(tanist("next", DR, *WEST, "--json"))["next"]
    assert "mirrors reverse" in then["command"]


def named_commands(answer: Answer) -> list[list[str]]:
    """What an error prints between backticks."""
    return [shlex.split(each)[1:] for each in answer.err.split("`")[1::2] if each.startswith("tanist ")]


def test_four_eyes_refuse_one_command_and_name_two_that_do_it(
    world: WayBack, tanist: Tanist, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two runs with four eyes on, too: who may approve is up to the cluster."""
    monkeypatch.setenv("TANIST_FOUR_EYES", "on")
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    for words in (("failback", "replay", DR, *WEST), ("mirrors", "reverse", DR, *WEST)):
        refused = tanist(*words, *WHY)
        assert (refused.code, refused.errors) == (1, ["FOUR_EYES"]), refused.err
        assert f"next: tanist {' '.join(words[:2])}" not in refused.err, "it was refused a moment ago"
        for command in named_commands(refused):
            assert tanist(*command).code == 0, command
    world.clock.wait(1)  # a worker of east begins
    plan = item(tanist("failover", "plan", DR, *EAST, "--json"))["plan_hash"]
    refused = tanist("failover", "run", DR, *EAST, "--plan", plan, *WHY)
    assert refused.errors == ["FOUR_EYES"]
    for command in named_commands(refused):
        assert tanist(*command).code == 0, command


def test_a_login_that_may_not_approve_is_told_both_commands(world: WayBack, tanist: Tanist) -> None:
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    world.approver = False
    denied = tanist("failback", "replay", DR, *WEST, *WHY)
    assert denied.errors == ["MIRROR_AUTHORIZATION_FAILED"]
    assert [each[:2] for each in named_commands(denied)] == [["failback", "approve"], ["failback", "replay"]]


def test_four_eyes_are_on_or_off_on_the_command_line(tanist: Tanist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANIST_FOUR_EYES", "no")
    answer = tanist("mirrors", "list", "--bootstrap-server", "127.0.0.1:1")
    assert answer.errors == ["INVALID_CONFIG"]
    assert "TANIST_FOUR_EYES is 'no': it must be on or off" in answer.err


@pytest.mark.usefixtures("open_world")
def test_what_speaks_against_a_reversal_is_seen_before_one_command_accepts_it(tanist: Tanist) -> None:
    """Without an authorizer other clients can write to the old source: only a person knows whether they are stopped."""
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    item(tanist("failback", "replay", DR, *WEST, *WHY, "--json"))
    refused = tanist("mirrors", "reverse", DR, *WEST, *WHY)
    assert (refused.code, refused.errors) == (1, ["LIMITATIONS_NOT_ACCEPTED"])
    assert "MIRROR_TOPIC_WRITABLE: other clients can write" in refused.err
    assert "--accept MIRROR_TOPIC_WRITABLE --reason 'as agreed'" in refused.err
    another = tanist("mirrors", "reverse", DR, *WEST, "--plan", "0" * 16, *WHY)
    assert another.errors == ["ANOTHER_PLAN"]
    accepted = ("--accept", "MIRROR_TOPIC_WRITABLE")
    assert item(tanist("mirrors", "reverse", DR, *WEST, *accepted, *WHY, "--json"))["destination"] == "east"


@pytest.mark.usefixtures("open_world")
def test_a_plan_that_was_seen_is_approved_and_run_by_its_hash(tanist: Tanist) -> None:
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    item(tanist("failback", "replay", DR, *WEST, *WHY, "--json"))
    plan = item(tanist("mirrors", "reverse", DR, *WEST, "--dry-run", "--json"))["plan_hash"]
    assert item(tanist("mirrors", "reverse", DR, *WEST, "--plan", plan, *WHY, "--json"))["plan_hash"] == plan


def test_a_failover_is_approved_by_the_command_that_runs_it_and_only_once(world: WayBack, tanist: Tanist) -> None:
    item(tanist("failback", "survey", DR, *WEST, "--json"))
    item(tanist("failback", "replay", DR, *WEST, *WHY, "--json"))
    item(tanist("mirrors", "reverse", DR, *WEST, *WHY, "--json"))
    world.clock.wait(1)  # a worker of east begins
    plan = item(tanist("failover", "plan", DR, *EAST, "--json"))["plan_hash"]
    run = ("failover", "run", DR, *EAST, "--plan", plan, "--fence-proof", "0.1", *WHY)
    before = len(world.east.approvals)
    for more, status in ((("--until", "fence"), "RUNNING"), ((), "DONE"), ((), "DONE")):
        assert item(tanist(*run, *more, "--json"))["status"] == status
        assert len(world.east.approvals) == before + 1, "a run that has begun, or is done, is not approved again"
    other = tanist("failover", "run", DR, *EAST, "--plan", "0" * 16, *WHY)
    assert other.errors == ["PLAN_NOT_KEPT"]


def test_an_open_transaction_is_in_the_way_until_one_command_has_aborted_it(world: WayBack, tanist: Tanist) -> None:
    """Its markers may still follow: the survey says so, and what it was shown is aborted by its hash."""
    world.east.named = (OpenTransaction(TAIL_PARTITION, 77, EpochMs(5), "paid"),)
    waits = tanist("failback", "survey", DR, *WEST)
    assert waits.code == 3
    (command,) = named_commands_about(waits, "abort-transactions")
    *_, at_once, _other, then = tanist(*command).err.splitlines()
    plan = item(tanist(*command, "--json"))["plan_hash"]
    run = f"tanist failback abort-transactions dr --destination west --plan {plan}"
    assert (at_once, then) == (
        f"approve and run it with: {run} --reason 'as advised by tanist'",
        f"then run it with: {run}",
    )
    done = item(tanist(*shlex.split(at_once.partition(": ")[2])[1:], "--json"))
    assert [(each["transactional_id"], each["aborted"]) for each in done["transactions"]] == [("paid", True)]
    assert item(tanist("failback", "survey", DR, *WEST, "--json"))["rescued"] == 3


def named_commands_about(answer: Answer, word: str) -> list[list[str]]:
    """Those with `word` that have their mirror; the reason of a partition has the bare name of the command."""
    return [each for each in named_commands(answer) if word in each and DR in each]
