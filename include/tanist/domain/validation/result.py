"""The result of a validation: by partition, and as one canonical JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.state_record import stored_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.log_ends import LogEnds
    from tanist.domain.validation.bounds import ComparisonBounds
    from tanist.domain.validation.job import PartitionRequest

SCHEMA_VERSION: Final = 1


class ValidationVerdict(StrEnum):
    EQUAL, DIFFERENT, UNKNOWN = "EQUAL", "DIFFERENT", "UNKNOWN"

    @property
    def exit_code(self) -> int:
        """The exit code: 0 equal, 1 different, 3 unknown."""
        return {"EQUAL": 0, "DIFFERENT": 1, "UNKNOWN": 3}[self]


class DifferenceKind(StrEnum):
    """How source and mirror partition differ. `changed`: both have a record there, but not the same."""

    MISSING, EXTRA, REPEATED, CHANGED, MOVED = "missing", "extra", "repeated", "changed", "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference: offsets `first` to `last`, of the source if `source`, else of the mirror partition.

    `records`: number of records there (source, mirror partition).
    """

    kind: DifferenceKind
    source: int | None
    destination: int | None
    offsets: int
    records: tuple[int, int]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSummary:
    """What was read from one log. `unseen` offsets hold markers, aborted data, or nothing."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    unseen: int = 0
    damaged: int = 0
    """Batches with a wrong checksum."""
    trouble: str = ""
    """Why the log could not be read to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two logs. `unequal`: number of batches, or ranges of records, that differ."""

    source: LogSummary
    destination: LogSummary
    unequal: int = 0
    counts: Mapping[DifferenceKind, int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedPartition:
    """One partition's verdict. Without `bounds` its ends could not be read; without `compared` nothing was compared."""

    request: PartitionRequest
    bounds: ComparisonBounds | None = None
    compared: Comparison | None = None
    trouble: str = ""

    @property
    def uncertainties(self) -> tuple[str, ...]:
        """Why it is unknown whether the logs are equal."""
        return tuple(filter(None, [self.request.uncertainty, self.trouble, *self._reading(), *self._offsets()]))

    def _reading(self) -> Iterable[str]:
        if self.compared is not None:
            for name, side in (("source", self.compared.source), ("copy", self.compared.destination)):
                if side.trouble:
                    yield f"{name}: {side.trouble}"

    def _offsets(self) -> Iterable[str]:
        bounds = self.bounds
        if bounds is None:
            return
        if bounds.behind and not bounds.request.promoted:
            unknown = bool(bounds.request.unread)
            what = "may not be copied: how far the copy has come is not known" if unknown else "are not copied yet"
            yield f"{bounds.behind} offsets of the source {what}"
        if bounds.request.promoted and self.compared is None:
            yield "the topic was failed over: other producers may have written to it, so offsets alone prove nothing"
        if bounds.past_end and self.compared is None:
            level = "batches" if bounds.request.until is None else "records"
            yield (
                f"{bounds.past_end} offsets of the destination are past the end of the source: compare with --level "
                f"{level}"
            )

    @property
    def certain_differences(self) -> tuple[str, ...]:
        """The differences that are certain."""
        found = [f"{count} {kind}" for kind, count in self.differing.items() if count]
        if self.compared is not None:
            sides = (("source", self.compared.source), ("copy", self.compared.destination))
            found += [f"{side.damaged} damaged in the {name}" for name, side in sides if side.damaged]
            if self.unequal and not any(self.counts.values()):
                found.append(f"{self.unequal} unequal")
        if self.missing_at_start:
            found.append(f"the first {self.missing_at_start} offsets of the source are missing at the destination")
        if self.lost:
            found.append(f"the last {self.lost} offsets of the source were never copied")
        if self.reused:
            found.append(
                f"{self.reused} offsets of the old source are behind the reserve: the new primary uses them, too"
            )
        return tuple(found)

    @property
    def explanations(self) -> tuple[str, ...]:
        """What only one log can have, by the lineage of the topic: no differences. And what differences may be."""
        why = self.request.other_offsets if self.certain_differences else ""
        return (*self._reserved(), *self._others_reserves(), *self._repeats(), *filter(None, [why]))

    def _repeats(self) -> Iterable[str]:
        if self.repeats:
            yield f"{self.repeats} records are there again, as a mirror that delivers at least once may copy them"

    def _reserved(self) -> Iterable[str]:
        if not self.only_old_source:
            return
        reserved = f"{self.only_old_source} offsets from {self.request.old_end} on are reserved for the old source"
        yield f"{reserved}: its records there were never copied"

    def _others_reserves(self) -> Iterable[str]:
        """Of earlier promotions, and of the one that a reversal has followed."""
        if self.request.has_other_offsets:
            return
        for each in self.request.exclusive:
            if each.until is not None and each.start != self.request.old_end:
                yield f"offsets {each.start} to {each.until - 1} are not compared: {each.reason}"

    @property
    def counts(self) -> Mapping[DifferenceKind, int]:
        """What was compared, in batches or records; in offsets if none was read."""
        found = (
            self.compared.counts
            if self.compared and self._was_read
            else {DifferenceKind.MISSING: self.missing_at_start}
        )
        return {kind: found.get(kind, 0) for kind in DifferenceKind}

    @property
    def repeats(self) -> int:
        """Repeated records that are no difference, as the mirror delivers at least once."""
        return self.counts[DifferenceKind.REPEATED] if self.request.may_repeat else 0

    @property
    def differing(self) -> Mapping[DifferenceKind, int]:
        """Of `counts` those that are differences."""
        return {**self.counts, DifferenceKind.REPEATED: self.counts[DifferenceKind.REPEATED] - self.repeats}

    @property
    def unequal(self) -> int:
        """How many batches or ranges of records differ, in more than such repeats where there are any."""
        only_repeats = self.repeats and not any(self.differing.values())
        return 0 if self.compared is None or only_repeats else self.compared.unequal

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The first differences of each kind. If no record was read, missing records at the start are offsets."""
        if self.compared and self._was_read:
            return self.compared.differences
        if not (self.bounds and self.missing_at_start):
            return ()
        first, until = self.bounds.source.start, self.bounds.copy_begins
        lacking = Difference(
            kind=DifferenceKind.MISSING, source=first, destination=None, offsets=until - first, records=(0, 0)
        )
        return (replace(lacking, detail="offsets only; no record was read"),)

    @property
    def _was_read(self) -> bool:
        return self.compared is not None and not any(self._reading())

    @property
    def missing_at_start(self) -> int:
        """Offsets missing at the start; 0 for a failed-over topic, where the destination's retention applies."""
        return self.bounds.missing_at_start if self.bounds and not self.request.promoted else 0

    @property
    def lost(self) -> int:
        """Offsets that were not copied when the topic was failed over."""
        return self.bounds.behind if self.bounds and self.request.promoted else 0

    @property
    def only_old_source(self) -> int:
        """Offsets that only the old source has, reserved by the failover."""
        return self.bounds.only_old_source if self.bounds else 0

    @property
    def reused(self) -> int:
        """Offsets of the old source that the new primary uses as well."""
        return self.bounds.reused if self.bounds else 0

    @property
    def verdict(self) -> ValidationVerdict:
        if self.certain_differences:
            return ValidationVerdict.DIFFERENT
        return ValidationVerdict.UNKNOWN if self.uncertainties else ValidationVerdict.EQUAL

    @property
    def reason(self) -> str:
        return "; ".join((*self.certain_differences, *self.uncertainties, *self.explanations))

    def item(self) -> dict[str, Any]:
        """As the result file tells it."""
        at, bounds, compared = self.request.partition, self.bounds, self.compared
        reported: dict[str, Any] = {
            "topic": at.topic,
            "source_topic": self.request.source.topic,
            "partition": at.partition,
            "verdict": self.verdict,
            "reason": self.reason,
            "state": self.request.state,
            "mode": "mapped" if self.request.has_other_offsets else "identical",
            "promoted": self.request.promoted,
            "source": None,
            "destination": None,
            "behind": bounds.behind if bounds else None,
            "missing_at_start": self.missing_at_start,
            "headless": self.missing_at_start,  # released under this name, and still read under it
            "lost": self.lost,
            "only_old_source": self.only_old_source,
            "reused": self.reused,
            **{kind.value: count for kind, count in self.counts.items()},
            "differences": [_difference(each) for each in self.differences],
        }
        if bounds is not None:
            ours, theirs = bounds.compared
            reported["source"] = _ends(bounds.source) | {"from": ours.start, "until": ours.end}
            reported["destination"] = _ends(bounds.destination) | {"from": theirs.start, "until": theirs.end}
            if compared is not None:
                reported["source"] |= _flat(compared.source)
                reported["destination"] |= _flat(compared.destination)
        return reported


def _difference(each: Difference) -> dict[str, Any]:
    ours, theirs = each.records
    return _flat(each) | {"records": {"source": ours, "destination": theirs}}


def _flat(value: Any) -> dict[str, Any]:
    return {stored_name(each): getattr(value, each.name) for each in fields(value)}


def _ends(of: LogEnds) -> dict[str, Any]:
    return {"start": of.start, "last_stable": of.last_stable, "high_watermark": of.high_watermark}


def canonical(result: Mapping[str, Any]) -> str:
    """The result as JSON; equal results give equal bytes."""
    return json.dumps(result, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
