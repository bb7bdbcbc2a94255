"""What was seen, held against what was promised. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist_testkit.demo.promises import Promise, none_of, the_same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist_testkit.demo.positions import Carried
    from tanist_testkit.verify.comparing import LogVerdict
    from tanist_testkit.verify.inspection import Inspection
    from tanist_testkit.verify.traces import Place, Trace

LAG_PROMISED_SECONDS: Final = 60.0
FAULTS: Final = 4

_DIFF: Final = (
    "diff <(kcat -C -b $EAST -X isolation.level=read_committed -t orders -p 0 -e -f '%o %T %k %h %s\\n')"
    " <(kcat -C -b $WEST -t orders -p 0 -e -f '%o %T %k %h %s\\n')"
)
_ENDS: Final = "kafka-get-offsets.sh --bootstrap-server $EAST (then $WEST) --topic orders --time -1"
_STARTS: Final = "kafka-get-offsets.sh --bootstrap-server $EAST (then $WEST) --topic audit --time -2"
_RAW: Final = (
    "kafka-console-consumer.sh --bootstrap-server $WEST --topic payments --from-beginning --timeout-ms 5000 | wc -l"
)
_GROUP: Final = "kafka-consumer-groups.sh --bootstrap-server $EAST (then $WEST) --describe --group billing"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoEvidence:
    """`doubted`: what the comparison said of a copy with one wrong bit."""

    found: Inspection
    aborted: int
    faults: tuple[str, ...]
    lag_seconds: float
    doubted: LogVerdict
    carried: Carried


def judge(seen: DemoEvidence) -> tuple[Promise, ...]:
    """Every promise of the demo."""
    return (*_records(seen), *_offsets(seen), *_survival(seen))


def judge_validation(result: Mapping[str, Any], partitions: int) -> Promise:
    """`result`: as `tanist validate --json` shows it."""
    return the_same(
        "Spark finds the copy equal, every stored byte at its offset",
        f"EQUAL: {partitions} partitions are equal",
        f"{result['verdict']}: {result['reason']}",
        "tanist validate m1 -d west --level records   (by Spark's official Kafka connector)",
    )


def _records(seen: DemoEvidence) -> Iterator[Promise]:
    found, differences = seen.found, seen.found.whole.differences
    known, read = f"{found.acknowledged:,} acknowledged records", f"{found.whole.records:,} records"
    yield none_of("Nothing that a producer was told is safe is missing", found.missing, known, _ENDS)
    yield none_of("Nothing is lost", differences.lost, read, _ENDS)
    yield none_of("Nothing is there twice", differences.repeated + differences.foreign, read, _DIFF)
    yield none_of("Nothing changed its order", differences.reordered, read, _DIFF)
    yield none_of("Keys, values, headers and timestamps are the same, bit for bit", differences.altered, read, _DIFF)
    hidden = f"{read}, {seen.aborted:,} aborted ones in between"
    different = found.uncommitted.differences.total
    yield none_of("Aborted records are invisible at the copy, even to read_uncommitted", different, hidden, _RAW)


def _offsets(seen: DemoEvidence) -> Iterator[Promise]:
    found = seen.found
    yield none_of(
        "Every record has the offset it had", found.whole.differences.misplaced, f"{found.whole.records:,}", _DIFF
    )
    logs = f"{len(found.destination)} partitions"
    yield none_of("Every log starts and ends where it did", found.whole.differences.bounds, logs, _STARTS)
    first = {
        place.partition: (_first(found.source[place]), _first(found.destination[place])) for place in _audit(found)
    }
    yield the_same(
        "A log that begins at offset N > 0 begins at N",
        ", ".join(f"audit-{n} at {at}" for n, (at, _) in first.items()),
        ", ".join(f"audit-{n} at {at}" for n, (_, at) in first.items()),
        _STARTS,
    )
    yield the_same(
        "A group goes on at exactly the next record, with the same numbers",
        f"{len(seen.carried.source_next)} partitions",
        f"{seen.carried.agreeing} partitions",
        _GROUP,
    )


def _survival(seen: DemoEvidence) -> Iterator[Promise]:
    yield Promise(
        promise="Both workers and a broker of each side were killed meanwhile",
        expected=f"{FAULTS} times SIGKILL",
        observed=f"{len(seen.faults)} times SIGKILL",
        ok=len(seen.faults) == FAULTS,
        by_hand="tanist sandbox kill west --broker 2 --dir DIR; tanist sandbox start west --broker 2 --dir DIR",
    )
    yield Promise(
        promise="The copy catches up by itself",
        expected=f"lag 0 within {LAG_PROMISED_SECONDS:.0f} s",
        observed=f"lag 0 after {seen.lag_seconds:.1f} s",
        ok=seen.lag_seconds <= LAG_PROMISED_SECONDS,
        by_hand="tanist mirrors describe m1",
    )
    yield the_same(
        "This comparison sees a single wrong bit",
        "1 altered",
        str(seen.doubted.differences),
        "kcat -C -b $WEST -t orders -p 0 -e | md5sum   (beside the same of a topic with one byte changed)",
    )


def _audit(found: Inspection) -> list[Place]:
    return sorted(place for place in found.destination if place.topic == "audit")


def _first(trace: Trace) -> int:
    return trace.offsets[0] if len(trace) else -1
