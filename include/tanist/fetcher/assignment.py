"""Assignments from the coordination thread to fetcher threads, and their reports. Frozen values, replaced whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.compaction import DEFAULT_DELETE_RETENTION_MS, Holes
from tanist.domain.names import DestinationOffset, SourceOffset, SourcePartition

if TYPE_CHECKING:
    from uuid import UUID

    from tanist.domain.errors import TanistError
    from tanist.domain.limits import LimitKey
    from tanist.domain.names import BrokerId, EpochMs, MirrorName, MirrorPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.states import Finding


class PartitionKey(NamedTuple):
    """The key of a mirror partition: two mirrors may have topics of the same name on different destinations."""

    mirror: MirrorName
    partition: MirrorPartition

    def __str__(self) -> str:
        return f"{self.mirror}/{self.partition}"


class FetcherThreadKey(NamedTuple):
    """The key of a fetcher thread: one per source broker of a mirror; `number` above 0 for additional threads."""

    mirror: MirrorName
    broker: BrokerId
    number: int

    @property
    def client_id(self) -> str:
        """By which brokers know its requests: always the same, so that a quota can be set on it (KIP-1279)."""
        return f"broker-{self.broker}-fetcher-{self.number}-mirror-{self.mirror}"


@dataclass(frozen=True)
class Assigned:
    """One partition to copy. `draining`: batches in flight are completed, nothing more is fetched.

    `merges`: runs of small batches may be merged.
    `compacted`: the source's cleaner takes records out of it. `holes`: what the offsets of such records hold; in a
    topic that is not compacted from the first hole on that is found. `source_topic_id`: the topic that was added to the
    mirror, None: its brokers are older than 2.8. `tombstones_kept_ms`: `delete.retention.ms` of the source.
    `copy_start`: as `TopicDesired.copy_starts` has it, 0: the mirror topic was empty.
    `source_start`: where the copy begins at the source, 0: at its log start. `limits`: those that it is read under.
    `caught_up_at`, `copied_until`: as stored when the partition was assigned; the worker knows better afterwards.
    """

    spec: MirrorSpec
    partition: MirrorPartition
    state_partition: int
    claim_epoch: int
    draining: bool = False
    merges: bool = False
    compacted: bool = False
    holes: Holes = Holes.REFUSE
    source_topic_id: UUID | None = None
    tombstones_kept_ms: int = DEFAULT_DELETE_RETENTION_MS
    copy_start: DestinationOffset = DestinationOffset(0)  # noqa: RUF009
    source_start: SourceOffset = SourceOffset(0)  # noqa: RUF009
    limits: tuple[LimitKey, ...] = ()
    caught_up_at: EpochMs | None = field(default=None, compare=False)
    copied_until: SourceOffset | None = field(default=None, compare=False)

    @cached_property
    def at_source(self) -> SourcePartition:
        """What it is copied from."""
        return self.spec.names.at_source(self.partition)

    @cached_property
    def key(self) -> PartitionKey:
        return PartitionKey(self.spec.mirror, self.partition)


Assignment = dict["FetcherThreadKey", "dict[PartitionKey, Assigned]"]


@dataclass(frozen=True, slots=True)
class Report:
    """A fetcher thread's report of one partition. `error` is set while it cannot be copied; `finding` drives its state.

    Offsets are None while unknown. `failing_since` is monotonic seconds. `observed_at`: when the source last answered,
    never later than that; `silent_since`: when a request was first found to be in vain since then. `uncopied_at`: the
    first record that is not copied is of this time or later; None: none is missing, or it is not known.
    """

    finding: Finding | None = None
    error: TanistError | None = None
    failing_since: float | None = None
    note: str = ""
    position: SourceOffset | None = None
    end: DestinationOffset | None = None
    source_high_watermark: SourceOffset | None = None
    source_last_stable: SourceOffset | None = None
    source_log_start: SourceOffset | None = None
    source_log_end: SourceOffset | None = None
    topic_id: UUID | None = None
    observed_at: EpochMs | None = None
    silent_since: EpochMs | None = None
    caught_up_at: EpochMs | None = None
    uncopied_at: EpochMs | None = None
    last_mirrored_epoch: int = -1
    record_until: SourceOffset | None = None
    record_epoch: int | None = None
    records: int = 0
    bytes: int = 0


NO_NEWS: Final = Report()
"""Of a partition that no fetcher thread has."""
