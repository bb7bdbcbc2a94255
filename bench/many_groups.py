"""How long the positions of a thousand groups take beside copies that somebody else makes.

    python -m bench.many_groups [GROUPS [PARTITIONS]]

Each of `GROUPS` groups has a position in each of `PARTITIONS` partitions, which a plain producer has copied with their
timestamps to offsets of their own. `tanist groups sync`, typed as a person types it, translates, proves and commits all
of them by timestamp; they are read back; then 1 % of the groups move on, and it is typed again.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from bench.pair import DESTINATION, SOURCE, Pair, create_topic, running
from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorName, MirrorPartition
from tanist.kafka.wire.clock import SystemClock
from tanist.ports.positions import CommitChange, CommittedPosition
from tests.kafka.fetcher.rig import RigCluster, soon
from tests.ports import over_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.ports.positions import CommittedOf

GROUPS: Final = 1_000
PARTITIONS: Final = 100
RECORDS: Final = 200
"""Of each partition."""
AHEAD: Final = 40
"""Offsets of the copy before the first copied record: other records."""
TOPIC: Final = "orders"
COPY: Final = f"{SOURCE}.{TOPIC}"
MIRROR: Final = MirrorName("mm")
_FIRST_MS: Final = 1_700_000_000_000
_COMMAND_SECONDS: Final = 900.0


def measure(groups: int, partitions: int) -> dict[str, Any]:
    """Seconds of each step; and how many positions are not where the group's next record is."""
    names = [f"group-{n}" for n in range(groups)]
    with running(SystemClock()) as pair:
        _fill(pair, partitions)
        wanted = {name: {at: (n * 7 + at) % (RECORDS - 1) for at in range(partitions)} for n, name in enumerate(names)}
        committed = _commit(pair, wanted)
        where = ("--source", SOURCE, "--destination", DESTINATION, "--rename", "mm2-default", "--strategy", "timestamp")
        _tanist(pair, "mirrors", "create", MIRROR, "--copied-by", "other", "--topic", TOPIC, *where)
        first = _tanist(pair, "groups", "sync", MIRROR, "--destination", DESTINATION)
        began = time.monotonic()
        wrong = _wrong(pair, wanted)
        read_back = time.monotonic() - began
        moved = {
            name: {at: offset + 1 for at, offset in wanted[name].items()} for name in names[: max(1, groups // 100)]
        }
        _commit(pair, moved)
        second = _tanist(pair, "groups", "sync", MIRROR, "--destination", DESTINATION)
        wrong_after = _wrong(pair, wanted | moved)
    return {
        "groups": groups,
        "partitions": partitions,
        "positions": groups * partitions,
        "source_commit_s": round(committed, 1),
        "sync_s": round(first, 1),
        "read_back_s": round(read_back, 1),
        "sync_again_1_percent_s": round(second, 1),
        "not_at_the_next_record": [wrong, wrong_after],
    }


def _fill(pair: Pair, partitions: int) -> None:
    for cluster, topic, ahead in ((pair.source, TOPIC, 0), (pair.destination, COPY, AHEAD)):
        create_topic(cluster, topic, partitions, {"retention.ms": "-1"}, pair.clock)
        rig = RigCluster(cluster)
        try:
            writer = rig.producer()
            for partition in range(partitions):
                for n in range(-ahead, RECORDS):
                    writer.produce(topic, b"%d" % n, partition=partition, timestamp=_FIRST_MS + 10 * n)
            assert writer.flush(120) == 0  # noqa: S101
        finally:
            rig.close()


def _commit(pair: Pair, wanted: Mapping[str, Mapping[int, int]]) -> float:
    """At the source; the seconds that took."""
    began = time.monotonic()
    with over_positions(pair.source.endpoint(), MIRROR) as positions:
        known = {group: _known(each) for group, each in positions.committed(list(wanted), soon(120)).items()}
        changes = {
            group: {
                (place := MirrorPartition(TOPIC, at)): CommitChange(
                    known[group].get(place), CommittedPosition(offset, "")
                )
                for at, offset in each.items()
            }
            for group, each in wanted.items()
        }
        failed = [each for each in positions.commit(changes, soon(300)).values() if isinstance(each, TanistError)]
    if failed:
        raise failed[0]
    return time.monotonic() - began


def _known(found: CommittedOf | TanistError) -> Mapping[Any, Any]:
    if isinstance(found, TanistError):
        raise found
    return dict(found)


def _wrong(pair: Pair, wanted: Mapping[str, Mapping[int, int]]) -> int:
    """Positions at the destination that are not those of the same records."""
    with over_positions(pair.destination.endpoint(), MIRROR) as positions:
        known = {group: _known(each) for group, each in positions.committed(list(wanted), soon(300)).items()}
    places = ((group, at, offset) for group, each in wanted.items() for at, offset in each.items())
    return sum(
        getattr(known[group].get(MirrorPartition(COPY, at)), "offset", None) != offset + AHEAD
        for group, at, offset in places
    )


def _tanist(pair: Pair, *words: str) -> float:
    """Its seconds."""
    began = time.monotonic()
    ended = pair.tanist((*words, "--timeout", f"{_COMMAND_SECONDS:.0f}s"), _COMMAND_SECONDS)
    if ended.code != 0:
        raise SystemExit(f"tanist {' '.join(words)}: {ended.code}: {ended.err[-2000:]}")
    return time.monotonic() - began


if __name__ == "__main__":
    sizes = [*map(int, sys.argv[1:3]), *(GROUPS, PARTITIONS)[len(sys.argv[1:3]) :]]
    print(json.dumps(measure(*sizes), indent=2))
