"""`tanist state restore`: the state of mirrors from a file, everything STOPPED until a person resumes it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tanist.domain.detached import as_before
from tanist.domain.errors import TanistError
from tanist.domain.fences import HOLDS_PRODUCERS_OFF
from tanist.domain.followed import is_followed
from tanist.domain.moves import MoveStatus
from tanist.domain.names import MirrorPartition
from tanist.domain.problems import ProblemCollector
from tanist.domain.records import (
    GROUPS_TOPIC,
    OFFSETS_TOPIC,
    STATE_TOPIC,
    OffsetRangeWritten,
    RunStatus,
    TopicDesired,
)
from tanist.domain.restored_promotions import promotion_warnings, restored_copied
from tanist.domain.saved_state import (
    PromotedSince,
    SourceStateUnknown,
    StateNewer,
    StateOfAnotherCluster,
    StateOutdated,
    as_restored,
    compared,
    conflict,
    leads_to_the_mirror,
    was_reversed,
)
from tanist.domain.state_record import MirrorRecord
from tanist.domain.state_view import NOTHING_YET, fold
from tanist.usecases.mirror import identify
from tanist.usecases.mirrors.desire import must_be_free, take_in
from tanist.usecases.state.promoted import lineage_of_logs, logs_of, look_at_logs, promoted_since, reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.moves import MirrorMove
    from tanist.domain.names import MirrorName
    from tanist.domain.records import CopiedUpTo, MirrorSpec
    from tanist.domain.saved_state import SavedState
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import LogInspection
    from tanist.ports.state import StateStore
    from tanist.usecases.command import CommandContext
    from tanist.usecases.state.promoted import LogsSeen


def nowhere(_point: str) -> None:
    """The default of `checkpoint`."""


def silently(_text: str) -> None:
    """The default of `say`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTools:
    """What a restoration uses besides the destination.

    `source_of`: the source of a mirror. `moved_to`: the cluster that a forwarding record names. `ask_source`: False if
    neither needs to be asked. `say`: progress. `checkpoint` is called between the steps.
    """

    source_of: Callable[[MirrorSpec], Cluster]
    moved_to: Callable[[MirrorMove], Cluster]
    inspection: LogInspection
    ask_source: bool = True
    say: Callable[[str], None] = silently
    checkpoint: Callable[[str], None] = nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredMirror:
    """One mirror of the file. `spec`: None if only promotions, or its new destination, are recorded of it there.

    `changed`: False if the cluster had all of it already. `records`: what is written to `__mirror_state`.
    """

    mirror: MirrorName
    spec: MirrorSpec | None
    records: Mapping[str, StateRecord]
    promoted: Mapping[str, PromotedSince] = field(default_factory=dict)
    changed: bool = True
    warnings: tuple[str, ...] = ()

    def topics(self) -> tuple[TopicDesired, ...]:
        """All topics, by name."""
        found = (each for each in self.records.values() if isinstance(each, TopicDesired))
        return tuple(sorted(found, key=lambda each: each.topic))

    def waiting(self) -> tuple[str, ...]:
        """The topics that a person has to resume."""
        return tuple(each.topic for each in self.topics() if each.restored)


def restore(
    saved: SavedState, destination: Cluster, tools: RestoreTools, context: CommandContext
) -> tuple[RestoredMirror, ...]:
    """Write the state of every mirror in `saved` that the destination lacks; after a crash the same call completes it.

    Raises:
        StateOfAnotherCluster. StateNewer: the destination has something else. StateOutdated: the mirror was reversed.
        SourceStateUnknown: a source does not say what it knows of promotions. TopicAlreadyInMirror.
        Problems: several of them; nothing was changed.
    """
    (cluster_id,) = identify((destination,), context)
    if cluster_id != saved.cluster_id:
        raise StateOfAnotherCluster(
            f"the file has the state of cluster {saved.cluster_id} ({saved.cluster}), {destination.name!r} leads to "
            f"cluster {cluster_id}"
        )
    examination = _Examination(
        saved,
        destination,
        tools,
        context,
        destination.state(STATE_TOPIC, context.by),
        destination.state(OFFSETS_TOPIC, context.by),
    )
    found = ProblemCollector()
    examined = []
    for mirror, records in saved.of_mirrors(STATE_TOPIC).items():
        if (each := found.attempt(partial(examination.of, mirror, records))) is not None:
            examined.append(each)
    found.raise_all()
    context.announce([topic.topic for each in examined if each.changed for topic in each.topics()])
    if not context.dry_run:
        _write(saved, examined, destination, tools, context)
    return tuple(examined)


# ── examining ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Examination:
    """What the mirrors of a file are compared with. `view`, `offsets`: the state topics of the destination."""

    saved: SavedState
    destination: Cluster
    tools: RestoreTools
    context: CommandContext
    view: StateView
    offsets: StateView

    def of(self, mirror: MirrorName, records: Sequence[StateRecord]) -> RestoredMirror:
        """One mirror as it will be, compared with what the destination has of it."""
        self.tools.say(f"mirror {mirror}: comparing with {self.destination.name!r}")
        before, present = fold(NOTHING_YET, records), compared(self.view, mirror)
        spec = before.mirror(mirror)
        if present and conflict(present, records, {}) is None:
            return RestoredMirror(mirror=mirror, spec=spec, records=present, changed=False)
        if spec is None:
            written = {each.key: each for each in records}
            self._must_be_the_same(mirror, present, records, written)
            warnings = self._forwarding(before.move(mirror))
            return RestoredMirror(mirror=mirror, spec=None, records=written, changed=not present, warnings=warnings)
        return self._examined(spec, before, records, present)

    def _examined(
        self, spec: MirrorSpec, before: StateView, records: Sequence[StateRecord], present: Mapping[str, StateRecord]
    ) -> RestoredMirror:
        source, at_source = self._source(spec)
        self._must_be_current(spec, at_source)
        must_be_free(self.view, spec.mirror, (each.topic for each in logs_of(before, spec)))
        seen = look_at_logs(spec, before, self.destination, self.tools.inspection, self.context)
        promoted = promoted_since(spec, before, at_source, seen.fenced)
        records = as_before(records, promoted)
        lifted = self._lifted(before, spec, source) if source else ()
        written = as_restored(records, promoted, lifted, self.saved.exported_at)
        written |= {each.key: each for each in reported(spec, before, at_source, promoted)}
        derived = self._lineage(spec, fold(NOTHING_YET, written.values()), promoted, seen)
        written |= {each.key: each for each in derived}
        written |= {each.key: each for each in self._copied(spec, fold(NOTHING_YET, written.values()), promoted)}
        self._must_be_the_same(spec.mirror, present, records, written)
        return RestoredMirror(
            mirror=spec.mirror,
            spec=spec,
            records=written,
            promoted=promoted,
            changed=not present,
            warnings=(
                *promotion_warnings(spec, fold(NOTHING_YET, written.values()), promoted, {e.topic for e in derived}),
                *seen.uncertainties,
                *_warnings(spec, before, seen.missing, source_read=source is not None or is_followed(spec)),
            ),
        )

    def _must_be_the_same(
        self,
        mirror: MirrorName,
        present: Mapping[str, StateRecord],
        records: Iterable[StateRecord],
        written: Mapping[str, StateRecord],
    ) -> None:
        if present and (key := conflict(present, records, written)) is not None:
            raise StateNewer(
                f"mirror {mirror!r} is on {self.destination.name!r} with another record {key} than in the file"
            )

    def _must_be_current(self, spec: MirrorSpec, at_source: StateView) -> None:
        """Raises StateOutdated, StateNewer."""
        if was_reversed(at_source, spec):
            raise StateOutdated(
                f"mirror {spec.mirror!r} was reversed after the export: {spec.source!r} is its destination now"
            )
        for record in self.offsets.values():
            if isinstance(record, MirrorRecord) and record.mirror == spec.mirror and record.mirror_id != spec.mirror_id:
                raise StateNewer(
                    f"mirror {spec.mirror!r}: {self.destination.name!r} has offsets of another mirror of that name"
                )

    def _forwarding(self, move: MirrorMove | None) -> tuple[str, ...]:
        """The warning about a forwarding record, if any.

        Raises:
            StateOutdated: the cluster that it names does not have the mirror. SourceStateUnknown.
        """
        if move is None or move.status is not MoveStatus.MOVED:
            return ()
        if not self.tools.ask_source:
            return (f"{move.destination!r} was not asked whether it still has mirror {move.mirror!r}",)
        try:
            there = self.tools.moved_to(move)
            there.topics.cluster_id(self.context.first_contact())
            view = there.state(STATE_TOPIC, self.context.by)
        except TanistError as error:
            raise SourceStateUnknown(
                f"mirror {move.mirror!r} moved to {move.destination!r}, which does not say whether it still has it "
                f"({error.name}: {error.reason})"
            ) from error
        if not leads_to_the_mirror(move, view, self.saved.cluster_id):
            raise StateOutdated(
                f"mirror {move.mirror!r} had moved to {move.destination!r} at the export, which does not have it any "
                "more: a forwarding record would lead nowhere"
            )
        return ()

    def _source(self, spec: MirrorSpec) -> tuple[Cluster | None, StateView]:
        if not self.tools.ask_source or is_followed(spec):  # one that somebody else copies has no promotions
            return None, NOTHING_YET
        try:
            source = self.tools.source_of(spec)
            source.topics.cluster_id(self.context.first_contact())
            return source, source.state(STATE_TOPIC, self.context.by)
        except TanistError as error:
            raise SourceStateUnknown(
                f"mirror {spec.mirror!r}: {spec.source!r} does not say whether another cluster took over from it since "
                f"the export ({error.name}: {error.reason})"
            ) from error

    def _lineage(
        self, spec: MirrorSpec, view: StateView, promoted: Mapping[str, PromotedSince], seen: LogsSeen
    ) -> tuple[TopicLineage, ...]:
        """Of the promotions that the source has not recorded, from the logs. `view`: what is restored otherwise."""
        entries = view.lineage(spec.mirror)
        known = {(each.topic, each.promotion_epoch) for each in entries}
        left = [
            (topic, promoted[topic.topic].promotion_epoch)
            for topic in view.removed(spec.mirror)
            if topic.topic in promoted and (topic.topic, promoted[topic.topic].promotion_epoch) not in known
        ]
        tools = (self.destination, self.tools.inspection, self.context.by)
        return lineage_of_logs(spec, left, seen, entries, self.context.clock.now(), tools)

    def _copied(self, spec: MirrorSpec, view: StateView, promoted: Mapping[str, PromotedSince]) -> Iterator[CopiedUpTo]:
        """How far the promoted topics had been copied, as their lineage says."""
        saved = self.saved.of_mirrors(OFFSETS_TOPIC).get(spec.mirror, ())
        mapped = {each.partition for each in saved if isinstance(each, OffsetRangeWritten)}
        for entry in view.lineage(spec.mirror):
            since = promoted.get(entry.topic)
            if since is not None and since.promotion_epoch == entry.promotion_epoch:
                every = {MirrorPartition(entry.topic, n) for n in range(len(entry.old_ends))}
                yield restored_copied(entry, every if spec.is_mapped else mapped)

    def _lifted(self, before: StateView, spec: MirrorSpec, source: Cluster) -> tuple[str, ...]:
        """Topics whose source fence was in force at the export, and is not any more."""
        fences = before.source_fences(spec.mirror)
        recorded = [each.before for each in fences if each.status in HOLDS_PRODUCERS_OFF and each.before is not None]
        found = source.fencing.fence_status(recorded, self.context.by) if recorded else {}
        return tuple(topic for topic, stands in found.items() if stands is False)


def _warnings(
    spec: MirrorSpec,
    before: StateView,
    missing: Iterable[str],
    *,
    source_read: bool,
) -> Iterator[str]:
    for topic in missing:
        yield f"{topic} does not exist on {spec.destination!r}"
    for run in before.failovers(spec.mirror):
        if run.status is RunStatus.RUNNING:
            yield f"failover {run.plan} was unfinished at the export: see `tanist failover status {spec.mirror}`"
    if not source_read:
        yield f"{spec.source!r} was not asked whether another cluster took over from it since the export"


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _write(
    saved: SavedState,
    mirrors: Iterable[RestoredMirror],
    destination: Cluster,
    tools: RestoreTools,
    context: CommandContext,
) -> None:
    """What `__mirror_state` refers to first; then of each mirror all records in one transaction."""
    for topic in (STATE_TOPIC, OFFSETS_TOPIC, GROUPS_TOPIC):
        if topic in saved.records:
            destination.open_store(topic, None, context.by, create=True).close()
    tools.checkpoint("topics")
    for each in mirrors:
        for topic in (OFFSETS_TOPIC, GROUPS_TOPIC) if each.changed else (OFFSETS_TOPIC,):
            if count := _write_absent(saved, topic, each, destination, context):
                tools.say(f"mirror {each.mirror}: {count} records written to {topic}")
        tools.checkpoint("offsets")
        if each.changed:
            with closing(destination.open_store(STATE_TOPIC, each.mirror, context.by)) as store:
                _write_state(saved, each, store, destination, context)
            tools.say(f"mirror {each.mirror}: {len(each.records)} records written to {STATE_TOPIC}")
        tools.checkpoint("state")


def _write_absent(
    saved: SavedState, topic: str, of: RestoredMirror, destination: Cluster, context: CommandContext
) -> int:
    """Write the records of a mirror whose keys the topic lacks; how many these were."""
    wanted = saved.of_mirrors(topic).get(of.mirror, ())
    if not wanted:
        return 0
    with closing(destination.open_store(topic, of.mirror, context.by)) as store:
        view = store.catch_up(context.by)
        if lacking := [each for each in wanted if each.key not in view]:
            store.append(lacking, context.by)
    return len(lacking)


def _write_state(
    saved: SavedState, of: RestoredMirror, store: StateStore, destination: Cluster, context: CommandContext
) -> None:
    view = store.catch_up(context.by)
    if present := compared(view, of.mirror):  # somebody was faster
        if (key := conflict(present, (), of.records)) is not None:
            raise StateNewer(f"mirror {of.mirror!r} is on {destination.name!r} by now, with another record {key}")
        return
    claims = [
        each for each in saved.claims() if (held := view.claim(each.state_partition)) is None or held.epoch < each.epoch
    ]
    take_in(lambda written: store.append(written, context.by), view, of.mirror, (*claims, *of.records.values()))
