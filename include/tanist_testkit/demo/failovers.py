"""Chapters of failovers: a planned one, one that is aborted, and one because the source is dead."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import TimedOut
from tanist_testkit.demo import promises, runbook
from tanist_testkit.demo.promises import Moved
from tanist_testkit.demo.stage import ABORTED, AT_LEAST, FLOWS, MOVING, PLANNED, SEED, STAYING, STORM, TOPICS, WEST
from tanist_testkit.sandbox.command_line import LONGEST_SECONDS
from tanist_testkit.verify import clients
from tanist_testkit.verify.groups import Member
from tanist_testkit.verify.traces import total
from tanist_testkit.verify.writing import Load
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist_testkit.demo.promises import Promise
    from tanist_testkit.demo.stage import Stage

GROUP: Final = "shipping"
READ_BY_GROUP: Final = ("orders", "clicks", "payments")
BEFORE_THE_KILL: Final = 8000
TOLERATED: Final = 3 * sum(flow.rate for flow in FLOWS)
"""Offsets that the operator of the unplanned failover is ready to lose: what producers write in three seconds."""
EASED: Final = 0.03
"""Share of their rates at which producers go on while their cluster is dead."""
DEAD_CALL_SECONDS: Final = 5.0


def orchestrate(stage: Stage) -> None:
    """Returns when failovers can be asked for in Airflow."""
    assert stage.airflow is not None  # noqa: S101 -- this chapter is told only with one
    stage.airflow.start(stage.soon())
    for link in stage.airflow.links():
        stage.screen.note(link)


def planned(stage: Stage) -> Iterable[Promise]:
    """Producers write at the source until its fence stops them, and then at the destination."""
    load = stage.writing(stage.source, [MOVING], 1)
    plan = runbook.planned(stage, PLANNED, "planned")
    runbook.take_over(stage, plan, "east is to be rebuilt", fence_proof=3)
    load.stop(stage.soon())
    copy = stage.copied([MOVING.topic])
    later = stage.writing(stage.destination, [MOVING], 2)
    later.stop(stage.soon())
    moved = Moved(acknowledged=load.traces(), copy=copy, refused=load.refused, afterwards=later.acknowledged)
    known = total(moved.acknowledged)
    stage.screen.say(f"{moved.absent} of {known:,} acknowledged records absent, {moved.refused:,} refused")
    return promises.of_planned(moved)


def aborted(stage: Stage) -> Iterable[Promise]:
    """By hand, whoever runs the other failovers."""
    before = _kept_off(stage)
    load = stage.writing(stage.source, [STAYING], 3)
    plan = runbook.planned(stage, ABORTED, "planned")
    runbook.approve(stage, plan, "a rehearsal")
    with stage.tanist.begun(*runbook.run(stage, plan, "--fence-proof", "60s")) as command:
        with suppress(TimedOut):  # then its promise is broken, and says so
            until(lambda: load.refused, stage.soon(), stage.clock, lambda: "no producer was refused", 0.1)
        stage.tanist.run("failover", "abort", ABORTED, *WEST, "--evidence", runbook.evidence(stage, plan))
        stage.screen.note(f"the run ended with {command.wait(LONGEST_SECONDS).code}")
    refused, at_abort = load.refused, load.acknowledged
    load.until(AT_LEAST, stage.soon())
    load.stop(stage.soon())
    fences = [str(each["status"]) for each in stage.tanist.run("fence", "show", ABORTED, *WEST)]
    stage.tanist.run("mirrors", "wait", ABORTED, "--for", "lag=0", "--timeout", "300s")
    afterwards, copy = load.acknowledged - at_abort, stage.copied([STAYING.topic])
    moved = Moved(acknowledged=load.traces(), copy=copy, refused=refused, afterwards=afterwards)
    stage.screen.say(f"{refused:,} records refused, then {afterwards:,} more taken by the source")
    return promises.of_aborted(before, _kept_off(stage), fences, moved)


def _kept_off(stage: Stage) -> tuple[dict[str, str], str]:
    """What a fence changes: settings and ACLs of the source's topic."""
    return clients.settings_of(stage.source, STAYING.topic), clients.rules_of(stage.source, STAYING.topic)


# ── the source dies ───────────────────────────────────────────────────────────────────────────────────────────────


def kill_the_source(stage: Stage) -> None:
    """While producers and a consumer group are in full flight there. Returns when the copy stands still."""
    stage.begins = stage.ends(TOPICS)
    member = stage.member = Member(GROUP, stage.source, READ_BY_GROUP, stage.clock, anew=True)
    member.start()
    member.ready(stage.soon())
    load = stage.load = Load(stage.source, FLOWS, stage.clock, SEED + 4, call_seconds=DEAD_CALL_SECONDS)
    load.start()
    load.until(BEFORE_THE_KILL, stage.soon())
    member.until(_read_by_group(stage), stage.soon())
    _until_known(stage)
    pids = " ".join(str(broker.pid) for broker in stage.home.source.brokers)
    stage.home.source.kill()
    load.ease(EASED)  # they go on trying until the source returns
    member.stop()
    stage.screen.event(f"kill -9 {pids} and their controller: all of east")
    stage.screen.say(f"{load.acknowledged:,} records were acknowledged, group {GROUP!r} had read {member.read:,}")


def _until_known(stage: Stage) -> None:
    """Returns when west knows where the group stands on each partition: a commit of the last moment dies with east."""
    key = f"group/{STORM}/{GROUP}/"
    wanted = {f"{key}{place.topic}/{place.partition}" for place in _read_by_group(stage)}
    late = f"west does not know every position of {GROUP}"
    until(lambda: wanted <= {each["key"] for each in _recorded(stage, key)}, stage.soon(), stage.clock, lambda: late)


def _recorded(stage: Stage, key: str) -> list[dict[str, Any]]:
    return stage.tanist.run("state", "dump", *WEST, "--key", key)


def unplanned(stage: Stage) -> None:
    """The operator asks what it would cost, and goes on."""
    begun = stage.clock.monotonic()
    plan = runbook.planned(stage, STORM, "unplanned", "--max-loss", str(TOLERATED))
    stage.forecast = plan["forecast"]
    stage.tanist.run("groups", "translate", STORM, *WEST, "--group", GROUP)
    runbook.take_over(stage, plan, "east is dead", max_loss=TOLERATED)
    stage.safe = promises.safe_positions(runbook.moved(stage, GROUP))
    stage.screen.say(f"done {stage.clock.monotonic() - begun:.0f} s after somebody asked what it would cost")


def go_on(stage: Stage) -> Iterable[Promise]:
    """Producers write at the destination, where the group is served; what the source had acknowledged is looked up."""
    dead, before, load = stage.load, stage.member, stage.writing(stage.destination, FLOWS, 5)
    member = Member(GROUP, stage.destination, READ_BY_GROUP, stage.clock)
    member.start()
    member.until(_read_by_group(stage), stage.soon())  # while they write: the slowest may not have begun
    load.stop(stage.soon())
    member.stop()
    copy, afterwards = stage.copied(TOPICS, stage.begins), load.acknowledged
    moved = Moved(acknowledged=dead.traces(), copy=copy, refused=0, afterwards=afterwards)
    stage.lives = [load]
    for place, at in sorted(stage.safe.items()):
        first = member.first[place].offset if place in member.first else "nothing"
        stage.screen.note(f"{GROUP} {place}: read up to {before.reached[place]}, safe was {at}, went on with {first}")
    stage.screen.say(f"{moved.absent:,} of {total(moved.acknowledged):,} acknowledged records are absent")
    group = promises.of_group(copy, stage.safe, before.reached, dict(member.first))
    return (*promises.of_loss(stage.forecast, moved), *group)


def _read_by_group(stage: Stage) -> list[Any]:
    return [place for place in stage.begins if place.topic in READ_BY_GROUP]
