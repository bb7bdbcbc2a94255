"""How soon a commit at the source is safe at the destination, and how long a thousand groups take to be moved.

`measure(seconds)` starts two clusters of its own, one broker each, and ends them.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import replace
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

from bench.rigs import rigged
from tanist.domain.records import GROUPS_TOPIC, GroupPosition
from tanist.fetcher.group_tail import GroupTail, TailTools
from tanist.kafka.adapters.compacted_topic import WORKER, CompactedTopic, TopicLayout
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.positions import CommitChange, CommittedPosition
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_groups
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.rig import soon, until
from tests.kafka.groups.mirrors import Mirrored, run
from tests.kafka.groups.readers import committing, wanted
from tests.ports import over_positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.rig import Rig

GROUPS: Final = 1_000
PARTITIONS: Final = 10
RECORDS: Final = 2_000
TOPIC: Final = "bench-groups"
RATES: Final = (3.0, 200.0)
"""Commits a second: now and then, and many (written together, every 200 ms)."""


def measure(seconds: float) -> dict[str, Any]:
    """Freshness at each rate (ms, from before the commit until another reader of the destination has it), and bulk."""
    with rigged(384) as rig:
        at = rig.create(TOPIC, PARTITIONS)
        freshness = {f"{rate:g}_per_s": _freshness(rig, at[0], rate, seconds / len(RATES)) for rate in RATES}
        return {"freshness": freshness, "bulk": _bulk(rig, at)}


# ── freshness ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _freshness(rig: Rig, at: MirrorPartition, rate: float, seconds: float) -> dict[str, float]:
    destination, clock = rig.destination.cluster.endpoint(), SystemClock()
    layout = TopicLayout(partitions=1, allow_small=True)
    group = f"bench-{rate:g}"
    state = worker_store()
    state.append([rig.spec, wanted(rig.spec, TOPIC, PARTITIONS)], soon())
    with (
        CompactedTopic.open(
            destination, GROUPS_TOPIC, clock.deadline(30), layout=layout, writer=WORKER, create=True
        ) as store,
        CompactedTopic.open(destination, GROUPS_TOPIC, clock.deadline(30), layout=layout) as reader,
    ):
        tail = GroupTail(
            TailTools(
                spec=rig.spec,
                worker="bench",
                resolve=rig.source.cluster.endpoint,
                state=state,
                groups=store,
                ours=lambda: True,
                clock=clock,
            )
        )
        tail.start()
        try:
            sent, seen = _commits(rig, group, at, rate, seconds, reader)
        finally:
            tail.stop()
            tail.join(10)
    return _summary(sent, seen)


def _commits(
    rig: Rig, group: str, at: MirrorPartition, rate: float, seconds: float, reader: CompactedTopic
) -> tuple[dict[int, float], dict[int, float]]:
    sent: dict[int, float] = {}
    seen: dict[int, float] = {}
    ended = threading.Event()

    def watch() -> None:
        for record in reader.follow(None):
            if isinstance(record, GroupPosition) and record.group == group:
                seen[record.offset] = time.monotonic()
            if ended.is_set():
                return

    threading.Thread(target=watch, daemon=True).start()
    with committing(rig.source.servers, group, at) as commit:
        commit(0)
        until(lambda: 0 in seen, 20)
        by = time.monotonic() + seconds
        for offset in range(1, 1_000_000):
            sent[offset] = time.monotonic()
            commit(offset)
            threading.Event().wait(max(0.0, sent[offset] + 1 / rate - time.monotonic()))
            if time.monotonic() > by:
                break
        until(lambda: max(sent) in seen, 20)
    ended.set()
    return sent, seen


def _summary(sent: dict[int, float], seen: dict[int, float]) -> dict[str, float]:
    """A commit that was overtaken before it was written is safe when a later one of its group is."""
    order = sorted(seen)
    took = []
    for offset, at in sent.items():
        later = next(each for each in order if each >= offset)
        took.append((seen[later] - at) * 1000)
    cuts = quantiles(took, n=100)
    return {
        "commits": len(took),
        "p50_ms": round(cuts[49], 1),
        "p99_ms": round(cuts[98], 1),
        "max_ms": round(max(took), 1),
    }


# ── many groups ───────────────────────────────────────────────────────────────────────────────────────────────────


def _bulk(rig: Rig, at: Sequence[MirrorPartition]) -> dict[str, float]:
    for each in at:
        rig.source.produce(each, [b"%d" % n for n in range(RECORDS)])
    with rig.copier(at) as copier:
        rig.copied(copier, 60)
    groups = [f"bulk-{n}" for n in range(GROUPS)]
    with over_positions(rig.source.cluster.endpoint(), rig.spec.mirror) as source:
        began = time.monotonic()
        positions = {
            group: {each: CommitChange(None, CommittedPosition((n * 7 + each.partition) % RECORDS, "")) for each in at}
            for n, group in enumerate(groups)
        }
        source.commit(positions, soon(60))
        committed = time.monotonic() - began
    with Mirrored(rig, tuple(at)) as mirrored:
        request = SyncRequest(chosen=Chosen(names=frozenset(groups)))
        views = mirrored.views()
        began = time.monotonic()
        planned = sync_groups(mirrored.mirror, request, run(60, dry_run=True), views)
        middle = time.monotonic()
        synced = sync_groups(mirrored.mirror, replace(request, prove_seconds=0.001), run(60), views)
        ended = time.monotonic()
    assert all(row.committed for row in synced.rows)  # noqa: S101
    return {
        "groups": len(groups),
        "positions": len(synced.rows),
        "source_commit_s": round(committed, 2),
        "translate_and_prove_s": round(middle - began, 2),
        "proofs": sum(row.compared.proof == "match" for row in planned.rows),
        "translate_and_commit_s": round(ended - middle, 2),
    }


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0), indent=2))
