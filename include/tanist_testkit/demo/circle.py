"""Chapters of the way back: the old source returns, what only it has is rescued, and it takes over again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist_testkit.demo import promises, runbook
from tanist_testkit.demo.promises import Circle
from tanist_testkit.demo.stage import AT_LEAST, EAST, FLOWS, STORM, WEST
from tanist_testkit.verify.reading import LogExtent, bounds, read
from tanist_testkit.verify.traces import Place, digest, merged
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

    from tanist_testkit.demo.promises import Promise
    from tanist_testkit.demo.stage import Stage
    from tanist_testkit.verify.traces import Traces

AT_EAST: Final = "e1"
ORIGIN: Final = 4
"""Headers that a rescued record has more: cluster, topic, partition, offset."""
LOOK_SECONDS: Final = 1.0
DECISION: Final = ("--replay", "safe", "--drop", "conflict", "--drop", "unordered", "--drop", "expired")
CAUGHT_UP: Final = ("--for", "lag=0", "--timeout", "300s")


def returned(stage: Stage) -> None:
    """Producers have tried all the time, and go on until the fence refuses them. Then what only east has is rescued."""
    before, refused = stage.load.acknowledged, stage.load.refused
    stage.home.source.start()
    stage.screen.event(f"{stage.home.source.name} is back; its producers have tried all the time")
    late = "the returned source does not refuse producers"
    until(lambda: stage.load.refused > refused, stage.soon(), stage.clock, lambda: late)
    stage.load.stop(stage.soon())
    taken = stage.load.acknowledged - before
    stage.screen.say(f"it took {taken:,} more records, then its fence refused {stage.load.refused - refused:,}")
    _surveyed(stage, WEST)
    manifest = ("--evidence", str(stage.home.evidence / "rescue"))
    rescued = stage.rescued = stage.tanist.run("failback", "rescue", STORM, *WEST, *manifest, quiet=False)
    stage.screen.say(f"{sum(each['rescued'] for each in rescued):,} records that only east has are in quarantine")


def decide(stage: Stage) -> None:
    """What has no newer record with its key at west is written there again; the rest stays in quarantine."""
    (plan,) = stage.tanist.run("failback", "decide", STORM, *WEST, *DECISION)
    stage.tanist.run("failback", "approve", STORM, plan["plan_hash"], *WEST, *DECISION, "--reason", "as agreed")
    stage.tanist.run("failback", "replay", STORM, *WEST, "--plan", plan["plan_hash"], quiet=False)


def _surveyed(stage: Stage, at: tuple[str, ...]) -> None:
    """Returns when the old source can get no more records: coordinators end transactions after it has refused them."""

    def final() -> bool:
        found = stage.tanist.run("failback", "survey", "--no-rescue", STORM, *at, verdict=True)
        return all(each["final"] for each in found)

    until(final, stage.soon(), stage.clock, lambda: "it may still get records", LOOK_SECONDS)


def reverse(stage: Stage) -> None:
    """Producers write at west while east becomes its copy. Returns when it has caught up."""
    stage.home.workers.start(AT_EAST, *EAST)
    load = stage.writing(stage.destination, FLOWS, 6)
    _reverse(stage, WEST, "east is back")
    stage.tanist.run("mirrors", "wait", STORM, *EAST, *CAUGHT_UP[:1], "state=MIRRORING", *CAUGHT_UP[2:])
    load.until(AT_LEAST, stage.soon())
    stage.lives.append(load)


def fail_back(stage: Stage) -> None:
    """A planned failover of the reversed mirror, under its producers; then it runs in its first direction again."""
    until(lambda: _ready(stage), stage.soon(), stage.clock, lambda: "nothing can be failed over", LOOK_SECONDS)
    plan = runbook.planned(stage, STORM, "planned", at=EAST)
    runbook.by_hand(stage, plan, "back to east", at=EAST, fence_proof=3)
    stage.lives[-1].stop(stage.soon())
    load = stage.writing(stage.source, FLOWS, 7)
    _surveyed(stage, EAST)
    _reverse(stage, EAST, "east is protected again")
    load.until(AT_LEAST, stage.soon())
    load.stop(stage.soon())
    stage.lives.append(load)
    stage.tanist.run("mirrors", "wait", STORM, *WEST, *CAUGHT_UP)


def _ready(stage: Stage) -> bool:
    (plan,) = stage.tanist.run("failover", "plan", STORM, *EAST, "--mode", "planned", verdict=True)
    blocking = [each for each in plan["limitations"] if each["blocks"]]
    for each in blocking:
        stage.screen.note(f"not yet, {each['name']}: {each['detail']}")
    return not blocking


def account(stage: Stage) -> Iterable[Promise]:
    """Every record that any cluster has acknowledged since the kill is looked up by its identity."""
    lives = [stage.load, *stage.lives]
    east, west = (_read(stage, servers) for servers in (stage.source, stage.destination))
    found = Circle(
        sent=sum(load.sent for load in lives),
        refused=sum(load.refused for load in lives),
        unanswered=sum(load.unanswered for load in lives),
        aborted=sum(load.aborted for load in lives),
        acknowledged=merged([load.traces() for load in lives]),
        old_source=east,
        copy=west,
        quarantine=_quarantine(stage),
    )
    for line in found.lines():
        stage.screen.note(line)
    described = stage.tanist.run("mirrors", "describe", STORM, *WEST)
    return promises.of_circle(found, [(each["state"], each["lag"]) for each in described])


def _reverse(stage: Stage, at: tuple[str, ...], reason: str) -> None:
    command = ("mirrors", "reverse", STORM, *at)
    (plan,) = stage.tanist.run(*command, "--dry-run")
    for each in plan["limitations"]:
        stage.screen.note(f"accept {each['name']}: {each['detail']}")
    stage.tanist.run(*command, "--approve", plan["plan_hash"], "--reason", reason)
    stage.tanist.run(*command, quiet=False)


def _read(stage: Stage, servers: str) -> Traces:
    """What an ordinary reader of committed records finds from where the copy ended before the kill."""
    by = stage.soon()
    logs = bounds(servers, stage.begins, by, stage.clock)
    wanted = {place: LogExtent(stage.begins[place].start, log.end) for place, log in logs.items()}
    return read(servers, wanted, committed=True, by=by, clock=stage.clock)


def _quarantine(stage: Stage) -> Traces:
    """The rescued records, as they were: by the partitions that they come from."""
    by, rescued = stage.soon(), (each for each in stage.rescued if each["quarantine"])
    held = {Place(each["quarantine"], each["partition"]): each["topic"] for each in rescued}
    logs = bounds(stage.destination, held, by, stage.clock)
    traces = read(stage.destination, logs, committed=True, by=by, clock=stage.clock, digest_of=_as_it_was)
    return {Place(held[place], place.partition): trace for place, trace in traces.items()}


def _as_it_was(message: Message) -> int:
    headers: Any = message.headers()
    return digest(message.key(), message.value(), headers[:-ORIGIN], message.timestamp()[1])
