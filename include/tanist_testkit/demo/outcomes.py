"""What came of three failovers, as their users saw it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tanist_testkit.demo.members import ReadRecord
from tanist_testkit.verify.comparing import missing
from tanist_testkit.verify.traces import Place, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist_testkit.verify.traces import Traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A failover that was run. `absent`: of the `acknowledged` records those that are not in the copy."""

    plan: Mapping[str, Any]
    acknowledged: int
    absent: int
    refused: int
    afterwards: int

    @property
    def at_risk(self) -> int | None:
        """Offsets at risk as the plan saw them; None: it could not tell."""
        seen: int | None = self.plan["forecast"]["offsets_at_risk"]
        return seen

    @property
    def age_seconds(self) -> float:
        """How old what the plan saw of the source was. What was written since nobody has counted."""
        return int(self.plan["forecast"]["age_ms"] or 0) / 1000

    @property
    def estimate(self) -> int | None:
        """Offsets that are lost, as the plan estimates: those seen at risk, and those since, at the rate of before."""
        found: int | None = self.plan["forecast"]["estimate"]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedRun:
    """A failover that was aborted: settings and ACLs of the source's topic `before` and `after` it.

    `refused` while fenced; `afterwards` acknowledged by the source again.
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    rules_before: str
    rules_after: str
    refused: int
    afterwards: int
    absent: int
    acknowledged: int
    fences: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplannedResult:
    """`scattered`: absent records with a present one behind them.

    By partition: what the group had `reached` at the source, from where it was `safe` to go on at the destination,
    what it was served `first` there, and which record was `due`: the first one from there on, read by somebody else.
    `precision`: how many positions were translated exactly, or not.
    """

    moved: Moved
    scattered: int
    reached: Mapping[Place, int]
    safe: Mapping[Place, int]
    first: Mapping[Place, ReadRecord]
    due: Mapping[Place, ReadRecord]
    precision: Mapping[str, int]

    @property
    def exactly_next(self) -> int:
        """Partitions where the group went on with the very record that was due, and had read all before it."""
        return sum(
            self.first.get(place) == due and self.safe[place] <= self.reached.get(place, -1)
            for place, due in self.due.items()
        )

    @property
    def again(self) -> int:
        """Offsets that the group had read at the source behind its safe positions: there it reads on."""
        return sum(max(0, at - self.safe.get(place, at)) for place, at in self.reached.items())


def absent_from(copy: Traces, acknowledged: Traces) -> int:
    """Acknowledged records that the copy has not."""
    return sum(missing(reported, copy[place]) for place, reported in acknowledged.items())


def unplanned_result(
    moved: Moved,
    rows: Iterable[Mapping[str, Any]],
    reached: Mapping[Place, int],
    first: Mapping[Place, ReadRecord],
    acknowledged: Traces,
    copy: Traces,
) -> UnplannedResult:
    """`rows`: as `tanist groups translate` shows them; `copy`: read after producers have gone on there."""
    held = [row for row in rows if row["destination_offset"] is not None]
    safe = {Place(row["topic"], row["partition"]): int(row["destination_offset"]) for row in held}
    return UnplannedResult(
        moved=moved,
        scattered=sum(scattered(reported, copy[place]) for place, reported in acknowledged.items()),
        reached=reached,
        safe=safe,
        first=first,
        due={place: due for place, at in safe.items() if (due := next_record(copy[place], at)) is not None},
        precision=Counter(row["precision"] for row in held),
    )


def next_record(trace: Trace, position: int) -> ReadRecord | None:
    """The first record at or after `position`, if there is one."""
    index = bisect_left(trace.offsets, position)
    return ReadRecord(trace.offsets[index], trace.digests[index]) if index < len(trace) else None


def scattered(acknowledged: Trace, copy: Trace) -> int:
    """Absent records with a present one behind them: a copy that was cut off at its end has none."""
    there = dict(zip(copy.offsets, copy.digests, strict=True))
    reported = sorted(zip(acknowledged.offsets, acknowledged.digests, strict=True))
    present = [there.get(offset) == digest for offset, digest in reported]
    last = max((number for number, found in enumerate(present) if found), default=-1)
    return present[: last + 1].count(False)
