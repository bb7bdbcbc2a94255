"""How many records a group reads again after it went on at a translated position, by the strategy.

    python -m bench.positions [RECORDS]

A real MirrorMaker 2 copies one partition of `RECORDS` records of 100 B, a millisecond apart, while groups lag by
`LAGS`. Its answer is what its group sync has committed; those of Tanist are of `tanist groups translate --strategy`,
typed as a person types them, the one by reconciliation after `tanist reconcile --publish`. The copy has the source's
offsets, so what is read again is the committed offset less the answer; None: no answer.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

from bench import mm2_run
from bench.load import Load
from bench.pair import DESTINATION, SOURCE, Pair, create_topic, running
from tanist.domain.names import MirrorPartition
from tanist.kafka.wire.clock import SystemClock
from tests.kafka.fetcher.rig import RigCluster, until
from tests.kafka.groups.readers import commit, committed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RECORDS: Final = 1_000_000
LAGS: Final = (0, 1, 10, 100, 1_000, 10_000, 100_000, 800_000)
TOPIC: Final = "orders"
MIRROR: Final = "mm"
STRATEGIES: Final = ("mm2", "timestamp", "reconciled")
SIZE: Final = 100
_FIRST_MS: Final = 1_700_000_000_000
_COPIED_SECONDS: Final = 300.0
_COMMAND_SECONDS: Final = 600.0
_FLOW: Final[Mapping[str, Any]] = {
    "emit.checkpoints.interval.seconds": 1,
    "refresh.groups.interval.seconds": 1,
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": 1,
    "tasks.max": 1,
}


def measure(records: int) -> dict[str, Any]:
    """By lag: how many records are read again by MM2's checkpoint, and by each strategy."""
    clock = SystemClock()
    with running(clock) as pair:
        source, destination = RigCluster(pair.source), RigCluster(pair.destination)
        try:
            _fill(source, pair, records)
            lags = [lag for lag in LAGS if lag <= records]
            _commit(source, records, lags)
            peer = mm2_run.start(pair, Load(topic=TOPIC, size=0, records=0, target=0), more=_FLOW)
            checkpoints = _copied(destination, records, lags)
            pair.end(peer)
            answers = _translated(pair)
        finally:
            source.close()
            destination.close()
    return {
        "records": records,
        "read_again": {
            lag: {"MirrorMaker 2": _again(records - lag, checkpoints.get(_group(lag)))}
            | {name: _again(records - lag, answers[name].get(_group(lag))) for name in STRATEGIES}
            for lag in lags
        },
    }


def _group(lag: int) -> str:
    return f"lag-{lag}"


def _again(position: int, answer: int | None) -> int | None:
    return None if answer is None else position - answer


def _fill(source: RigCluster, pair: Pair, records: int) -> None:
    create_topic(pair.source, TOPIC, 1, {"retention.ms": "-1"}, pair.clock)
    writer = source.producer()
    for n in range(records):
        writer.produce(TOPIC, b"%0*d" % (SIZE, n), partition=0, timestamp=_FIRST_MS + n)
        if n % 10_000 == 0:
            writer.flush(60)
    assert writer.flush(120) == 0  # noqa: S101


def _commit(source: RigCluster, records: int, lags: Sequence[int]) -> None:
    for lag in lags:
        commit(source.servers, _group(lag), {MirrorPartition(TOPIC, 0): records - lag})


def _copied(destination: RigCluster, records: int, lags: Sequence[int]) -> dict[str, int]:
    """MM2's synced offsets of all groups, once it has copied everything and had time to sync."""
    copy = mm2_run.copy_of(TOPIC)

    def copied() -> bool:
        known = destination.admin.list_topics(timeout=20).topics
        return copy in known and destination.end(MirrorPartition(copy, 0)) >= records

    until(copied, _COPIED_SECONDS)
    SystemClock().wait(20)
    return {_group(lag): found for lag in lags if (found := _synced(destination, _group(lag), copy)) is not None}


def _synced(destination: RigCluster, group: str, copy: str) -> int | None:
    found = committed(destination.servers, group, MirrorPartition(copy, 0))
    return found if found >= 0 else None


def _translated(pair: Pair) -> dict[str, dict[str, int]]:
    where = ("--destination", DESTINATION)
    create = ("--source", SOURCE, "--copied-by", "mm2", "--topic", TOPIC, "--rename", "mm2-default")
    _tanist(pair, "mirrors", "create", MIRROR, *where, *create)
    _tanist(pair, "reconcile", MIRROR, *where, "--publish", "--report", str(pair.home / "report"))
    found: dict[str, dict[str, int]] = {}
    for strategy in STRATEGIES:
        rows = _tanist(pair, "groups", "translate", MIRROR, *where, "--strategy", strategy, "--json")
        offsets = {row["group"]: row["destination_offset"] for row in rows}
        found[strategy] = {group: offset for group, offset in offsets.items() if offset is not None}
    return found


def _tanist(pair: Pair, *words: str) -> list[dict[str, Any]]:
    ended = pair.tanist(words, _COMMAND_SECONDS)
    if ended.code not in (0, 3):
        raise SystemExit(f"tanist {' '.join(words)}: {ended.code}: {ended.err}")
    return ended.items if "--json" in words else []


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS), indent=2))
