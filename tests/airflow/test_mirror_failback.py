"""The failback as a DAG: in this process, on real clusters with access rules, answered through Airflow's own API."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tanist.kafka.protocol.client_config import client_config as connection
from tanist_testkit.sandbox import forks
from tanist_testkit.sandbox.airflow.rest import AirflowConnection
from tests.airflow.conftest import Answering, environment, login, open_questions
from tests.airflow.mirrors import connections
from tests.kafka.failover.both_ways import KILLED, begin, fail_over, records, reverse, tanist
from tests.kafka.failover.test_real import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.airflow.conftest import House
    from tests.kafka.failover.conftest import Pair

__all__ = ["connections"]  # a fixture

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]


class AnsweringAll(Answering):
    """An approver who answers every question of the run."""

    def work(self) -> None:
        try:
            headers = login(self.client, self.user)
            while not self.ended.wait(0.2):
                for asked in open_questions(self.client, headers):
                    self.asked = asked
                    self.answer(headers)
        except BaseException as error:  # noqa: BLE001  # told by the test
            self.gives_up(error)


class AnsweringNoAtLast(AnsweringAll):
    """An approver who rejects the reversal after the failback."""

    def answer(self, headers: dict[str, str]) -> None:
        last = self.asked["task_instance"]["task_id"] == "approve_next_reversal"
        self.option = "Reject" if last else "Approve"
        super().answer(headers)


@pytest.fixture(scope="module")
def both_ways(pair: Pair, connections: None) -> Iterator[None]:
    """Approvers of both clusters, and a fetcher of each."""
    pair.east.topic("__mirror_approvals", 1, retention_ms="-1", message_timestamp_type="LogAppendTime")
    pair.worker()
    begin(pair, "east")
    yield
    pair.workers["east"].send(signal.SIGTERM)


@pytest.mark.usefixtures("both_ways")
def test_tails_are_rescued_and_decided_before_the_reversal(house: House, pair: Pair) -> None:
    """Killed in the middle of the rescue, and triggered again: no record is rescued twice, and none is forgotten.

    Whoever is asked what becomes of them says no at first: then nothing is replayed, and nothing reversed.
    """
    mirror, quarantine = "rescued", "__mirror_quarantine.rescued"
    fails_over_with_a_tail(pair, mirror)
    conf = {"mirror": mirror, "primary": "west", "destination": "east", "fence_proof": 0.3, "validate": "nothing"}
    conf["replay"] = []
    reported = dict(os.environ)
    died = forks.Command("tests.airflow.frozen:killed_in_the_rescue", [json.dumps(conf)], reported, pair.home).wait(150)
    assert died.code == -signal.SIGKILL, died.err[-4000:]
    begun = pair.west.read(quarantine)
    assert 0 < len(begun) < 40, died.out[-4000:]

    stopped = house.run(house.dag("mirror_failback"), conf, Answering(house.client, "op", option="Reject"))
    assert (stopped.tasks["survey"], stopped.tasks["rescue"]) == ("success", "success"), stopped.report
    assert "op answered Reject" in stopped.why("approve_decision")
    assert {name for name, state in stopped.tasks.items() if state == "success"} <= {"survey", "rescue", "report"}
    assert [row["rescued"] for row in stopped.left("rescue", "return_value")["tails"]] == [20, 20]
    manifest = Path(os.environ["TANIST_EVIDENCE"], f"rescue-{mirror}", "manifest.json")
    assert [each["records"] for each in json.loads(manifest.read_text())["tails"]] == [20, 20]
    values = [value for _, _, value in pair.west.read(quarantine)]
    assert sorted(int(value or 0) for value in values) == list(range(100, 140))

    person = AnsweringAll(house.client, "op")
    ran = house.run(house.dag("mirror_failback"), conf, person)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert (person.codes, ran.report["verdict"]) == ([200, 200, 200, 200], "DONE")
    kept = ran.left("replay", "return_value")
    assert (kept["status"], [row["dropped"] for row in kept["tails"]]) == ("DONE", [20, 20])
    assert len(pair.west.read(quarantine)) == 40


@pytest.mark.usefixtures("both_ways")
def test_rescued_records_are_replayed_by_a_login_that_may_write(
    house: House, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failover denies the mirror's login WRITE: without the other connection the run stops, and says why."""
    mirror = "replayed"
    fails_over_with_a_tail(pair, mirror)
    conf = {"mirror": mirror, "primary": "west", "destination": "east", "fence_proof": 0.3, "validate": "nothing"}
    conf["replay"] = ["conflict", "safe", "unordered"]  # the new primary has written records with their keys
    stopped = house.run(house.dag("mirror_failback"), conf, AnsweringAll(house.client, "op"))
    assert "REPLAY_DENIED" in stopped.why("replay")
    extra = connection(pair.west.cluster.endpoint()) | {"tanist.allow_small_state": True}
    for name, value in environment(AirflowConnection(id="west_replay", type="kafka", extra=extra)).items():
        monkeypatch.setenv(name, value)
    person = AnsweringAll(house.client, "op")
    ran = house.run(house.dag("mirror_failback"), conf, person)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert ran.report["verdict"] == "DONE"
    assert sum(row["replayed"] for row in ran.left("replay", "return_value")["tails"]) == 40


@pytest.mark.usefixtures("both_ways")
def test_a_reversal_that_its_failover_has_approved_is_completed_without_a_question(house: House, pair: Pair) -> None:
    """It failed after a planned failover with `--reverse`: the failback goes on with it, and asks for the rest."""
    mirror = "half"
    pair.east.topic(mirror)
    assert pair.east.writes(mirror, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", mirror)
    tanist(pair, "west", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    plan = tanist(pair, "west", "failover", "plan", mirror, "--reverse", "--json").item["plan_hash"]
    tanist(pair, "west", "failover", "approve", mirror, plan, "--reverse", "--reason", "drill", user="approver")
    tanist(pair, "west", "failover", "run", mirror, "--plan", plan, *QUICK, "--until", "movers")
    person = AnsweringAll(house.client, "op")
    conf = {"mirror": mirror, "primary": "west", "destination": "east", "fence_proof": 0.3, "validate": "nothing"}
    ran = house.run(house.dag("mirror_failback"), conf, person)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert ran.left("approve_reversal", "return_value") == {"plan": plan, "asked": False}
    assert (person.codes, ran.report["verdict"]) == ([200, 200], "DONE")


def fails_over_with_a_tail(pair: Pair, mirror: str) -> None:
    """An unplanned failover, while the source answers, of a mirror that was paused before the last forty records."""
    pair.east.topic(mirror)
    assert pair.east.writes(mirror, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", mirror)
    tanist(pair, "west", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    tanist(pair, "west", "mirrors", "pause", mirror, "--topic", mirror)
    tanist(pair, "west", "mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "200s")
    assert pair.east.writes(mirror, range(100, 140))
    plan = pair.approved(mirror, mode="unplanned")
    tanist(pair, "west", "failover", "run", mirror, "--plan", plan, *QUICK, expected=None)
    assert pair.west.writes(mirror, range(200, 210))


@pytest.mark.usefixtures("both_ways")
def test_an_approved_failback_ends_with_the_mirror_in_its_first_direction(house: House, pair: Pair) -> None:
    """Three answers; the old source is the primary again, and the mirror copies from it."""
    pair.east.topic("circle")
    assert pair.east.writes("circle", range(10))
    tanist(pair, "west", "mirrors", "create", "circle", "--source", "east", "--topic", "circle")
    fail_over(pair, "circle", "west")
    assert pair.west.writes("circle", range(100, 110))
    person = AnsweringAll(house.client, "op")
    conf = {"mirror": "circle", "primary": "west", "destination": "east", "fence_proof": 0.3, "validate": "nothing"}
    conf["recreate"] = [".*"]  # all can return as they are
    ran = house.run(house.dag("mirror_failback"), conf, person)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert person.codes == [200, 200, 200]
    assert ran.report["verdict"] == "DONE"
    assert pair.east.writes("circle", range(200, 210))
    assert not pair.west.writes("circle", range(1))
    tanist(pair, "west", "mirrors", "wait", "circle", "--for", "lag=0", "--timeout", "200s")
    assert records(pair.east, "circle") == records(pair.west, "circle")
    before = plans(pair, "circle")
    again = house.run(house.dag("mirror_failback"), conf)
    assert set(again.tasks.values()) == {"success"}, (again.tasks, again.report)
    assert again.report["verdict"] == "DONE"
    assert plans(pair, "circle") == before, "a run that is triggered again begins no other failback"
    assert pair.east.writes("circle", range(210, 212))
    _resumed_after_the_switch(house, pair)
    _reversed_by_the_failover(house, pair)


def _reversed_by_the_failover(house: House, pair: Pair) -> None:
    """`reverse` of `mirror_failover`: one answer, and the mirror copies to its old source."""
    person = AnsweringAll(house.client, "op")
    conf = {"mirror": "resumed", "destination": "west", "fence_proof": 0.3, "validate": "nothing", "reverse": True}
    ran = house.run(house.dag("mirror_failover"), conf, person)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert (person.codes, ran.report["verdict"]) == ([200], "DONE")
    assert pair.west.writes("resumed", range(40, 44))
    tanist(pair, "east", "mirrors", "wait", "resumed", "--for", "lag=0", "--timeout", "200s")
    assert records(pair.east, "resumed") == records(pair.west, "resumed")


@pytest.mark.usefixtures("both_ways")
def test_a_failover_whose_reversal_is_not_done_is_completed_by_the_same_dag(house: House, pair: Pair) -> None:
    """Not begun, and killed in the middle: triggered again it asks nobody. With other parameters it is refused."""
    mirror, sides = "unreversed", {"east": pair.east, "west": pair.west}
    pair.east.topic(mirror)
    assert pair.east.writes(mirror, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", mirror)
    conf = {"mirror": mirror, "fence_proof": 0.3, "validate": "nothing", "reverse": True}
    for point, there in (("", "west"), ("configured", "east")):
        tanist(pair, there, "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
        plan = tanist(pair, there, "failover", "plan", mirror, "--reverse", "--json").item["plan_hash"]
        tanist(pair, there, "failover", "approve", mirror, plan, "--reverse", "--reason", "drill", user="approver")
        tanist(pair, there, "failover", "run", mirror, "--plan", plan, *QUICK, "--until", "movers")
        if point:
            asked = (point, mirror, there, "SIGKILL", f"plan={plan}")
            assert forks.Command(KILLED, asked, pair.environment(), pair.home).wait(150).code == -9
        else:
            other = house.run(house.dag("mirror_failover"), conf | {"destination": there, "reverse": False})
            assert "FAILOVER_MUST_BE_FINISHED" in other.why("open_run")
        ran = house.run(house.dag("mirror_failover"), conf | {"destination": there})
        assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
        assert (ran.left("approve", "return_value")["asked"], ran.report["verdict"]) == (False, "DONE")
        assert sides[there].writes(mirror, range(50, 54))
    tanist(pair, "west", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    assert records(pair.east, mirror) == records(pair.west, mirror)


def plans(pair: Pair, mirror: str) -> set[tuple[str, str]]:
    """The runs of a mirror that are on record at its destination, with their status."""
    found = json.loads(tanist(pair, "west", "state", "dump", "--key", f"failover/{mirror}/", "--json").out)["items"]
    return {(row["key"], row["value"]["status"]) for row in found}


def _resumed_after_the_switch(house: House, pair: Pair) -> None:
    """The switch is done and the reversal after it is not: a run asks for that one alone, and begins nothing else."""
    pair.east.topic("resumed")
    assert pair.east.writes("resumed", range(10))
    tanist(pair, "west", "mirrors", "create", "resumed", "--source", "east", "--topic", "resumed")
    fail_over(pair, "resumed", "west")
    reverse(pair, "resumed", "west")
    fail_over(pair, "resumed", "east")
    assert pair.east.writes("resumed", range(20, 30))
    person = AnsweringAll(house.client, "op")
    conf = {"mirror": "resumed", "primary": "west", "destination": "east", "fence_proof": 0.3, "validate": "nothing"}
    ran = house.run(house.dag("mirror_failback"), conf, person)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert person.codes == [200]
    assert person.asked["task_instance"]["task_id"] == "approve_next_reversal"
    assert len(plans(pair, "resumed")) == 2
    tanist(pair, "west", "mirrors", "wait", "resumed", "--for", "lag=0", "--timeout", "200s")
    assert records(pair.east, "resumed") == records(pair.west, "resumed")


@pytest.mark.usefixtures("both_ways")
def test_topics_that_stay_behind_do_not_stop_the_reversal_after_the_failback(house: House, pair: Pair) -> None:
    """The second reversal takes back all that has returned. A run without it is red, and asks for it when repeated."""
    mirror, stays = "partly", "partly-stays"
    for topic in (mirror, stays):
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", "partly.*")
    fail_over(pair, mirror, "west")
    conf = {"mirror": mirror, "primary": "west", "destination": "east", "fence_proof": 0.3, "validate": "nothing"}
    conf["exclude"] = [stays]
    plan = tanist(pair, "west", "mirrors", "reverse", mirror, "--exclude", stays, "--dry-run", "--json").item
    approval = ("--exclude", stays, "--approve", plan["plan_hash"], "--reason", "drill")
    tanist(pair, "west", "mirrors", "reverse", mirror, *approval, user="approver")
    no = house.run(house.dag("mirror_failback"), conf, Answering(house.client, "op", option="Reject"))
    assert "op answered Reject" in no.why("approve_reversal")
    refused = tanist(pair, "west", "mirrors", "reverse", mirror, "--exclude", stays, expected=1)
    assert "was withdrawn: op answered Reject" in refused.err

    person: AnsweringAll = AnsweringNoAtLast(house.client, "op")
    red = house.run(house.dag("mirror_failback"), conf, person)
    assert (person.codes, red.tasks["reverse_again"], red.state) == ([200, 200, 200], "upstream_failed", "failed")
    assert red.report["verdict"].startswith("FAILED BACK, NOT REVERSED: "), red.report
    assert f"`tanist mirrors reverse {mirror} --destination east --dry-run`" in red.report["verdict"]
    assert pair.east.writes(mirror, range(20, 24))
    again = AnsweringAll(house.client, "op")
    ran = house.run(house.dag("mirror_failback"), conf, again)
    assert set(ran.tasks.values()) == {"success"}, (ran.tasks, ran.report)
    assert (again.codes, ran.report["verdict"]) == ([200], "DONE")
    tanist(pair, "west", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")
    assert records(pair.east, mirror) == records(pair.west, mirror)
