"""A reconciliation as it is published in `__mirror_offsets`: for each mirror partition a header and its chunks.

The header is written when all chunks are there, and names their number and their run: a publication is complete, or not
there. The one before stays until then; its chunks are removed afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import CouldNotTell
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.log_ends import Span
    from tanist.domain.reconciled.steps import Steps
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord


STEPS_FILE: Final = "steps.jsonl"
"""In the folder of a job's results: a `FoundPartition` a line."""


@stored("reconciled", "mirror", "partition", policy=RecordPolicy(saved=False))
@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationPublished(MirrorRecord):
    """The header: what was read of both logs, at `read_at`, before their ends were asked for; and what was found.

    Both logs were read from `start` up to, not including, `until`, which lies behind open transactions. Topic ids are
    empty where a cluster has none. `steps`, in `chunks`: of the table (`domain.reconciled.steps`). `merged`: so
    many of its steps stand for several: there were too many. It is not exported: it is true of these two logs, and a
    run makes it anew.
    """

    mirror: MirrorName
    partition: MirrorPartition
    run: str
    read_at: EpochMs
    source_topic_id: str = ""
    source_start: SourceOffset
    source_until: SourceOffset
    topic_id: str = ""
    destination_start: DestinationOffset
    destination_until: DestinationOffset
    copied: int = 0
    moved: int = 0
    lost: int = 0
    repeated: int = 0
    foreign: int = 0
    steps: int
    chunks: int
    merged: int = 0
    mirror_id: str = ""


@stored("steps", "mirror", "partition", "run", "chunk", policy=RecordPolicy(saved=False))
@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledSteps(MirrorRecord):
    """One chunk of a table, `packed`. It means nothing without the header of its run. `read_at`: as the header's."""

    mirror: MirrorName
    partition: MirrorPartition
    run: str
    chunk: int
    read_at: EpochMs
    packed: str
    mirror_id: str = ""


def headers(view: Mapping[str, StateRecord], spec: MirrorSpec) -> dict[MirrorPartition, ReconciliationPublished]:
    """The header of each partition of a mirror that has one, of `__mirror_offsets`."""
    found = (each for each in view.values() if isinstance(each, ReconciliationPublished))
    return {each.partition: each for each in found if _is_of(each, spec)}


def chunks(view: Mapping[str, StateRecord], spec: MirrorSpec) -> dict[MirrorPartition, list[ReconciledSteps]]:
    """The chunks of a mirror by partition, in no order, also such as no header names."""
    found: dict[MirrorPartition, list[ReconciledSteps]] = {}
    for each in view.values():
        if isinstance(each, ReconciledSteps) and _is_of(each, spec):
            found.setdefault(each.partition, []).append(each)
    return found


def complete(header: ReconciliationPublished, held: Iterable[ReconciledSteps]) -> tuple[str, ...] | None:
    """The chunks that a header names, in their order; None: some are missing."""
    own = {each.chunk: each.packed for each in held if each.run == header.run}
    found = tuple(own[n] for n in range(header.chunks) if n in own)
    return found if len(found) == header.chunks else None


def _is_of(record: MirrorRecord, spec: MirrorSpec) -> bool:
    return (record.mirror, record.mirror_id) == (spec.mirror, spec.mirror_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """What a job has found of one partition, to be published; as `ReconciliationPublished` has it."""

    source_topic: str
    destination_topic: str
    partition: int
    source_topic_id: str
    source_start: int
    source_until: int
    destination_topic_id: str
    destination_start: int
    destination_until: int
    copied: int
    moved: int
    lost: int
    repeated: int
    foreign: int
    steps: int
    merged: int
    packed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """A publication that was read. `age_ms`: since both logs were read; `until`: up to where the source was.

    `copy`: where the destination's log began and ended then.
    """

    run: str
    age_ms: int
    until: SourceOffset
    copy: Span[DestinationOffset]
    steps: Steps
    merged: int = 0

    @property
    def age(self) -> str:
        """For people."""
        return ago(self.age_ms)

    @property
    def reach(self) -> str:
        """How old it is and how far it reaches, for people."""
        return f"{self.age}, up to source offset {self.until}"


def ago(age_ms: int) -> str:
    """An age for people, in the largest unit of which it has two."""
    seconds = age_ms // 1000
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name} ago"
    return f"{seconds} s ago"


class NotReconciled(CouldNotTell):
    """The reason of a position that would need one."""

    name = "NOT_RECONCILED"
    operator_action = "`tanist reconcile NAME --publish`, or unpause the DAG mirror_reconciliation"


class ReconciliationOutdated(CouldNotTell):
    """It is of a log that is not there any more."""

    name = "RECONCILIATION_OUTDATED"
    operator_action = "`tanist reconcile NAME --publish` reads both logs as they are now"
