"""One look at both clusters for a failover. A source that does not answer is a fact, not an error.

`tanist status`, the page, plans, approvals and runs all gather their facts here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.answers import answered, answered_only, attempt, known
from tanist.domain.checks import Mode
from tanist.domain.detached import detached_elsewhere, detached_here
from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.failback.pending import undecided
from tanist.domain.failover.facts import (
    Facts,
    LiveEnd,
    ObservedTopic,
    PartitionFacts,
    SourceFacts,
    SourceState,
    TransactionalProducers,
)
from tanist.domain.failover.limitations import SILENT_MS
from tanist.domain.failover.plan import wanted_topics
from tanist.domain.failover.takeover import judged_configs, missing
from tanist.domain.fences import ended_since
from tanist.domain.lag import last_known
from tanist.domain.logins import logins_of, not_known_yet, principals
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC, RunStatus
from tanist.domain.states import MirrorState
from tanist.domain.topic_configs import CLEANUP_POLICY, MIN_ISR, altered_configs, while_mapped
from tanist.domain.write_access import acl_changes, locked_out, own_acls
from tanist.domain.writers import writers
from tanist.ports.fencing import ProducerFence
from tanist.ports.topics import TopicFacts
from tanist.usecases.command import PATIENT_SOURCE_SECONDS, SOURCE_SECONDS, Silence
from tanist.usecases.failover.source_seen import (
    Coordinated,
    LeadersMove,
    SourceSeen,
    foreign,
    longer,
    see_source,
    silent,
    soon,
    without_markers,
)
from tanist.usecases.offset_policy import detailed, offset_policy
from tanist.usecases.snapshot import DestinationSnapshot, MirrorEnds, MirrorSnapshot, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.failover.plan import Intent
    from tanist.domain.fences import FencedTopic
    from tanist.domain.lag import KnownEnd
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import BrokerId, EpochMs, MirrorPartition, SourcePartition, TopicNames
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The facts, and the ends of both clusters that they are made of."""

    facts: Facts
    source: MirrorEnds[SourcePartition]
    destination: MirrorEnds[MirrorPartition]


@dataclass(slots=True, kw_only=True)
class Observer:
    """Looks again and again. `silence`: of a reading of several mirrors."""

    clusters: OpenMirror
    context: CommandContext
    silence: Silence | None = None
    _coordinated: Coordinated = field(default_factory=Coordinated)

    def view(self, topic: str = STATE_TOPIC) -> StateView:
        """A state topic as it is now."""
        return self.clusters.destination.state(topic, self.context.by)

    def snapshot(self) -> MirrorSnapshot:
        """A new snapshot of both clusters, of which nothing has been read."""
        return self.clusters.snapshot()

    def look_for(self, intent: Intent, plan: str, *, ask_source: bool = True) -> Facts:
        """The facts of `see`, of the topics of a plan as they are on record now."""
        snapshot = self.snapshot()
        wanted = wanted_topics(snapshot.destination.state(STATE_TOPIC, self.context.by), intent)
        patient = intent.mode is Mode.PLANNED
        return self.look(wanted, plan, snapshot, whole=intent.whole, ask_source=ask_source, patient=patient)

    def look(
        self,
        wanted: Sequence[TopicDesired],
        plan: str | None = None,
        snapshot: MirrorSnapshot | None = None,
        *,
        whole: bool | None = None,
        ask_source: bool = True,
        patient: bool = False,
    ) -> Facts:
        """The facts of `see`."""
        return self.see(wanted, plan, snapshot, whole=whole, ask_source=ask_source, patient=patient).facts

    def see(
        self,
        wanted: Sequence[TopicDesired],
        plan: str | None = None,
        snapshot: MirrorSnapshot | None = None,
        *,
        whole: bool | None = None,
        ask_source: bool = True,
        patient: bool = False,
    ) -> Look:
        """Everything about `wanted`. `whole`: as in `Intent`; None: whether no other topic is in the mirror now.

        `patient`: a slow source is waited for, as in a planned failover, which cannot do without it.
        `snapshot`: what is read from, so far as it has been read already; None: a new one.

        New topics of the source are looked for only where `wanted` is the whole mirror, which costs one request: who
        fails over a part of it leaves the rest on purpose. Nor where it has no topic left: what a source that was
        replaced has since is no loss of this failover.

        The ends of the copies are read before those of the source: what the source says is then never older, so a copy
        that is as long as it is complete, one that is longer has a source that lost something, and one that begins
        later has lost something itself.

        Raises:
            CouldNotTell, BrokerError: the destination does not answer; without it nothing can be decided.
        """
        both, spec, by = snapshot or self.snapshot(), self.clusters.spec, self.context.by
        view = both.destination.state(STATE_TOPIC, by)
        copies = self._copies(wanted, both.destination)
        names = {each.topic for each in wanted}
        others = tuple(each.topic for each in view.mirrored(spec.mirror) if each.topic not in names)
        whole = bool(wanted) and (not others if whole is None else whole)
        seconds = PATIENT_SOURCE_SECONDS if patient else SOURCE_SECONDS
        source = self._source(wanted, view, both.source, seconds, ask=ask_source, whole=whole)
        now = self.context.clock.now()
        running = [each for each in view.failovers(spec.mirror) if each.status is RunStatus.RUNNING]
        followed = attempt(lambda: both.destination.state(GROUPS_TOPIC, by).groups_followed(spec))
        facts = Facts(
            destination=self.clusters.destination.name,
            now=now,
            source=source.facts,
            destination_authorizer=answered(lambda: both.destination.authorizer(by)),
            partitions=without_markers(
                both,
                self._partitions(wanted, both.destination, copies, source),
                source.fences.known(),
                soon(self.context),
            ),
            besides=others,
            topics=tuple(self._topics(wanted, both.destination, source)),
            logins=logins_of(view.workers()),
            logins_awaited=not_known_yet(view.workers(), now),
            workers_alive=sum(now - each.at <= SILENT_MS for each in view.workers()),
            left=tuple(each.topic for each in view.removed(spec.mirror)),
            detached=tuple(detached_here(view, spec)),
            detached_elsewhere=tuple(detached_elsewhere(view, spec)),
            map_missing=both.destination.stored(OFFSETS_TOPIC, by) is None,
            followed=None if isinstance(followed, TanistError) else followed,
            groups_unread=isinstance(followed, TanistError),
            run=view.failover(spec.mirror, plan),
            others_running=tuple(each for each in running if each.plan != plan),
            undecided=undecided(view, spec.mirror),
            markers_per_second=view.markers_per_second(spec.mirror),
            is_mapped=spec.is_mapped,
            fences_source=spec.fence_source,
            grants_writers=spec.grant_writers,
        )
        return Look(facts=facts, source=source.ends, destination=copies)

    # ── the source ────────────────────────────────────────────────────────────────────────────────────────────────

    def _source(
        self,
        wanted: Sequence[TopicDesired],
        view: StateView,
        source: SourceSnapshot | TanistError,
        seconds: float,
        *,
        ask: bool,
        whole: bool,
    ) -> SourceSeen:
        if isinstance(source, TanistError):
            return silent(source)
        if not ask:
            return SourceSeen(facts=SourceFacts(state=SourceState.SILENT, reason="not asked any more"))
        if self.silence is None:
            self.silence = Silence(self.context.clock)
        if (why := self.silence.of(source.name)) is not None:
            return silent(why)
        try:
            command = replace(self.context, source_seconds=seconds)
            return see_source(self.clusters.spec, source, wanted, view, self._coordinated, command, whole=whole)
        except (AnotherCluster, LeadersMove) as answer:
            return silent(answer)
        except TanistError as error:
            self.silence.keep(source.name, error)
            return silent(error)

    # ── the destination ───────────────────────────────────────────────────────────────────────────────────────────

    def _copies(self, wanted: Sequence[TopicDesired], destination: DestinationSnapshot) -> MirrorEnds[MirrorPartition]:
        return MirrorEnds.of(
            destination.ends([at for topic in wanted for at in topic.all_partitions()], self.context.by)
        )

    def _described(
        self, wanted: Sequence[TopicDesired], destination: DestinationSnapshot
    ) -> dict[str, TopicFacts | TanistError]:
        """The mirror topics, with replicas in sync and the configs that are looked at: two requests in each look."""
        configs = judged_configs(wanted) | {MIN_ISR}
        return destination.described([each.topic for each in wanted], self.context.by, configs)

    def _partitions(
        self,
        wanted: Sequence[TopicDesired],
        destination: DestinationSnapshot,
        copies: MirrorEnds[MirrorPartition],
        source: SourceSeen,
    ) -> tuple[PartitionFacts, ...]:
        spec, by = self.clusters.spec, self.context.by
        view = destination.state(STATE_TOPIC, by)
        partitions = [at for topic in wanted for at in topic.all_partitions()]
        if not partitions:
            return ()
        stored = destination.state(OFFSETS_TOPIC, by)
        last, missed = last_known(view, spec.mirror), stored.tombstones_missed(spec)
        offsets = offset_policy(spec, destination.cluster, view, stored, by)
        theirs = {at: spec.names.at_source(at) for at in partitions}
        starts = {at: _log_start(source.ends.found.get(theirs[at]), last.get(theirs[at])) for at in copies.found}
        asked = {at: (start,) for at, start in starts.items() if start is not None}
        cut = {at: each for at, each in asked.items() if offsets.in_copy(at, each[0]) < copies.found[at].start}
        offsets = detailed(offsets, destination.cluster, cut, by) if cut else offsets
        described = self._described(wanted, destination)
        written_by = writers(view, spec, partitions)
        barriers = known(destination.producer_fences(written_by, by))
        fenced = frozenset(at for at, barrier in barriers.items() if barrier is ProducerFence.FENCED)
        begun = {at: int(topic.copy_start(at.partition)) for topic in wanted for at in topic.all_partitions()}
        strangers = foreign(destination, copies.found, written_by, fenced, by, begun)
        ours = {at: each for at, each in copies.found.items() if at not in fenced and strangers.get(at) is False}
        beyond = longer(destination, ours, offsets, source.true_ends, spec.names, by)
        ended = _ended(view.source_fences(spec.mirror), source, last, wanted, spec.names)
        found = []
        for at, there in theirs.items():
            observed, live, seen = view.observed(spec.mirror, at), source.ends.found.get(there), last.get(there)
            copy, replicas = copies.found.get(at), _replicas(described[at.topic], at.partition)
            end = DestinationOffset(copy.high_watermark) if copy else None
            found.append(
                PartitionFacts(
                    partition=at,
                    state=observed.state_of_copy if observed else MirrorState.UNKNOWN,
                    error=observed.error if observed else None,
                    live=_live(live, source.true_ends.get(there)),
                    known=seen,
                    fenced_since=ended[at.topic],
                    start=DestinationOffset(copy.start) if copy else None,
                    first=None if (begin := _log_start(live, seen)) is None else offsets.in_copy(at, begin),
                    end=end,
                    copied=None if end is None or offsets.map_of(at).unread else offsets.copied(at, end),
                    foreign=strangers.get(at),
                    longer=beyond.get(at, False),
                    named=source.named.names(there),
                    in_sync=replicas.in_sync,
                    min_in_sync=replicas.needed,
                    producer_fenced=(barriers[at] is ProducerFence.FENCED) if at in barriers else None,
                    last_mirrored_epoch=observed.last_mirrored_epoch if observed else -1,
                    leader=replicas.leader,
                    tombstones_missed=at in missed,
                    transactional=source.transactional.get(there, TransactionalProducers.UNKNOWN),
                )
            )
        return tuple(found)

    def _topics(
        self, wanted: Sequence[TopicDesired], destination: DestinationSnapshot, source: SourceSeen
    ) -> list[ObservedTopic]:
        spec, mirror, by = self.clusters.spec, self.clusters.spec.mirror, self.context.by
        view = destination.state(STATE_TOPIC, by)
        names = [each.topic for each in wanted]
        fences = spec.names.by_copy({each.topic: each for each in view.source_fences(mirror)})
        described = self._described(wanted, destination)
        stands = source.fences.known()
        held = {each.topic: each.deferred_acls if each.given is None else each.given for each in wanted}
        ours = principals(logins_of(view.workers()))
        denied = {each.topic: each.denied for each in wanted if each.denied}
        grants = spec.grant_writers  # else nobody looks at ACLs, which this login may not be shown
        opened = answered_only(lambda: destination.is_open(held, by, ours, denied)) if grants else {}
        left = {each.topic for each in view.removed(mirror)}
        taken = [name for name in names if name in left]  # the mirror may write to all others
        shut_out = answered_only(lambda: destination.shut_out(taken, by, ours)) if grants and taken else {}
        others = answered(lambda: destination.others(names, by, ours))
        acls = answered(lambda: destination.writing(names, by) if destination.authorizer(by) else None)
        found = []
        for topic in wanted:
            copy = described[topic.topic]
            there = copy if isinstance(copy, TopicFacts) else None
            copied_to = {each.topic_id for at in topic.all_partitions() if (each := view.observed(mirror, at))}
            found.append(
                ObservedTopic(
                    topic=topic.topic,
                    mirrored=topic.partitions,
                    partitions=there.partitions if there else None,
                    altered=_altered(spec, topic, there) if there else (),
                    recreated=_recreated(topic, source.ids.get(topic.topic), there, copied_to),
                    source_id=topic.source_topic_id,
                    copy_id=there.topic_id if there else "",
                    sealed_id=sealed.topic_id if (sealed := view.copied_up_to(mirror, topic.topic)) else "",
                    promotion_epoch=view.promotions(mirror, topic.topic),
                    removed=topic.topic in left,
                    source_fence=fences.get(topic.topic) or source.fences.unrecorded.get(topic.topic),
                    fence_stands=stands.get(topic.topic),
                    configs_restored=not missing(topic, there.replication_factor, there.configs) if there else None,
                    writable=opened.get(topic.topic),
                    shut_out=shut_out.get(topic.topic),
                    others=None if others is None else tuple(sorted(others[topic.topic])),
                    locked_out=() if acls is None else _locked_out(topic, acls[topic.topic], ours),
                    acls_changed=acl_changes(topic.deferred_acls, source.acls.get(topic.topic), ours),
                )
            )
        return found


class _Replicas(NamedTuple):
    """Of a partition: how many replicas are in sync, how many acks=all needs, and its leader; None: not known."""

    in_sync: int | None = None
    needed: int | None = None
    leader: BrokerId | None = None


def _replicas(topic: TopicFacts | TanistError, partition: int) -> _Replicas:
    if isinstance(topic, TanistError) or partition >= len(topic.in_sync) or MIN_ISR not in topic.effective:
        return _Replicas()
    return _Replicas(topic.in_sync[partition], int(topic.effective[MIN_ISR]), topic.leaders[partition])


def _locked_out(topic: TopicDesired, found: frozenset[AclEntry], mirrors: Collection[str]) -> tuple[str, ...]:
    return locked_out(topic.deferred_acls, own_acls(found, topic.denied), mirrors)


def _altered(spec: MirrorSpec, topic: TopicDesired, copy: TopicFacts) -> tuple[str, ...]:
    source = dict(topic.deferred_configs)
    if spec.is_mapped:
        return altered_configs(copy.effective, meant=while_mapped(source))
    policy = source.get(CLEANUP_POLICY, "")
    return altered_configs(copy.effective, holes=spec.holes, source_policy=policy)


def _live(ends: LogEnds | None, true_end: int | None) -> LiveEnd | None:
    if ends is None:
        return None
    log_end = None if true_end is None else SourceOffset(true_end)
    return LiveEnd(SourceOffset(ends.high_watermark), SourceOffset(ends.last_stable), log_end)


def _log_start(live: LogEnds | None, seen: KnownEnd | None) -> SourceOffset | None:
    if live is not None:
        return SourceOffset(live.start)
    return None if seen is None else seen.log_start


def _ended(
    fences: Sequence[FencedTopic],
    source: SourceSeen,
    last: Mapping[SourcePartition, KnownEnd],
    wanted: Sequence[TopicDesired],
    names: TopicNames,
) -> dict[str, EpochMs | None]:
    """Since when a proved source fence has ended the logs of each topic. A source that answers has to say so."""
    held, stands = names.by_copy({each.topic: each for each in fences}), source.fences.known()
    answers = source.facts.state is not SourceState.SILENT
    found: dict[str, EpochMs | None] = {}
    for topic in wanted:
        name = topic.topic
        seen = [last[at].at for at in map(names.at_source, topic.all_partitions()) if at in last]
        unknown = answers and name not in stands
        found[name] = None if unknown else ended_since(held.get(name), max(seen, default=None), stands=stands.get(name))
    return found


def _recreated(topic: TopicDesired, at_source: str | None, copy: TopicFacts | None, copied_to: set[str]) -> str:
    if at_source and topic.source_topic_id and at_source != topic.source_topic_id:
        return f"{topic.topic} was deleted and re-created at the source"
    if copy is not None and copied_to - {"", copy.topic_id}:
        return f"{topic.topic} was deleted and re-created at the destination"
    return ""
