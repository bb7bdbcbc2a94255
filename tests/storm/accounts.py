"""Every record of both clusters after a round: only listed tails may differ, and they are in quarantine."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tanist_testkit.verify.comparing import LogVerdict, compare
from tanist_testkit.verify.reading import ReadRecord
from tanist_testkit.verify.traces import Place, Trace, Traces, digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Message

ORIGIN: Final = "tanist.origin."
"""What the names of headers begin with that say where a rescued record was written."""
_ORIGIN_HEADERS: Final = 4


Latest: TypeAlias = "dict[Place, dict[bytes, ReadRecord]]"
"""Of each partition the last record of each key."""


class Origin(NamedTuple):
    """Where a record of a tail lay."""

    cluster_id: str
    place: Place
    offset: int


class Tail(NamedTuple):
    """What one cluster alone has: the offsets from `first` up to `end`. `side`: its name."""

    side: str
    place: Place
    first: int
    end: int

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.first <= offset < self.end


@dataclass(slots=True)
class Reader:
    """Reads records by their identity, which a rescue and a replay keep; `origins`: of what these have written."""

    origins: dict[Place, dict[int, Origin]] = field(default_factory=dict)
    latest: Latest = field(default_factory=dict)

    def identity(self, message: Message) -> int:
        """The digest of the record as its producer wrote it."""
        headers: list[Any] = list(message.headers() or ())
        if headers and headers[-1][0].startswith(ORIGIN):
            cluster, topic, partition, offset = (value.decode() for _, value in headers[-_ORIGIN_HEADERS:])
            found = Origin(cluster, Place(topic, int(partition)), int(offset))
            self.origins.setdefault(Place.of(message), {})[message.offset() or 0] = found
        while headers and headers[-1][0].startswith(ORIGIN):
            del headers[-_ORIGIN_HEADERS:]
        identity = digest(message.key(), message.value(), headers, message.timestamp()[1])
        self.latest.setdefault(Place.of(message), {})[bytes(message.key() or b"")] = ReadRecord(
            message.offset() or 0, identity
        )
        return identity


class Log(NamedTuple):
    """All partitions of a cluster; of its quarantine topics: those that the records come from."""

    cluster_id: str
    traces: Traces
    origins: Mapping[Place, Mapping[int, Origin]]
    latest: Latest = {}  # noqa: RUF012  # nobody writes to it

    def records(self, place: Place) -> dict[int, tuple[int, Origin | None]]:
        """By offset."""
        trace, origins = self.traces.get(place, Trace()), self.origins.get(place, {})
        return {at: (found, origins.get(at)) for at, found in zip(trace.offsets, trace.digests, strict=True)}


@dataclass(slots=True)
class Account:
    """`wrong`: in words, one line for each kind and partition."""

    verdict: LogVerdict = field(default_factory=LogVerdict)
    acknowledged: int = 0
    only_once: int = 0
    """Records that one cluster alone has, in a listed tail."""
    quarantined: int = 0
    missing: int = 0
    astray: int = 0
    repeated: int = 0
    clashes: int = 0
    unrescued: int = 0
    again: int = 0
    """Records that a producer has written twice, on each cluster that has both."""
    keys: int = 0
    wrong: list[str] = field(default_factory=list)

    def note(self, kind: str, place: Place, offsets: Sequence[object]) -> int:
        if offsets:
            self.wrong.append(f"{place}: {len(offsets)} {kind}, the first is {offsets[0]}")
        return len(offsets)


def account(
    logs: Mapping[str, Log],
    quarantines: Sequence[Log],
    tails: Collection[Tail],
    acknowledged: Mapping[str, Traces],
    terms: Mapping[Place, Sequence[int]],
    gone: Collection[Tail] = (),
) -> Account:
    """`logs`, `acknowledged`: by the cluster's name. `terms`: where the records of each new primary begin, in order.

    `gone`: tails of logs that were deleted and copied again; what was acknowledged there is in quarantine.
    """
    found = Account()
    for place in sorted({place for log in logs.values() for place in log.traces}):
        rescued = _rescued(quarantines, place, found)
        sides = {side: log.records(place) for side, log in logs.items()}
        own = {side: [tail for tail in tails if (tail.side, tail.place) == (side, place)] for side in sides}
        common = {
            side: {at: record for at, record in records.items() if not any(at in tail for tail in own[side])}
            for side, records in sides.items()
        }
        _compared(place, common, found)
        held = {digest for digest, _ in rescued.values()}
        for side, records in sides.items():
            _alone(place, logs[side].cluster_id, records, common, side, rescued, found)
            _once(place, records, common[side], terms.get(place, ()), found)
            trace = acknowledged.get(side, {}).get(place, Trace())
            deleted = [tail for tail in gone if (tail.side, tail.place) == (side, place)]
            _looked_up(place, trace, records, common, held, found, deleted)
    return found


def _rescued(quarantines: Sequence[Log], place: Place, found: Account) -> dict[Origin, tuple[int, int]]:
    """By origin: identity, and offset in quarantine. One that is there twice is a repeat."""
    rescued: dict[Origin, tuple[int, int]] = {}
    twice: list[object] = []
    for at, (identity, origin) in (each for log in quarantines for each in log.records(place).items()):
        assert origin is not None, f"{place} has at {at} in quarantine a record without an origin"
        if origin in rescued:
            twice.append(origin)
        rescued[origin] = (identity, at)
    found.quarantined += len(rescued)
    found.repeated += found.note("records are in quarantine twice", place, twice)
    return rescued


def _compared(place: Place, common: Mapping[str, Mapping[int, tuple[int, Origin | None]]], found: Account) -> None:
    traces: list[Trace] = []
    for records in common.values():
        trace = Trace()
        for at, record in records.items():
            trace.add(at, hash(record))
        traces.append(trace)
    verdict = compare(place, traces[0], traces[1])
    found.verdict += verdict
    if verdict.differences:
        found.wrong.append(f"{place}: {verdict.differences}; {verdict.first}")


def _alone(  # noqa: PLR0913, PLR0917  # both logs, one partition
    place: Place,
    cluster_id: str,
    records: Mapping[int, tuple[int, Origin | None]],
    common: Mapping[str, Mapping[int, tuple[int, Origin | None]]],
    side: str,
    rescued: Mapping[Origin, tuple[int, int]],
    found: Account,
) -> None:
    """What lies in the tails of one side."""
    alone = {at: record for at, record in records.items() if at not in common[side]}
    found.only_once += len(alone)
    others = [each for name, each in common.items() if name != side]
    found.clashes += found.note(
        f"offsets of a tail of {side} have a record at the other cluster, too",
        place,
        [at for at in alone if any(at in other for other in others)],
    )
    found.unrescued += found.note(
        f"records of a tail of {side} are not in quarantine as they were",
        place,
        [
            at
            for at, (identity, _) in alone.items()
            if rescued.get(Origin(cluster_id, place, at), (None, 0))[0] != identity
        ],
    )


def _once(
    place: Place,
    records: Mapping[int, tuple[int, Origin | None]],
    common: Mapping[int, tuple[int, Origin | None]],
    terms: Sequence[int],
    found: Account,
) -> None:
    """No record is there twice: neither as it was written, nor as it was replayed, nor both outside of a tail.

    A producer that got no answer may itself write a record again, an idempotent one of librdkafka, too, as it takes a
    new epoch after it has lost all brokers. It does so at its own cluster, while that is the primary: in one term.
    """
    origins = Counter(origin for _, origin in records.values() if origin is not None)
    found.repeated += found.note("records were replayed twice", place, [o for o, count in origins.items() if count > 1])
    written: dict[int, list[int]] = {}
    for at, (identity, origin) in records.items():
        if origin is None:
            written.setdefault(identity, []).append(at)
    twice = [offsets for offsets in written.values() if len(offsets) > 1]
    ours = [offsets for offsets in twice if len({bisect_right(terms, at) for at in offsets}) > 1]
    found.again += len(twice) - len(ours)
    found.repeated += found.note("records are there twice", place, ours)
    again = [
        at
        for at, (identity, origin) in common.items()
        if origin is not None and origin.place == place and common.get(origin.offset) == (identity, None)
    ]
    found.repeated += found.note("records were replayed although they had been copied", place, again)


def _looked_up(  # noqa: PLR0913, PLR0917  # as above
    place: Place,
    acknowledged: Trace,
    records: Mapping[int, tuple[int, Origin | None]],
    common: Mapping[str, Mapping[int, tuple[int, Origin | None]]],
    held: Collection[int],
    found: Account,
    deleted: Collection[Tail],
) -> None:
    """What a side has acknowledged is at its offset there; and both clusters, or quarantine, have it."""
    found.acknowledged += len(acknowledged)
    placed = zip(acknowledged.offsets, acknowledged.digests, strict=True)
    astray = [
        at
        for at, identity in placed
        if records.get(at, (None, None))[0] != identity and not any(at in tail for tail in deleted)
    ]
    found.astray += found.note("acknowledged records are not at their offset", place, astray)
    everywhere = set.intersection(*({identity for identity, _ in each.values()} for each in common.values()))
    gone = [
        f"{identity} of {place}"
        for identity in (*acknowledged.digests, *acknowledged.unplaced)
        if identity not in everywhere and identity not in held
    ]
    found.missing += found.note("acknowledged records are neither in both logs nor in quarantine", place, gone)


def tails_of(side: str, surveyed: Iterable[Mapping[str, object]]) -> Iterator[Tail]:
    """Of an old source, as `tanist failback survey` lists them."""
    for row in surveyed:
        place = Place(str(row["topic"]), int(str(row["partition"])))
        if row["common_end"] is not None and row["end"] is not None:
            first, end = int(str(row["common_end"])), int(str(row["end"]))
            if end > first:
                yield Tail(side, place, first, end)


def of_compacted(
    logs: Mapping[str, Mapping[bytes, ReadRecord]], acknowledged: Iterable[Mapping[bytes, ReadRecord]], place: Place
) -> Iterator[str]:
    """A compacted partition: by cluster the last record of each key, and what producers know of each key.

    A key that only a tail had was replayed, or what the new primary has of it was written once more; so in the end both
    logs say the same of each key, and nothing older than what was acknowledged last.
    """
    (east, here), (west, there) = logs.items()
    for key in sorted(here.keys() | there.keys()):
        if _identity(here.get(key)) != _identity(there.get(key)):
            yield f"{place}: key {key!r} is {here.get(key)} at {east}, and {there.get(key)} at {west}"
    for key, record in (each for known in acknowledged for each in known.items()):
        if _is_older(here.get(key), record):
            yield f"{place}: key {key!r} was acknowledged as {record}, and is {here.get(key)}"


def _identity(found: ReadRecord | None) -> int | None:
    """Without the offset: reserved offsets are filled with copies of a record, on one cluster only."""
    return found.digest if found else None


def _is_older(found: ReadRecord | None, acknowledged: ReadRecord) -> bool:
    if found is None or found.offset != acknowledged.offset:
        return found is None or found.offset < acknowledged.offset
    return found.digest != acknowledged.digest
