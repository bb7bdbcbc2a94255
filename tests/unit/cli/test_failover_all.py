"""`tanist failover plan|approve|run --all`: many mirrors by three commands."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tanist.cli import failover_runs
from tanist.domain.errors import Refused
from tanist.domain.records import STATE_TOPIC, RunStatus
from tanist.domain.selection import Selection
from tanist.domain.states import MirrorState
from tanist.usecases.mirrors.detach import detach_topics
from tests.unit.cli.in_memory import three_mirrors, use

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kafka.cli.conftest import Answer, Tanist
    from tests.unit.usecases.failover.in_memory import FailoverWorld

    Worlds = tuple[FailoverWorld, FailoverWorld, FailoverWorld]


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Worlds:
    """`orders` and `stock` of west, `orders` of south, as commands of this process find them."""
    monkeypatch.chdir(tmp_path)
    found = three_mirrors()
    use(monkeypatch, found)
    return found


@pytest.fixture
def every(tanist: Tanist, worlds: Worlds) -> Callable[..., Answer]:
    """A command for all mirrors, one after another."""
    del worlds
    return lambda verb, *words: tanist("failover", verb, "--all", "--at-once", "1", *words)


def rows(answer: Answer) -> list[list[str]]:
    """The cells of the table, without its head."""
    return [line.split() for line in answer.out.splitlines()[1:]]


def names(answer: Answer) -> list[str]:
    return [f"{item['destination']}/{item['mirror']}" for item in answer.items]


def printed(answer: Answer) -> list[str]:
    """The words of the command that is printed last."""
    return shlex.split(answer.err.strip().splitlines()[-1].split("with: ")[1])


def plans(answer: Answer) -> dict[str, str]:
    """The plans of the command that is printed last, by mirror."""
    words = printed(answer)
    found = [word for word in words[words.index("--all") + 1 :] if "=" in word]
    return dict(word.split("=") for word in found)


def in_json(answer: Answer) -> dict[str, Any]:
    return dict(json.loads(answer.out))


def test_three_commands_fail_all_mirrors_over(tanist: Tanist, worlds: Worlds) -> None:
    """As they are printed: nothing is to be filled in."""
    planned = tanist("failover", "plan", "--all", "--at-once", "1")
    assert planned.code == 0
    assert planned.out.split("\n")[0].split() == [
        *("MIRROR", "DESTINATION", "VERDICT", "OFFSETS-AT-RISK", "PLAN-HASH", "TO-ACCEPT")
    ]
    assert [row[:3] for row in rows(planned)] == [
        ["orders", "south", "GO"],
        ["orders", "west", "GO"],
        ["stock", "west", "GO"],
    ]
    approved = tanist(*printed(planned)[1:], "--at-once", "1")
    assert (approved.code, plans(approved)) == (0, plans(planned))
    ran = tanist(*printed(approved)[1:], "--at-once", "1")
    assert (ran.code, ran.err.strip().splitlines()[-1]) == (0, "ran 3 of 3")
    assert "south/orders: fence: done" in ran.err
    for world in worlds:
        (record,) = world.view().failovers(world.mirror)
        assert record.status is RunStatus.DONE
    again = tanist("failover", "plan", "--all")
    assert (again.code, again.out) == (0, ""), "there is nothing left to fail over"
    assert again.err.count("nothing to fail over") == 3


def test_the_worst_comes_first_and_what_is_blocked_is_not_in_the_command(
    every: Callable[..., Answer], worlds: Worlds
) -> None:
    orders, stock, _ = worlds
    stock.east.dead = True
    orders.observe(MirrorState.FAILED, orders.partitions[0], error="CORRUPT_BATCH")
    answer = every("plan")
    assert answer.code == 4
    assert [row[:3] for row in rows(answer)] == [
        ["stock", "west", "UNKNOWN"],
        ["orders", "west", "ACCEPT"],
        ["orders", "south", "GO"],
    ]
    assert "west/stock: blocked: SOURCE_DOWN: " in answer.err
    assert "west/orders: accept: PARTITION_FAILED: " in answer.err
    assert list(plans(answer)) == ["west/orders", "south/orders"]
    assert "approve 2 of 3 with: tanist failover approve --all west/orders=" in answer.err


def test_a_mirror_of_which_all_topics_are_detached_names_them(every: Callable[..., Answer], worlds: Worlds) -> None:
    """Their producers stay at the source, and nobody would know."""
    _, stock, _ = worlds
    detach_topics(stock.mirror, Selection((".*",)), stock.west.side(), stock.command())
    answer = every("plan")
    assert [row[:2] for row in rows(answer)] == [["orders", "south"], ["orders", "west"]]
    named = ", ".join(sorted(stock.topics))
    assert f"west/stock: nothing to fail over: no topic is in the mirror; detached: {named}" in answer.err


def test_plans_are_those_of_the_command_for_one_mirror(
    tanist: Tanist, every: Callable[..., Answer], worlds: Worlds
) -> None:
    """And they are kept as its plans are: their hash is enough."""
    del worlds
    items = {item["destination"]: item for item in every("plan", "--mode", "unplanned", "--json").items}
    (one,) = tanist("failover", "plan", "orders", "-d", "south", "--mode", "unplanned", "--json").items
    many = items["south"]
    assert many | {"age_ms": 0, "forecast": 0} == one | {
        "age_ms": 0,
        "forecast": 0,
        "destination": "south",
        "errors": [],
        "approve_all": many["approve_all"],
    }
    assert tanist(*shlex.split(many["approve"])[1:]).code == 0


def test_the_json_of_plans_has_one_item_for_each_mirror(every: Callable[..., Answer], worlds: Worlds) -> None:
    _, stock, _ = worlds
    stock.east.dead = True
    answer = every("plan", "--json")
    assert names(answer) == ["west/stock", "south/orders", "west/orders"]
    blocked, *others = answer.items
    assert (blocked["verdict"], blocked["approve"], blocked["approve_all"]) == ("UNKNOWN", None, None)
    assert blocked["limitations"][0]["name"] == "SOURCE_DOWN"
    (command,) = {item["approve_all"] for item in others}
    assert shlex.split(command)[4:6] == [f"{item['destination']}/orders={item['plan_hash']}" for item in others]
    (error,) = in_json(answer)["errors"]
    assert (error["name"], error["destination"]) == ("UNREACHABLE", "north")


def test_a_mirror_that_cannot_be_planned_does_not_stop_the_others(every: Callable[..., Answer], worlds: Worlds) -> None:
    """It comes first, and has an item, too."""
    *_, south = worlds
    south.worker.append([replace(south.spec, destination_cluster_id="another")], south.soon())
    answer = every("plan")
    assert (answer.code, answer.errors) == (4, ["CLUSTER_ID_MISMATCH"])
    assert next(row[:3] for row in rows(answer)) == ["orders", "south", "NO-GO"]
    assert list(plans(answer)) == ["west/orders", "west/stock"]
    item, *_ = every("plan", "--json").items
    assert (item["destination"], item["plan_hash"], item["approve"]) == ("south", None, None)
    assert item["errors"][0]["name"] == "CLUSTER_ID_MISMATCH"


def test_where_no_mirror_can_be_planned_the_exit_code_is_that_of_one(
    every: Callable[..., Answer], worlds: Worlds
) -> None:
    del worlds
    answer = every("plan", "--reverse", "--mode", "unplanned", "--json")
    assert answer.code == 2
    assert [item["errors"][0]["name"] for item in answer.items] == ["INVALID_CONFIG"] * 3
    assert [error["mirror"] for error in in_json(answer)["errors"]] == ["orders", "orders", "stock"]


def test_a_destination_that_does_not_answer_is_named_and_the_others_go_on(
    every: Callable[..., Answer], worlds: Worlds
) -> None:
    *_, south = worlds
    south.west.dead = True
    answer = every("plan")
    assert (answer.code, answer.errors) == (4, ["UNREACHABLE"])
    assert "error: UNREACHABLE: south: " in answer.err
    assert list(plans(answer)) == ["west/orders", "west/stock"]
    (error,) = in_json(every("plan", "--json"))["errors"]
    assert (error["name"], error["destination"]) == ("UNREACHABLE", "south")
    silent = every("plan", "--destination", "south")
    assert (silent.code, silent.errors) == (3, ["UNREACHABLE"])


def test_a_source_that_is_down_is_no_destination_that_is_missing(every: Callable[..., Answer], worlds: Worlds) -> None:
    """It is why people fail over."""
    for world in worlds:
        world.copying = False
        world.east.dead = True
    answer = every("plan", "--mode", "unplanned")
    assert (answer.code, sorted(answer.errors)) == (0, ["UNREACHABLE"] * 3)
    assert len(plans(answer)) == 3
    assert every("plan", "--mode", "unplanned", "-d", "west", "-d", "east").code == 4, "somebody has named it"


def test_destinations_and_a_source_choose_mirrors(every: Callable[..., Answer], worlds: Worlds) -> None:
    del worlds
    assert names(every("plan", "-d", "south", "--json")) == ["south/orders"]
    both = every("plan", "-d", "south", "-d", "west", "--json")
    assert names(both) == ["south/orders", "west/orders", "west/stock"]
    assert "only mirrors of south, west" in both.err
    assert names(every("plan", "--source", "north", "--json")) == ["west/stock"]
    nobody = every("plan", "--source", "nowhere")
    assert (nobody.code, nobody.errors) == (3, ["NO_STATE_TOPIC"])


def test_the_destination_of_the_environment_counts(
    every: Callable[..., Answer], worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    del worlds
    monkeypatch.setenv("TANIST_DESTINATION", "west")
    answer = every("plan", "--json")
    assert names(answer) == ["west/orders", "west/stock"]
    assert "only mirrors of west (--destination or $TANIST_DESTINATION)" in answer.err


def test_a_plan_that_is_not_kept_has_a_command_of_its_own(every: Callable[..., Answer], worlds: Worlds) -> None:
    """Its hash is not enough to approve it."""
    _, _, south = worlds
    south.west.denied.add(("WRITE", STATE_TOPIC))
    answer = every("plan")
    assert list(plans(answer)) == ["west/orders", "west/stock"]
    assert "south/orders: the plan is not kept" in answer.err
    assert "south/orders: approve it with: tanist failover approve orders " in answer.err


def approve(every: Callable[..., Answer], *words: str) -> Answer:
    return every("approve", "--reason", "drill", *words)


def test_a_refused_approval_does_not_stop_the_others(every: Callable[..., Answer], worlds: Worlds) -> None:
    del worlds
    found = plans(every("plan")) | {"west/stock": "1c0ffee2"}
    answer = approve(every, *(f"{at}={plan}" for at, plan in found.items()))
    assert (answer.code, answer.errors) == (4, ["PLAN_NOT_KEPT"])
    assert [row[:4] for row in rows(answer)] == [
        ["orders", "south", found["south/orders"], "approved"],
        ["orders", "west", found["west/orders"], "approved"],
        ["stock", "west", "1c0ffee2", "PLAN_NOT_KEPT"],
    ]
    assert "error: PLAN_NOT_KEPT: west/stock: " in answer.err
    assert "approved 2 of 3; run with: tanist failover run --all south/orders=" in answer.err
    assert list(plans(answer)) == ["south/orders", "west/orders"]


def test_no_approval_at_all_is_a_refusal(every: Callable[..., Answer], worlds: Worlds) -> None:
    del worlds
    answer = approve(every, "west/orders=1c0ffee2", "west/nosuch=1c0ffee2", "--json")
    assert answer.code == 1
    assert [item["result"] for item in answer.items] == ["PLAN_NOT_KEPT", "UNKNOWN_MIRROR"]
    assert [error["mirror"] for error in in_json(answer)["errors"]] == ["orders", "nosuch"]


def test_the_json_of_approvals_has_the_commands_that_run_them(every: Callable[..., Answer], worlds: Worlds) -> None:
    del worlds
    found = plans(every("plan", "--mode", "unplanned"))
    answer = approve(every, *(f"{at}={plan}" for at, plan in found.items()), "west/nosuch=1", "--json")
    *approved, refused = answer.items
    assert {item["result"] for item in approved} == {"approved"}
    assert all("SOURCE_NOT_DRAINED" in item["limitations_accepted"] for item in approved)
    assert [item["run"] for item in approved] == [
        f"tanist failover run {at.split('/')[1]} --destination {at.split('/')[0]} --plan {plan}"
        for at, plan in found.items()
    ]
    (command,) = {item["run_all"] for item in approved}
    assert shlex.split(command)[4:] == [f"{at}={plan}" for at, plan in found.items()]
    assert (refused["run"], refused["run_all"], refused["result"]) == (None, None, "UNKNOWN_MIRROR")


def test_an_approver_reads_of_each_mirror_what_is_accepted(every: Callable[..., Answer], worlds: Worlds) -> None:
    orders, *_ = worlds
    orders.observe(MirrorState.FAILED, orders.partitions[0], error="CORRUPT_BATCH")
    answer = approve(every, *(f"{at}={plan}" for at, plan in plans(every("plan")).items()))
    assert answer.code == 0
    assert "west/orders: accepts PARTITION_FAILED: " in answer.err
    assert "west/stock: tolerates a loss of 0 offsets" in answer.err


def test_a_run_that_is_refused_does_not_stop_the_others_and_the_same_command_goes_on(
    every: Callable[..., Answer], worlds: Worlds
) -> None:
    found = [f"{at}={plan}" for at, plan in plans(every("plan")).items()]
    assert approve(every, found[0], found[2]).code == 0
    answer = every("run", *found)
    assert (answer.code, answer.errors) == (4, ["NOT_APPROVED"])
    assert [row[:4] for row in rows(answer)] == [
        ["orders", "south", found[0].split("=")[1], "DONE"],
        ["orders", "west", found[1].split("=")[1], "NOT_APPROVED"],
        ["stock", "west", found[2].split("=")[1], "DONE"],
    ]
    assert answer.err.strip().splitlines()[-1] == "ran 2 of 3"
    before = list(worlds[1].west.canaries)
    assert approve(every, found[1]).code == 0
    again = every("run", *found)
    assert (again.code, [row[3] for row in rows(again)]) == (0, ["DONE"] * 3)
    assert "west/stock: " not in again.err, "what is done is not done again"
    assert worlds[1].west.canaries == [*before, "orders"]


def test_a_bug_at_one_mirror_leaves_the_results_of_the_others(
    every: Callable[..., Answer], worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two were done, and nothing but INTERNAL was said."""
    del worlds
    found = [f"{at}={plan}" for at, plan in plans(every("plan")).items()]
    approve(every, *found)
    real = failover_runs.carried_out

    def with_a_bug(now: Any, name: str, *rest: Any) -> Any:
        if name == "stock":
            raise KeyError("x")
        return real(now, name, *rest)

    monkeypatch.setattr("tanist.cli.failover_all.carried_out", with_a_bug)
    answer = every("run", *found)
    assert [row[3] for row in rows(answer)] == ["DONE", "DONE", "INTERNAL"]
    assert answer.err.strip().splitlines()[-1] == "ran 2 of 3"


def test_runs_that_stopped_at_a_step_go_on(every: Callable[..., Answer], worlds: Worlds) -> None:
    """Each with evidence of its own."""
    del worlds
    found = [f"{at}={plan}" for at, plan in plans(every("plan")).items()]
    approve(every, *found)
    stopped = every("run", *found, "--until", "fence", "--evidence", "there", "--json")
    assert stopped.code == 0
    assert [item["status"] for item in stopped.items] == ["RUNNING"] * 3
    assert [item["evidence"] for item in stopped.items] == [f"there/{each.split('=')[1]}" for each in found]
    assert "west/stock: remaining steps: groups, " in stopped.err
    done = every("run", *found, "--json")
    assert [(item["status"], item["result"], item["errors"]) for item in done.items] == [("DONE", "DONE", [])] * 3


def test_a_run_that_was_cut_short_is_partial(every: Callable[..., Answer], worlds: Worlds) -> None:
    """The others are done, and the end says for which mirror the same command is to be run again."""
    *_, south = worlds
    found = [f"{at}={plan}" for at, plan in plans(every("plan")).items()]
    approve(every, *found)
    every("run", *found, "--until", "fence")
    south.west.dead = True
    answer = every("run", *found)
    assert (answer.code, answer.errors) == (4, ["UNREACHABLE"])
    assert answer.err.strip().splitlines()[-1] == "ran 2 of 3; run the same command again for south/orders"
    south.west.dead = False
    south.clock.wait(1)
    assert every("run", *found).code == 0


def test_a_reversal_that_is_not_done_after_its_failover_is_named_beside_it(
    tanist: Tanist, every: Callable[..., Answer], worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one object: the command for one mirror printed two."""
    del worlds

    def refused(*_: object) -> NoReturn:
        raise Refused("it is not asked for")

    monkeypatch.setattr(failover_runs, "reverse_after", refused)
    found = plans(every("plan", "-d", "south"))["south/orders"]
    approve(every, f"south/orders={found}")
    many = every("run", f"south/orders={found}", "--json")
    one = tanist("failover", "run", "orders", "-d", "south", "--plan", found, "--json")
    for answer in (many, one):
        assert (answer.code, answer.errors) == (1, ["REFUSED"])
        (item,) = answer.items
        assert (item["status"], item["reversal"]) == ("DONE", None)
        assert in_json(answer)["errors"][0]["reason"] == "it is not asked for"
        assert "the failover is done, the reversal after it is not" in answer.err


def test_nothing_approved_is_a_refusal_of_the_run(every: Callable[..., Answer], worlds: Worlds) -> None:
    del worlds
    answer = every("run", "west/orders=1c0ffee2", "--json")
    assert answer.code == 1
    (item,) = answer.items
    assert (item["status"], item["result"], item["errors"][0]["name"]) == (None, "NOT_APPROVED", "NOT_APPROVED")


def test_several_are_run_at_the_same_time(tanist: Tanist, worlds: Worlds) -> None:
    planned = tanist("failover", "plan", "--all", "--at-once", "1")
    approved = tanist(*printed(planned)[1:], "--at-once", "1")
    ran = tanist(*printed(approved)[1:], "--at-once", "3")
    assert (ran.code, [row[3] for row in rows(ran)]) == (0, ["DONE"] * 3)
    for world in worlds:
        assert all(world.west.may_write(topic, "app") for topic in world.topics)


def test_a_name_without_a_destination_is_one_of_the_given_destination(
    every: Callable[..., Answer], worlds: Worlds
) -> None:
    del worlds
    plan = plans(every("plan"))["south/orders"]
    nowhere = approve(every, f"orders={plan}")
    assert (nowhere.code, nowhere.errors) == (2, ["INVALID_CONFIG"])
    assert "does not say at which destination" in nowhere.err
    assert approve(every, f"orders={plan}", "-d", "south").code == 0


@pytest.mark.parametrize(
    ("typed", "name", "says"),
    [
        (("plan",), "INVALID_USAGE", "'NAME': it is missing"),
        (("plan", "orders", "--all"), "INVALID_USAGE", "'NAME': it is for one mirror"),
        (("plan", "--all", "--topic", "a"), "INVALID_USAGE", "'--topic': it is for one mirror"),
        (("plan", "--all", "--max-loss", "0"), "INVALID_USAGE", "'--max-loss': it is for one mirror"),
        (("plan", "orders", "--source", "east"), "INVALID_USAGE", "'--source': it goes with --all only"),
        (("plan", "orders", "-d", "west", "-d", "south"), "INVALID_CONFIG", "a mirror has one destination"),
        (("approve", "orders", "--reason", "x"), "INVALID_USAGE", "'HASH': it is missing"),
        (("approve", "orders", "1", "2", "--reason", "x"), "INVALID_USAGE", "'HASH': it is given twice"),
        (("approve", "--all", "--reason", "x"), "INVALID_CONFIG", "no plan is given"),
        (("approve", "--all", "a/b=1", "--topic", "x", "--reason", "x"), "INVALID_USAGE", "'--topic': it is for a"),
        (("approve", "--all", "a/b=1", "--reason", " "), "INVALID_CONFIG", "--reason"),
        (
            ("approve", "--all", "a/b=1", "a/b=2", "--reason", "x"),
            "INVALID_CONFIG",
            "two plans are given for mirror a/b",
        ),
        (("run", "orders"), "INVALID_USAGE", "'--plan': it is missing"),
        (("run", "orders", "stock", "--plan", "1"), "INVALID_USAGE", "'NAME': it is given twice"),
        (("run", "--all", "west/orders"), "INVALID_CONFIG", "is not DESTINATION/NAME=HASH"),
        (("run", "--all", "west/orders=1", "--plan", "1"), "INVALID_USAGE", "'--plan': it is for one mirror"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tanist: Tanist, worlds: Worlds, typed: tuple[str, ...], name: str, says: str
) -> None:
    del worlds
    answer = tanist("failover", *typed)
    assert (answer.code, answer.errors) == (2, [name])
    assert says in answer.err
