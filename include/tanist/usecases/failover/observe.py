"""One look at both clusters for a failover. A source that does not answer is a fact, not an error."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from tanist.domain.anchoring import Writers
from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.failover.facts import Facts, LiveEnd, PartitionFacts, SourceState, TopicSeen, Uncopied
from tanist.domain.failover.takeover import missing
from tanist.domain.fences import HOLDS_PRODUCERS_OFF
from tanist.domain.growth import growth
from tanist.domain.logins import logins_of, principals
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.readiness import WORKER_SILENT_MS
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.state_view import NOTHING_YET
from tanist.domain.states import MirrorState, Wish
from tanist.ports.clock import Deadline
from tanist.ports.sealing import Barrier
from tanist.ports.topics import TopicFacts
from tanist.usecases import sides
from tanist.usecases.failover.clusters import SILENT_SECONDS, SOURCE_SECONDS, Clusters, Source
from tanist.usecases.failover.coordinated import Coordinated, Named
from tanist.usecases.mirrors.describe import last_known, maps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.fences import FencedTopic
    from tanist.domain.names import TopicPartition
    from tanist.domain.records import TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.logs import LogEnds
    from tanist.ports.replicas import InSync
    from tanist.ports.state import StateStore
    from tanist.usecases.sides import Run

_T = TypeVar("_T")
_K = TypeVar("_K")


@dataclass(frozen=True, slots=True, kw_only=True)
class _FromSource:
    state: SourceState
    reason: str = ""
    ends: Mapping[TopicPartition, LogEnds] = field(default_factory=dict)
    true_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    named: Named = field(default_factory=Named)
    uncopied: tuple[Uncopied, ...] = ()
    standing: Mapping[str, bool] = field(default_factory=dict)
    authorizer: bool | None = None


@dataclass(slots=True, kw_only=True)
class Observer:
    """Looks again and again; readers of the state topics stay open."""

    clusters: Clusters
    run: Run
    _stores: dict[str, StateStore] = field(default_factory=dict)
    _silent: tuple[float, str] = (float("-inf"), "")
    _authorizer: bool | None = None
    _coordinated: Coordinated = field(default_factory=Coordinated)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def view(self, topic: str = STATE_TOPIC) -> StateView:
        """A state topic as it is now."""
        side = self.clusters.destination.side
        if topic not in self._stores:
            if not sides.exists(side, topic, self.run.by):
                return NOTHING_YET
            self._stores[topic] = side.open_store(topic, None, self.run.by)
        return self._stores[topic].catch_up(self.run.by)

    def look(self, wanted: Sequence[TopicDesired], plan: str | None = None, *, ask_source: bool = True) -> Facts:
        """Everything about `wanted`.

        Raises:
            CouldNotTell, BrokerError: the destination does not answer; without it nothing can be decided.
            AnotherCluster: a connection leads elsewhere than when the mirror was created.
        """
        spec, view = self.clusters.spec, self.view()
        fences = {each.topic: each for each in view.source_fences(spec.mirror)}
        names = [each.topic for each in wanted]
        source = self._source(wanted, [fences[name] for name in names if name in fences], ask=ask_source)
        replicas = self.clusters.source.replicas if isinstance(self.clusters.source, Source) else None
        stuck = [at for at, ends in source.ends.items() if ends.last_stable < ends.high_watermark]
        return Facts(
            now=self.run.clock.now(),
            source=source.state,
            source_reason=source.reason,
            source_authorizer=source.authorizer,
            destination_authorizer=self._destination_authorizer(),
            partitions=self._with_tails(self._partitions(wanted, view, source), source.standing),
            uncopied=source.uncopied,
            topics=tuple(self._topics(wanted, view, fences, source.standing)),
            transactions=replicas.open_transactions(stuck, self._soon()) if replicas and stuck else (),
            named=source.named.transactions,
            transactions_told=source.named.told,
            transactions_reason=source.named.reason,
            workers_alive=_workers_alive(view, self.run.clock.now()),
            logins=logins_of(view.workers()),
            run=view.failover(spec.mirror, plan),
        )

    # ── the source ────────────────────────────────────────────────────────────────────────────────────────────────

    def _soon(self) -> Deadline:
        return Deadline(min(self.run.by.at, self.run.clock.deadline(SOURCE_SECONDS).at))

    def _source(self, wanted: Sequence[TopicDesired], fences: Sequence[FencedTopic], *, ask: bool) -> _FromSource:
        source = self.clusters.source
        if isinstance(source, TanistError):
            return _FromSource(state=SourceState.SILENT, reason=str(source))
        if not ask:
            return _FromSource(state=SourceState.SILENT, reason="not asked any more")
        until, reason = self._silent
        if self.run.clock.monotonic() < until:
            return _FromSource(state=SourceState.SILENT, reason=reason)
        try:
            return self._ask(source, wanted, fences)
        except AnotherCluster:
            raise
        except TanistError as error:
            self._silent = (self.run.clock.monotonic() + SILENT_SECONDS, str(error))
            return _FromSource(state=SourceState.SILENT, reason=str(error))

    def _ask(self, source: Source, wanted: Sequence[TopicDesired], fences: Sequence[FencedTopic]) -> _FromSource:
        spec, by = self.clusters.spec, self._soon()
        partitions = [at for topic in wanted for at in topic.all_partitions()]
        true_ends = source.side.logs.true_ends(partitions, by)  # first: it knows soonest that nobody is there
        answers = source.side.logs.ends(partitions, by)  # after the true ends: what is committed by then was in the log
        seen = source.replicas.cluster([topic.topic for topic in wanted], by)
        sides.same_as_pinned(spec, seen.cluster_id, spec.destination_cluster_id)
        ends = known(answers)
        errors = [f"{at}: {answer}" for at, answer in answers.items() if isinstance(answer, TanistError)]
        if partitions and not ends:
            raise_first(answers)
        more = growth(wanted, seen.partitions)
        errors += [f"{topic}: {more.trouble(topic)}" for topic in more.untold]
        beyond = known(source.side.logs.ends(more.partitions, by)) if more.partitions else {}
        held = [each.before for each in fences if each.before and each.status in HOLDS_PRODUCERS_OFF]
        standing = known(source.fencing.standing(held, by)) if held else {}
        fenced = all(standing.get(topic.topic) for topic in wanted)
        authorizer = source.fencing.has_authorizer(by)
        return _FromSource(
            state=SourceState.PARTLY if errors else SourceState.ALIVE,
            reason="; ".join(errors[:3]),
            ends=ends,
            true_ends=known(true_ends),
            named=self._coordinated.ask(source.replicas, partitions, self._soon(), fenced=fenced),
            uncopied=tuple(Uncopied(at, _held(beyond.get(at))) for at in more.partitions),
            standing=standing,
            authorizer=authorizer,
        )

    # ── the destination ───────────────────────────────────────────────────────────────────────────────────────────

    def _destination_authorizer(self) -> bool | None:
        if self._authorizer is None:
            try:
                self._authorizer = self.clusters.destination.opening.has_authorizer(self.run.by)
            except TanistError:
                return None
        return self._authorizer

    def _partitions(
        self, wanted: Sequence[TopicDesired], view: StateView, source: _FromSource
    ) -> tuple[PartitionFacts, ...]:
        spec, destination, by = self.clusters.spec, self.clusters.destination, self.run.by
        partitions = [at for topic in wanted for at in topic.all_partitions()]
        if not partitions:
            return ()
        offsets = maps(self.view(OFFSETS_TOPIC), spec)
        ends = known(destination.side.logs.ends(partitions, by))
        replicas = known(destination.replicas.in_sync(partitions, by))
        writers = Writers(spec.data_id, spec.filler_id, spec.start_id)
        barriers = known(destination.sealing.proof(dict.fromkeys(partitions, writers), by))
        last = last_known(view, spec.mirror)
        found = []
        for at in partitions:
            observed = view.observed(spec.mirror, at)
            end = DestinationOffset(ends[at].high_watermark) if at in ends else None
            in_sync: InSync | None = replicas.get(at)
            found.append(
                PartitionFacts(
                    partition=at,
                    state=observed.state if observed else MirrorState.UNKNOWN,
                    error=observed.error if observed else None,
                    live=_live(source.ends.get(at), source.true_ends.get(at)),
                    known=last.get(at),
                    end=end,
                    copied=None if end is None else offsets.get(at, OffsetMap()).origin(end),
                    named=source.named.names(at),
                    in_sync=in_sync.replicas if in_sync else None,
                    min_in_sync=in_sync.needed if in_sync else None,
                    sealed=(barriers[at] is Barrier.SEALED) if at in barriers else None,
                    last_mirrored_epoch=observed.last_mirrored_epoch if observed else -1,
                )
            )
        return tuple(found)

    def _with_tails(
        self, found: tuple[PartitionFacts, ...], standing: Mapping[str, bool]
    ) -> tuple[PartitionFacts, ...]:
        """Behind a fence a producer that tries again and again still spends offsets, on markers of its aborts."""
        source = self.clusters.source
        spans = {each.partition: each.tail for each in found if each.tail and standing.get(each.partition.topic)}
        if not spans or not isinstance(source, Source):
            return found
        answers = attempt(lambda: source.side.logs.only_control(spans, self._soon()))
        if isinstance(answers, TanistError):
            return found
        return tuple(_without_tail(each) if answers.get(each.partition) is True else each for each in found)

    def _topics(
        self,
        wanted: Sequence[TopicDesired],
        view: StateView,
        fences: Mapping[str, FencedTopic],
        standing: Mapping[str, bool],
    ) -> list[TopicSeen]:
        mirror, side = self.clusters.spec.mirror, self.clusters.destination.side
        names = [each.topic for each in wanted]
        described = side.topics.describe(names, self.run.by)
        held = {each.topic: each.held_rules for each in wanted}
        opening, by = self.clusters.destination.opening, self.run.by
        ours = principals(logins_of(view.workers()))
        opened = _told(lambda: opening.is_open(held, by, ours))
        shut_out = _told(lambda: opening.shut_out(names, by, ours))
        found = []
        for topic in wanted:
            now = view.topic(mirror, topic.topic)
            found.append(
                TopicSeen(
                    topic=topic.topic,
                    generation=view.promotions(mirror, topic.topic),
                    removed=now is not None and now.wish is Wish.REMOVED,
                    fence=fences.get(topic.topic),
                    fence_stands=standing.get(topic.topic),
                    configs_restored=_restored(topic, described[topic.topic]),
                    writable=opened.get(topic.topic),
                    shut_out=shut_out.get(topic.topic),
                )
            )
        return found


def known(answers: Mapping[_K, _T | TanistError]) -> dict[_K, _T]:
    """The answers that are none of them an error."""
    return {key: answer for key, answer in answers.items() if not isinstance(answer, TanistError)}


def raise_first(answers: Mapping[_K, _T | TanistError]) -> None:
    """Raises the first error among `answers`, if there is one."""
    for answer in answers.values():
        if isinstance(answer, TanistError):
            raise answer


def attempt(look: Callable[[], _T]) -> _T | TanistError:
    """What `look` returns, or the error it raises."""
    try:
        return look()
    except TanistError as error:
        return error


def _told(look: Callable[[], Mapping[str, bool | TanistError]]) -> dict[str, bool]:
    """What could be told; nothing where nobody answers."""
    answers = attempt(look)
    return {} if isinstance(answers, TanistError) else known(answers)


def _live(ends: LogEnds | None, true_end: int | None) -> LiveEnd | None:
    if ends is None:
        return None
    log_end = None if true_end is None else SourceOffset(true_end)
    return LiveEnd(SourceOffset(ends.high_watermark), SourceOffset(ends.last_stable), log_end)


def _without_tail(each: PartitionFacts) -> PartitionFacts:
    return each if each.live is None else replace(each, live=replace(each.live, data_end=each.copied))


def _held(ends: LogEnds | None) -> int | None:
    return None if ends is None else ends.high_watermark - ends.start


def _restored(topic: TopicDesired, described: TopicFacts | TanistError) -> bool | None:
    if not isinstance(described, TopicFacts):
        return None
    return not missing(topic, described.replication_factor, described.configs)


def _workers_alive(view: StateView, now: int) -> int:
    return sum(now - each.at <= WORKER_SILENT_MS for each in view.workers())
