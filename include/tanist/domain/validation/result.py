"""What a validation has found: partition by partition, and as one canonical JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.stored_names import stored_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.validation.bounds import Bounds
    from tanist.domain.validation.job import PartitionAsked

SCHEMA_VERSION: Final = 1


class Sameness(StrEnum):
    EQUAL, DIFFERENT, UNKNOWN = "EQUAL", "DIFFERENT", "UNKNOWN"

    @property
    def exit_code(self) -> int:
        """As every command of ours ends: 0 equal, 1 different, 3 could not tell."""
        return {"EQUAL": 0, "DIFFERENT": 1, "UNKNOWN": 3}[self]


class Kind(StrEnum):
    """How source and copy differ somewhere. `changed`: both have something there, but not the same."""

    MISSING, EXTRA, REPEATED, CHANGED, MOVED = "missing", "extra", "repeated", "changed", "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where they differ: the offsets `first` to `last` of the source (`source`) or of the copy, both if it has both.

    `records`: (in the source, in the copy) of what lies there.
    """

    kind: Kind
    source: int | None
    destination: int | None
    offsets: int
    records: tuple[int, int]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What was read of one log: `unseen` offsets hold markers, aborted data, or nothing at all."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    unseen: int = 0
    damaged: int = 0
    """Batches whose checksum does not fit."""
    trouble: str = ""
    """Why it could not be read to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two logs side by side. `unequal`: places (batches, or ranges of records) that are not the same."""

    source: Side
    destination: Side
    unequal: int = 0
    counts: Mapping[Kind, int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFound:
    """One partition's verdict. Without `bounds` its ends could not be had; without `compared` nothing was read."""

    asked: PartitionAsked
    bounds: Bounds | None = None
    compared: Compared | None = None
    trouble: str = ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why it could not be told whether the copy is equal."""
        return tuple(filter(None, [self.asked.doubt, self.trouble, *self._reading(), *self._offsets()]))

    def _reading(self) -> Iterable[str]:
        if self.compared is not None:
            for name, side in (("source", self.compared.source), ("copy", self.compared.destination)):
                if side.trouble:
                    yield f"{name}: {side.trouble}"

    def _offsets(self) -> Iterable[str]:
        bounds = self.bounds
        if bounds is None:
            return
        if bounds.behind and not bounds.asked.promoted:
            yield f"{bounds.behind} offsets of the source are not copied yet"
        if bounds.asked.promoted and self.compared is None:
            yield "the topic was failed over: other producers may have written to it, so offsets alone prove nothing"
        if bounds.beyond and self.compared is None:
            yield (
                f"{bounds.beyond} offsets of the destination are past the end of the source: compare with --level "
                "batches"
            )

    @property
    def complaints(self) -> tuple[str, ...]:
        """In what the copy is certainly not its source."""
        found = [f"{count} {kind}" for kind, count in self.counts.items() if count]
        if self.compared is not None:
            sides = (("source", self.compared.source), ("copy", self.compared.destination))
            found += [f"{side.damaged} damaged in the {name}" for name, side in sides if side.damaged]
            if self.compared.unequal and not any(self.counts.values()):
                found.append(f"{self.compared.unequal} unequal")
        if self.headless:
            found.append(f"the first {self.headless} offsets of the source are missing at the destination")
        if self.lost:
            found.append(f"the last {self.lost} offsets of the source were never copied")
        return tuple(found)

    @property
    def counts(self) -> Mapping[Kind, int]:
        """Batches or records, as was looked; offsets where none was read."""
        found = self.compared.counts if self.compared and self._was_read else {Kind.MISSING: self.headless}
        return {kind: found.get(kind, 0) for kind in Kind}

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The first of each kind. Where no record was read, what the copy lacks at its start is told in offsets."""
        if self.compared and self._was_read:
            return self.compared.differences
        if not (self.bounds and self.headless):
            return ()
        first, until = self.bounds.source.start, self.bounds.copy_begins
        lacking = Difference(kind=Kind.MISSING, source=first, destination=None, offsets=until - first, records=(0, 0))
        return (replace(lacking, detail="offsets only; no record was read"),)

    @property
    def _was_read(self) -> bool:
        return self.compared is not None and not any(self._reading())

    @property
    def headless(self) -> int:
        """Of a promoted topic retention is the destination's own business."""
        return self.bounds.headless if self.bounds and not self.asked.promoted else 0

    @property
    def lost(self) -> int:
        """Offsets that a promotion left behind."""
        return self.bounds.behind if self.bounds and self.asked.promoted else 0

    @property
    def verdict(self) -> Sameness:
        if self.complaints:
            return Sameness.DIFFERENT
        return Sameness.UNKNOWN if self.doubts else Sameness.EQUAL

    @property
    def reason(self) -> str:
        return "; ".join((*self.complaints, *self.doubts))

    def item(self) -> dict[str, Any]:
        """As the result file tells it."""
        at, bounds, compared = self.asked.partition, self.bounds, self.compared
        told: dict[str, Any] = {
            "topic": at.topic,
            "partition": at.partition,
            "verdict": self.verdict,
            "reason": self.reason,
            "state": self.asked.state,
            "mode": "mapped" if self.asked.runs else "identical",
            "promoted": self.asked.promoted,
            "source": None,
            "destination": None,
            "behind": bounds.behind if bounds else None,
            "headless": self.headless,
            "lost": self.lost,
            **{kind.value: count for kind, count in self.counts.items()},
            "differences": [_difference(each) for each in self.differences],
        }
        if bounds is not None:
            ours, theirs = bounds.compared
            told["source"] = _flat(bounds.source) | {"from": ours.start, "until": ours.until}
            told["destination"] = _flat(bounds.destination) | {"from": theirs.start, "until": theirs.until}
            if compared is not None:
                told["source"] |= _flat(compared.source)
                told["destination"] |= _flat(compared.destination)
        return told


def _difference(each: Difference) -> dict[str, Any]:
    ours, theirs = each.records
    return _flat(each) | {"records": {"source": ours, "destination": theirs}}


def _flat(value: Any) -> dict[str, Any]:
    return {stored_name(each): getattr(value, each.name) for each in fields(value)}


def canonical(result: Mapping[str, Any]) -> str:
    """The same result is the same bytes."""
    return json.dumps(result, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
