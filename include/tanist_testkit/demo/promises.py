"""What Tanist promises, held against what was seen. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tanist_testkit.verify.comparing import absent, scattered
from tanist_testkit.verify.reading import next_record
from tanist_testkit.verify.traces import Place, total

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tanist_testkit.verify.inspection import Inspection
    from tanist_testkit.verify.reading import ReadRecord
    from tanist_testkit.verify.traces import Trace, Traces

# ── by hand: $EAST and $WEST are bootstrap servers, $DIR is where the demo lives ──────────────────────────────────────
_ENDS: Final = "kafka-get-offsets.sh --bootstrap-server $EAST (then $WEST) --topic"
_STARTS: Final = f"{_ENDS} audit --time -2"
_DIFF: Final = (
    "diff <(kcat -C -b $EAST -X isolation.level=read_committed -t orders -p 0 -e -f '%o %T %k %h %s\\n')"
    " <(kcat -C -b $WEST -t orders -p 0 -e -f '%o %T %k %h %s\\n')"
)
_KILL: Final = "tanist sandbox kill west --broker 2 --dir $DIR; tanist sandbox start west --broker 2 --dir $DIR"
_RAW: Final = (
    "kafka-console-consumer.sh --bootstrap-server $WEST --topic payments --from-beginning --timeout-ms 5000 | wc -l"
)
_ONE_BYTE: Final = "kcat -C -b $WEST -t orders -p 0 -e | md5sum   (beside the same of a topic with one byte changed)"
_GROUP: Final = "kafka-consumer-groups.sh --bootstrap-server $EAST (then $WEST) --describe --group billing"
_MOVED_GROUP: Final = (
    "kafka-consumer-groups.sh --bootstrap-server $WEST --describe --group shipping; $DIR/evidence has what was safe"
)
_PLANNED: Final = (
    f"{_ENDS} invoices   (west has a barrier and what was written later behind it); tanist failover status m2 -d west"
)
_CONFIGS: Final = "kafka-configs.sh --bootstrap-server $EAST --describe --entity-type topics --entity-name refunds"
_ACLS: Final = "kafka-acls.sh --bootstrap-server $EAST --list --topic refunds --resource-pattern-type match"
_LOSS: Final = "$DIR/evidence has the ends of both sides; diff of kcat from $EAST and $WEST as above: a tail, no holes"
_CIRCLE: Final = "$DIR/evidence/rescue has the ranges; kcat -C -b $WEST -t __mirror_quarantine.orders -e -f '%h %k\\n'"
_RUNS: Final = "Airflow: the run's page, its task `report`; tanist failover status m2 -d west"
_APPROVALS: Final = "kafka-console-consumer.sh --bootstrap-server $WEST --topic __mirror_approvals --from-beginning"

PROMISES: Final[Mapping[str, tuple[str, str]]] = {
    "killed": ("Both workers and a broker of each side were killed meanwhile", _KILL),
    "lag": ("The copy catches up by itself", "tanist mirrors describe m3"),
    "acknowledged": ("Nothing that a producer was told is safe is missing", f"{_ENDS} orders --time -1"),
    "lost": ("Nothing is lost", f"{_ENDS} orders --time -1"),
    "twice": ("Nothing is there twice", _DIFF),
    "order": ("Nothing changed its order", _DIFF),
    "altered": ("Keys, values, headers and timestamps are the same, bit for bit", _DIFF),
    "aborted records": ("Aborted records are invisible at the copy, even to read_uncommitted", _RAW),
    "offsets": ("Every record has the offset it had", _DIFF),
    "bounds": ("Every log starts and ends where it did", _STARTS),
    "log start": ("A log that begins at offset N > 0 begins at N", _STARTS),
    "one bit": ("This comparison sees a single wrong bit", _ONE_BYTE),
    "Spark": (
        "Spark finds the copy equal, every stored byte at its offset",
        "tanist validate m3 -d west --level records",
    ),
    "group": ("A group goes on at exactly the next record, with the same numbers", _GROUP),
    "planned": ("A planned failover loses nothing that a producer was told is safe", _PLANNED),
    "fence": ("Its fence stops the producers, and afterwards the destination takes their records", _PLANNED),
    "abort": ("An aborted failover leaves the source's topic exactly as it was", _CONFIGS),
    "ACLs": ("An aborted failover leaves the source's ACLs exactly as they were", _ACLS),
    "after abort": ("After the abort its producers write on, and the mirror copies on", "tanist fence show m3 -d west"),
    "loss": ("The source is killed: acknowledged records that are lost lie inside the forecast", _LOSS),
    "tail": ("What is lost is the very end, never a record before a copied one", _LOSS),
    "producers": ("Producers go on at the destination", "kcat -C -b $WEST -t orders -p 0 -o -5 -e"),
    "safe commit": ("The consumer group goes on at exactly the next record after its last safe commit", _MOVED_GROUP),
    "account": ("Every record that was sent since the kill is accounted for", _CIRCLE),
    "both sides": ("Every record that either cluster has acknowledged is in the log or in quarantine", _CIRCLE),
    "one record": ("Apart from what was rescued, both clusters have the same record at every offset", _DIFF),
    "protected": ("After the failback the mirror runs in its first direction again", "tanist mirrors describe m1"),
    "runs": ("{} failovers went through Airflow, every task of theirs done", _RUNS),
    "shown": ("What was run is what the approver was shown", _APPROVALS),
    "four eyes": ("Nobody approves what they have asked for{}", _APPROVALS),
}
"""Each in words, and how to see it with stock tools."""


class Promise(NamedTuple):
    """One of `PROMISES`, held against what was seen: as `--json` shows it."""

    promise: str
    expected: str
    observed: str
    ok: bool
    by_hand: str


def promise(key: str, expected: str, observed: str, *, ok: bool | None = None, words: object = "") -> Promise:
    """`ok`: by default both texts must be equal. `words`: what fills the gap of the promise."""
    text, by_hand = PROMISES[key]
    return Promise(text.format(words), expected, observed, expected == observed if ok is None else ok, by_hand)


def none_of(key: str, count: int, of: str) -> Promise:
    """It must not have happened once."""
    return promise(key, "0", f"{count:,}" if count else f"0 of {of}", ok=not count)


# ── the copy ──────────────────────────────────────────────────────────────────────────────────────────────────────


def of_copy(found: Inspection, aborted: int) -> Iterator[Promise]:
    """`aborted`: records of transactions that producers have aborted."""
    differences, records = found.whole.differences, f"{found.whole.records:,}"
    read = f"{records} records"
    raw, hidden = found.uncommitted.differences.total, f"{read}, {aborted:,} aborted ones in between"
    yield none_of("acknowledged", found.missing, f"{found.acknowledged:,} acknowledged records")
    yield none_of("lost", differences.lost, read)
    yield none_of("twice", differences.repeated + differences.foreign, read)
    yield none_of("order", differences.reordered, read)
    yield none_of("altered", differences.altered, read)
    yield none_of("aborted records", raw, hidden)
    yield none_of("offsets", differences.misplaced, records)
    yield none_of("bounds", differences.bounds, f"{len(found.destination)} partitions")
    yield promise("log start", _first(found.source), _first(found.destination))


def _first(traces: Traces) -> str:
    begins = {place: trace.offsets[0] if len(trace) else -1 for place, trace in sorted(traces.items())}
    return ", ".join(f"{place} at {offset}" for place, offset in begins.items() if place.topic == "audit")


def of_validation(result: Mapping[str, Any], partitions: int) -> Iterator[Promise]:
    """`result`: as `tanist validate --json` shows it."""
    expected = f"EQUAL: {partitions} partitions are equal"
    yield promise("Spark", expected, f"{result['verdict']}: {result['reason']}")


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

    @property
    def went_on(self) -> bool:
        """Whether producers were refused, and went on afterwards."""
        return self.refused > 0 and self.afterwards > 0

    def __str__(self) -> str:
        return f"{self.refused:,} refused, then {self.afterwards:,} taken"


def of_planned(moved: Moved) -> Iterator[Promise]:
    """A failover of a source that answers."""
    yield none_of("planned", moved.absent, f"{total(moved.acknowledged):,} acknowledged records")
    yield promise("fence", "some refused, then some taken", str(moved), ok=moved.went_on)


def of_aborted(
    before: tuple[Mapping[str, str], str], after: tuple[Mapping[str, str], str], fences: Sequence[str], moved: Moved
) -> Iterator[Promise]:
    """A failover that was undone while its fence stood. `before`, `after`: settings and ACLs of the source's topic."""
    (settings, rules), (settings_after, rules_after) = before, after
    changed = [name for name in {**settings, **settings_after} if settings.get(name) != settings_after.get(name)]
    fence, most = ", ".join(fences), len(settings)
    yield promise(
        "abort",
        f"0 of {most} settings changed, fence lifted",
        f"{len(changed)} of {most} settings changed, fence {fence}",
    )
    yield promise("ACLs", rules, rules_after)
    seen = f"{moved}; {moved.absent:,} absent"
    yield promise("after abort", "some refused, then some taken; 0 absent", seen, ok=moved.went_on and not moved.absent)


def of_loss(cost: Mapping[str, Any], moved: Moved) -> Iterator[Promise]:
    """A failover because the source is dead. `cost`: the forecast of its plan."""
    since = f"what came in the {int(cost['age_ms'] or 0) / 1000:.1f} s since, at the rate of before"
    expected = f"up to the estimate of {cost['estimate']}: {cost['offsets_at_risk']} seen at risk, and {since}"
    inside = cost["estimate"] is not None and moved.absent <= cost["estimate"]
    yield promise("loss", expected, f"{moved.absent:,} of {total(moved.acknowledged):,} absent", ok=inside)
    holes = sum(scattered(reported, moved.copy[place]) for place, reported in moved.acknowledged.items())
    yield none_of("tail", holes, f"{moved.absent:,} lost ones")
    yield promise("producers", "some taken", f"{moved.afterwards:,} taken", ok=moved.afterwards > 0)


_SHOWN: Final = 3
"""Offsets of a partition."""
_ONLY_OLD: Final = "only the old source has it"


@dataclass(frozen=True, kw_only=True)
class Circle:
    """A failover and the way back. `sent` and the numbers behind it: of the producers of all three primaries.

    `old_source`, `copy`: what is read at both clusters in the end; `quarantine`: by the partitions that it was
    rescued from.
    """

    sent: int
    refused: int
    unanswered: int
    aborted: int
    acknowledged: Traces
    old_source: Traces
    copy: Traces
    quarantine: Traces

    @property
    def missing(self) -> int:
        """Acknowledged records that are neither in the copy nor in quarantine."""
        return sum(self._missing(place, trace) for place, trace in self.acknowledged.items())

    def _missing(self, place: Place, acknowledged: Trace) -> int:
        held = {*_digests(self.copy, place), *_digests(self.quarantine, place)}
        return sum(each not in held for each in (*acknowledged.digests, *acknowledged.unplaced))

    @property
    def clashes(self) -> int:
        """Offsets that name two records, or one that only one cluster has and nobody rescued."""
        return sum(map(len, self._clashing.values()))

    @cached_property
    def _clashing(self) -> dict[Place, dict[int, str]]:
        """What is wrong, by partition and offset."""
        places = sorted(self.old_source.keys() | self.copy.keys())
        return {place: found for place in places if (found := self._of(place))}

    def _of(self, place: Place) -> dict[int, str]:
        old, new = (_by_offset(traces, place) for traces in (self.old_source, self.copy))
        rescued = _digests(self.quarantine, place)
        unlike = [offset for offset in sorted(old.keys() | new.keys()) if old.get(offset) != new.get(offset)]
        return {
            offset: "only the copy has it" if offset not in old else "two records" if offset in new else _ONLY_OLD
            for offset in unlike
            if offset in new or old[offset] not in rescued
        }

    def lines(self) -> Iterator[str]:
        """The numbers, and the first places where both clusters differ."""
        for place, found in self._clashing.items():
            for offset, why in list(found.items())[:_SHOWN]:
                yield f"{place.topic}-{place.partition} at offset {offset}: {why}"
        told = f"{total(self.acknowledged):,} acknowledged, {self.refused:,} refused, {self.unanswered:,} unanswered"
        yield f"{self.sent:,} sent = {told}, {self.aborted:,} aborted"
        yield f"{total(self.quarantine):,} in quarantine, {self.missing:,} missing"


def _digests(traces: Traces, place: Place) -> set[int]:
    return set(traces[place].digests) if place in traces else set()


def _by_offset(traces: Traces, place: Place) -> dict[int, int]:
    return dict(zip(traces[place].offsets, traces[place].digests, strict=True)) if place in traces else {}


def of_circle(found: Circle, partitions: Sequence[tuple[str, int | None]]) -> Iterator[Promise]:
    """`partitions`: state and lag of each partition of the mirror in the end."""
    known, rescued = total(found.acknowledged), total(found.quarantine)
    told = known + found.refused + found.unanswered + found.aborted
    yield promise("account", f"{found.sent:,} sent", f"{told:,} sent", ok=told == found.sent)
    yield none_of("both sides", found.missing, f"{known:,} acknowledged records, {rescued:,} of them in quarantine")
    yield none_of("one record", found.clashes, f"{total(found.copy):,} records")
    good = sum(each == ("MIRRORING", 0) for each in partitions)
    yield promise("protected", f"{len(partitions)} partitions", f"{good} partitions")


def of_group(
    copy: Traces, safe: Mapping[Place, int], reached: Mapping[Place, int], first: Mapping[Place, ReadRecord]
) -> Iterator[Promise]:
    """A group that a failover has moved.

    By partition, what it had `reached` at the source, from where it was `safe` to go on at the destination, and what it
    was served `first` there.
    """
    due = {place: next_record(copy[place], at) for place, at in safe.items()}
    well = [p for p in safe if due[p] is not None and due[p] == first.get(p) and safe[p] <= reached.get(p, -1)]
    yield promise("safe commit", f"{len(reached)} partitions", f"{len(well)} partitions")


def safe_positions(rows: Iterable[Mapping[str, Any]]) -> dict[Place, int]:
    """`rows`: as `tanist groups translate` shows them, and the evidence of a failover has them."""
    held = (row for row in rows if row["destination_offset"] is not None)
    return {Place(row["topic"], row["partition"]): int(row["destination_offset"]) for row in held}
