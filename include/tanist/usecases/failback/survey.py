"""What the old source has that the new primary lacks: looked for, and compared. Nothing is changed here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.answers import attempt
from tanist.domain.errors import Refused, TanistError
from tanist.domain.failback.pending import ACCEPT, undecided
from tanist.domain.failback.prefix import NothingToCompare
from tanist.domain.failback.survey import PartitionSurvey, TailCounts
from tanist.domain.failover.plan import is_another_topic
from tanist.domain.lineage import reserves
from tanist.domain.names import DestinationOffset, SourcePartition, TopicNames
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.tails import TailStage, TailVerdict
from tanist.ports.clock import Deadline
from tanist.ports.tails import CopiedSpan
from tanist.usecases.failover.source_seen import Coordinated, look_at_fences, see_source, topics_without_copy
from tanist.usecases.offset_policy import offset_policy
from tanist.usecases.snapshot import DestinationSnapshot, MirrorSnapshot, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tanist.domain.failover.facts import OpenTransaction
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import MirrorName, MirrorPartition
    from tanist.domain.offset_policy import OffsetPolicy
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import TopicTails
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.source_seen import SourceSeen
    from tanist.usecases.mirror import ReturnedMirror
    from tanist.usecases.snapshot import SourceSnapshot

SURVEY_COLUMNS = (
    "topic",
    "partition",
    "verdict",
    "common_end",
    "old_end",
    "end",
    "reserve_end",
    "expired",
    "records",
    "bytes",
    "keys",
    "rescued",
    "reason",
)
ABORTED_BY = "wait for its timeout, or abort it with `tanist failback abort-transactions`"
ANSWER_SECONDS: Final = 30.0
NOT_FENCED = "its source fence is not in force: producers may still write to it"


class NothingFailedOver(Refused):
    name = "NOTHING_FAILED_OVER"
    operator_action = "see `tanist mirrors lineage NAME` for the promotions that are recorded"


class MirrorReversed(NothingFailedOver):
    name = "MIRROR_REVERSED"
    operator_action = (
        "tails are surveyed, rescued and replayed before a reversal; the records are in the old source's log or in "
        "quarantine, "
        f"{ACCEPT} accepts that nobody has decided about them"
    )


def survey(clusters: ReturnedMirror, topics: Selection, command: CommandContext) -> tuple[PartitionSurvey, ...]:
    """Every partition of the topics that this mirror has failed over and that were not mirrored again since.

    Raises:
        NothingFailedOver: there is none. TopicNotInMirror: an expression of `topics` matches none of them.
        AnotherCluster: what answers is not the old source. CouldNotTell, BrokerError: a cluster does not answer.
    """
    both = MirrorSnapshot.of(clusters.spec, clusters.source, clusters.destination)
    view = both.destination.state(STATE_TOPIC, command.by)
    promoted = failed_over(view, clusters.spec.mirror, topics)
    source = both.reachable_source()
    wanted = [topic for topic, _ in promoted]
    seen = see_returned(clusters.spec, source, wanted, view, command)
    stored = both.destination.state(OFFSETS_TOPIC, command.by)
    offsets = offset_policy(clusters.spec, clusters.destination, view, stored, command.by)
    names = clusters.spec.names
    found = [
        _begun(at, names.at_source(at), topic, entry, seen, view)
        for topic, entry in promoted
        for at in topic.all_partitions()
    ]
    found = _with_starts(found, seen, both.destination, names, command.by)
    found = [_mapped(each, offsets) for each in found]
    found += _never_mirrored(promoted, seen, names)
    found = list(_with_records(found, view, clusters.spec.mirror))
    return tuple(sorted(_compared(found, view, clusters, command.by), key=lambda each: each.partition))


def see_returned(
    spec: MirrorSpec, source: SourceSnapshot, wanted: Sequence[TopicDesired], view: StateView, command: CommandContext
) -> SourceSeen:
    """Everything about `wanted` at an old source that has returned. One that is slow is waited for: it is needed.

    A failover has a few seconds for a source that may be gone, and takes a late answer for none. Here what takes long
    is asked before, with more time, and in the same order. A snapshot asks nothing twice.

    Raises as `see_source`.
    """
    by = Deadline(min(command.by.at, command.clock.deadline(ANSWER_SECONDS).at))
    partitions = [spec.names.at_source(at) for topic in wanted for at in topic.all_partitions()]
    names = {topic.topic for topic in wanted}
    fences = view.source_fences(spec.mirror)
    source.true_ends(partitions, by)
    source.ends(partitions, by)
    source.registry([topic.topic for topic in wanted], by)
    ours = [each for each in fences if each.topic in names]
    attempt(lambda: look_at_fences(source, ours, names - {each.topic for each in fences}, by))
    attempt(lambda: source.named_in_transactions(partitions, by))
    return see_source(spec, source, wanted, view, Coordinated(), command, whole=False)


def failed_over(view: StateView, mirror: MirrorName, topics: Selection) -> list[tuple[TopicDesired, TopicLineage]]:
    """The topics that have left the mirror by a promotion whose lineage is stored, with its last entry.

    Raises:
        NothingFailedOver, TopicNotInMirror.
    """
    last = {entry.topic: entry for entry in view.lineage(mirror)}
    others = view.of_other_mirrors(mirror)
    left = {t.topic: t for t in view.removed(mirror) if t.topic in last and t.topic not in others}
    if not left:
        if undecided(view, mirror):
            raise MirrorReversed(f"mirror {mirror!r} copies to its old source again, where its undecided tails stay")
        raise NothingFailedOver(f"mirror {mirror!r} has failed over no topic whose lineage is recorded")
    names = topics.chosen(left, f"topic that mirror {mirror!r} has failed over")
    return [(left[name], last[name]) for name in names]


def topics_only_there(clusters: ReturnedMirror, command: CommandContext) -> tuple[str, ...]:
    """Topics of the old source that the mirror's filters match and that were never in it: only the old source has them.

    Such as one that was created there after the last `tanist metadata sync`. No survey, rescue or reversal is about it.
    """
    both = MirrorSnapshot.of(clusters.spec, clusters.source, clusters.destination)
    source, view = both.reachable_source(), both.destination.state(STATE_TOPIC, command.by)
    copied_there = {each.topic for each in source.state(STATE_TOPIC, command.by).mirrored()}
    found = topics_without_copy(clusters.spec, view, source, command.by)
    return tuple(name for name in found if name not in copied_there)


def _begun(
    at: MirrorPartition,
    there: SourcePartition,
    topic: TopicDesired,
    entry: TopicLineage,
    seen: SourceSeen,
    view: StateView,
) -> PartitionSurvey:
    """Where the log ends, and whether it can still grow."""
    begun = PartitionSurvey(
        partition=at,
        promotion_epoch=entry.promotion_epoch,
        old_end=entry.old_ends[at.partition],
        reserve_end=max(entry.reserve_ends[at.partition], _copied_to(at, view, entry.mirror)),
    )
    if is_another_topic(seen.ids.get(at.topic, ""), topic.source_topic_id):
        return replace(begun, reasons=("the topic was deleted and re-created at the old source",))
    if there not in seen.true_ends:
        return replace(begun, reasons=(unread(there, seen),))
    return replace(begun, end=seen.true_ends[there], reasons=tuple(_unsettled(there, seen)))


def unread(at: SourcePartition, seen: SourceSeen) -> str:
    """Why its end is unknown. A leader that did not answer is no sign that the partition is not there."""
    error = seen.ends.error(at) or seen.unread.get(at)
    return str(error) if error else "the old source does not have this partition"


def _copied_to(at: MirrorPartition, view: StateView, mirror: MirrorName) -> int:
    """The offset that had been copied to before the producer fence, so that no record of the new primary lies below it.

    Behind the last copied record there may be markers of the source, which took offsets at both clusters.
    """
    copied = found.copied if (found := view.copied_up_to(mirror, at.topic)) is not None else ()
    return copied[at.partition] if at.partition < len(copied) else 0


def _unsettled(at: SourcePartition, seen: SourceSeen) -> Iterator[str]:
    if seen.fences.known().get(at.topic) is not True:
        yield NOT_FENCED
    ends = seen.ends.found.get(at)
    if ends is None:
        yield seen.ends.error(at) or "its ends are unknown"
    elif not ends.last_stable == ends.high_watermark == seen.true_ends[at]:
        last = max(ends.last_stable, seen.true_ends[at] - 1)  # it may have grown between both answers
        yield f"offsets {ends.last_stable} to {last} are not committed yet{_open_on(at, seen)}"
    if naming := [each for each in seen.named.transactions if each.partition == at]:
        yield from _naming(naming)
    elif seen.named.names(at) is None:
        yield f"its transactions are unknown: {seen.named.reason}"


def _never_mirrored(
    promoted: Iterable[tuple[TopicDesired, TopicLineage]], seen: SourceSeen, names: TopicNames
) -> Iterator[PartitionSurvey]:
    """The partitions that the old source has more than were copied; all that they have is nowhere else."""
    entries = {
        topic.topic: entry
        for topic, entry in promoted
        if not is_another_topic(seen.ids.get(topic.topic, ""), topic.source_topic_id)
    }
    for each in seen.facts.uncopied:
        if (entry := entries.get(each.partition.topic)) is not None:
            yield PartitionSurvey(
                partition=names.mirrored(each.partition),
                promotion_epoch=entry.promotion_epoch,
                old_end=0,
                reserve_end=0,
                end=each.offsets,
                reasons=("this partition was never mirrored: not compared",),
                identical=False,
            )


def _with_records(found: Iterable[PartitionSurvey], view: StateView, mirror: MirrorName) -> Iterator[PartitionSurvey]:
    """With what an earlier survey has stored, and how much of it is decided."""
    stored = {(of.topic, of.promotion_epoch): of for of in view.tails(mirror)}
    decided = {(of.partition, of.promotion_epoch): of.decided for of in view.replays(mirror)}
    for each in found:
        of = stored.get((each.partition.topic, each.promotion_epoch))
        known = [tail for tail in of.tails if tail.partition == each.partition.partition] if of else []
        done = of is not None and of.stage is TailStage.DONE
        before = decided.get((each.partition, each.promotion_epoch), 0)
        yield replace(each, on_record=known[0], done=done, decided_before=before) if known else each


def _with_starts(
    found: Sequence[PartitionSurvey], seen: SourceSeen, primary: DestinationSnapshot, names: TopicNames, by: Deadline
) -> list[PartitionSurvey]:
    """With where both logs begin; a partition whose start is unknown has no final verdict."""
    new, old, at_source = primary.ends([each.partition for each in found], by), seen.ends.found, names.at_source
    return [_with_start(each, old.get(at_source(each.partition)), new[each.partition]) for each in found]


def _with_start(of: PartitionSurvey, old: LogEnds | None, new: LogEnds | TanistError) -> PartitionSurvey:
    if isinstance(new, TanistError):
        return replace(of, reasons=(*of.reasons, f"its log at the new primary cannot be read: {new}"))
    return replace(of, source_start=None if old is None else old.start, primary_start=new.start)


def _naming(found: Iterable[OpenTransaction]) -> Iterator[str]:
    for each in found:
        yield (
            f"transaction {each.transactional_id!r} of the old source (producer id {each.producer_id}) names it: its "
            f"coordinator will still write a marker; {ABORTED_BY}"
        )


def _open_on(at: SourcePartition, seen: SourceSeen) -> str:
    """Producers of transactions that are open on `at` and that no coordinator names."""
    known = {(each.partition, each.producer_id) for each in seen.named.transactions}
    open_here = [each for each in seen.facts.transactions if each.partition == at]
    ids = sorted({each.producer_id for each in open_here if (at, each.producer_id) not in known})
    if not ids or seen.named.complete is None:
        return ""
    numbers = ", ".join(map(str, ids))
    return f": a transaction of producer id {numbers} is open, which no coordinator has shown; {ABORTED_BY}"


def _mapped(begun: PartitionSurvey, offsets: OffsetPolicy) -> PartitionSurvey:
    """`begun`. With ranges, it is compared if a shift was worked off before the old source's records end.

    A copy that has offsets of its own is not: where they are equal, they are so by chance.
    """
    ranges = offsets.map_of(begun.partition)
    if begun.partition not in offsets.with_ranges and not ranges.is_mapped:
        return begun
    last = offsets.copied(begun.partition, DestinationOffset(begun.old_end))
    shift = ranges.shift_at(last)
    if shift == 0 and not ranges.is_mapped:
        return replace(begun, shifted_below=ranges.begin_of(last))
    why = f"its records have other offsets in the mirror partition (shifted by {shift}): not compared"
    return replace(begun, old_end=last, identical=False, reasons=(why,))


def _compared(
    found: Sequence[PartitionSurvey], view: StateView, clusters: ReturnedMirror, by: Deadline
) -> Iterator[PartitionSurvey]:
    wanted = [each for each in found if each.end is not None and each.identical]
    spans = {each.partition: _span(each, view, clusters.spec) for each in wanted}
    commons = clusters.pair.tails.common_ends(spans, by)
    tails = {
        each.partition: (commons[each.partition], each.end)
        for each in wanted
        if not isinstance(commons[each.partition], TanistError)
    }
    counts = clusters.pair.tails.counts(tails, by)  # type: ignore[arg-type]
    growth = {at: span for each in found if (at := each.partition) in tails and (span := _growth(each))}
    grown = clusters.pair.tails.counts(growth, by)
    for each in found:
        if isinstance(nothing := commons.get(each.partition), NothingToCompare):
            why = (*each.reasons, nothing.reason)
            yield replace(each, old_end=nothing.since, identical=False, reasons=why)
            continue
        common, tail, more = commons.get(each.partition), counts.get(each.partition), grown.get(each.partition)
        errors = tuple(str(answer) for answer in (common, tail, more) if isinstance(answer, TanistError))
        yield replace(
            each,
            common_end=None if isinstance(common, TanistError) else common,
            tail=None if isinstance(tail, TanistError) else tail,
            grown=more.records if isinstance(more, TailCounts) else None,
            reasons=each.reasons + errors,
        )


def _growth(of: PartitionSurvey) -> tuple[int, int] | None:
    """The offsets that the old source has got behind the end on record."""
    if of.on_record is None or of.end is None or of.end <= of.on_record.end:
        return None
    return of.on_record.end, of.end


def _span(of: PartitionSurvey, view: StateView, spec: MirrorSpec) -> CopiedSpan:
    assert of.end is not None  # noqa: S101  # the caller's filter
    entries = [
        each for each in view.lineage(spec.mirror, of.partition.topic) if each.promotion_epoch < of.promotion_epoch
    ]
    epoch, certain = view.last_copied_epoch(spec, of.partition, of.old_end)
    return CopiedSpan(of.old_end, of.end, epoch, reserves(entries, of.partition), certain)


def survey_item(mirror: str, found: PartitionSurvey, tails: TopicTails | None = None) -> dict[str, Any]:
    """A partition; unknown values are None. `tails`: what is on record of its topic, once that cannot change any more.

    `stage`: of the topic's tails. `rescued`: the partition's records in quarantine, None: not known.
    """
    tail, number = found.tail, found.partition.partition
    kept = next((each for each in tails.tails if each.partition == number), None) if tails is not None else None
    return {
        "mirror": mirror,
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "verdict": found.verdict,
        "final": found.final,
        "promotion_epoch": found.promotion_epoch,
        "common_end": found.common_end,
        "old_end": found.old_end,
        "end": found.end,
        "reserve_end": found.reserve_end,
        "decided": found.decided,
        "records": tail.records if tail else None,
        "bytes": tail.bytes if tail else None,
        "keys": tail.keys if tail else None,
        "expired": max(found.expired, kept.expired if kept else 0),
        "stage": tails.stage if tails is not None else TailStage.UNKNOWN,
        "rescued": (kept.records if kept.copied_to >= 0 else 0) if kept else None,
        "quarantine": tails.quarantine or None if tails is not None else None,
        "source_start": found.source_start,
        "primary_start": found.primary_start,
        "warnings": list(found.warnings),
        "first_ms": tail.first if tail else None,
        "last_ms": tail.last if tail else None,
        "reason": "; ".join(found.reasons),
    }


def exit_code(found: Sequence[PartitionSurvey]) -> int:
    """3 if a verdict may still change, 1 if an offset has two records or the old source lost some, else 0."""
    bad = {TailVerdict.OVERLAP, TailVerdict.DIVERGED, TailVerdict.EXPIRED}
    if not all(each.final for each in found):
        return 3
    return 1 if any(each.verdict in bad or each.expired for each in found) else 0
