"""`tanist state rebuild`: the state of a mirror from its logs alone, everything STOPPED until a person resumes it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tanist.domain import log_writers
from tanist.domain.errors import Misconfigured, TanistError, UnknownTopic
from tanist.domain.failback.pending import (
    decided_promotions,
    may_have_tails,
    unknown_tails,
)
from tanist.domain.names import MirrorPartition, ProducerId, mirror_name
from tanist.domain.next_steps.rebuilding import Rebuilding, instead
from tanist.domain.problems import ProblemCollector, refuse
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC, MirrorSpec, TopicDesired
from tanist.domain.saved_state import StateOutdated, stopped_partition
from tanist.domain.selection import Selection
from tanist.domain.state_view import NOTHING_YET
from tanist.usecases.mirror import distinct
from tanist.usecases.mirrors import observe, take, writers
from tanist.usecases.mirrors.adopting import Adoption
from tanist.usecases.mirrors.create import remember_longer, spec_of_request, with_choices, wrong
from tanist.usecases.mirrors.desire import must_be_free, take_in
from tanist.usecases.mirrors.observe import raised_promotions, read_promotions
from tanist.usecases.mirrors.published_ranges import publish
from tanist.usecases.mirrors.same_settings import same_settings
from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot
from tanist.usecases.state.found_state import FoundState, absent, epochs
from tanist.usecases.state.rebuild_mapped import MappedMirrorNotRebuilt, OwnPositions, examine_mapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.log_writers import LogWriters
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.state import StateStore
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirrors.create import CreateRequest
    from tanist.usecases.mirrors.take import TopicPlan
    from tanist.usecases.state.found_state import RebuildTools

_NO_ID: Final = ProducerId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The result, in a dry run the expected one. `changed` is False if the mirror exists already."""

    spec: MirrorSpec
    topics: tuple[TopicDesired, ...]
    changed: bool
    warnings: tuple[str, ...] = ()


def rebuild(
    request: CreateRequest, source: Cluster, destination: Cluster, tools: RebuildTools, context: CommandContext
) -> Rebuilt:
    """Register a mirror again whose state was lost; its topics are those that `request` matches on both clusters.

    Raises:
        MirrorExists: with other settings. NotAPrefix, MirrorTopicPromoted: a log must not be copied to.
        NoMirrorProducer, SeveralMirrorProducers. SourceReplaced: the source was replaced, and not taken over since.
        StateOutdated: the source has the state of the mirror. MappedMirrorNotRebuilt: see `rebuild_mapped`.
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
    if found.exists:
        known = found.view.topics(found.spec.mirror)
        return Rebuilt(spec=found.spec, topics=known, changed=False)
    if context.dry_run:
        ids = found.ids
        spec = replace(found.spec, data_id=ids.data, marker_id=ids.marker or _NO_ID) if ids else found.spec
        topics = replace(found, spec=spec).topics(context.clock.now())
        return Rebuilt(spec=spec, topics=topics, changed=True, warnings=warnings)
    try:
        done = _apply(found, destination, tools, context)
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
) -> FoundState:
    problems = ProblemCollector(wrong(request))
    if not request.include:
        problems.problems.append(Misconfigured("no topic is selected: give --topic REGEX"))
    ids = problems.attempt(lambda: distinct(source, destination, context)) or ("", "")
    problems.raise_all()
    by, spec = context.by, spec_of_request(request, (source, destination), ids, context.clock)
    view = destination.state(STATE_TOPIC, by)
    if (existing := view.mirror(mirror_name(request.mirror))) is not None:
        spec = replace(spec, offsets=existing.offsets, rename=existing.rename, start=existing.start)
        settings = same_settings(existing, with_choices(spec, existing, request))
        return FoundState(spec=settings, view=view, exists=True)
    if own := OwnPositions.of(spec.mirror, source, destination, by):
        return examine_mapped(request, spec, own, (source, destination), tools, context)
    if request.mapped:
        raise MappedMirrorNotRebuilt(
            f"neither {destination.name!r} nor {source.name!r} has a position of a mirror {spec.mirror!r} with mapped "
            "offsets, which its id is read from"
        )
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
    return FoundState(
        spec=spec,
        view=view,
        plans=plans,
        epochs=epochs(spec, at_source, view, adoption, names, context),
        ids=used,
        logs=logs,
        left_out=tuple(absent(name, destination.name) for name in matched if name not in there),
        lineage=tuple(entries.values()),
        undecided=may_have_tails(entries.values(), names, decided_promotions(reported, spec)),
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


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _apply(found: FoundState, destination: Cluster, tools: RebuildTools, context: CommandContext) -> Rebuilt:
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
        spec, warnings = _with_writers(found, destination, by)
        take.make(destination, found.plans, by)
        tools.checkpoint("configs")
        topics = replace(found, spec=spec).topics(context.clock.now())
        publish(destination, found.pieces, by, confirm=lambda: None)
        tools.checkpoint("offsets")
        _record(replace(found, spec=spec), topics, store, view, context)
    tools.checkpoint("state")
    writer = f"as {spec.transactional_id}" if spec.is_mapped else f"by producer id {spec.data_id}"
    tools.say(f"mirror {spec.mirror} is rebuilt: its records are written {writer}")
    return Rebuilt(spec=spec, topics=topics, changed=True, warnings=warnings)


def _with_writers(found: FoundState, destination: Cluster, by: Deadline) -> tuple[MirrorSpec, tuple[str, ...]]:
    """The spec with what the workers of the mirror have written as, and warnings."""
    used = found.ids
    if used is None:
        return found.spec, ()
    warnings = remember_longer(destination, by)
    marker = used.marker if used.marker is not None else destination.logs.new_producer_id(by)
    start = destination.logs.new_producer_id(by)
    ids = {"data_id": used.data, "marker_id": marker, "start_id": start}
    return replace(found.spec, mirror_id=str(uuid4()), **ids), warnings  # type: ignore[arg-type]


def _record(
    found: FoundState,
    topics: Sequence[TopicDesired],
    store: StateStore,
    view: StateView,
    context: CommandContext,
) -> None:
    now, spec = context.clock.now(), found.spec
    leases = log_writers.claims(found.logs, found.ids, spec.mirror) if found.ids is not None else {}
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
