"""Both clusters read to their ends and compared, and the producers' own records looked up."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.errors import TimedOut
from tanist_testkit.verify.clients import places
from tanist_testkit.verify.comparing import LogVerdict, absent, compare, identical
from tanist_testkit.verify.reading import LogExtent, LogRecord, bounds, read, record_at
from tanist_testkit.verify.traces import Place, Trace, Traces, digest, total

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.ports.clock import Clock, Deadline
    from tanist_testkit.verify.comparing import Locate


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found.

    `verdicts`: per topic, what read_committed readers see at both sides. `uncommitted`: what a read_uncommitted reader
    of the copy sees, against the same. `missing`: records that the source acknowledged and the copy has not.
    """

    verdicts: Mapping[str, LogVerdict]
    uncommitted: LogVerdict
    acknowledged: int
    missing: int
    source: Traces
    destination: Traces

    @property
    def whole(self) -> LogVerdict:
        """Of all topics together."""
        return sum(self.verdicts.values(), LogVerdict())

    @property
    def ok(self) -> bool:
        """Whether no difference was found."""
        return not (self.whole.differences or self.uncommitted.differences or self.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspector:
    """`source`, `destination`: bootstrap servers. `locate`: where records must lie, identical by default."""

    source: str
    destination: str
    clock: Clock
    locate: Callable[[Place], Locate] = lambda _place: identical

    def inspect(
        self, topics: Sequence[str], acknowledged: Traces, by: Deadline, progress: Callable[[str], None]
    ) -> Inspection:
        """Reads everything three times: the source once, the copy as both kinds of readers.

        Raises:
            TimedOut. KafkaException: a record is damaged.
        """
        at_source, at_copy = (self._logs(side, topics, by) for side in (self.source, self.destination))
        source = self._read("source", self.source, at_source, by, progress)
        copy = self._read("copy, committed", self.destination, at_copy, by, progress)
        raw = self._read("copy, uncommitted", self.destination, at_copy, by, progress, committed=False)
        progress("comparing")
        verdicts = {
            topic: sum((self._verdict(p, source, copy, by) for p in source if p.topic == topic), LogVerdict())
            for topic in topics
        }
        return Inspection(
            verdicts=verdicts,
            uncommitted=sum((self._verdict(place, source, raw, by) for place in source), LogVerdict()),
            acknowledged=total(acknowledged),
            missing=absent(acknowledged, copy, self.locate),
            source=source,
            destination=copy,
        )

    def _logs(self, bootstrap: str, topics: Sequence[str], by: Deadline) -> dict[Place, LogExtent]:
        return bounds(bootstrap, places(bootstrap, topics, by, self.clock), by, self.clock)

    def _read(
        self,
        name: str,
        bootstrap: str,
        logs: Mapping[Place, LogExtent],
        by: Deadline,
        progress: Callable[[str], None],
        *,
        committed: bool = True,
    ) -> Traces:
        def say_progress(records: int) -> None:
            progress(f"{name}: {records:,} records")

        return read(bootstrap, logs, committed=committed, by=by, clock=self.clock, progress=say_progress)

    def _verdict(self, place: Place, source: Traces, copy: Traces, by: Deadline) -> LogVerdict:
        verdict = compare(place, source[place], copy.get(place, Trace()), self.locate(place))
        return self._named(verdict, by) if verdict.first_at else verdict

    def _named(self, verdict: LogVerdict, by: Deadline) -> LogVerdict:
        """The first difference with the names of the fields that differ, where both records can be read."""
        assert verdict.first_at is not None  # noqa: S101 -- the caller's contract
        place, at, seen = verdict.first_at
        try:
            pair = [
                record_at(self.source, place, at, by, self.clock),
                record_at(self.destination, place, seen, by, self.clock),
            ]
        except TimedOut:
            return verdict
        if pair[0] is None or pair[1] is None:
            return verdict
        return replace(verdict, first=f"{verdict.first}; differs in {pair[1].differs_in(pair[0]) or 'nothing'}")


def with_one_bit_flipped(seen: LogRecord, trace: Trace) -> Trace:
    """`trace` as it would be if the lowest bit of the first byte of the value of `seen` were another one."""
    value = seen.value or b"\0"
    flipped = digest(seen.key, bytes([value[0] ^ 1]) + value[1:], seen.headers, seen.timestamp_ms)
    digests = array("q", trace.digests)
    digests[trace.offsets.index(seen.offset)] = flipped
    return replace(trace, digests=digests)
