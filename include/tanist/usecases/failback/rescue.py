"""`tanist failback rescue`: copies divergent tails to quarantine topics of the new primary, each record once.

Observe, act, record: what is copied already is read from the quarantine itself, so a command that was killed anywhere
is simply run again. A tail is rescued once both sides were read again and have the same digest.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.answers import attempt
from tanist.domain.errors import CouldNotTell, TanistError
from tanist.domain.failback.torn import torn
from tanist.domain.names import MirrorPartition
from tanist.domain.tails import TailStage, quarantine_topic
from tanist.ports.tails import TailSpan
from tanist.usecases.failback.recording import surveyed
from tanist.usecases.failback.rescued import copy_of, missing
from tanist.usecases.failback.survey import failed_over
from tanist.usecases.lock import LockedMirror, changing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.failback.survey import PartitionSurvey
    from tanist.domain.failback.torn import TornTransaction, TransactionPart
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PartitionTail, TopicTails
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import TailDigest
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.recording import Surveyed
    from tanist.usecases.mirror import ReturnedMirror

RESCUE_COLUMNS = (
    "topic",
    "partition",
    "stage",
    "begin",
    "end",
    "records",
    "rescued",
    "expired",
    "quarantine",
    "quarantine_start",
    "quarantine_end",
)


LOOK_BACK: Final = 10_000
"""Offsets before a tail that are searched for parts of its transactions."""


class RescueDiffers(CouldNotTell):
    name, retriable = "RESCUE_DIFFERS", False
    operator_action = (
        "compare the quarantine topic with the old source by the manifest, remove the quarantine topic if it was "
        "changed, then run `tanist failback rescue` again"
    )


def _nothing(*_said: object) -> None:
    """The default of hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueTools:
    """`report` hears of progress (partition, records so far, of); `checkpoint`: tests stop a rescue there.

    `manifest`: is given the manifest whenever a topic is rescued.
    """

    manifest: Callable[[Mapping[str, Any]], None]
    report: Callable[[MirrorPartition, int, int], None] = field(default=_nothing)
    checkpoint: Callable[[str], None] = field(default=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueOutcome:
    """`tails`: of the topics whose old source cannot get more records. `waiting`: the partitions of the others.

    `torn`: transactions that the new primary has in part, or may have; the rest of them is in quarantine.
    """

    tails: tuple[TopicTails, ...]
    waiting: tuple[PartitionSurvey, ...]
    not_held: Mapping[str, TanistError]
    torn: tuple[TornTransaction, ...] = ()


def rescue(clusters: ReturnedMirror, topics: Selection, tools: RescueTools, command: CommandContext) -> RescueOutcome:
    """Survey, and rescue every tail of the topics whose old source cannot get more records.

    Raises:
        As `survey`. MirrorLocked: another operation of this mirror is at work. RescueDiffers: both were read again, and
        differ. CouldNotTell, BrokerError: partial, run it again.
    """

    def check(view: StateView) -> object:
        return failed_over(view, clusters.spec.mirror, topics)

    with changing(
        clusters.destination, clusters.spec.mirror, "failback rescue", command, check, patient=True
    ) as locked:
        seen = surveyed(clusters, topics, locked)
        recorded = {each.topic for each in seen.recorded}
        parts = torn_transactions(clusters, seen, command) if any(map(_is_open, seen.recorded)) else ()
        tails = seen.recorded
        if isinstance(locked, LockedMirror):
            tails = _Rescue(clusters, tools, locked, parts).all(seen.recorded)
        waiting = tuple(each for each in seen.found if each.partition.topic not in recorded or not each.identical)
        return RescueOutcome(tails=tails, waiting=waiting, not_held=seen.not_held, torn=parts)


def rescue_surveyed(
    seen: Surveyed,
    clusters: ReturnedMirror,
    topics: Selection,
    tools: Callable[[], RescueTools],
    command: CommandContext,
) -> RescueOutcome | TanistError | None:
    """Rescue what a survey has put on record; an error is returned: the survey stands without it.

    None: there is nothing to rescue. `tools`: are made only if there is.
    """
    if not any(map(_is_open, seen.recorded)):
        return None
    return attempt(lambda: rescue(clusters, topics, tools(), command))


@dataclass(slots=True)
class _Rescue:
    clusters: ReturnedMirror
    tools: RescueTools
    locked: LockedMirror
    torn: tuple[TornTransaction, ...]

    def all(self, tails: Sequence[TopicTails]) -> tuple[TopicTails, ...]:
        found = list(tails)
        for number, known in enumerate(found):
            each = found[number] = self._again_if_missing(known)
            if each.stage is TailStage.SURVEYED:
                found[number] = self._topic(each)
                self._report()
        if any(map(_is_open, found)):
            self._report()
        return tuple(found)

    def _report(self) -> None:
        """Write the manifest of all tails that are on record, also of topics that this command leaves alone."""
        known = self.locked.view().tails(self.clusters.spec.mirror)
        self.tools.manifest(manifest(self.clusters, known, self.torn))

    def _again_if_missing(self, tails: TopicTails) -> TopicTails:
        """To be copied from the beginning, with a new producer id, if quarantine has not got all of it any more."""
        if tails.stage not in {TailStage.SURVEYED, TailStage.RESCUED}:
            return tails
        if not missing(self.clusters, tails, self.locked.command.by):
            return tails
        again = tuple(replace(each, copied_from=-1, copied_to=-1) for each in tails.tails)
        return replace(tails, stage=TailStage.SURVEYED, producer_id=-1, tails=again)

    def _topic(self, tails: TopicTails) -> TopicTails:
        tails = self._prepared(tails)
        self.tools.checkpoint("prepared")
        for tail in tails.with_records():
            if tail.copied_to < 0:
                tails = self._save(tails, self._partition(tails, tail))
        stage = TailStage.RESCUED if tails.with_records() else TailStage.DONE
        return self._write(replace(tails, stage=stage))

    def _prepared(self, tails: TopicTails) -> TopicTails:
        """With the quarantine topic, its writer, and where each copy begins: stored before the first append."""
        by, quarantine = self.locked.command.by, self.clusters.pair.quarantine
        name = tails.quarantine or quarantine_topic(tails.topic)
        quarantine.create(name, len(tails.tails), by)
        new = [each for each in tails.with_records() if each.copied_from < 0]
        if not new and tails.producer_id >= 0:
            return tails
        self.tools.checkpoint("created")
        producer_id = tails.producer_id if tails.producer_id >= 0 else quarantine.new_producer_id(by)
        ends = quarantine.ends([MirrorPartition(name, each.partition) for each in new], by)
        begun = {each.partition: ends[MirrorPartition(name, each.partition)] for each in new}
        all_tails = tuple(replace(t, copied_from=begun.get(t.partition, t.copied_from)) for t in tails.tails)
        return self._write(replace(tails, quarantine=name, producer_id=producer_id, tails=all_tails))

    def _partition(self, tails: TopicTails, tail: PartitionTail) -> PartitionTail:
        by, quarantine, copy = self.locked.command.by, self.clusters.pair.quarantine, copy_of(tails, tail)
        for count in quarantine.copy(copy, self._confirm, by):
            self.tools.report(copy.source, count, tail.records)
            self.tools.checkpoint("appended")
        self.tools.checkpoint("copied")
        theirs, ours = quarantine.at_source(copy, by), quarantine.rescued(copy, by)
        same = ours
        if theirs.begin > copy.begin:  # what was copied before the old source deleted it cannot be compared any more
            same = quarantine.rescued(replace(copy, begin=theirs.begin), by)
        if theirs.digest != same.digest:
            raise RescueDiffers(f"{copy.source}: {_words(theirs)} at the old source, {_words(same)} in {copy.into}")
        lost = max(0, tail.records - ours.records)
        expired = tail.expired + lost
        return replace(tail, records=ours.records, copied_to=ours.until, digest=ours.digest, expired=expired)

    def _confirm(self) -> Deadline:
        return self.locked.confirm_action()

    def _save(self, tails: TopicTails, tail: PartitionTail) -> TopicTails:
        changed = tuple(tail if each.partition == tail.partition else each for each in tails.tails)
        return self._write(replace(tails, tails=changed))

    def _write(self, tails: TopicTails) -> TopicTails:
        tails = replace(tails, at=self.locked.command.clock.now())
        self.locked.append([tails])
        return tails


def _is_open(tails: TopicTails) -> bool:
    return tails.stage in {TailStage.SURVEYED, TailStage.RESCUED} and bool(tails.with_records())


def torn_transactions(clusters: ReturnedMirror, seen: Surveyed, command: CommandContext) -> tuple[TornTransaction, ...]:
    """The transactions of which a part was copied, or may have been, and a part is in a tail.

    Of what was copied the last LOOK_BACK offsets of each surveyed partition are read. What cannot be read is left out.
    """
    known = [each for each in seen.found if each.common_end is not None and each.end is not None]
    tails = {each.partition: _tail_span(each, 0) for each in known if each.tail and each.tail.records}
    if not _parts(clusters.pair.tails.transactions(tails, command.by)):
        return ()
    return torn(
        _parts(
            clusters.pair.tails.transactions(
                {each.partition: _tail_span(each, LOOK_BACK) for each in known}, command.by
            )
        )
    )


def _tail_span(of: PartitionSurvey, before: int) -> TailSpan:
    common_end = of.common_end or 0
    return TailSpan(max(0, common_end - before), common_end, of.end or 0)


def _parts(
    found: Mapping[MirrorPartition, tuple[TransactionPart, ...] | TanistError],
) -> tuple[TransactionPart, ...]:
    return tuple(part for parts in found.values() if not isinstance(parts, TanistError) for part in parts)


def _words(found: TailDigest) -> str:
    return f"{found.records} records, offsets {found.first} to {found.last}, digest {found.digest[:16]}"


def newly_rescued(seen: Surveyed, done: RescueOutcome) -> int:
    """How many records were not in quarantine when they were surveyed, and are now."""
    before = {each.topic: each for each in seen.recorded}
    return sum(in_quarantine(each) - in_quarantine(before[each.topic]) for each in done.tails if each.topic in before)


def in_quarantine(tails: TopicTails) -> int:
    """How many records of a topic's tails are in quarantine."""
    return sum(each.records for each in tails.with_records() if each.copied_to >= 0)


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────────────────────

MANIFEST_VERSION: Final = 1


def manifest(clusters: ReturnedMirror, found: Sequence[TopicTails], torn: Sequence[TornTransaction]) -> dict[str, Any]:
    """What was rescued, as it goes into the evidence: ranges, counts and digests."""
    spec = clusters.spec
    return {
        "schema_version": MANIFEST_VERSION,
        "mirror": spec.mirror,
        "mirror_id": spec.id,
        "source_cluster_id": spec.source_cluster_id,
        "destination_cluster_id": spec.destination_cluster_id,
        "tails": [item for each in found for item in tail_items(spec.mirror, each)],
        "torn_transactions": [
            {
                "tail": _part_item(each.tail),
                "copied": [_part_item(part) for part in each.copied],
                "possibly_copied": [_part_item(part) for part in each.possible],
            }
            for each in torn
        ],
    }


def _part_item(part: TransactionPart) -> dict[str, Any]:
    return {
        "topic": part.partition.topic,
        "partition": part.partition.partition,
        "producer_id": part.producer_id,
        "producer_epoch": part.producer_epoch,
        "first_offset": part.first,
        "marker_offset": part.marker,
    }


def tail_items(mirror: str, tails: TopicTails) -> list[dict[str, Any]]:
    """The partitions of a topic; None: not known yet, or nothing to rescue."""
    return [
        {
            "mirror": mirror,
            "topic": tails.topic,
            "partition": each.partition,
            "promotion_epoch": tails.promotion_epoch,
            "cluster_id": tails.cluster_id,
            "verdict": each.verdict,
            "stage": tails.stage,
            "begin": each.common_end,
            "end": each.end,
            "records": each.records,
            "rescued": each.records if each.copied_to >= 0 else 0,
            "expired": each.expired,
            "quarantine": tails.quarantine or None,
            "quarantine_start": each.copied_from if each.copied_from >= 0 else None,
            "quarantine_end": each.copied_to if each.copied_to >= 0 else None,
            "digest": each.digest or None,
        }
        for each in tails.tails
    ]
