"""A robot that knows nothing of the product follows `tanist next` through failovers and the way back."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer

from tanist.usecases.failover.route import ROUTE
from tests.kafka.failover.both_ways import begin, delete
from tests.kafka.failover.commands import executed
from tests.kafka.failover.conftest import COMMAND_SECONDS, Pair, running
from tests.kafka.failover.lost_state import lose
from tests.kafka.failover.own.test_open_transactions import EAST, leaves_hanging
from tests.kafka.failover.own.test_replay import HOUR_MS, LOGS, NOW, write
from tests.kafka.failover.test_dead_source import flapping
from tests.kafka.fetcher.rig import until
from tests.robot import Journey, Robot
from tests.scenarios import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist_testkit.sandbox.forks import CommandResult
    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

KILLED_AT: Final = {"drain": "before:groups", "open": "before:movers"}
"""A step that has nothing to do here is passed over, and nobody dies behind it."""
pytestmark = pytest.mark.long  # some minutes, and each scenario kills a cluster


@pytest.fixture(scope="module")
def open_pair(
    guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Without authorizers: one login may do everything, as where one person is on call."""
    home = tmp_path_factory.mktemp("following")
    with running(guardian, client_config, home, source=EAST, authorizer=False) as pair:
        begin(pair, "east")  # one for each cluster that is the destination of a mirror, or becomes it
        yield pair


@dataclass
class Typing:
    """The command line for a robot; the clusters' names are in the commands that it is told."""

    pair: Pair

    def __call__(self, words: Sequence[str]) -> CommandResult:
        if list(words[:3]) == ["fetcher", "run", "--destination"]:  # stays in the foreground of another terminal
            if words[3] == "west":
                self.pair.worker()
            else:
                begin(self.pair, words[3])
            self.pair.clock.wait(5)
            words = ("mirrors", "list")
        return executed(words, self.pair.environment(), self.pair.home, forked_seconds=COMMAND_SECONDS)


def robot(pair: Pair, mirror: str = "", answers: Sequence[int] = (), knows: str = "") -> Robot:
    return Robot(Typing(pair), mirror, answers, knows)


@pytest.fixture
def mirror(open_pair: Pair, topic_name: str) -> str:
    """A mirror of one topic, all of it copied; its name."""
    if not open_pair.east.cluster.running:
        open_pair.east.cluster.start()
    open_pair.worker()
    open_pair.mirror(topic_name, topic_name)
    return topic_name


def succeeded(made: Journey) -> None:
    assert made.failed == [], made


def runs(pair: Pair, mirror: str) -> list[dict[str, Any]]:
    return list(json.loads(pair.tanist("failover", "status", mirror, "--json").out)["items"])


def plan_line(mirror: str, mode: str = "planned", at: str = "west") -> str:
    return f"tanist failover plan {mirror} --destination {at} --mode {mode}"


def test_a_mirror_that_is_well_needs_no_command(open_pair: Pair, mirror: str) -> None:
    assert robot(open_pair, mirror).follow(0).commands == []


def test_a_dead_source_is_failed_over_with_three_commands(open_pair: Pair, mirror: str) -> None:
    """Forty commands, and a new user took fifty."""
    open_pair.east.cluster.kill()
    made = robot(open_pair, mirror).follow(3)
    record("a dead source", made)
    succeeded(made)
    assert open_pair.west.writes(mirror, range(100, 110))


def test_a_planned_failover_and_its_reversal_take_four_commands(open_pair: Pair, mirror: str) -> None:
    made = robot(open_pair, mirror).follow(4, plan_line(mirror))
    record("a planned failover and the reversal after it", made)
    succeeded(made)
    assert open_pair.west.writes(mirror, range(100, 110))
    written = {b"%d" % n for n in range(100, 110)}
    until(lambda: written <= {value for _, _, value in open_pair.east.read(mirror)}, 60)


def test_a_source_that_returns_before_the_approval_leaves_nothing_to_be_done(open_pair: Pair, mirror: str) -> None:
    open_pair.east.cluster.kill()
    follows = robot(open_pair, mirror)

    def meanwhile(typed: int) -> None:
        if typed == 1:
            open_pair.east.cluster.start()
            open_pair.clock.wait(10)

    follows.meanwhile = meanwhile
    made = follows.follow(1)
    record("a dead source that returns before the approval", made)
    succeeded(made)
    assert runs(open_pair, mirror) == [], "nothing was approved"


@pytest.mark.parametrize("step", [step.id for step in ROUTE])
def test_a_run_that_was_killed_behind_a_step_is_finished_with_one_command(
    open_pair: Pair, mirror: str, step: str
) -> None:
    plan = open_pair.tanist("failover", "plan", mirror, "--json").item["plan_hash"]
    open_pair.tanist("failover", "approve", mirror, plan, "--reason", "drill")
    assert open_pair.killed(KILLED_AT.get(step, f"after:{step}"), mirror, plan) == -signal.SIGKILL
    made = robot(open_pair, mirror).follow(2)
    record(f"a run that was killed behind the step {step}", made)
    assert made.stages[0] == "FAILING_OVER"
    assert open_pair.west.writes(mirror, range(100, 110))


def test_a_paused_topic_is_resumed(open_pair: Pair, mirror: str) -> None:
    open_pair.tanist("mirrors", "pause", mirror, "--topic", mirror)
    open_pair.tanist("mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "100s")
    made = robot(open_pair, mirror).follow(1)
    record("a paused topic", made)
    succeeded(made)


def test_a_worker_that_is_gone_is_started(open_pair: Pair, mirror: str) -> None:
    open_pair.workers["w1"].send(signal.SIGKILL)
    open_pair.clock.wait(31)
    made = robot(open_pair, mirror).follow(1)
    record("no fetcher", made)
    assert made.commands == ["tanist fetcher run --destination west"]


def test_a_tail_is_rescued_replayed_and_the_mirror_reversed_and_taken_back(open_pair: Pair, mirror: str) -> None:
    """Thirteen commands on the way back."""
    open_pair.tanist("mirrors", "pause", mirror, "--topic", mirror)
    open_pair.tanist("mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "100s")
    assert open_pair.east.writes(mirror, range(100, 106))
    open_pair.east.cluster.kill()
    there = robot(open_pair, mirror).follow(3)
    succeeded(there)
    assert open_pair.west.writes(mirror, range(200, 206))
    open_pair.east.cluster.start()
    open_pair.clock.wait(10)
    back = robot(open_pair, mirror).follow(4)
    assert open_pair.west.writes(mirror, range(300, 306))
    open_pair.tanist("mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "100s", at="east")
    home = robot(open_pair, mirror).follow(4, f"{plan_line(mirror, at='east')} --reverse")
    record("a dead source that returns with a tail: failover", there)
    record("a dead source that returns with a tail: the whole way back", back, home)
    assert len(back.commands) + len(home.commands) <= 7, (back, home)
    assert open_pair.east.writes(mirror, range(400, 406))


def test_a_topic_with_a_foreign_record_is_let_go_deleted_and_copied_again(open_pair: Pair, mirror: str) -> None:
    assert open_pair.west.writes(mirror, range(900, 902))
    assert open_pair.east.writes(mirror, range(100, 104))
    until(lambda: "FOREIGN_WRITE" in open_pair.tanist("mirrors", "describe", mirror).out, 60)
    copied_again(open_pair, mirror, "a foreign record in a mirror topic")


def test_a_topic_that_was_made_again_at_the_source_is_let_go_deleted_and_copied_again(
    open_pair: Pair, mirror: str
) -> None:
    delete(open_pair.east, mirror)
    open_pair.east.topic(mirror, cleanup_policy="compact")
    assert open_pair.east.writes(mirror, range(100, 120))
    until(lambda: "SOURCE_TOPIC_RECREATED" in open_pair.tanist("mirrors", "describe", mirror).out, 60)
    copied_again(open_pair, mirror, "a topic that was made again at the source")


def copied_again(pair: Pair, mirror: str, why: str) -> None:
    """Two commands, and what the decision between them says: the copy is deleted."""
    follows = robot(pair, mirror)
    follows.meanwhile = lambda typed: delete(pair.west, mirror) if typed == 1 else None
    made = follows.follow(3)
    record(why, made)
    assert "--keep-copy" in made.commands[0]
    pair.tanist("mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "100s")
    assert [value for _, _, value in pair.west.read(mirror)] == [value for _, _, value in pair.east.read(mirror)]


def test_an_overlap_is_copied_again(open_pair: Pair, mirror: str) -> None:
    open_pair.tanist("mirrors", "pause", mirror, "--topic", mirror)
    open_pair.tanist("mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "100s")
    assert open_pair.east.writes(mirror, range(100, 108))
    open_pair.east.cluster.kill()
    succeeded(robot(open_pair, mirror).follow(3, f"{plan_line(mirror, 'unplanned')} --reserve none"))
    assert open_pair.west.writes(mirror, range(200, 210))
    open_pair.east.cluster.start()
    open_pair.clock.wait(10)
    made = robot(open_pair, mirror).follow(3)
    record("an overlap after a failover without a reserve", made)
    assert any("--recreate" in line for line in made.commands)

    def both() -> list[list[tuple[int, int, bytes | None]]]:
        return [each.read(mirror) for each in (open_pair.east, open_pair.west)]

    until(lambda: {*both()[1]} <= {*both()[0]}, 60, lambda: (made, both()))  # the copy also has fillers


def test_a_tail_of_all_classes_is_replayed_as_far_as_that_is_safe(open_pair: Pair, mirror: str) -> None:
    name = f"{mirror}-classes"
    open_pair.east.topic(name, 1, retention_ms=str(HOUR_MS), cleanup_policy="delete")
    write(open_pair.east, name, [(b"safe-2", b"before", NOW)])
    open_pair.tanist("mirrors", "create", name, "--source", "east", "--topic", name)
    open_pair.tanist("mirrors", "wait", name, "--for", "lag=0", "--timeout", "100s")
    open_pair.tanist("mirrors", "pause", name, "--topic", name)
    open_pair.tanist("mirrors", "wait", name, "--for", "state=PAUSED", "--timeout", "100s")
    write(open_pair.east, name, [(b"expired", b"expired", NOW - 2 * HOUR_MS)] * 2)
    write(open_pair.east, name, [(key, value, NOW) for _, key, value in LOGS])
    open_pair.east.cluster.kill()
    succeeded(robot(open_pair, name).follow(3))
    write(open_pair.west, name, [(key, b"west", NOW) for kind, key, _ in LOGS if kind == "conflict"])
    open_pair.east.cluster.start()
    open_pair.clock.wait(10)
    made = robot(open_pair, name).follow(3)
    record("a tail with conflicting, safe, unordered and expired records", made)
    replayed = [value for _, _, value in open_pair.west.read(name, partitions=1) if value not in {b"west", b"before"}]
    assert replayed == [value for kind, _, value in LOGS if kind == "safe"]


def test_an_open_and_a_hanging_transaction_are_ended_before_the_survey(open_pair: Pair, mirror: str) -> None:
    open_pair.tanist("mirrors", "pause", mirror, "--topic", mirror)
    open_pair.tanist("mirrors", "wait", mirror, "--for", "state=PAUSED", "--timeout", "100s")
    options = {"transactional.id": mirror, "transaction.timeout.ms": "800000", "linger.ms": "0"}
    producer = Producer(open_pair.east.client() | options)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(mirror, b"1000", b"k", partition=0)
    assert producer.flush(30) == 0
    leaves_hanging(open_pair, mirror)
    open_pair.east.cluster.kill()
    succeeded(robot(open_pair, mirror).follow(3))
    open_pair.east.cluster.start()
    open_pair.clock.wait(10)
    made = robot(open_pair, mirror).follow(3)
    record("an open and a hanging transaction at the returned source", made)
    assert sum("abort-transactions" in line for line in made.commands) == 1, made


def test_a_destination_that_is_down_and_back_needs_no_more_than_to_be_asked(open_pair: Pair, mirror: str) -> None:
    open_pair.west.cluster.kill()
    follows = robot(open_pair, mirror)
    follows.meanwhile = lambda typed: open_pair.west.cluster.start() if typed == 1 else None
    made = follows.follow(2)
    record("a destination that is down and back", made)
    assert made.stages[0] == "UNREACHABLE"


def test_a_source_that_comes_and_goes_is_failed_over(open_pair: Pair, mirror: str) -> None:
    """The failover that it begins with becomes a planned one, as soon as the source answers."""
    follows = robot(open_pair, mirror)
    follows.settled = 9.0  # longer than the source is up: while it is, nothing has to be done
    with flapping(open_pair.east):
        open_pair.clock.wait(2)
        made = follows.follow(8, plan_line(mirror, "unplanned"))
    record("a source that comes and goes", made)
    succeeded(made)
    assert [each["status"] for each in runs(open_pair, mirror)] == ["DONE"], made
    assert open_pair.west.writes(mirror, range(100, 104)), made


def test_lost_state_is_rebuilt_and_resumed(open_pair: Pair, mirror: str) -> None:
    """Every topic of the source is on both clusters; of them this mirror, and another one, copied one each."""
    other = f"{mirror}-other"
    open_pair.mirror(other, other)
    open_pair.tanist("mirrors", "wait", other, "--for", "lag=0", "--timeout", "100s")
    lose(open_pair)
    made = robot(open_pair, mirror, knows=f"--topic {mirror}").follow(7)
    record("the state topics of the destination are lost", made)
    assert "tanist state rebuild" in made.commands[0]
    assert open_pair.east.writes(mirror, range(100, 104))
    open_pair.tanist("mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "100s")


def test_five_mirrors_are_failed_over_with_three_commands(open_pair: Pair, topic_name: str) -> None:
    if not open_pair.east.cluster.running:
        open_pair.east.cluster.start()
    open_pair.worker()
    names = [f"{topic_name}-{n}" for n in range(5)]
    open_pair.mirrors({name: (name,) for name in names})
    open_pair.east.cluster.kill()
    made = robot(open_pair).follow(3)
    record("five mirrors of a dead source", made)
    succeeded(made)
    for name in names:
        assert open_pair.west.writes(name, range(100, 104))
