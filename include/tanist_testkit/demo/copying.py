"""Chapters of the copy: it is made while processes are killed, and every record of it is compared."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import TimedOut
from tanist_testkit.demo.promises import of_copy, of_validation, promise
from tanist_testkit.demo.stage import FLOWS, MIRRORS, SEED, STORM, TOPICS, WEST
from tanist_testkit.verify import clients
from tanist_testkit.verify.comparing import compare
from tanist_testkit.verify.groups import carry
from tanist_testkit.verify.inspection import Inspector, with_one_bit_flipped
from tanist_testkit.verify.reading import bounds, record_at
from tanist_testkit.verify.traces import merged
from tanist_testkit.verify.writing import Load, write_beginnings
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist_testkit.demo.promises import Promise
    from tanist_testkit.demo.stage import Stage
    from tanist_testkit.sandbox.cluster import SandboxCluster

GROUP: Final = "billing"
KEPT_BEFORE: Final = 500
"""Records per partition that are there before the mirror is, in the topic whose log does not start at 0."""
WORKERS: Final = ("w1", "w2")
EASED: Final = 0.1
"""Once there are enough the producers slow down, until all is healed: what follows reads everything three times."""
VICTIM: Final = 2
FAULTS: Final = 4
LAG_SECONDS: Final = 60.0
DOWN_SECONDS: Final = 1.0
LAG: Final = "300s"


def topics(stage: Stage) -> None:
    """Topics of every kind; of one the first records are deleted."""
    flows = [flow for mirrored in MIRRORS.values() for flow in mirrored]
    new = [flow.new_topic(2, min_isr=1) for flow in flows]
    clients.create_topics(stage.source, new, stage.soon(), stage.clock)
    stage.early = write_beginnings(stage.source, flows, stage.clock, SEED, KEPT_BEFORE)
    for flow in flows:
        stage.screen.note(str(flow))
    stage.screen.say(f"{len(flows)} topics, {sum(f.partitions for f in flows)} partitions, two replicas each")


def mirrors(stage: Stage) -> None:
    """Three mirrors and two fetchers; returns when every partition is MIRRORING."""
    for mirror, flows in MIRRORS.items():
        names = "|".join(flow.topic for flow in flows)
        stage.tanist.run("mirrors", "create", mirror, "--source", "east", *WEST, "--topic", names)
    for worker in WORKERS:
        stage.screen.command(f"tanist fetcher run --destination west --id {worker}   # in the background")
        stage.home.workers.start(worker)
    stage.screen.say("waiting until every partition is MIRRORING")
    for mirror in MIRRORS:
        stage.tanist.run("mirrors", "wait", mirror, "--for", "state=MIRRORING", "--timeout", LAG)
    stage.screen.say(f"every partition is MIRRORING, two workers: {stage.home.workers.pids()}")


def disasters(stage: Stage) -> Iterable[Promise]:
    """Both workers, and a broker of each side, are killed and started again while producers write."""
    load = stage.load = Load(stage.source, FLOWS, stage.clock, SEED)
    load.start()
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(stage, load, over), daemon=True)
    watcher.start()
    try:
        stage.clock.wait(2 * DOWN_SECONDS)
        _lose_a_worker(stage, WORKERS[0])
        with ThreadPoolExecutor(1) as aside:
            lost = aside.submit(_lose_a_broker, stage, stage.home.destination)
            stage.clock.wait(3 * DOWN_SECONDS)
            _lose_a_worker(stage, WORKERS[1])
            _lose_a_broker(stage, stage.home.source)
        lost.result()
        with suppress(TimedOut):  # a slow machine has fewer to compare
            until(lambda: load.acknowledged >= stage.records, stage.soon(), stage.clock, lambda: "too few records")
        stage.screen.say("stopping the producers")
        load.stop(stage.soon())
    finally:
        over.set()
        watcher.join()
    stage.screen.say(f"{load.acknowledged:,} records acknowledged, {load.aborted:,} aborted on purpose")
    return [promise("killed", f"{FAULTS} times SIGKILL", f"{stage.killed} times SIGKILL")]


def _watch(stage: Stage, load: Load, over: threading.Event) -> None:
    while not over.wait(0.5):
        if load.acknowledged >= stage.records:
            load.ease(EASED)
        stage.screen.say(f"{load.acknowledged:,} records acknowledged by the source")


def _lose_a_worker(stage: Stage, worker: str) -> None:
    stage.struck(f"kill -9 {stage.home.workers.kill(worker)}: worker {worker}")
    stage.clock.wait(DOWN_SECONDS)
    stage.home.workers.start(worker)


def _lose_a_broker(stage: Stage, cluster: SandboxCluster) -> None:
    pid = cluster.brokers[VICTIM - 1].pid
    cluster.kill(VICTIM)
    stage.struck(f"kill -9 {pid}: broker {VICTIM} of {cluster.name}")
    stage.clock.wait(DOWN_SECONDS)
    cluster.start_broker(VICTIM)
    stage.screen.note(f"broker {VICTIM} of {cluster.name} is back")


def catch_up(stage: Stage) -> Iterable[Promise]:
    """Returns when nothing is left to copy."""
    begun = stage.clock.monotonic()
    stage.tanist.run("mirrors", "wait", STORM, "--for", "lag=0", "--timeout", LAG)
    stage.home.workers.check_alive()
    stage.screen.say("lag 0 in every partition")
    seconds = stage.clock.monotonic() - begun
    within = seconds <= LAG_SECONDS
    return [promise("lag", f"lag 0 within {LAG_SECONDS:.0f} s", f"lag 0 after {seconds:.1f} s", ok=within)]


def count(stage: Stage) -> Iterable[Promise]:
    """Reads every record of both sides."""
    inspector = Inspector(source=stage.source, destination=stage.destination, clock=stage.clock)
    acknowledged = merged([stage.early, stage.load.traces()])
    found = stage.found = inspector.inspect(TOPICS, acknowledged, stage.soon(), stage.screen.say)
    for topic, verdict in found.verdicts.items():
        stage.screen.note(f"{topic}: {verdict.records:,} records, differences: {verdict.differences}")
    if first := found.whole.first or found.uncommitted.first:
        stage.screen.event(first)
    stage.screen.say(f"{found.whole.records:,} records at the source, {found.acknowledged:,} known to producers")
    return of_copy(found, stage.load.aborted)


def self_check(stage: Stage) -> Iterable[Promise]:
    """Compares a copy of one partition that differs in one bit."""
    place, trace = next((place, trace) for place, trace in stage.found.destination.items() if place.topic == "orders")
    seen = record_at(stage.destination, place, trace.offsets[len(trace) // 2], stage.soon(), stage.clock)
    assert seen is not None  # noqa: S101 -- it was read a moment ago
    verdict = compare(place, stage.found.source[place], with_one_bit_flipped(seen, trace))
    stage.screen.say(verdict.first)
    return [promise("one bit", "1 altered", str(verdict.differences))]


def validate(stage: Stage) -> Iterable[Promise]:
    """Spark's verdict, whatever it is."""
    stage.screen.say("waiting for Spark")
    report = ("--report", str(stage.home.validation))
    (result,) = stage.tanist.run("validate", STORM, *WEST, *report, quiet=False, verdict=True)
    stage.screen.say(f"{result['verdict']}, {len(result['partitions'])} partitions")
    return of_validation(result, sum(flow.partitions for flow in FLOWS))


def positions(stage: Stage) -> Iterable[Promise]:
    """Carries the positions of a group over."""
    by = stage.soon()
    places = clients.places(stage.source, ["orders", "payments"], by, stage.clock)
    logs = bounds(stage.source, places, by, stage.clock)
    carried = carry(GROUP, stage.source, stage.destination, logs, by, stage.clock)
    stage.screen.say(f"went on at {', '.join(f'{place}@{offset}' for place, offset in carried.committed.items())}")
    return [promise("group", f"{len(carried.source_next)} partitions", f"{carried.agreeing} partitions")]
