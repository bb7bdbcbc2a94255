"""Which topics of a saved mirror were failed over after the export, as their logs and their source show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.answers import known
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.detached import detached_here
from tanist.domain.errors import TanistError
from tanist.domain.problems import ProblemCollector, refuse
from tanist.domain.restored_promotions import PromotedLog, restored_lineage
from tanist.domain.saved_state import PromotedSince, StateOutdated, led_elsewhere
from tanist.domain.writers import writers
from tanist.ports.fencing import ProducerFence
from tanist.usecases.offset_policy import copied_positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.log_writers import LogWriters
    from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import LogInspection
    from tanist.usecases.command import CommandContext


@dataclass(frozen=True, slots=True, kw_only=True)
class LogsSeen:
    """The logs of a saved mirror. `fenced`: partitions with a producer fence, and what shows it.

    `starts`: the log start of those that exist; `missing`: topics that do not. Of mapped offsets only: `ends`: where
    the copied records end; `uncertainties`: whether a partition was failed over cannot be told, and why.
    """

    fenced: Mapping[MirrorPartition, str]
    starts: Mapping[MirrorPartition, int]
    missing: tuple[str, ...]
    ends: Mapping[MirrorPartition, int] = field(default_factory=dict)
    uncertainties: tuple[str, ...] = ()


def logs_of(before: StateView, spec: MirrorSpec) -> tuple[TopicDesired, ...]:
    """The topics whose logs were closed at the export: those of the mirror, and detached ones whose copies are there.

    A detached one may have been added again and failed over since: a restored record of it would close its log.
    """
    return (*before.mirrored(spec.mirror), *(each.kept for each in detached_here(before, spec).values()))


def look_at_logs(
    spec: MirrorSpec, before: StateView, destination: Cluster, inspection: LogInspection, context: CommandContext
) -> LogsSeen:
    """Of the topics that the mirror had at the export, detached ones too.

    The fence of a transactional id leaves a marker, as an aborted transaction does: only records of others prove it.

    Raises:
        CouldNotTell, BrokerError, or several: a log cannot be read.
    """
    by, topics = context.by, logs_of(before, spec)
    begins = {at: each.copy_start(at.partition) for each in topics for at in each.all_partitions()}
    partitions = list(begins)
    proofs = destination.producer_fencing.proof(writers(before, spec, partitions), by)
    logs = inspection.writers(partitions, by)
    positions = known(copied_positions(spec, destination, before, by)) if spec.is_mapped else {}
    copied = {at: each for at, each in positions.items() if each is not None}
    uncertainties: list[str] = []
    fenced: dict[MirrorPartition, str] = {}
    starts: dict[MirrorPartition, int] = {}
    missing: set[str] = set()
    found = ProblemCollector()
    for at in partitions:
        proof, log = proofs[at], logs[at]
        if isinstance(log, UnknownTopicOrPartition):
            missing.add(at.topic)
            continue
        if isinstance(log, TanistError):
            found.problems.append(log)
            continue
        starts[at] = log.start
        position = copied.get(at)
        if spec.is_mapped and (why_not := uncertainty(at, log, begins[at], position)):
            uncertainties.append(why_not)
        why = log.fence(spec.writer) if not spec.is_mapped else position and log.written_behind(position.end)
        if why:
            fenced[at] = f"{at}: {why}"
        elif isinstance(proof, TanistError):
            found.problems.append(proof)
        elif proof is ProducerFence.FENCED:
            fenced[at] = f"{at}: the producers of the mirror are fenced"
    found.raise_all()
    return LogsSeen(
        fenced=fenced,
        starts=starts,
        missing=tuple(sorted(missing)),
        ends={at: int(each.end) for at, each in copied.items()},
        uncertainties=tuple(uncertainties),
    )


def uncertainty(
    at: MirrorPartition, log: LogWriters, begins: DestinationOffset, position: CopiedPosition | None
) -> str:
    """Why it cannot be told whether a mapped partition was failed over since the export; empty: it can be.

    `begins`: where its log ended when its topic was added to the mirror.
    """
    if position is not None and (log.end <= position.end or log.written_behind(position.end)):
        return ""
    if position is None:
        if log.end <= max(log.start, begins):
            return ""
        what = "no position of the mirror says how far it was copied"
    else:
        what = f"behind {position.end}, where its copied records end, lies an aborted transaction or a failover's fence"
    return f"{at}: {what}: resume it only if its topic was not failed over since the export"


def promoted_since(
    spec: MirrorSpec, before: StateView, at_source: StateView, fenced: Mapping[MirrorPartition, str]
) -> dict[str, PromotedSince]:
    """The topics that were failed over since the export, by name. `before`: the saved state; `fenced`: see `LogsSeen`.

    Raises:
        StateOutdated, or several: the source took over again since, so the saved state has two roles swapped.
    """
    found: dict[str, PromotedSince] = {}
    outdated: list[TanistError] = []
    for topic in logs_of(before, spec):
        counted = at_source.promotions(spec.mirror, topic.topic)
        here = max(before.promotions(spec.mirror, topic.topic), topic.promotion_epoch)
        why = next((fenced[at] for at in topic.all_partitions() if at in fenced), None)
        if (last := led_elsewhere(at_source, spec, topic.topic, here)) is not None:
            outdated.append(
                StateOutdated(
                    f"{topic.topic!r} of mirror {spec.mirror!r}: cluster {last.new_cluster_id} took over at promotion "
                    f"{last.promotion_epoch}, the export knows of {here}: it is the primary, not the old source"
                )
            )
        elif counted > here:
            found[topic.topic] = PromotedSince(counted, f"{spec.source!r} knows of promotion {counted}")
        elif why is not None:
            found[topic.topic] = PromotedSince(here + 1, why)
    if outdated:
        refuse(outdated)
    return found


def reported(
    spec: MirrorSpec, before: StateView, at_source: StateView, promoted: Mapping[str, PromotedSince]
) -> Iterator[StateRecord]:
    """What the source has recorded of promotions since the export."""
    for topic, since in promoted.items():
        counted = at_source.promotion(spec.mirror, topic)
        if counted is not None and counted.mirror_id == spec.mirror_id and counted.count == since.promotion_epoch:
            yield counted
    entries = (each for each in at_source.lineage(spec.mirror) if each.mirror_id == spec.mirror_id)
    yield from (each for each in entries if each.key not in before)


def lineage_of_logs(
    spec: MirrorSpec,
    topics: Sequence[tuple[TopicDesired, int]],
    seen: LogsSeen,
    earlier: Sequence[TopicLineage],
    now: EpochMs,
    tools: tuple[Cluster, LogInspection, Deadline],
) -> tuple[TopicLineage, ...]:
    """The lineage of promotions (topic, promotion epoch) that nobody has recorded, as far as their logs show it.

    Raises:
        CouldNotTell, BrokerError, or several: a log cannot be read.
    """
    destination, inspection, by = tools
    if spec.is_mapped:
        ends = {at: end for at, end in seen.ends.items() if at in seen.starts}
        shown = {at: PromotedLog(start=seen.starts[at], old_end=end, reserve_end=end) for at, end in ends.items()}
        return tuple(_entries(spec, topics, shown, earlier, now))
    begun = {
        at: topic.copy_start(at.partition) for topic, _ in topics for at in topic.all_partitions() if at in seen.starts
    }
    if not begun:
        return ()
    writer, found = spec.writer, ProblemCollector()
    old_ends = destination.producer_fencing.copied_ends(dict.fromkeys(begun, writer), by, begun)
    found.problems += [each for each in old_ends.values() if isinstance(each, TanistError)]
    known = {at: end for at, end in old_ends.items() if not isinstance(end, TanistError)}
    reserve_ends = inspection.reserve_ends(known, writer, by)
    found.problems += [each for each in reserve_ends.values() if isinstance(each, TanistError)]
    found.raise_all()
    logs = {
        at: PromotedLog(start=seen.starts[at], old_end=known[at], reserve_end=end)
        for at, end in reserve_ends.items()
        if not isinstance(end, TanistError)
    }
    return tuple(_entries(spec, topics, logs, earlier, now))


def _entries(
    spec: MirrorSpec,
    topics: Iterable[tuple[TopicDesired, int]],
    logs: Mapping[MirrorPartition, PromotedLog],
    earlier: Sequence[TopicLineage],
    now: EpochMs,
) -> Iterator[TopicLineage]:
    entries = (restored_lineage(spec, topic, epoch, logs, earlier, now) for topic, epoch in topics)
    return (each for each in entries if each is not None)
