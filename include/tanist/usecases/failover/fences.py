"""`tanist fence show|lift|set`: the source fences of a mirror by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.answers import attempt
from tanist.domain.checks import named
from tanist.domain.errors import Refused, TanistError, TopicNotInMirror
from tanist.domain.fences import (
    HOLDS_PRODUCERS_OFF,
    UNRECORDED,
    FencedTopic,
    FenceStatus,
    fence_command,
    is_stray,
    may_stand,
)
from tanist.domain.kept_fences import fence_groups
from tanist.domain.selection import EVERY_TOPIC
from tanist.usecases.command import SOURCE_SECONDS
from tanist.usecases.failover.observe import Observer
from tanist.usecases.failover.source_seen import look_at_all_fences, look_at_fences
from tanist.usecases.failover.steps.fence import applied, lifted, to_be_set
from tanist.usecases.lock import Purpose, mirror_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.fences import SourceFences
    from tanist.domain.kept_fences import FenceGroup
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.mirror import OpenMirror

_SET: Final = frozenset({*HOLDS_PRODUCERS_OFF, FenceStatus.PENDING})
"""Nothing is to be done: it is in force, or a fetcher is about to set it."""


_Found: TypeAlias = "tuple[FenceGroup, FencedTopic]"


class StillNeeded(Refused):
    name = "FENCE_STILL_NEEDED"
    operator_action = "nothing was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRow:
    """`stands`: what the cluster says now; None: it does not answer. `group`: with the cluster, if that matters."""

    source_fence: FencedTopic
    stands: bool | None
    reason: str = ""
    group: FenceGroup | None = None


def fences(clusters: OpenMirror, command: CommandContext) -> tuple[FenceRow, ...]:
    """Every fence on record, and whether it stands; then those that stand and are not on record."""
    observer = Observer(clusters=clusters, context=command)
    return _rows(observer.view(), clusters, command)


def _rows(view: StateView, clusters: OpenMirror, command: CommandContext) -> tuple[FenceRow, ...]:
    groups = fence_groups(view, clusters.spec)
    return tuple(row for group in groups for row in _rows_of(group, view, clusters, command))


def _rows_of(group: FenceGroup, view: StateView, clusters: OpenMirror, command: CommandContext) -> tuple[FenceRow, ...]:
    held, by = group.topics, command.clock.deadline(SOURCE_SECONDS)
    source = _at(group, clusters).snapshot().source
    if isinstance(source, TanistError):
        return tuple(FenceRow(source_fence=each, stands=None, reason=str(source), group=group) for each in held)
    spec = group.spec
    seen = attempt(
        lambda: look_at_fences(source, held, (), by) if group.kept else look_at_all_fences(source, view, spec, by)
    )
    if isinstance(seen, TanistError):
        return tuple(FenceRow(source_fence=each, stands=None, reason=str(seen), group=group) for each in held)
    strange = (
        FenceRow(source_fence=each, stands=True, reason=UNRECORDED, group=group) for each in seen.unrecorded.values()
    )
    return (*(_row(each, seen, group) for each in held), *strange)


def _at(group: FenceGroup, clusters: OpenMirror) -> OpenMirror:
    """`clusters` with the one whose topics the fences of `group` are about as the source."""
    if group.spec.source == clusters.spec.source:
        return clusters
    return replace(clusters, spec=group.spec, source=clusters.destination)


def _row(fence: FencedTopic, seen: SourceFences, group: FenceGroup) -> FenceRow:
    found = seen.stands.get(fence.topic)
    if isinstance(found, TanistError):
        return FenceRow(source_fence=fence, stands=None, reason=str(found), group=group)
    why = f"its topic stayed behind at {group.spec.source!r} in a reversal" if group.kept else ""
    return FenceRow(source_fence=fence, stands=found, reason=fence.reason or why, group=group)


# ── lift ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def lift(
    clusters: OpenMirror,
    command: CommandContext,
    *,
    of_promoted: bool,
    unrecorded: bool = False,
    topics: Selection = EVERY_TOPIC,
) -> tuple[FencedTopic, ...]:
    """Lift what stands, exactly; also what was lifted before and stands again, by a late command for instance.

    Of topics that took over, or stayed behind in a reversal, only where `of_promoted` says that both sides may be
    written to then; and of several of them only those that somebody has named (`topics`). One that is not on record
    only where it is asked for (`unrecorded`): what somebody else has made looks the same.

    Raises:
        StillNeeded: a run is under way, there are no fences but of topics that took over, or several of them.
        TopicNotInMirror: there is no such fence.
    """

    def decide(view: StateView) -> list[_Found]:
        return _may_be_lifted(view, clusters, command, topics, of_promoted=of_promoted, unrecorded=unrecorded)

    return _change("fence lift", decide, _lift_of, clusters, command)


def _lift_of(
    group: FenceGroup, ours: Sequence[FencedTopic], clusters: OpenMirror, lock: LockedMirror
) -> list[FencedTopic]:
    clock = lock.command.clock
    lock.confirm()
    after = lifted(_at(group, clusters).source, ours, clock.deadline(2 * SOURCE_SECONDS), clock.now())
    _store(group, after, lock)
    return after


def _may_be_lifted(
    view: StateView,
    clusters: OpenMirror,
    command: CommandContext,
    topics: Selection,
    *,
    of_promoted: bool,
    unrecorded: bool,
) -> list[_Found]:
    mirror = clusters.spec.mirror
    if (running := view.unfinished(mirror)) is not None:
        undo = f"tanist failover abort {mirror} --destination {clusters.destination.name}"
        raise StillNeeded(f"plan {running.plan} is unfinished: `{undo}` lifts its source fence")
    rows = (
        (group, row) for group in fence_groups(view, clusters.spec) for row in _rows_of(group, view, clusters, command)
    )
    found = [(group, pending) for group, row in rows if (pending := _to_be_lifted(row)) is not None]
    if not found:
        raise TopicNotInMirror(f"mirror {mirror!r} has no source fence in force")
    found = _chosen(topics, found, f"topic of mirror {mirror!r} whose source fence is in force")
    standing = [each for each in found if unrecorded or each[1].status is not FenceStatus.UNRECORDED]
    if not standing:
        raise StillNeeded(
            f"no failover recorded the source fence of {_names(found)}; lift it with --unrecorded if it is not in use"
        )
    needed = [fence.topic for group, fence in standing if group.must_stand(view, fence.topic)]
    if of_promoted:
        if len(needed) > 1 and topics == EVERY_TOPIC:
            raise StillNeeded(_needed(needed, clusters, command))
        return standing
    if not (free := [(group, fence) for group, fence in standing if fence.topic not in needed]):
        raise StillNeeded(_needed(needed, clusters, command))
    return free


def _needed(needed: Sequence[str], clusters: OpenMirror, command: CommandContext) -> str:
    """Why these source fences are not lifted, with the command for the one that is most likely meant.

    That is the first that the destination has no more, which is about to be copied again. No command names several.
    """
    copies = {topic: clusters.spec.names.mirrored_topic(topic) for topic in needed}
    seen = clusters.snapshot().destination.registry(sorted(copies.values()), command.by).partitions
    gone = [topic for topic in needed if isinstance(seen[copies[topic]], TanistError)]
    one = (gone or needed)[:1]
    typed = fence_command("lift", clusters.spec.mirror, clusters.destination.name, one, "--promoted")
    which = f"{', '.join(gone[:5])} not at the destination any more; " if gone else ""
    return (
        f"{named(needed, ', ')}: failed over; without its source fence producers can write a topic to both clusters; "
        f"{which}lift that of one which is meant: `{typed}`"
    )


def _names(found: Sequence[_Found]) -> str:
    return ", ".join(fence.topic for _, fence in found[:5])


def _to_be_lifted(row: FenceRow) -> FencedTopic | None:
    fence = row.source_fence
    if may_stand(fence):
        return fence
    return replace(fence, status=FenceStatus.LIFT_PENDING) if is_stray(fence, stands=row.stands) else None


# ── set ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def set_again(clusters: OpenMirror, command: CommandContext, topics: Selection) -> tuple[FencedTopic, ...]:
    """Set the source fences of failed-over topics that were lifted. One that is in force, or pending, stays as it is.

    The settings that are there now are stored before. Where the source does not answer the fence is PENDING, and a
    fetcher sets it.

    Raises:
        StillNeeded: a run is under way. TopicNotInMirror: no topic that was failed over has a recorded source fence, or
        an expression matches none of these.
    """

    def decide(view: StateView) -> list[_Found]:
        return _may_be_set(view, clusters, command, topics)

    return _change("fence set", decide, _set_of, clusters, command)


def _may_be_set(view: StateView, clusters: OpenMirror, command: CommandContext, topics: Selection) -> list[_Found]:
    mirror = clusters.spec.mirror
    if (running := view.unfinished(mirror)) is not None:
        raise StillNeeded(f"plan {running.plan} is unfinished: {running.next_actions}")
    elsewhere = view.of_other_mirrors(mirror)
    found = [
        (group, _as_seen(row))
        for group in fence_groups(view, clusters.spec)
        for row in _rows_of(group, view, clusters, command)
        if group.must_stand(view, topic := row.source_fence.topic) and group.copy_of(topic) not in elsewhere
    ]
    if not found:
        raise TopicNotInMirror(f"mirror {mirror!r} has failed over no topic with a recorded source fence")
    return _chosen(topics, found, f"topic that mirror {mirror!r} has failed over")


def _as_seen(row: FenceRow) -> FencedTopic:
    """What a recorded fence is that another client has lifted: stored, and not set."""
    fence = row.source_fence
    gone = fence.status in HOLDS_PRODUCERS_OFF and row.stands is False
    return replace(fence, status=FenceStatus.SNAPSHOT, proved_at=None) if gone else fence


def _set_of(
    group: FenceGroup, ours: Sequence[FencedTopic], clusters: OpenMirror, lock: LockedMirror
) -> list[FencedTopic]:
    due = {each.topic: each for each in ours if each.status not in _SET}
    if not due:
        return list(ours)
    source, by = _at(group, clusters).source, lock.command.clock.deadline(2 * SOURCE_SECONDS)
    seen = source if isinstance(source, TanistError) else attempt(lambda: to_be_set(source, due, due, None, by))
    known = dict.fromkeys(due, seen) if isinstance(seen, TanistError) else seen
    after = {name: _or_pending(due[name], each) for name, each in known.items()}
    _store(group, after.values(), lock)
    lock.confirm()
    if not isinstance(source, TanistError):
        ready = [each for each in after.values() if each.status is not FenceStatus.PENDING]
        after |= {name: _or_pending(after[name], each) for name, each in applied(source, ready, by).items()}
        _store(group, after.values(), lock)
    return [after.get(each.topic, each) for each in ours]


def _or_pending(old: FencedTopic, answer: FencedTopic | TanistError) -> FencedTopic:
    """A fetcher sets it; what was there before a fence that was lifted, and is not in force again, is read anew."""
    if isinstance(answer, FencedTopic):
        return answer
    before = old.before if may_stand(old) or old.reason else None
    return replace(
        old, status=FenceStatus.PENDING, before=before, reason=str(answer), proved_at=None, lift_asked_at=None
    )


# ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _change(
    operation: str,
    decide: Callable[[StateView], list[_Found]],
    act: Callable[[FenceGroup, Sequence[FencedTopic], OpenMirror, LockedMirror], list[FencedTopic]],
    clusters: OpenMirror,
    command: CommandContext,
) -> tuple[FencedTopic, ...]:
    """What `act` leaves of the fences that `decide` finds, under the lock of the mirror. A dry run finds them only."""
    observer = Observer(clusters=clusters, context=command)
    found = decide(observer.view())
    if command.dry_run:
        return tuple(fence for _, fence in found)
    with mirror_lock(clusters.destination, clusters.spec.mirror, Purpose(operation=operation), command) as lock:
        view = lock.view()
        found = decide(view)
        after: list[FencedTopic] = []
        for group in fence_groups(view, clusters.spec):
            if ours := [fence for of, fence in found if of == group]:
                after += act(group, ours, clusters, lock)
        return tuple(after)


def _chosen(topics: Selection, found: Sequence[_Found], what: str) -> list[_Found]:
    names = frozenset(topics.chosen({fence.topic for _, fence in found}, what))
    return [each for each in found if each[1].topic in names]


def _store(group: FenceGroup, entries: Iterable[FencedTopic], lock: LockedMirror) -> None:
    clock = lock.command.clock
    if changed := group.again(lock.view()).updated(entries, clock.now()):
        lock.append([changed])
