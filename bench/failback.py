"""The way back after a failover: what a reversed mirror moves, beside MirrorMaker 2 copying back.

    python -m bench.failback [MEGABYTES] [SINCE]

`measure` starts two clusters of its own, one broker each. A topic of MEGABYTES is mirrored and failed over, SINCE more
are written to the new primary, and the mirror is reversed, until both logs have the same ends. Then MirrorMaker 2
copies the same topic to the same cluster, from its beginning: it does not know that most of it is there.

Bytes are the payload of Fetch and Produce as the brokers count it: everything that was read of the topic at either
cluster, and written to the old source, gap markers included, from the command that runs the approved plan until the old
source is in step; of MirrorMaker 2 from the start of its process until its last record. MB are 10^6 bytes. `planned_MB`
was read for the plan and its approval, `written_MB` is the payload of Produce for the records since the failover. The
producers' batches have up to 16 KiB, as is Kafka's default.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from bench import mm2_run, tanist_run
from bench.load import PARTITIONS, Load, produce, write
from bench.pair import DESTINATION, SOURCE, running
from bench.payload import Payload, PayloadCounter
from bench.rigs import report
from bench.sampling import Watch
from bench.tanist_run import MIRROR, tanist
from tanist.domain.errors import CouldNotTell
from tanist.domain.names import MirrorPartition
from tanist.kafka.wire import requests
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import End
from tanist.kafka.wire.router import Router
from tanist_testkit.waiting import until

if TYPE_CHECKING:
    from bench.pair import Pair

TOPIC: Final = "bench-failback"
RECORD: Final = 1_000
"""Bytes of a value."""
MEGABYTES: Final = 1_000
SINCE: Final = 10
FEWER: Final = 50.0
"""Times fewer bytes than MirrorMaker 2."""
WITHIN: Final = 0.05
"""Of the bytes that were written since the failover, if these are at least `LEAST` MB."""
LEAST: Final = 100
BATCH: Final = 16 << 10
"""Bytes: the default of Kafka's producer."""
STEP_SECONDS: Final = 600.0
ASK_SECONDS: Final = 5.0
EVERY_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Moved:
    """By one way back. `fetched`: at both clusters; `produced`: to the old source."""

    seconds: float
    fetched: int
    produced: int

    @property
    def bytes(self) -> int:
        return self.fetched + self.produced

    def figures(self) -> dict[str, float]:
        """For people."""
        return {
            "seconds": round(self.seconds, 1),
            "fetched_MB": _mb(self.fetched),
            "produced_MB": _mb(self.produced),
            "moved_MB": _mb(self.bytes),
        }


class Meter:
    """What clients have read at both clusters and written to the old source since it was made. `copy`: as what."""

    def __init__(self, counter: PayloadCounter, pair: Pair, copy: str) -> None:
        self._at = tuple(
            (side, topic) for side in (pair.source, pair.destination) for topic in dict.fromkeys((TOPIC, copy))
        )
        self._counter, self._old = counter, pair.source
        self._before = self._read()

    def _read(self) -> dict[tuple[str, str], Payload]:
        return {(side.name, topic): self._counter.payload(side, topic) for side, topic in self._at}

    def moved(self, seconds: float) -> Moved:
        since = {key: after - self._before[key] for key, after in self._read().items()}
        produced = sum(each.produced for (side, _), each in since.items() if side == self._old.name)
        return Moved(seconds, sum(each.fetched for each in since.values()), produced)


def measure(megabytes: int, since: int) -> dict[str, Any]:
    """Both ways back, one after the other.

    Raises:
        TanistError: one of them did not do its work.
    """
    first, more = (_load(size) for size in (megabytes, since))
    with running(SystemClock()) as pair, PayloadCounter() as counter:
        _say(f"writing {megabytes} MB, mirroring, failing over")
        produce(pair, first, lambda _: None)
        with ExitStack() as stack:
            for at in (DESTINATION, SOURCE):
                stack.callback(
                    pair.end, tanist_run.start(pair, first) if at == DESTINATION else tanist_run.fetcher(pair, at)
                )
            _fail_over(pair)
            before = counter.payload(pair.destination, TOPIC)
            write(pair.destination, more, lambda _: None)
            written = (counter.payload(pair.destination, TOPIC) - before).produced
            _say(f"{since} MB were written to the new primary; reversing the mirror")
            meter = Meter(counter, pair, TOPIC)
            _approve_reversal(pair)
            planned = meter.moved(0).bytes
            ours = _reversed(pair, counter)
        _say(f"Tanist: {ours.figures()}; MirrorMaker 2 copies back")
        theirs = _copied_back(pair, counter, first.records + more.records)
    return {
        "MB": megabytes,
        "since_MB": since,
        "written_MB": _mb(written),
        "planned_MB": _mb(planned),
        "tanist": ours.figures(),
        "mm2": theirs.figures(),
        "times_fewer_bytes": round(theirs.bytes / ours.bytes, 1),
        "times_faster": round(theirs.seconds / ours.seconds, 1),
        "fetched_per_written": round(ours.fetched / written, 3),
        "produced_per_written": round(ours.produced / written, 3),
    }


def _load(megabytes: int) -> Load:
    return Load(topic=TOPIC, size=RECORD, records=megabytes * 1_000_000 // RECORD, target=FEWER, batch_bytes=BATCH)


def _fail_over(pair: Pair) -> None:
    """Planned, by the command line."""
    tanist(pair, DESTINATION, "mirrors", "wait", MIRROR, "--for", "lag=0", "--timeout", f"{STEP_SECONDS:g}s")
    [plan] = json.loads(tanist(pair, DESTINATION, "failover", "plan", MIRROR, "--json"))["items"]
    tanist(pair, DESTINATION, "failover", "approve", MIRROR, plan["plan_hash"], "--reason", "bench")
    quick = ("--fence-proof", "1s", "--evidence", str(pair.home / "evidence"))
    tanist(pair, DESTINATION, "failover", "run", MIRROR, "--plan", plan["plan_hash"], *quick)


def _approve_reversal(pair: Pair) -> None:
    [plan] = json.loads(tanist(pair, DESTINATION, "mirrors", "reverse", MIRROR, "--dry-run", "--json"))["items"]
    approval = ("--approve", plan["plan_hash"], "--reason", "bench")
    tanist(pair, DESTINATION, "mirrors", "reverse", MIRROR, *approval)


def _reversed(pair: Pair, counter: PayloadCounter) -> Moved:
    """Run the approved plan, and wait until both logs have the same ends."""
    meter = Meter(counter, pair, TOPIC)
    began = pair.clock.monotonic()
    tanist(pair, DESTINATION, "mirrors", "reverse", MIRROR)
    with Router(pair.source.endpoint(), "bench") as old, Router(pair.destination.endpoint(), "bench") as new:
        until(
            lambda: _ends(pair, old) == _ends(pair, new),
            pair.clock.deadline(STEP_SECONDS),
            pair.clock,
            lambda: f"{TOPIC} is not in step after {STEP_SECONDS:g} s",
            EVERY_SECONDS,
        )
    return meter.moved(pair.clock.monotonic() - began)


def _ends(pair: Pair, router: Router) -> list[int]:
    """The high watermarks of all partitions."""
    at = [MirrorPartition(TOPIC, n) for n in range(PARTITIONS)]
    answers = requests.list_offsets(router, dict.fromkeys(at, End.HIGH_WATERMARK), pair.clock.deadline(ASK_SECONDS))
    found = [answers[each] for each in at]
    if wrong := [each for each in found if not isinstance(each, int)]:
        raise CouldNotTell(f"{TOPIC}: {wrong[0]}")
    return [each for each in found if isinstance(each, int)]


def _copied_back(pair: Pair, counter: PayloadCounter, records: int) -> Moved:
    """By MirrorMaker 2, for which both clusters have changed places."""
    back = replace(pair, source=pair.destination, destination=pair.source)
    copy = mm2_run.copy_of(TOPIC)
    meter = Meter(counter, pair, copy)
    watch = Watch(back, copy, PARTITIONS, records)
    began = pair.clock.monotonic()
    process = mm2_run.start(back, _load(1))
    try:
        watch.until_copied(process, began)
        return meter.moved(pair.clock.monotonic() - began)
    finally:
        pair.end(process)


def _mb(count: int) -> float:
    return round(count / 1e6, 2)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def missed(found: dict[str, Any]) -> list[str]:
    """The targets that were not reached, in words. Where little was there before, at least half of what is possible."""
    wrong, most = [], found["mm2"]["moved_MB"] / (2 * found["written_MB"])
    if found["times_fewer_bytes"] < (least := min(FEWER, most / 2)):
        wrong.append(f"{found['times_fewer_bytes']} times fewer bytes than MirrorMaker 2, the target is {least:.1f}")
    wrong += [
        f"{name} {found['tanist'][f'{name}_MB']} MB, written were {found['written_MB']} MB"
        for name in ("fetched", "produced")
        if found["written_MB"] >= LEAST and abs(found[f"{name}_per_written"] - 1) > WITHIN
    ]
    return wrong


if __name__ == "__main__":
    sizes = [int(each) for each in sys.argv[1:3]]
    megabytes, since = (*sizes, *(MEGABYTES, SINCE)[len(sizes) :])
    sys.exit(report(lambda: measure(megabytes, since), missed))
