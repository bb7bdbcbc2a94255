"""`tanist mirrors create`: invalid input changes nothing; repeating a command changes nothing more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from tanist.domain.acl_rules import acl_principals, acl_rules
from tanist.domain.compaction import Holes
from tanist.domain.delivery import Delivery
from tanist.domain.errors import Misconfigured, SameCluster, TanistError
from tanist.domain.limits import limit_problems
from tanist.domain.losses import OnLoss
from tanist.domain.mapped_settings import (
    ADOPT,
    DEFAULT_INTERVAL_MS,
    DENIES_FOR_GOOD,
    ONE_THREAD,
    ONLY_IDENTICAL,
    ONLY_MAPPED,
    NotSupported,
    interval_problem,
    left_to_people_problems,
    not_with_mapped,
)
from tanist.domain.names import ProducerId, mirror_name
from tanist.domain.problems import ProblemCollector
from tanist.domain.records import (
    OFFSETS_TOPIC,
    STATE_TOPIC,
    Engine,
    MirrorSpec,
    OffsetMode,
    SmallBatches,
    TopicDesired,
)
from tanist.domain.renaming import rename_problems
from tanist.domain.selection import Selection, pattern_problems
from tanist.domain.starting import start_setting
from tanist.domain.states import DesiredState
from tanist.domain.sync_settings import SyncSettings, kept
from tanist.domain.writer_identity import transactional_id_prefix
from tanist.usecases import snapshot
from tanist.usecases.mirror import distinct
from tanist.usecases.mirrors import take, transactions, writers
from tanist.usecases.mirrors.adopting import Adoption
from tanist.usecases.mirrors.desire import must_be_free, take_in
from tanist.usecases.mirrors.observe import promotion_epochs_on_add, raised_promotions
from tanist.usecases.mirrors.same_settings import same_settings
from tanist.usecases.mirrors.starts import behind_records, with_source_starts
from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.names import EpochMs
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import LogPrefixes
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirrors.take import TopicPlan

EXPIRATION: Final = "producer.id.expiration.ms"
LONGEST_EXPIRATION_MS: Final = 2_147_483_647
"""24.8 days, the maximum of producer.id.expiration.ms: how long brokers can reject duplicates of our producer ids."""

_MOST_REPLICAS: Final = 32_767
MOST_THREADS: Final = 16
_NO_ID: Final = ProducerId(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """The parameters of `tanist mirrors create`."""

    mirror: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    offsets: OffsetMode = OffsetMode.IDENTICAL
    engine: Engine = Engine.BATCHES
    replication_factor: int | None = None
    merge_small_batches: SmallBatches | None = None
    """None: auto for a new mirror; whatever an existing one has."""
    holes: Holes | None = None
    """None: copies for a new mirror; whatever an existing one has."""
    on_loss: OnLoss | None = None
    """None: fail for a new mirror; whatever an existing one has."""
    deny_writers: bool | None = None
    """None: whatever an existing mirror has; for a new one yes, but no with mapped offsets, which need no ALTER."""
    promoted: bool = False
    """Accept topics of this source that were failed over to another cluster."""
    desired: DesiredState = DesiredState.MIRRORING
    delivery: Delivery | None = None
    """None: exactly once for a new mirror; whatever an existing one has."""
    transaction_ms: int | None = None
    """None: the default for a new mirror with mapped offsets; whatever an existing one has."""
    rename: tuple[str, ...] = ()
    start: str = ""
    """Where copies begin, as `start_setting` reads it."""
    into_existing: bool = False
    """Take topics that have records of others: the copies begin behind them."""
    fence_source: bool | None = None
    grant_writers: bool | None = None
    """None: yes for a new mirror; whatever an existing one has."""
    sync: SyncSettings = field(default_factory=SyncSettings)
    acl_rules: tuple[str, ...] | None = None
    """None: none for a new mirror, as a right at another cluster is given by a person; whatever an existing one has."""
    acl_principals: tuple[str, ...] | None = None
    limit: int | None = None
    topic_limits: tuple[str, ...] | None = None
    threads: int | None = None
    """None: no limit and one thread for a new mirror; whatever an existing one has."""

    @property
    def mapped(self) -> bool:
        """Whether a mirror with mapped offsets is wanted."""
        return self.offsets is OffsetMode.MAPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The result, in a dry run the expected one. `changed` is False if the same mirror existed already."""

    spec: MirrorSpec
    topics: tuple[TopicDesired, ...]
    changed: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The examined request, without problems. Without `plans` and unchanged: the mirror exists already.

    `generations`: the promotion epoch with which each topic is added. `warnings`: about the destination.
    """

    spec: MirrorSpec
    exists: bool
    view: StateView
    plans: tuple[TopicPlan, ...] = ()
    generations: Mapping[str, int] = field(default_factory=dict)
    desired: DesiredState = DesiredState.MIRRORING
    warnings: tuple[str, ...] = ()

    def topics(self, now: EpochMs) -> tuple[TopicDesired, ...]:
        """The desired state of each topic."""
        found = (plan.desired(self.spec, self.generations[plan.name], now) for plan in self.plans)
        return tuple(replace(topic, desired=self.desired) for topic in found)


def wrong(request: CreateRequest) -> tuple[TanistError, ...]:
    """The errors in `request` that can be found without querying a cluster."""
    found = ProblemCollector(pattern_problems((*request.include, *request.exclude)))
    found.attempt(lambda: mirror_name(request.mirror))
    found.problems += option_problems(request.replication_factor, threads=request.threads)
    found.problems += limit_problems(request.topic_limits or ())
    found.problems += _unfit_options(request)
    found.problems += request.sync.problems()
    found.attempt(lambda: start_setting(request.start))
    found.attempt(lambda: acl_rules(request.acl_rules or ()))
    found.attempt(lambda: acl_principals(request.acl_principals or ()))
    if request.engine is not Engine.BATCHES:
        found.problems.append(NotSupported(f"--engine {request.engine}: only {Engine.BATCHES}"))
    return tuple(found.problems)


def _unfit_options(request: CreateRequest) -> Iterator[TanistError]:
    """Options that do not go with the offsets of the mirror."""
    if not request.mapped:
        if request.delivery is Delivery.AT_LEAST_ONCE:
            yield Misconfigured(ONLY_MAPPED.format(f"--delivery {request.delivery}"))
        if request.transaction_ms is not None:
            yield Misconfigured(ONLY_MAPPED.format("--transaction-ms"))
        for flag in ("rename", "start", "into_existing"):
            if getattr(request, flag):
                yield Misconfigured(ONLY_MAPPED.format(f"--{flag.replace('_', '-')}"))
        yield from left_to_people_problems(request.fence_source, request.grant_writers)
        return
    if request.holes is not None:
        yield Misconfigured(ONLY_IDENTICAL.format("--holes"))
    if request.threads not in {None, 1}:
        yield Misconfigured(ONE_THREAD)
    if request.deny_writers and request.grant_writers is False:
        yield Misconfigured(DENIES_FOR_GOOD)
    if request.transaction_ms is not None and (problem := interval_problem(request.transaction_ms)):
        yield problem


def option_problems(
    replication_factor: int | None, max_start_fill: int = 0, threads: int | None = None
) -> tuple[Misconfigured, ...]:
    """The errors in the numbers of a spec."""
    found = []
    if replication_factor is not None and not 0 < replication_factor <= _MOST_REPLICAS:
        found.append(Misconfigured(f"--replication-factor {replication_factor} is not 1 to {_MOST_REPLICAS}"))
    if max_start_fill < 0:
        found.append(Misconfigured(f"--max-start-fill {max_start_fill} is negative"))
    if threads is not None and not 0 < threads <= MOST_THREADS:
        found.append(Misconfigured(f"--threads {threads} is not 1 to {MOST_THREADS}"))
    return tuple(found)


def examine(
    request: CreateRequest,
    source: Cluster,
    destination: Cluster,
    context: CommandContext,
    prefixes: LogPrefixes | None = None,
) -> Draft:
    """Check the request against both clusters. Changes nothing.

    `prefixes`: adopt topics that have records; it compares the logs of both clusters.

    Raises:
        Problems, or the single error: everything that is wrong.
    """
    found = ProblemCollector((*wrong(request), *rename_problems(request.rename, source.name)))
    if request.mapped and prefixes is not None:
        found.problems.append(not_with_mapped(request.mirror, ADOPT))
    if source.name == destination.name:
        found.problems.append(SameCluster(f"{source.name!r} is the source and the destination"))
        found.raise_all()  # before the network is asked
    ids = found.attempt(lambda: distinct(source, destination, context)) or ("", "")
    found.raise_all()
    by = context.by
    view = destination.state(STATE_TOPIC, by)
    spec = spec_of_request(request, (source, destination), ids, context.clock)
    if existing := view.mirror(spec.mirror):
        return Draft(spec=same_settings(existing, with_choices(spec, existing, request)), exists=True, view=view)
    both = (source, destination)
    warnings = found.attempt(lambda: transactions.must_be_possible(spec, *both, by)) if spec.is_mapped else ()
    if spec.deny_writers:
        found.attempt(lambda: writers.must_be_permitted(destination, by))
    new_state = found.attempt(lambda: snapshot.missing_state_topics(destination, by)) or ()
    found.problems += found.attempt(lambda: take.rehearse(destination, new_state, by)) or ()
    found.attempt(lambda: destination.state(OFFSETS_TOPIC, by))
    at_source, copies = SourceSnapshot(cluster=source), DestinationSnapshot(cluster=destination)
    situation = take.situation(copies, view, spec, by, adopting=prefixes is not None)
    situation = replace(situation, into_existing=request.into_existing)
    selection = Selection(request.include, request.exclude)
    names = found.attempt(lambda: take.selection_names(at_source, selection, by, spec.names)) or ()
    named = [spec.names.mirrored_topic(name) for name in names]
    adoption = found.attempt(lambda: Adoption.of(spec, view, at_source, prefixes, by)) if prefixes else None
    plans = found.attempt(lambda: take.examine(at_source, copies, names, situation, by, adoption)) or ()
    if request.into_existing:
        plans = found.attempt(lambda: behind_records(plans, copies, by)) or ()
    plans = found.attempt(lambda: with_source_starts(plans, spec, at_source, by)) or ()
    mirror, promoted = spec.mirror, request.promoted
    entered = (
        found.attempt(lambda: promotion_epochs_on_add(at_source, view, mirror, named, by, acknowledged=promoted)) or {}
    )
    found.raise_all()
    return Draft(
        spec=spec,
        exists=False,
        view=view,
        plans=plans,
        generations=entered,
        desired=request.desired,
        warnings=warnings or (),
    )


def spec_of_request(
    request: CreateRequest, pair: tuple[Cluster, Cluster], ids: tuple[str, str], clock: Clock
) -> MirrorSpec:
    """The spec that a request leads to, without ids; `pair` and `ids`: of source and destination."""
    return MirrorSpec(
        mirror=mirror_name(request.mirror),
        source=pair[0].name,
        destination=pair[1].name,
        source_cluster_id=ids[0],
        destination_cluster_id=ids[1],
        include=request.include,
        exclude=request.exclude,
        offsets=request.offsets,
        engine=request.engine,
        holes=request.holes or Holes.COPIES,
        on_loss=request.on_loss or OnLoss.FAIL,
        deny_writers=not request.mapped if request.deny_writers is None else request.deny_writers,
        replication_factor=request.replication_factor,
        data_id=_NO_ID,
        marker_id=_NO_ID,
        start_id=_NO_ID,
        created_at=clock.now(),
        merge_small_batches=request.merge_small_batches or SmallBatches.AUTO,
        rename=request.rename,
        start=start_setting(request.start),
        transaction_ms=(request.transaction_ms or DEFAULT_INTERVAL_MS) if request.mapped else 0,
        delivery=request.delivery or Delivery.EXACTLY_ONCE,
        fence_source=request.fence_source is not False,
        grant_writers=request.grant_writers is not False,
        **request.sync.given,
        acl_rules=request.acl_rules or (),
        acl_principals=request.acl_principals or (),
        limit=request.limit or 0,
        topic_limits=request.topic_limits or (),
        threads=request.threads or 1,
    )


def with_choices(spec: MirrorSpec, existing: MirrorSpec, request: CreateRequest) -> MirrorSpec:
    """`spec` with what `existing` has where the request leaves it open."""
    return replace(
        spec,
        merge_small_batches=request.merge_small_batches or existing.merge_small_batches,
        holes=request.holes or existing.holes,
        on_loss=request.on_loss or existing.on_loss,
        deny_writers=existing.deny_writers if request.deny_writers is None else request.deny_writers,
        transaction_ms=request.transaction_ms or existing.transaction_ms,
        delivery=request.delivery or existing.delivery,
        fence_source=existing.fence_source if request.fence_source is None else request.fence_source,
        grant_writers=existing.grant_writers if request.grant_writers is None else request.grant_writers,
        acl_rules=existing.acl_rules if request.acl_rules is None else request.acl_rules,
        acl_principals=existing.acl_principals if request.acl_principals is None else request.acl_principals,
        limit=existing.limit if request.limit is None else request.limit,
        topic_limits=existing.topic_limits if request.topic_limits is None else request.topic_limits,
        threads=request.threads or existing.threads,
        **kept(existing, request.sync),
    )


def create(
    request: CreateRequest,
    source: Cluster,
    destination: Cluster,
    context: CommandContext,
    prefixes: LogPrefixes | None = None,
) -> Created:
    """Register a mirror and create its empty mirror topics; after a crash the same command completes it.

    `prefixes`: as `examine` has it.
    """
    draft = examine(request, source, destination, context, prefixes)
    if draft.exists:
        known = draft.view.topics(draft.spec.mirror)
        if not context.dry_run:
            writers.deny(draft.view.mirrored(draft.spec.mirror), destination, context.by)
        return Created(spec=draft.spec, topics=known, changed=False)
    dropped = (*draft.warnings, *(warning for plan in draft.plans for warning in plan.warnings))
    context.announce([plan.name for plan in draft.plans])
    if context.dry_run:
        topics = draft.topics(context.clock.now())
        return Created(spec=draft.spec, topics=topics, changed=True, warnings=dropped)
    try:
        done = _apply(draft, destination, context)
    except TanistError as error:
        raise take.partial(error) from error
    useless = writers.without_effect(destination, context.by) if request.deny_writers else ()
    return replace(done, warnings=(*done.warnings, *useless, *dropped))


def _apply(draft: Draft, destination: Cluster, context: CommandContext) -> Created:
    by = context.by
    destination.open_store(OFFSETS_TOPIC, None, by, create=True).close()
    store = destination.open_store(STATE_TOPIC, draft.spec.mirror, by, create=True)
    try:
        view = store.catch_up(by)
        if existing := view.mirror(draft.spec.mirror):  # somebody was faster
            return Created(spec=same_settings(existing, draft.spec), topics=(), changed=False)
        must_be_free(view, draft.spec.mirror, (plan.name for plan in draft.plans))
        spec, warnings = _named(replace(draft.spec, mirror_id=str(uuid4())), destination, by)
        take.make(destination, draft.plans, by)
        topics, writable = writers.with_denied(
            replace(draft, spec=spec).topics(context.clock.now()), spec, view, destination, by
        )
        records = (spec, *topics, *raised_promotions(view, spec, draft.generations))
        take_in(lambda written: store.append(written, by), view, spec.mirror, records)
    finally:
        store.close()
    writers.deny(topics, destination, by)
    return Created(spec=spec, topics=topics, changed=True, warnings=(*warnings, *writable))


def _named(spec: MirrorSpec, destination: Cluster, by: Deadline) -> tuple[MirrorSpec, tuple[str, ...]]:
    """`spec` with what its workers write as, and warnings."""
    if spec.is_mapped:
        return replace(spec, transactional_id=transactional_id_prefix(spec.mirror, spec.mirror_id)), ()
    warnings = remember_longer(destination, by)
    data_id, filler_id, start_id = (destination.logs.new_producer_id(by) for _ in range(3))
    return replace(spec, data_id=data_id, marker_id=filler_id, start_id=start_id), warnings


def remember_longer(destination: Cluster, by: Deadline) -> tuple[str, ...]:
    """Set producer.id.expiration.ms of the destination to its maximum; a warning if we lack the permission."""
    error = destination.configs.set_for_all_brokers(EXPIRATION, str(LONGEST_EXPIRATION_MS), by)
    if error is None:
        return ()
    lasting = f"{EXPIRATION} of {destination.name!r} could not be set to {LONGEST_EXPIRATION_MS} ({error.name})"
    return (f"{lasting}: partitions idle for longer are compared before copying resumes",)
