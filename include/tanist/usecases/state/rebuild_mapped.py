"""The state of a mirror with mapped offsets from its own positions, and its offset map from both logs.

Each position proves which mirror it is of and how far the copy has come, and has the last ranges of the map. What was
published of the map is lost with `__mirror_offsets`: it is what both logs have, record by record, and where that cannot
be told positions are translated to a lower bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.adoption import MirrorTopicPromoted
from tanist.domain.answers import answered, attempt, known
from tanist.domain.delivery import Delivery
from tanist.domain.errors import Refused, TanistError, TimedOut, UnknownTopic
from tanist.domain.failback.pending import decided_promotions, may_have_tails
from tanist.domain.fake_group import (
    NO_PRODUCER,
    any_position,
    any_shown_position,
    group_of,
    shown_group,
)
from tanist.domain.mapped_runs import pieces
from tanist.domain.mapped_settings import DEFAULT_INTERVAL_MS
from tanist.domain.names import DestinationOffset, MirrorPartition, SourcePartition
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.problems import about, refuse
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, OffsetMode
from tanist.domain.renaming import rename_problems
from tanist.domain.saved_state import StateOutdated
from tanist.domain.selection import Selection
from tanist.domain.writer_identity import transactional_id_prefix
from tanist.ports.clock import Deadline
from tanist.usecases.mirrors import observe, take, transactions
from tanist.usecases.mirrors.adopting import Adoption
from tanist.usecases.mirrors.observe import read_promotions
from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot
from tanist.usecases.state.found_state import FoundState, absent, epochs
from tanist.usecases.state.promoted import uncertainty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from tanist.domain.fake_group import CopiedPosition
    from tanist.domain.mapped_runs import OffsetRangesWritten
    from tanist.domain.names import MirrorName, TopicPartition
    from tanist.domain.offset_map import AnchoredSpan, OffsetRange
    from tanist.domain.records import MirrorSpec
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirrors.create import CreateRequest
    from tanist.usecases.mirrors.take import TopicPlan
    from tanist.usecases.state.found_state import RebuildTools


class MappedMirrorNotRebuilt(Refused):
    name = "MAPPED_MIRROR_NOT_REBUILT"
    operator_action = (
        "restore its state from the last export (docs/operations.md); without one, delete its copies and create it "
        "again (docs/mirroring.md), so that all is copied again; nothing was changed"
    )


class OwnPositions(NamedTuple):
    """What a mirror of a name has committed: at the destination, and written back to the source, by partition there."""

    committed: Mapping[TopicPartition, CopiedPosition]
    written_back: Mapping[TopicPartition, CopiedPosition]

    @classmethod
    def of(cls, mirror: MirrorName, source: Cluster, destination: Cluster, by: Deadline) -> Self:
        """Nothing of a group that is not there, or cannot be read. Raises UnreadableRanges: a position is damaged."""
        committed = _proofs(destination, mirror, group_of(mirror), any_position, by)
        return cls(committed, _proofs(source, mirror, shown_group(mirror), any_shown_position, by))

    def __bool__(self) -> bool:
        return bool(self.committed or self.written_back)

    def of_topic(self, plan: TopicPlan) -> tuple[CopiedPosition, ...]:
        """Those of a topic, of either."""
        numbers = range(plan.source.partitions)
        here = (self.committed.get(MirrorPartition(plan.name, n)) for n in numbers)
        there = (self.written_back.get(SourcePartition(plan.source.name, n)) for n in numbers)
        return tuple(each for each in (*here, *there) if each is not None)


def _proofs(
    cluster: Cluster,
    mirror: MirrorName,
    group: str,
    read: Callable[[int, str], CopiedPosition | None],
    by: Deadline,
) -> dict[TopicPartition, CopiedPosition]:
    answer = answered(lambda: cluster.positions(mirror).committed([group], by, stable=False)[group])
    held = {} if answer is None or isinstance(answer, TanistError) else known(answer)
    proofs = {at: read(each.offset, each.metadata) for at, each in held.items()}
    return {at: proof for at, proof in proofs.items() if proof is not None}


def examine_mapped(
    request: CreateRequest,
    wanted: MirrorSpec,
    own: OwnPositions,
    pair: tuple[Cluster, Cluster],
    tools: RebuildTools,
    context: CommandContext,
) -> FoundState:
    """What is found of the mirror that `own` is of. `wanted`: its spec, as the request has it. Changes nothing.

    Raises:
        MappedMirrorNotRebuilt: the positions are of several mirrors, or of an earlier topic of the source.
        MirrorTopicPromoted: somebody else has written behind them. UnknownTopic: none of the topics is a copy of it.
        SourceReplaced, StateOutdated: as `rebuild`. Problems: several of them.
    """
    by, (source, destination) = context.by, pair
    if problems := list(rename_problems(request.rename, source.name)):
        refuse(problems)
    spec = replace(wanted, offsets=OffsetMode.MAPPED, deny_writers=bool(request.deny_writers))
    at_source, copies = SourceSnapshot(cluster=source), DestinationSnapshot(cluster=destination)
    reported = read_promotions(at_source, by)
    if reported.mirror(spec.mirror) is not None:
        raise StateOutdated(f"mirror {spec.mirror!r} has {source.name!r} as its destination: it was reversed")
    plans, left_out = _plans(request, spec, own, (at_source, copies), by)
    spec = _spec(spec, own, plans)
    warnings = transactions.must_be_possible(spec, source, destination, by)
    names = [plan.name for plan in plans]
    view = destination.state(STATE_TOPIC, by)
    adoption = Adoption.of(spec, view, at_source, tools.prefixes, by)
    counts = epochs(spec, at_source, view, adoption, names, context)
    tools.say("reading who wrote them")
    unsure = _must_not_be_promoted(own, plans, tools, by)
    made, unknown, starts = _maps(spec, own, plans, destination, tools, context)
    entries = {each.key: each for each in (*view.lineage(spec.mirror), *reported.lineage(spec.mirror))}
    return FoundState(
        spec=spec,
        view=view,
        plans=tuple(_begun(plan, starts) for plan in plans),
        epochs=counts,
        pieces=made,
        left_out=left_out,
        unknown=(*warnings, *unsure, *unknown, _settings(spec)),
        lineage=tuple(entries.values()),
        undecided=may_have_tails(entries.values(), names, decided_promotions(reported, spec)),
    )


def _plans(
    request: CreateRequest,
    spec: MirrorSpec,
    own: OwnPositions,
    both: tuple[SourceSnapshot, DestinationSnapshot],
    by: Deadline,
) -> tuple[tuple[TopicPlan, ...], tuple[str, ...]]:
    """The topics that match and of which there are positions; of the others why they are left out."""
    source, copies = both
    matched = take.selection_names(source, Selection(request.include, request.exclude), by, spec.names)
    there = observe.destination_topics(copies, [spec.names.mirrored_topic(name) for name in matched], by)
    names = [name for name in matched if spec.names.mirrored_topic(name) in there]
    left_out = [absent(spec.names.mirrored_topic(name), copies.name) for name in matched if name not in names]
    situation = take.situation(copies, copies.cluster.state(STATE_TOPIC, by), spec, by)
    plans = take.examine(source, copies, names, replace(situation, into_existing=True), by) if names else ()
    kept, problems = [], list[TanistError]()
    for plan in plans:
        proofs = own.of_topic(plan)
        if not proofs:
            left_out.append(f"{plan.name} is left out: no position says that mirror {spec.mirror!r} has copied it")
        elif any(each.source_topic_id not in {"", plan.source.topic_id} for each in proofs):
            why = f"{plan.source.name!r} was deleted and created again at the source since it was copied"
            problems.append(about(plan.name, MappedMirrorNotRebuilt(why)))
        else:
            kept.append(plan)
    if problems:
        refuse(problems)
    if not kept:
        raise UnknownTopic(f"none of the {len(matched)} topics that match was copied by mirror {spec.mirror!r}")
    return tuple(kept), tuple(left_out)


def _spec(spec: MirrorSpec, own: OwnPositions, plans: Sequence[TopicPlan]) -> MirrorSpec:
    """The spec with what the positions say of the mirror: its id, which its transactional ids have, and its delivery.

    Raises:
        MappedMirrorNotRebuilt: they are of several mirrors.
    """
    proofs = [each for plan in plans for each in own.of_topic(plan)]
    ids = sorted({each.mirror_id for each in proofs})
    if len(ids) > 1:
        raise MappedMirrorNotRebuilt(f"the positions of {spec.mirror!r} are of several mirrors: {', '.join(ids)}")
    plainly = any(each.producer_id != NO_PRODUCER for each in proofs)
    return replace(
        spec,
        mirror_id=ids[0],
        transactional_id=transactional_id_prefix(spec.mirror, ids[0]),
        transaction_ms=spec.transaction_ms or DEFAULT_INTERVAL_MS,
        delivery=Delivery.AT_LEAST_ONCE if plainly else Delivery.EXACTLY_ONCE,
    )


def _settings(spec: MirrorSpec) -> str:
    return (
        f"delivery is {spec.delivery}, as its positions show; all other settings begin anew: see `tanist mirrors alter "
        f"{spec.mirror}`"
    )


def _must_not_be_promoted(
    own: OwnPositions, plans: Sequence[TopicPlan], tools: RebuildTools, by: Deadline
) -> tuple[str, ...]:
    """What cannot be told of whether topics were failed over.

    Raises:
        MirrorTopicPromoted: somebody else has written to one. BrokerError, or several: a log cannot be read.
    """
    logs = tools.inspection.writers([at for plan in plans for at in _partitions(plan)], by)
    problems, unsure = list[TanistError](), list[str]()
    for at, log in logs.items():
        position = own.committed.get(at)
        if isinstance(log, TanistError):
            problems.append(log)
        elif position is not None and (why := log.written_behind(position.end, _plain_producer(position))):
            problems.append(about(at.topic, MirrorTopicPromoted(f"{at}: {why}")))
        elif text := uncertainty(at, log, DestinationOffset(log.start), position):  # where it began is lost
            unsure.append(text)
    if problems:
        refuse(problems)
    return tuple(unsure)


def _plain_producer(position: CopiedPosition) -> int | None:
    return None if position.producer_id == NO_PRODUCER else position.producer_id


# ── the offset map ────────────────────────────────────────────────────────────────────────────────────────────────


def _maps(
    spec: MirrorSpec,
    own: OwnPositions,
    plans: Sequence[TopicPlan],
    destination: Cluster,
    tools: RebuildTools,
    context: CommandContext,
) -> tuple[tuple[OffsetRangesWritten, ...], tuple[str, ...], Mapping[MirrorPartition, Sequence[OffsetRange]]]:
    """What is to be published of the maps, what of them stays unknown, and the first ranges of each."""
    positions = {at: own.committed[at] for plan in plans for at in _partitions(plan) if at in own.committed}
    policy = OffsetPolicy.of(destination.state(OFFSETS_TOPIC, context.by), spec, positions)
    made: list[OffsetRangesWritten] = []
    unknown: list[str] = []
    first = {at: policy.map_of(at).runs for at in positions}
    lost = {at: [each for each in policy.map_of(at).unwalked if each.is_lost] for at in positions}
    if any(lost.values()):
        tools.say(f"reading both logs of {sum(map(bool, lost.values()))} partition(s) for their offset maps")
    for at, spans in lost.items():
        for span in spans:
            found = _paired(spec, at, span, tools, context)
            if isinstance(found, str):
                before = f"source offset {span.until.source}"
                unknown.append(f"{at}: positions before {before} are translated to a lower bound: {found}")
                continue
            made += pieces(spec.mirror, spec.mirror_id, at, found[0], found[1])
            first[at] = (*found[0], *first[at]) if span.start.source < 0 else first[at]
    return tuple(made), tuple(unknown), first


def _paired(
    spec: MirrorSpec, at: MirrorPartition, span: AnchoredSpan, tools: RebuildTools, context: CommandContext
) -> tuple[tuple[OffsetRange, ...], int] | str:
    """The ranges of a span and their bytes; or why they are not known. Half of the time that is left is for this."""
    now = context.clock.monotonic()
    by = Deadline(now + context.by.left(now) / 2)
    found = attempt(lambda: tools.paired.ranges(at, spec.names.at_source(at), span, by))
    if isinstance(found, TimedOut):
        return "both logs could not be read in time: allow more with --timeout"
    if isinstance(found, TanistError):
        return found.reason
    if isinstance(found, str):
        return found
    runs = tuple(found.runs(span.until.destination))
    return (runs if runs[-1] == span.until else (*runs, span.until)), found.size


def _begun(plan: TopicPlan, first: Mapping[MirrorPartition, Sequence[OffsetRange]]) -> TopicPlan:
    """With where its copies began, as their first ranges say: behind what was there, and at which source offset.

    0 where they do not say it.
    """
    found = [_begin(first.get(at, ())) for at in _partitions(plan)]
    behind, at_source = tuple(each[0] for each in found), tuple(each[1] for each in found)
    return replace(plan, copy_starts=behind if any(behind) else (), source_starts=at_source if any(at_source) else ())


def _begin(runs: Sequence[OffsetRange]) -> tuple[int, int]:
    if not runs or runs[0].source:
        return 0, 0
    nothing_before = [run.source for run in runs[:2] if run.destination == runs[0].destination]
    return runs[0].destination, nothing_before[-1]


def _partitions(plan: TopicPlan) -> Iterator[MirrorPartition]:
    return (MirrorPartition(plan.name, n) for n in range(plan.source.partitions))
