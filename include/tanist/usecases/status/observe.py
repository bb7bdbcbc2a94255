"""`tanist status`: read-only. Reads and judges the same facts as a failover plan."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from tanist.domain.answers import attempt
from tanist.domain.checks import Mode
from tanist.domain.circle import locate, pending_reversal
from tanist.domain.detached import detached_here
from tanist.domain.errors import AnotherCluster, NoStateTopic, TanistError
from tanist.domain.failback.approved_decision import approved_decision
from tanist.domain.failback.pending import findings_of, last_tails, pending
from tanist.domain.failover.expiring import expiry_check, fences_left
from tanist.domain.failover.facts import Facts, SourceFacts, SourceState
from tanist.domain.failover.health import groups_check, judged, workers_check
from tanist.domain.failover.past_checks import losses_check
from tanist.domain.failover.periodic_health import periodic_checks, rewound_groups
from tanist.domain.fences import LEFT_TO_A_FETCHER
from tanist.domain.followed import is_followed
from tanist.domain.kept_fences import fence_groups
from tanist.domain.next_steps.situation import MirrorSituation, is_void, waiting_plans
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, FailoverRun, MirrorSpec, WorkerAlive
from tanist.domain.tails import TailStage
from tanist.usecases import approvals, snapshot
from tanist.usecases.failover import status
from tanist.usecases.failover.observe import Look, Observer
from tanist.usecases.failover.planning import FailoverRequest, intent_of
from tanist.usecases.failover.route import STEP_IDS
from tanist.usecases.failover.source_seen import soon
from tanist.usecases.lock import FRESH_MS
from tanist.usecases.mirror import same_as_pinned
from tanist.usecases.mirrors.describe import Observed, assemble
from tanist.usecases.offset_policy import offset_policy
from tanist.usecases.snapshot import DestinationSnapshot, MirrorEnds, MirrorSnapshot
from tanist.usecases.status.followed import followed_situation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.failover.health import Status
    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext, Silence
    from tanist.usecases.mirror import OpenMirror
    from tanist.usecases.snapshot import MirrorSnapshot

_SIDE_BY_SIDE: Final = 64
"""How many sources are probed at the same time, one thread each."""


def workers(view: StateView) -> tuple[WorkerAlive, ...]:
    """All workers that have written a heartbeat, by name."""
    return view.workers()


def state_topic_problem(destination: Cluster, context: CommandContext) -> str | None:
    """Why the state topics are not safe; None: they are."""
    try:
        for topic in (STATE_TOPIC, OFFSETS_TOPIC):
            destination.state(topic, context.by)
    except TanistError as error:
        return error.reason
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStatus:
    """One observation of a mirror. `situation`: its verdicts, and what they are made of.

    `runs`: its failovers, the latest last.
    """

    spec: MirrorSpec
    situation: MirrorSituation
    workers: tuple[WorkerAlive, ...]
    runs: tuple[FailoverRun, ...]

    @property
    def status(self) -> Status:
        return self.situation.status

    @property
    def rows(self) -> tuple[PartitionRow, ...]:
        return self.situation.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusContext:
    """One observation of a destination. `clusters`: both clusters of a mirror; mirrors share a source."""

    destination: Cluster
    silence: Silence
    clusters: Callable[[MirrorSpec], OpenMirror]
    context: CommandContext

    def snapshot(self) -> DestinationSnapshot:
        """Of the destination; nothing has been read."""
        return DestinationSnapshot(cluster=self.destination)


def observe(reading: StatusContext, mirror: MirrorName | None) -> tuple[MirrorStatus, ...]:
    """One mirror, or all of a destination.

    Raises:
        NoStateTopic, UnknownMirror, UnsafeStateTopic, and the destination's error if it cannot be read.
    """
    run, first = reading.context, reading.snapshot()
    found = first.cluster_id(run.first_contact())
    view = first.stored(STATE_TOPIC, run.by)
    if view is None:
        raise NoStateTopic(f"{first.name!r} (cluster {found}) has no topic {STATE_TOPIC}")
    specs = (snapshot.spec_of(view, mirror, first.name, any_copier=True),) if mirror else view.mirrors()
    waited = _find_silent(reading, specs)
    destinations = chain(
        () if waited else (first,), (reading.snapshot() for _ in specs)
    )  # none is judged by an old state
    return tuple(_seen(reading, spec, each, found) for spec, each in zip(specs, destinations, strict=False))


def _find_silent(reading: StatusContext, specs: Sequence[MirrorSpec]) -> bool:
    """Probe several sources in parallel, so that all silent ones together cost one timeout; whether it has done so.

    A source that does not answer is not queried again by the mirrors, which are observed one after another. A single
    source is not probed. Each source has ports of its own, each owned by one thread.
    """
    silence, run = reading.silence, reading.context
    found = {spec.source: reading.clusters(spec).source for spec in specs}
    asked = [each for name, each in found.items() if not isinstance(each, TanistError) and silence.of(name) is None]
    if len(asked) <= 1:
        return False
    with ThreadPoolExecutor(min(_SIDE_BY_SIDE, len(asked)), "tanist-source") as pool:
        answers = pool.map(lambda source: attempt(lambda: source.replicas.cluster((), soon(run))), asked)
        for source, answer in zip(asked, answers, strict=True):
            if isinstance(answer, TanistError) and not isinstance(answer, AnotherCluster):
                silence.keep(source.name, answer)
    return True


def _seen(
    reading: StatusContext, spec: MirrorSpec, destination: DestinationSnapshot, destination_id: str
) -> MirrorStatus:
    run, view = reading.context, destination.state(STATE_TOPIC, reading.context.by)
    if is_followed(spec):
        both = replace(reading.clusters(spec).snapshot(), destination=destination)
        situation = followed_situation(both, destination_id, reading.silence, run)
        return MirrorStatus(spec=spec, situation=situation, workers=view.workers(), runs=())
    wanted, alive = view.mirrored(spec.mirror), view.workers()
    clusters = reading.clusters(spec)
    both = replace(clusters.snapshot(), destination=destination)
    look = _look(reading, clusters, both, wanted, destination_id)
    followed = destination.state(GROUPS_TOPIC, run.by).groups_followed(spec)
    now = run.clock.now()
    offsets = destination.state(OFFSETS_TOPIC, run.by)
    policy = offset_policy(spec, destination.cluster, view, offsets, run.by)
    ends = Observed(state=view, offsets=offsets, policy=policy, source=look.source, destination=look.destination)
    rows = assemble(spec, wanted, ends)
    past = (
        workers_check(alive, now),
        groups_check(followed, now),
        losses_check(spec, rows),
        expiry_check(now, _certificates(clusters), rows, wanted, _unrenewed(spec, view, alive, now)),
        *status.checks(both, reading.silence, run),
        *periodic_checks(spec, view, now),
    )
    intents = {mode: intent_of(spec, FailoverRequest(mode=mode), wanted) for mode in Mode}
    situation = _situation(reading, clusters, view, look.facts, judged(intents, look.facts, past), rows)
    runs = tuple(sorted(view.failovers(spec.mirror), key=lambda each: each.started_at))
    return MirrorStatus(spec=spec, situation=situation, workers=alive, runs=runs)


def _certificates(clusters: OpenMirror) -> dict[str, EpochMs]:
    """Of both clusters, as far as this process has connected to them."""
    both = (clusters.destination, *(() if isinstance(clusters.source, TanistError) else (clusters.source,)))
    return {
        f"{each.name}: the certificate of {which}": until
        for each in both
        for which, until in each.certificates().items()
    }


def _unrenewed(spec: MirrorSpec, view: StateView, alive: Sequence[WorkerAlive], now: EpochMs) -> str:
    """Those of mapped offsets are not renewed: see `fetcher.producer_fences`."""
    promoted = () if spec.is_mapped else [each.topic for each in view.removed(spec.mirror)]
    return fences_left(promoted, alive, now)


def _situation(
    reading: StatusContext,
    clusters: OpenMirror,
    view: StateView,
    facts: Facts,
    report: Status,
    rows: tuple[PartitionRow, ...],
) -> MirrorSituation:
    """What the next step is derived from. Approvals are read only where one may count."""
    run, mirror, place = reading.context, clusters.spec.mirror, locate(clusters.spec.mirror, view)
    running, left = place.running, pending(view, mirror)
    waits = view.kept_plans(mirror) or running is not None or any(each.stage is TailStage.RESCUED for each in left)
    entries = approvals.stored_entries(clusters, run) if waits else ()
    configured = not isinstance(clusters.source, TanistError)
    asked_in_vain = configured and reading.silence.of(clusters.source.name) is not None
    silent = asked_in_vain or facts.source.state is SourceState.SILENT
    gone = configured and silent and not facts.source.another_cluster and not facts.source.moves
    begun = next((each.decision for each in last_tails(view, mirror) if each.stage is TailStage.DECIDED), "")
    return MirrorSituation(
        place=place,
        destination=reading.destination.name,
        status=report,
        source_answers=configured and not silent,
        source_gone=gone,
        rows=rows,
        waiting=tuple(waiting_plans(view, place, facts, entries, STEP_IDS)),
        at_work=running is not None and _is_at_work(running, facts.now, run),
        void=running is not None and is_void(running, entries, facts, source_gone=gone),
        pending_fences=_pending_fences(clusters.spec, view),
        reversal=pending_reversal(view, mirror),
        tails=left,
        findings=findings_of(view, mirror),
        decided=begun or approved_decision(view, mirror, entries, facts.now),
        detached=tuple(detached_here(view, clusters.spec).values()),
        rewound=rewound_groups(view, mirror),
        four_eyes=run.four_eyes,
        now=facts.now,
    )


def _pending_fences(spec: MirrorSpec, view: StateView) -> bool:
    watched = (each for group in fence_groups(view, spec) for each in group.watched(view))
    return any(each.status in LEFT_TO_A_FETCHER for each in watched)


def _is_at_work(running: FailoverRun, now: EpochMs, command: CommandContext) -> bool:
    """Whether a process has written a heartbeat for the run a moment ago, and is not known to be dead."""
    return bool(running.runner) and now - running.at < FRESH_MS and not command.is_process_dead(running.runner)


def _look(
    reading: StatusContext,
    clusters: OpenMirror,
    both: MirrorSnapshot,
    wanted: Sequence[TopicDesired],
    destination_id: str,
) -> Look:
    """Observe one mirror. If its destination is another cluster now, nothing is queried."""
    try:
        same_as_pinned(clusters.spec, None, destination_id)
    except AnotherCluster as elsewhere:
        source = SourceFacts(state=SourceState.SILENT, reason=str(elsewhere), another_cluster=elsewhere.reason)
        facts = Facts(now=reading.context.clock.now(), source=source)
        return Look(facts=facts, source=MirrorEnds(down=elsewhere), destination=MirrorEnds(down=elsewhere))
    observer = Observer(clusters=clusters, context=reading.context, silence=reading.silence)
    return observer.see(wanted, snapshot=both)
