"""`tanist state rebuild`: the state of a mirror from its logs alone, everything STOPPED until a person resumes it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tanist.domain import log_writers
from tanist.domain.answers import answered, known
from tanist.domain.errors import Misconfigured, Refused, TanistError, UnknownTopic
from tanist.domain.failback.pending import (
    decided_promotions,
    may_have_tails,
    undecided_warning,
    unknown_tails,
)
from tanist.domain.fake_group import group_of
from tanist.domain.names import MirrorPartition, ProducerId, mirror_name
from tanist.domain.next_steps.rebuilding import Rebuilding, instead
from tanist.domain.problems import ProblemCollector, refuse
from tanist.domain.promotions import replaced
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, MirrorSpec, TopicDesired
from tanist.domain.saved_state import StateOutdated, stopped_partition
from tanist.domain.selection import Selection
from tanist.domain.state_view import NOTHING_YET
from tanist.domain.states import DesiredState
from tanist.domain.translation import OUR_MARK
from tanist.usecases.mirror import distinct
from tanist.usecases.mirrors import observe, take, writers
from tanist.usecases.mirrors.adopting import Adoption
from tanist.usecases.mirrors.create import remember_longer, same_settings, spec_of_request, with_choices, wrong
from tanist.usecases.mirrors.desire import must_be_free, take_in
from tanist.usecases.mirrors.observe import raised_promotions, read_promotions
from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot
from tanist.usecases.state.restore import nowhere, silently

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.log_writers import LogWriters, UsedIds
    from tanist.domain.names import EpochMs
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import LogInspection, LogPrefixes
    from tanist.ports.state import StateStore
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirrors.create import CreateRequest
    from tanist.usecases.mirrors.take import TopicPlan

_NO_ID: Final = ProducerId(-1)


class MappedMirrorNotRebuilt(Refused):
    name = "MAPPED_MIRROR_NOT_REBUILT"
    operator_action = (
        "restore its state from the last export (docs/operations.md); without one, delete its copies and create it "
        "again (docs/mirroring.md), so that all is copied again; nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildTools:
    """What a rebuild uses besides the clusters. `say`: progress. `checkpoint` is called between the steps."""

    prefixes: LogPrefixes
    inspection: LogInspection
    say: Callable[[str], None] = silently
    checkpoint: Callable[[str], None] = nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The result, in a dry run the expected one. `changed` is False if the mirror exists already."""

    spec: MirrorSpec
    topics: tuple[TopicDesired, ...]
    changed: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What the logs show. `epochs`: the promotion epoch of each topic; `left_out`: not at the destination.

    `lineage`: of all promotions of the mirror; `undecided`: those that may have left a tail.
    """

    spec: MirrorSpec
    view: StateView
    plans: tuple[TopicPlan, ...] = ()
    epochs: Mapping[str, int] = field(default_factory=dict)
    ids: UsedIds | None = None
    logs: Mapping[MirrorPartition, LogWriters] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    lineage: tuple[TopicLineage, ...] = ()
    undecided: tuple[TopicLineage, ...] = ()

    def warnings(self) -> tuple[str, ...]:
        """What a person should know of what is not rebuilt, or not known."""
        where = self.spec.destination
        absent = (f"{name} is not on {where!r}: add it with `tanist mirrors add`" for name in self.left_out)
        return (*absent, *(undecided_warning(each, where) for each in self.undecided))

    def topics(self, now: EpochMs) -> tuple[TopicDesired, ...]:
        found = (plan.desired(self.spec, self.epochs[plan.name], now) for plan in self.plans)
        return tuple(replace(topic, desired=DesiredState.PAUSED, restored=True) for topic in found)


def rebuild(
    request: CreateRequest, source: Cluster, destination: Cluster, tools: RebuildTools, context: CommandContext
) -> Rebuilt:
    """Register a mirror again whose state was lost; its topics are those that `request` matches on both clusters.

    Raises:
        MirrorExists: with other settings. NotAPrefix, MirrorTopicPromoted: a log must not be copied to.
        NoMirrorProducer, SeveralMirrorProducers. SourceReplaced: the source was replaced, and not taken over since.
        StateOutdated: the source has the state of the mirror. MappedMirrorNotRebuilt: it had mapped offsets.
        Problems: several of them; nothing was changed.
    """
    try:
        found = _examine(request, source, destination, tools, context)
    except TanistError as refusal:
        for command in instead(refusal, _wanted(request, source, destination)):
            refusal.add_note(command)
        raise
    context.announce([plan.name for plan in found.plans])
    warnings = found.warnings()
    if found.ids is None:
        known = found.view.topics(found.spec.mirror)
        return Rebuilt(spec=found.spec, topics=known, changed=False)
    if context.dry_run:
        spec = replace(found.spec, data_id=found.ids.data, marker_id=found.ids.marker or _NO_ID)
        topics = replace(found, spec=spec).topics(context.clock.now())
        return Rebuilt(spec=spec, topics=topics, changed=True, warnings=warnings)
    try:
        done = _apply(found, found.ids, destination, tools, context)
    except TanistError as error:
        raise take.partial(error) from error
    denied = writers.left_denied([plan.name for plan in found.plans], destination, context.by)
    return replace(done, warnings=(*done.warnings, *warnings, *denied))


def _wanted(request: CreateRequest, source: Cluster, destination: Cluster) -> Rebuilding:
    return Rebuilding(
        mirror=request.mirror,
        source=source.name,
        destination=destination.name,
        include=request.include,
        exclude=request.exclude,
        options=tuple(
            f"--{name}={value}"
            for name, value in (("holes", request.holes), ("on-loss", request.on_loss))
            if value is not None
        ),
    )


# ── examining ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _examine(
    request: CreateRequest, source: Cluster, destination: Cluster, tools: RebuildTools, context: CommandContext
) -> _Found:
    problems = ProblemCollector(wrong(request))
    if not request.include:
        problems.problems.append(Misconfigured("no topic is selected: give --topic REGEX"))
    ids = problems.attempt(lambda: distinct(source, destination, context)) or ("", "")
    problems.raise_all()
    by, spec = context.by, spec_of_request(request, (source, destination), ids, context.clock)
    view = destination.state(STATE_TOPIC, by)
    if (existing := view.mirror(mirror_name(request.mirror))) is not None:
        return _Found(spec=same_settings(existing, with_choices(spec, existing, request)), view=view)
    _must_not_be_mapped(spec, destination, context)
    at_source, copies = SourceSnapshot(cluster=source), DestinationSnapshot(cluster=destination)
    reported = read_promotions(at_source, by)
    if reported.mirror(spec.mirror) is not None:
        raise StateOutdated(f"mirror {spec.mirror!r} has {source.name!r} as its destination: it was reversed")
    matched = take.selection_names(at_source, Selection(request.include, request.exclude), by)
    there = observe.destination_topics(copies, matched, by)
    names = tuple(name for name in matched if name in there)
    if not names:
        raise UnknownTopic(
            f"none of the {len(matched)} topics that match on {source.name!r} is on {destination.name!r}"
        )
    tools.say(f"comparing the ends of {len(names)} topics on both clusters")
    situation = take.situation(copies, view, spec, by, adopting=True)
    adoption = Adoption.of(spec, view, at_source, tools.prefixes, by)
    plans = take.examine(at_source, copies, names, situation, by, adoption)
    tools.say("reading who wrote them")
    logs = _logs(plans, adoption.lineage, tools, context)
    used = log_writers.used_ids(logs)
    if fenced := list(log_writers.promoted(logs, used)):
        refuse(fenced)
    entries = {each.key: each for each in (*view.lineage(spec.mirror), *reported.lineage(spec.mirror))}
    return _Found(
        spec=spec,
        view=view,
        plans=plans,
        epochs=_epochs(spec, at_source, view, adoption, names, context),
        ids=used,
        logs=logs,
        left_out=tuple(name for name in matched if name not in there),
        lineage=tuple(entries.values()),
        undecided=may_have_tails(entries.values(), names, decided_promotions(reported, spec)),
    )


def _must_not_be_mapped(spec: MirrorSpec, destination: Cluster, context: CommandContext) -> None:
    """Raises MappedMirrorNotRebuilt: a mirror of that name has committed positions of its own."""
    group = group_of(spec.mirror)
    held = answered(lambda: destination.positions(spec.mirror).committed([group], context.by, stable=False)[group])
    found = {} if held is None or isinstance(held, TanistError) else known(held)
    if any(each.metadata.startswith(OUR_MARK) for each in found.values()):
        raise MappedMirrorNotRebuilt(
            f"mirror {spec.mirror!r} had mapped offsets: group {group!r} at {destination.name!r} has its positions, "
            "and no log shows where each record of the source is in its copy"
        )


def _logs(
    plans: Sequence[TopicPlan], lineage: Mapping[str, TopicLineage], tools: RebuildTools, context: CommandContext
) -> dict[MirrorPartition, LogWriters]:
    """Who wrote each log; of what an earlier promotion left there, the mirror has written nothing."""
    partitions = [MirrorPartition(plan.name, n) for plan in plans for n in range(plan.source.partitions)]
    found: dict[MirrorPartition, LogWriters] = {}
    problems: list[TanistError] = []
    for at, log in tools.inspection.writers(partitions, context.by).items():
        if isinstance(log, TanistError):
            problems.append(log)
        else:
            found[at] = log.since(_history_end(lineage.get(at.topic), at.partition))
    if problems:
        refuse(problems)
    return found


def _history_end(last: TopicLineage | None, partition: int) -> int:
    ends = last.reserve_ends if last is not None else ()
    return ends[partition] if partition < len(ends) else 0


def _epochs(
    spec: MirrorSpec,
    source: SourceSnapshot,
    view: StateView,
    adoption: Adoption,
    names: Sequence[str],
    context: CommandContext,
) -> dict[str, int]:
    """The promotion epoch of each topic: as the source counts, if it was the last to take over.

    Raises:
        SourceReplaced, or several: another cluster took over from the source, as far as is known.
    """
    reported = read_promotions(source, context.by)
    counts = {name: max(reported.promotions(spec.mirror, name), view.promotions(spec.mirror, name)) for name in names}
    behind = [
        replaced(spec.mirror, name, count, 0)
        for name, count in counts.items()
        if count and not _is_primary(adoption, name, spec.source_cluster_id)
    ]
    if behind:
        refuse(behind)
    return counts


def _is_primary(adoption: Adoption, topic: str, cluster_id: str) -> bool:
    last = adoption.lineage.get(topic)
    return last is not None and last.new_cluster_id == cluster_id


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _apply(found: _Found, used: UsedIds, destination: Cluster, tools: RebuildTools, context: CommandContext) -> Rebuilt:
    """All that is written to `__mirror_state`, in one transaction; before it only configs, and empty state topics."""
    by = context.by
    destination.open_store(OFFSETS_TOPIC, None, by, create=True).close()
    destination.open_store(STATE_TOPIC, None, by, create=True).close()
    tools.checkpoint("topics")
    with closing(destination.open_store(STATE_TOPIC, found.spec.mirror, by)) as store:
        view = store.catch_up(by)
        if existing := view.mirror(found.spec.mirror):  # somebody was faster
            topics = view.topics(found.spec.mirror)
            return Rebuilt(spec=same_settings(existing, found.spec), topics=topics, changed=False)
        must_be_free(view, found.spec.mirror, (plan.name for plan in found.plans))
        warnings = remember_longer(destination, by)
        marker = used.marker if used.marker is not None else destination.logs.new_producer_id(by)
        start = destination.logs.new_producer_id(by)
        spec = replace(found.spec, mirror_id=str(uuid4()), data_id=used.data, marker_id=marker, start_id=start)
        take.make(destination, found.plans, by)
        tools.checkpoint("configs")
        topics = replace(found, spec=spec).topics(context.clock.now())
        _record(replace(found, spec=spec), topics, used, store, view, context)
    tools.checkpoint("state")
    tools.say(f"mirror {spec.mirror} is rebuilt: its records are written by producer id {used.data}")
    return Rebuilt(spec=spec, topics=topics, changed=True, warnings=warnings)


def _record(
    found: _Found,
    topics: Sequence[TopicDesired],
    used: UsedIds,
    store: StateStore,
    view: StateView,
    context: CommandContext,
) -> None:
    now, spec = context.clock.now(), found.spec
    leases = log_writers.claims(found.logs, used, spec.mirror)
    records: list[StateRecord] = [
        spec,
        *topics,
        *raised_promotions(NOTHING_YET, spec, {name: count for name, count in found.epochs.items() if count}),
        *(replace(each, mirror_id=spec.mirror_id) for each in found.lineage),
        *(unknown_tails(each, spec.mirror_id, now) for each in found.undecided),
        *(stopped_partition(topic, at, now) for topic in topics for at in topic.all_partitions()),
        *(
            claim
            for number, claim in leases.items()
            if (held := view.claim(number)) is None or held.epoch < claim.epoch
        ),
    ]
    take_in(lambda written: store.append(written, context.by), view, spec.mirror, records)
