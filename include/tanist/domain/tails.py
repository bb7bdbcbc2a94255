"""Divergent tails on record: what an old source had that the new primary lacked, and what has been done about it.

The records are in the state topic of the new primary. A tail is pending until its records are rescued, decided and, as
far as that was decided, replayed: before that nothing may overwrite the old source.
"""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.records import RunStatus  # noqa: TC001 -- the codec reads the annotations
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PREFIX: Final = "__mirror_quarantine."
_LONGEST: Final = 249


class TailVerdict(StrEnum):
    """What became of one partition of the old source."""

    NONE = "NO_TAIL"
    """It has no record that the new primary lacks."""
    TAIL = "TAIL"
    """It has records that the new primary lacks, all at reserved offsets."""
    OVERLAP = "OVERLAP"
    """It has offsets beyond the reserve: there an offset names a record on each cluster."""
    SHORTER = "SHORTER"
    """It lacks records that were copied (a power cut, a backup); what it has is the same."""
    DIVERGED = "DIVERGED"
    """It lacks records that were copied, and has others at their offsets."""
    EXPIRED = "TAIL_EXPIRED"
    """It had offsets that the new primary lacks, and has deleted all of them: whether they were records is unknown."""
    UNKNOWN = "UNKNOWN"


class FindingKind(StrEnum):
    """What keeps `tanist status` from being green until somebody accepts it."""

    OVERLAP = "OVERLAP"
    DIVERGED = "DIVERGED"
    EXPIRED = "TAIL_EXPIRED"
    UNCOMPARED = "TAIL_NOT_COMPARED"
    """The old source has offsets that cannot be compared, because records have other offsets at the new primary."""
    UNDECIDED = "TAIL_UNDECIDED"
    """The mirror was reversed while nobody had decided about the tails: they lie where it copies to, or did."""


class TailStage(StrEnum):
    """How far the tails of a topic have come; a topic without tails is DONE as soon as that is known."""

    UNKNOWN = "NOT_SURVEYED"
    SURVEYED = "NOT_RESCUED"
    RESCUED = "NOT_DECIDED"
    DECIDED = "NOT_REPLAYED"
    DONE = "DONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTail:
    """The tail of one partition: what the old source has from `common_end` up to `end`, in its offsets.

    `records`: the committed ones. `copied_from`: where the rescued ones begin in the quarantine partition of the same
    number, -1 before that is known; `copied_to`: where they end, -1 until all are there. `digest`: SHA-256 of them.
    `expired`: offsets of the tail that the old source had deleted before they were rescued.
    """

    partition: int
    verdict: TailVerdict
    common_end: int
    end: int
    records: int
    copied_from: int = -1
    copied_to: int = -1
    digest: str = ""
    expired: int = 0

    @property
    def is_rescued(self) -> bool:
        """Whether everything that can be rescued of it is in quarantine."""
        return self.copied_to >= 0 or not self.records


@stored("tail", "mirror", "topic", "promotion_epoch", policy=RecordPolicy(moves=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTails(MirrorRecord):
    """The tails that a promotion of a topic has left on the old source, all partitions, by number.

    Written when the old source could not get more records. `cluster_id`: of the old source. `quarantine`: the topic
    that the tails are copied to, `producer_id`: the only writer of those copies. `decision`: the hash of the approved
    plan that says what becomes of them.
    """

    mirror: MirrorName
    topic: str
    promotion_epoch: int
    cluster_id: str
    tails: tuple[PartitionTail, ...]
    stage: TailStage
    quarantine: str = ""
    producer_id: int = -1
    decision: str = ""
    at: EpochMs
    mirror_id: str = ""

    def with_records(self) -> tuple[PartitionTail, ...]:
        """The partitions that have something to rescue."""
        return tuple(each for each in self.tails if each.records)

    def partition_of(self, tail: PartitionTail) -> MirrorPartition:
        """The partition of the old source."""
        return MirrorPartition(self.topic, tail.partition)


@stored("accepted", "mirror", "topic", "promotion_epoch", policy=RecordPolicy(moves=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsAccepted(MirrorRecord):
    """Findings about the tails of a promotion that somebody accepts.

    `amounts`: how much of each was accepted (offsets); more of it is not accepted.
    """

    mirror: MirrorName
    topic: str
    promotion_epoch: int
    findings: tuple[FindingKind, ...]
    amounts: tuple[int, ...]
    accepted_by: str
    reason: str
    at: EpochMs
    mirror_id: str = ""


@dataclass(frozen=True, slots=True, order=True)
class TailFinding:
    """What a survey has found of a topic, after a promotion. `offsets`: how many it is about, of all partitions.

    `accepted_by`: empty while nobody has accepted so many.
    """

    topic: str
    promotion_epoch: int
    finding: FindingKind
    offsets: int
    accepted_by: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.topic}: {self.finding} ({self.offsets} offsets)"


@stored("held", "mirror", "topic", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionHeld(MirrorRecord):
    """A topic of the old source whose records are kept until its tails are done; written before that is set.

    `before`: what the topic itself had of the configs that are set, None where it had none. `topic_id`: at the source.
    """

    mirror: MirrorName
    topic: str
    before: tuple[tuple[str, str | None], ...]
    topic_id: str = ""
    at: EpochMs
    mirror_id: str = ""


HOLD: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Neither retention nor the log cleaner takes anything."""


def hold_of(
    mirror: MirrorName, mirror_id: str, topic: str, configs: Mapping[str, str], topic_id: str, at: EpochMs
) -> RetentionHeld:
    """What is stored before a topic is held. `configs`: those that the topic itself has."""
    before = tuple((name, configs.get(name)) for name in HOLD)
    return RetentionHeld(mirror=mirror, mirror_id=mirror_id, topic=topic, before=before, topic_id=topic_id, at=at)


def hold_changes(configs: Mapping[str, str]) -> dict[str, str | None]:
    """What has to be set on a topic so that it is held. `configs`: those that the topic itself has."""
    return {name: value for name, value in HOLD.items() if configs.get(name) != value}


def commands_to_release(held: Iterable[RetentionHeld], bootstrap: str) -> tuple[str, ...]:
    """For each topic the commands of Kafka's own tool that put back what it had. `bootstrap`: of the old source."""
    tool = ("kafka-configs.sh", "--bootstrap-server", bootstrap, "--alter", "--entity-type", "topics", "--entity-name")
    return tuple(
        shlex.join((*tool, each.topic, *change)) for each in held for change in _changes_back(each.before) if change
    )


def _changes_back(before: Iterable[tuple[str, str | None]]) -> tuple[tuple[str, ...], ...]:
    """What is set, as a list in brackets may contain commas, and what is deleted; empty: nothing."""
    given = [f"{name}=[{value}]" for name, value in before if value is not None]
    unset = [name for name, value in before if value is None]
    return (
        ("--add-config", ",".join(given)) if given else (),
        ("--delete-config", ",".join(unset)) if unset else (),
    )


@dataclass(frozen=True, slots=True, order=True)
class PendingTail:
    """A failed-over topic whose tails are not done. `records`: not counted while it is not surveyed.

    `decided`: how many of them plans that were carried out have decided about; the others have come since.
    """

    topic: str
    promotion_epoch: int
    stage: TailStage
    records: int = 0
    decided: int = 0

    def __str__(self) -> str:
        counted = f" ({self.records} records)" if self.stage is not TailStage.UNKNOWN else ""
        if self.decided and self.stage is not TailStage.DONE:
            counted = f" ({self.records - self.decided} new records; {self.decided} before them are decided)"
        return f"{self.topic}: {self.stage}{counted}"


def stored_stage(
    promotions: Iterable[tuple[str, int]], tails: Iterable[TopicTails], replays: Iterable[ReplayProgress] = ()
) -> tuple[PendingTail, ...]:
    """Of each unplanned promotion (topic, promotion epoch) how far its tails have come, by topic; the done ones too."""
    decided = Counter[tuple[str, int]]()
    for each in replays:
        decided[each.partition.topic, each.promotion_epoch] += each.decided
    held = {(each.topic, each.promotion_epoch): each for each in tails}
    found = []
    for topic, epoch in sorted(promotions):
        of = held.get((topic, epoch))
        records = sum(each.records for each in of.tails) if of else 0
        found.append(PendingTail(topic, epoch, of.stage if of else TailStage.UNKNOWN, records, decided[topic, epoch]))
    return tuple(found)


def quarantine_topic(topic: str) -> str:
    """The topic for the tails of `topic`. A long name is cut, because those of topics have at most 249 characters."""
    name = _PREFIX + topic
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(topic.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST - len(digest) - 1]}.{digest}"


@stored("decision", "mirror", "plan", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class TailDecision(MirrorRecord):
    """An approved plan that is being carried out, or was. `plan_json`: the plan, word for word.

    `expired_at`: the time by which records have expired, from the plan, or that of the approval, where an earlier
    version made the plan. 0: none had expired; -1: an earlier version wrote this.
    """

    mirror: MirrorName
    plan: str
    plan_json: str
    approval: str
    approver: str
    status: RunStatus
    reason: str = ""
    started_at: EpochMs
    at: EpochMs
    mirror_id: str = ""
    expired_at: int = -1


@stored("replay", "mirror", "partition", "promotion_epoch", policy=RecordPolicy())
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayProgress(MirrorRecord):
    """How far the rescued records of a partition are replayed; written before each batch.

    `producer_id`: the only writer of replayed records of this partition, `start`: where its log ended before the first.
    `sequence`: how many records were written before the batch, `count`: how many the batch has. `begin`, `end`: the
    offsets of the old source that the batch decides. The other counts are of records before `end`; `batch`: how much
    of them, in the same order, belongs to the batch. `former`: the producer ids of earlier plans for this partition,
    `earlier`: how many records those have decided about.
    """

    mirror: MirrorName
    partition: MirrorPartition
    promotion_epoch: int
    plan: str
    producer_id: int
    start: int
    sequence: int = 0
    count: int = 0
    begin: int
    end: int
    replayed: int = 0
    dropped: int = 0
    restated: int = 0
    batch: tuple[int, ...] = (0, 0, 0)
    former: tuple[int, ...] = ()
    done: bool = False
    at: EpochMs
    mirror_id: str = ""
    earlier: int = 0

    @property
    def decided(self) -> int:
        """How many records of the tail plans have decided about that were carried out."""
        return self.earlier + (self.replayed + self.dropped if self.done else 0)

    @property
    def producer_ids(self) -> frozenset[int]:
        """All that have written replayed records of this partition."""
        return frozenset({self.producer_id, *self.former})
