"""Commands that stand still between two requests while somebody else acts, and go on as if nothing had happened.

One request of the command is kept back on its way to the broker; nothing in the product knows of it.
"""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.acls import AclBinding
from tanist.kafka.wire.admin import ConfigKind, ConfigResource, alter_configs
from tanist.kafka.wire.router import Router
from tests.kafka.failover.conftest import ALLOW, LITERAL, TOPIC, WRITE, Slowed, give
from tests.kafka.fetcher.rig import until
from tests.storm.proxy import BARRIER, CREATE_ACLS, INIT_PRODUCER_ID, WRITE_TXN_MARKERS, Held

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Answer, Pair

QUICK = ("--fence-proof", "1s", "--drain", "20s", "--budget", "2s", "--timeout", "40s", "--json")
PRODUCER = "operator"
"""Who may write to the source's topics, and to the mirror's only once they have taken over."""
UNFINISHED = "RUNNING"
SOON = 30.0
RECONCILED_SECONDS = 40.0
LOOKS = 3


def mirrored(pair: Pair, mirror: str, *topics: str) -> None:
    """A mirror of topics that PRODUCER writes to."""
    rules = [AclBinding(TOPIC, topic, LITERAL, f"User:{PRODUCER}", "*", WRITE, ALLOW) for topic in topics]
    give(pair.east.cluster, *rules)
    pair.worker()
    pair.mirror(mirror, *topics)


def writable(pair: Pair, topic: str) -> list[str]:
    """The sides that take a record of PRODUCER."""
    sides = {"east": pair.east, "west": pair.west}
    return [name for name, side in sides.items() if side.writes(topic, range(1000, 1001), user=PRODUCER)]


def runs(pair: Pair, mirror: str) -> list[dict[str, Any]]:
    reported = pair.tanist("failover", "status", mirror, "--json", expected=None)
    assert reported.code in {0, 4}, reported.err
    return list(json.loads(reported.out)["items"])


def unfinished(pair: Pair, mirror: str) -> list[str]:
    return [run["plan_hash"] for run in runs(pair, mirror) if run["status"] == UNFINISHED]


def items(pair: Pair, *asked: str) -> list[dict[str, Any]]:
    return list(json.loads(pair.tanist(*asked, "--json", expected=None).out)["items"])


def problems_of(pair: Pair, mirror: str) -> str:
    """What is against a failover, or is not well, as status says it."""
    (found,) = items(pair, "status", mirror)
    wrong = [check for check in found["checks"] if check["verdict"] != "PASS"]
    return json.dumps([wrong, found["limitations"]])


def planned_verdict(pair: Pair, mirror: str) -> str:
    """An unplanned failover needs its source to be fenced: no fence is a reason against one."""
    (found,) = items(pair, "status", mirror)
    return str(found["planned"])


def abort_all(pair: Pair, mirror: str) -> None:
    """As whoever reads `tanist failover status` would, until nothing is unfinished."""
    while pair.tanist("failover", "abort", mirror, "--reason", "enough", expected=None).code == 0:
        pass


def stopped(slowed: Slowed, held: Held) -> None:
    """It runs until the request that is kept back."""
    slowed.start()
    assert held.wait(SOON), slowed.end()


def refused(answer: Answer) -> bool:
    """By name, and not as a bug."""
    return answer.code in {1, 4} and "error: " in answer.err and "INTERNAL" not in answer.err


def test_a_run_that_slept_while_it_opened_its_store_never_takes_over_what_it_has_not_fenced(pair: Pair) -> None:
    """Two approved plans, of all topics and of one: while the first opens its store the second promotes its topic.

    The source of the other topic was never fenced, so that topic may not be open at the destination.
    """
    mirrored(pair, "slept", "slept-1", "slept-2")
    whole, one = pair.approved("slept"), pair.approved("slept", "--topic", "slept-1")
    with pair.slowed("failover", "run", "slept", "--plan", whole, *QUICK) as late:
        held = late.west.hold(INIT_PRODUCER_ID, b"tanist-slept")
        stopped(late, held)
        pair.tanist("failover", "run", "slept", "--plan", one, *QUICK)
        held.release()
        ended = late.end()
    running = unfinished(pair, "slept")
    abort_all(pair, "slept")
    assert [writable(pair, topic) for topic in ("slept-1", "slept-2")] == [["west"], ["east"]], ended
    assert refused(ended), ended
    assert not running


@pytest.mark.long  # tests/explorer plays it
def test_of_two_plans_that_are_started_together_one_is_refused_and_an_abort_opens_no_second_side(pair: Pair) -> None:
    """Both have asked whether anybody else is at work before either has said that it is."""
    mirrored(pair, "together", "together-1", "together-2")
    whole, one = pair.approved("together"), pair.approved("together", "--topic", "together-1")
    with pair.slowed("failover", "run", "together", "--plan", whole, *QUICK) as late:
        held = late.west.hold(INIT_PRODUCER_ID, b"tanist-together")
        stopped(late, held)
        pair.tanist("failover", "run", "together", "--plan", one, *QUICK, "--until", "fence")
        held.release()
        ended = late.end()
    running = unfinished(pair, "together")
    abort_all(pair, "together")
    assert [writable(pair, topic) for topic in ("together-1", "together-2")] == [["east"], ["east"]], ended
    assert refused(ended), ended
    assert running == [one]


def late_fence(pair: Pair, mirror: str) -> None:
    """A run that fences its topic after it was aborted by somebody else."""
    plan = pair.approved(mirror)
    with pair.slowed("failover", "run", mirror, "--plan", plan, *QUICK) as late:
        held = late.east.hold(CREATE_ACLS)
        stopped(late, held)
        pair.tanist("failover", "abort", mirror, "--reason", "it does not answer")
        assert writable(pair, mirror) == ["east"]
        held.release()
        late.end()


def lifted(pair: Pair, mirror: str) -> None:
    """What stands is shown, and the command that `status` names takes it away."""
    if not writable(pair, mirror):
        (row,) = items(pair, "fence", "show", mirror)
        assert row["stands"] is True, row
        pair.tanist("fence", "lift", mirror)
    assert writable(pair, mirror) == ["east"]


@pytest.mark.long
def test_a_fence_that_lands_after_the_abort_is_never_go_and_can_be_lifted(pair: Pair) -> None:
    """Frozen between "snapshot stored" and "fence applied", aborted, woken: status says so, and what lifts it."""
    mirrored(pair, "woken", "woken")
    late_fence(pair, "woken")
    for _ in range(LOOKS):
        if writable(pair, "woken"):
            break
        assert planned_verdict(pair, "woken") != "GO" or writable(pair, "woken"), "GO, with a fence"
        assert "fence lift" in problems_of(pair, "woken") or writable(pair, "woken")
    lifted(pair, "woken")
    until(lambda: "fence lift" not in problems_of(pair, "woken"), RECONCILED_SECONDS)


@pytest.mark.long
def test_a_fence_that_lands_after_the_abort_can_be_lifted_where_no_worker_acts(pair: Pair) -> None:
    """It is on record as what the clusters show, and the command that lifts it lifts it."""
    mirrored(pair, "byhand", "byhand")
    worker = pair.worker()
    worker.send(signal.SIGSTOP)
    try:
        late_fence(pair, "byhand")
        lifted(pair, "byhand")
    finally:
        worker.send(signal.SIGCONT)


@pytest.mark.long
def test_no_other_command_throws_a_live_run_out_behind_the_point_of_no_return(pair: Pair) -> None:
    """Each is refused by name, changes nothing, and the run ends as if nobody had come."""
    mirrored(pair, "live", "live-1", "live-2")
    pair.east.topic("live-3")
    pair.east.commit("readers", "live-1", 4)
    until(lambda: "readers" in pair.tanist("state", "dump", "--key", "group/live").out, SOON)
    with Router(pair.east.cluster.endpoint(), "tanist-test") as router:
        there = ConfigResource(ConfigKind.TOPIC, "live-1")
        alter_configs(router, there, {"max.message.bytes": "2000000"}, pair.clock.deadline(SOON))
    plan = pair.approved("live")
    meanwhile = (
        ("groups", "sync", "live"),
        ("metadata", "sync", "live"),
        ("mirrors", "pause", "live", "--topic", "live-1"),
        ("mirrors", "resume", "live", "--topic", "live-1"),
        ("mirrors", "add", "live", "--topic", "live-3"),
        ("mirrors", "alter", "live", "--max-start-fill", "7"),
    )
    with pair.slowed("failover", "run", "live", "--plan", plan, *QUICK) as late:
        held = late.west.hold(WRITE_TXN_MARKERS, BARRIER)
        stopped(late, held)
        answers = {" ".join(asked[:2]): pair.tanist(*asked, expected=None) for asked in meanwhile}
        held.release()
        ended = late.end()
    assert ended.code == 0, (ended, answers)
    assert [writable(pair, topic) for topic in ("live-1", "live-2")] == [["west"], ["west"]]
    assert {name: answer.code for name, answer in answers.items()} == dict.fromkeys(answers, 1), answers
    assert {name for name, answer in answers.items() if "MIRROR_LOCKED" not in answer.err} == set(), answers
