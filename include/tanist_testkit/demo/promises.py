"""What Tanist promises, held against what was seen. Pure."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist_testkit.verify.comparing import absent
from tanist_testkit.verify.reading import ReadRecord
from tanist_testkit.verify.traces import Place, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tanist_testkit.demo.groups import Carried
    from tanist_testkit.verify.comparing import LogVerdict
    from tanist_testkit.verify.inspection import Inspection
    from tanist_testkit.verify.traces import Trace, Traces

LAG_SECONDS: Final = 60.0
FAULTS: Final = 4
_BOTH: Final = "kafka-get-offsets.sh --bootstrap-server $EAST (then $WEST) --topic"
_DIFF: Final = (
    "diff <(kcat -C -b $EAST -X isolation.level=read_committed -t orders -p 0 -e -f '%o %T %k %h %s\\n')"
    " <(kcat -C -b $WEST -t orders -p 0 -e -f '%o %T %k %h %s\\n')"
)
_RAW: Final = (
    "kafka-console-consumer.sh --bootstrap-server $WEST --topic payments --from-beginning --timeout-ms 5000 | wc -l"
)
_PLANNED: Final = (
    f"{_BOTH} invoices   (west has a barrier and what was written later behind it); tanist failover status m2 -d west"
)
_LOSS: Final = "DIR/evidence has the ends of both sides; diff of kcat from $EAST and $WEST as above: a tail, no holes"


@dataclass(frozen=True, slots=True)
class Promise:
    """`by_hand`: how to see it with stock tools; $EAST and $WEST are the bootstrap servers."""

    promise: str
    expected: str
    observed: str
    ok: bool
    by_hand: str

    def item(self) -> dict[str, Any]:
        """As `--json` shows it."""
        return asdict(self)


def none_of(promise: str, count: int, of: str, by_hand: str) -> Promise:
    """It must not have happened once."""
    return Promise(promise, "0", f"{count:,}" if count else f"0 of {of}", count == 0, by_hand)


def the_same(promise: str, expected: str, observed: str, by_hand: str) -> Promise:
    """Two texts must be equal."""
    return Promise(promise, expected, observed, expected == observed, by_hand)


# ── the copy ──────────────────────────────────────────────────────────────────────────────────────────────────────


def of_faults(faults: int) -> Iterator[Promise]:
    """`faults`: processes that were killed while producers wrote."""
    yield the_same(
        "Both workers and a broker of each side were killed meanwhile",
        f"{FAULTS} times SIGKILL",
        f"{faults} times SIGKILL",
        "tanist sandbox kill west --broker 2 --dir DIR; tanist sandbox start west --broker 2 --dir DIR",
    )


def of_lag(seconds: float) -> Iterator[Promise]:
    """`seconds`: until nothing was left to copy."""
    limit, seen = f"lag 0 within {LAG_SECONDS:.0f} s", f"lag 0 after {seconds:.1f} s"
    yield Promise("The copy catches up by itself", limit, seen, seconds <= LAG_SECONDS, "tanist mirrors describe m1")


def of_copy(found: Inspection, aborted: int) -> Iterator[Promise]:
    """`aborted`: records of transactions that producers have aborted."""
    differences = found.whole.differences
    known, read = f"{found.acknowledged:,} acknowledged records", f"{found.whole.records:,} records"
    hidden, ends = f"{read}, {aborted:,} aborted ones in between", f"{_BOTH} orders --time -1"
    raw = found.uncommitted.differences.total
    yield none_of("Nothing that a producer was told is safe is missing", found.missing, known, ends)
    yield none_of("Nothing is lost", differences.lost, read, ends)
    yield none_of("Nothing is there twice", differences.repeated + differences.foreign, read, _DIFF)
    yield none_of("Nothing changed its order", differences.reordered, read, _DIFF)
    yield none_of("Keys, values, headers and timestamps are the same, bit for bit", differences.altered, read, _DIFF)
    yield none_of("Aborted records are invisible at the copy, even to read_uncommitted", raw, hidden, _RAW)
    yield none_of("Every record has the offset it had", differences.misplaced, f"{found.whole.records:,}", _DIFF)
    starts = f"{_BOTH} audit --time -2"
    logs = f"{len(found.destination)} partitions"
    yield none_of("Every log starts and ends where it did", differences.bounds, logs, starts)
    first = (_first(found.source), _first(found.destination))
    yield the_same("A log that begins at offset N > 0 begins at N", *first, starts)


def _first(traces: Traces) -> str:
    begins = {place: trace.offsets[0] if len(trace) else -1 for place, trace in sorted(traces.items())}
    return ", ".join(f"{place} at {offset}" for place, offset in begins.items() if place.topic == "audit")


def of_self_check(seen: LogVerdict) -> Iterator[Promise]:
    """`seen`: what the comparison said of a copy with one wrong bit."""
    by_hand = "kcat -C -b $WEST -t orders -p 0 -e | md5sum   (beside the same of a topic with one byte changed)"
    yield the_same("This comparison sees a single wrong bit", "1 altered", str(seen.differences), by_hand)


def of_validation(result: Mapping[str, Any], partitions: int) -> Iterator[Promise]:
    """`result`: as `tanist validate --json` shows it."""
    yield the_same(
        "Spark finds the copy equal, every stored byte at its offset",
        f"EQUAL: {partitions} partitions are equal",
        f"{result['verdict']}: {result['reason']}",
        "tanist validate m1 -d west --level records",
    )


def of_positions(seen: Carried) -> Iterator[Promise]:
    """A group whose positions were carried over by number."""
    yield the_same(
        "A group goes on at exactly the next record, with the same numbers",
        f"{len(seen.source_next)} partitions",
        f"{seen.agreeing} partitions",
        "kafka-consumer-groups.sh --bootstrap-server $EAST (then $WEST) --describe --group billing",
    )


# ── failovers ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A failover, as producers and readers saw it.

    `refused`: records that the fenced source did not take; `afterwards`: those taken where producers went on.
    """

    acknowledged: Traces
    copy: Traces
    refused: int
    afterwards: int

    @property
    def absent(self) -> int:
        """Acknowledged records that the copy has not."""
        return absent(self.acknowledged, self.copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedRun:
    """A failover that was aborted: settings and ACLs of the source's topic `before` and `after` it."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    rules_before: str
    rules_after: str
    fences: Sequence[str]
    moved: Moved


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplannedRun:
    """`forecast`: of the plan.

    By partition, what the group had `reached` at the source, from where it was `safe` to go on at the destination, and
    what it was served `first` there.
    """

    forecast: Mapping[str, Any]
    moved: Moved
    safe: Mapping[Place, int]
    reached: Mapping[Place, int]
    first: Mapping[Place, ReadRecord]


def of_planned(seen: Moved) -> Iterator[Promise]:
    """A failover of a source that answers."""
    known = f"{total(seen.acknowledged):,} acknowledged records"
    yield none_of("A planned failover loses nothing that a producer was told is safe", seen.absent, known, _PLANNED)
    yield Promise(
        "Its fence stops the producers, and afterwards the destination takes their records",
        "some refused, then some taken",
        f"{seen.refused:,} refused, then {seen.afterwards:,} taken",
        seen.refused > 0 and seen.afterwards > 0,
        _PLANNED,
    )


def of_aborted(seen: AbortedRun) -> Iterator[Promise]:
    """A failover that was undone while its fence stood."""
    changed = [name for name in {**seen.before, **seen.after} if seen.before.get(name) != seen.after.get(name)]
    yield the_same(
        "An aborted failover leaves the source's topic exactly as it was",
        f"0 of {len(seen.before)} settings changed, fence lifted",
        f"{len(changed)} of {len(seen.before)} settings changed, fence {', '.join(seen.fences)}",
        "kafka-configs.sh --bootstrap-server $EAST --describe --entity-type topics --entity-name refunds",
    )
    rules = "kafka-acls.sh --bootstrap-server $EAST --list --topic refunds --resource-pattern-type match"
    title = "An aborted failover leaves the source's ACLs exactly as they were"
    yield the_same(title, seen.rules_before, seen.rules_after, rules)
    moved = seen.moved
    yield Promise(
        "After the abort its producers write on, and the mirror copies on",
        "some refused, then some taken; 0 absent",
        f"{moved.refused:,} refused, then {moved.afterwards:,} taken; {moved.absent:,} absent",
        moved.refused > 0 and moved.afterwards > 0 and not moved.absent,
        "tanist fence show m3 -d west",
    )


def of_unplanned(seen: UnplannedRun) -> Iterator[Promise]:
    """A failover because the source is dead."""
    moved, cost = seen.moved, seen.forecast
    since = f"what came in the {int(cost['age_ms'] or 0) / 1000:.1f} s since, at the rate of before"
    yield Promise(
        "The source is killed: acknowledged records that are lost lie inside the forecast",
        f"up to the estimate of {cost['estimate']}: {cost['offsets_at_risk']} seen at risk, and {since}",
        f"{moved.absent:,} of {total(moved.acknowledged):,} absent",
        cost["estimate"] is not None and moved.absent <= cost["estimate"],
        _LOSS,
    )
    holes = sum(scattered(reported, moved.copy[place]) for place, reported in moved.acknowledged.items())
    title = "What is lost is the very end, never a record before a copied one"
    yield none_of(title, holes, f"{moved.absent:,} lost ones", _LOSS)
    taken, by_hand = f"{moved.afterwards:,} taken", "kcat -C -b $WEST -t orders -p 0 -o -5 -e"
    yield Promise("Producers go on at the destination", "some taken", taken, moved.afterwards > 0, by_hand)
    due = {place: next_record(moved.copy[place], at) for place, at in seen.safe.items()}
    next_ones = [
        place
        for place, at in seen.safe.items()
        if due[place] is not None and due[place] == seen.first.get(place) and at <= seen.reached.get(place, -1)
    ]
    yield the_same(
        "The consumer group goes on at exactly the next record after its last safe commit",
        f"{len(seen.reached)} partitions",
        f"{len(next_ones)} partitions",
        "kafka-consumer-groups.sh --bootstrap-server $WEST --describe --group shipping; DIR/evidence has what was safe",
    )


def safe_positions(rows: Iterable[Mapping[str, Any]]) -> dict[Place, int]:
    """`rows`: as `tanist groups translate` shows them."""
    held = (row for row in rows if row["destination_offset"] is not None)
    return {Place(row["topic"], row["partition"]): int(row["destination_offset"]) for row in held}


def next_record(trace: Trace, position: int) -> ReadRecord | None:
    """The first record at or after `position`, if there is one."""
    index = bisect_left(trace.offsets, position)
    return ReadRecord(trace.offsets[index], trace.digests[index]) if index < len(trace.offsets) else None


def scattered(acknowledged: Trace, copy: Trace) -> int:
    """Absent records with a present one behind them: a copy that was cut off at its end has none."""
    there = dict(zip(copy.offsets, copy.digests, strict=True))
    reported = sorted(zip(acknowledged.offsets, acknowledged.digests, strict=True))
    present = [there.get(offset) == digest for offset, digest in reported]
    last = max((number for number, found in enumerate(present) if found), default=-1)
    return present[: last + 1].count(False)
