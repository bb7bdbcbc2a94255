"""`tanist mirrors seed-offsets`: a mapped mirror begins where another copier stopped, as its group says.

That copier committed at the source only, after it had written: what it wrote since its last commit is copied again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured, PartitionBroken, Refused, TanistError
from tanist.domain.fake_group import group_of
from tanist.domain.mapped_settings import ONLY_MAPPED
from tanist.domain.names import MirrorPartition, mirror_name
from tanist.domain.problems import refuse
from tanist.domain.records import OFFSETS_TOPIC
from tanist.domain.states import DesiredState, MirrorState
from tanist.usecases.lock import changing
from tanist.usecases.mirror import identify, same_as_pinned, spec_at
from tanist.usecases.mirrors.desire import MirrorTopicNotPaused
from tanist.usecases.offset_policy import copied_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import MirrorName, SourcePartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.positions import CommittedOf
    from tanist.usecases.command import CommandContext

_COPYING: Final = frozenset({MirrorState.PREPARING, MirrorState.MIRRORING, MirrorState.PAUSING})


class MirrorNotPausedYet(Refused):
    """It is to be paused, and a worker has not made it so."""

    name, state_explains = "MIRROR_NOT_PAUSED_YET", False
    operator_action = (
        "wait with `tanist mirrors wait NAME --for state=PAUSED` while a fetcher runs, then run this again; "
        "nothing was changed"
    )


class MirrorHasBegun(Refused):
    name = "MIRROR_HAS_BEGUN"
    operator_action = "its own positions count: create another mirror to begin elsewhere; nothing was changed"


class CopierRuns(Refused):
    name, state_explains = "COPIER_RUNS", False
    operator_action = "stop the copier whose group it is, so that its last commit is final; nothing was changed"


class SeedOutOfRange(Refused):
    name, state_explains = "SEED_OUT_OF_RANGE", False
    operator_action = (
        "see `kafka-consumer-groups.sh --describe` at the source: is it the right group?; nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededPartition:
    """`start`: the committed offset; None: the group has none, and the copy begins as it would without it.

    `may_repeat`: records that the copier may have written after its last commit, at most, in offsets. `lost`: offsets
    behind the commit that the source has deleted: nobody has copied their records, unless the copier did.
    """

    partition: MirrorPartition
    start: int | None
    may_repeat: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    spec: MirrorSpec
    group: str
    partitions: tuple[SeededPartition, ...]


def seed(
    mirror: str, group: str, destination: Cluster, connect: Callable[[str], Cluster], context: CommandContext
) -> Seeded:
    """Store the committed offsets of `group` at the source as the starts of the mirror's copies. Idempotent.

    Raises:
        MirrorHasBegun: it has positions, or published ranges. MirrorTopicNotPaused: it is not to be paused.
        MirrorNotPausedYet: a worker may begin meanwhile.
        CopierRuns: the group has members. SeedOutOfRange: a commit is behind the end of the log.
        Misconfigured: offsets of the mirror are identical, or the group has no commit in it. Problems: several.
    """
    name = mirror_name(mirror)
    spec = spec_at(destination, name, context)
    if not spec.is_mapped:
        raise Misconfigured(ONLY_MAPPED.format("seed-offsets"))
    source = connect(spec.source)
    (source_id,) = identify((source,), context)
    same_as_pinned(spec, source_id, None)

    def checked(view: StateView) -> None:
        _must_not_have_begun(spec, view, destination, context.by)

    with changing(destination, name, "mirrors seed-offsets", context, checked) as mirror_now:
        view = mirror_now.view()
        checked(view)
        topics = view.mirrored(name)
        committed = _committed(name, group, source, context.by)
        found = _seeded(spec, topics, committed, source, context.by)
        if all(each.start is None for each in found.values()):
            raise Misconfigured(f"group {group!r} has no commit in a topic of mirror {name!r} at {spec.source!r}")
        context.announce([topic.topic for topic in topics])
        now = context.clock.now()
        mirror_now.append([replace(each, source_starts=_starts(each, found), changed_at=now) for each in topics])
    return Seeded(spec=spec, group=group, partitions=tuple(found.values()))


def _starts(topic: TopicDesired, found: Mapping[MirrorPartition, SeededPartition]) -> tuple[int, ...]:
    """A partition without a commit begins as before."""
    seeds = ((at, found[at].start) for at in topic.all_partitions())
    return tuple(topic.source_start(at.partition) if start is None else start for at, start in seeds)


def _must_not_have_begun(spec: MirrorSpec, view: StateView, destination: Cluster, by: Deadline) -> None:
    group, topics = group_of(spec.mirror), view.mirrored(spec.mirror)
    ours = {at for topic in topics for at in topic.all_partitions()}
    positions = copied_positions(spec, destination, view, by)
    for each in positions.values():
        if isinstance(each, TanistError) and not isinstance(each, PartitionBroken):
            raise each
    held = {at for at, each in positions.items() if each is not None}
    published = {each.partition for each in destination.state(OFFSETS_TOPIC, by).offset_ranges(spec)}
    if begun := sorted(ours & (held | published)):
        raise MirrorHasBegun(f"group {group!r} of mirror {spec.mirror!r} has positions, of {begun[0]} for example")
    if problems := [*_not_paused(topics, view)]:
        refuse(problems)


def _not_paused(topics: tuple[TopicDesired, ...], view: StateView) -> Iterator[TanistError]:
    for topic in topics:
        if topic.desired is not DesiredState.PAUSED:
            yield MirrorTopicNotPaused(f"{topic.topic!r} of mirror {topic.mirror!r} is not paused: it is being copied")
            continue
        seen = (view.observed(topic.mirror, at) for at in topic.all_partitions())
        copying = next((each for each in seen if each is not None and each.state in _COPYING), None)
        if copying is not None:
            yield MirrorNotPausedYet(
                f"{copying.partition} of mirror {topic.mirror!r} is {copying.state}: a worker may begin it"
            )


def _committed(mirror: MirrorName, group: str, source: Cluster, by: Deadline) -> CommittedOf:
    positions = source.positions(mirror)
    facts = positions.groups(by).get(group)
    if facts is not None and facts.members:
        raise CopierRuns(f"group {group!r} has {facts.members} member(s) at {source.name!r}")
    answer = positions.committed([group], by)[group]
    if isinstance(answer, TanistError):
        raise answer
    return answer


def _seeded(
    spec: MirrorSpec, topics: tuple[TopicDesired, ...], committed: CommittedOf, source: Cluster, by: Deadline
) -> dict[MirrorPartition, SeededPartition]:
    """What the group says of each partition. Raises what a partition of the source, or of the group, answers."""
    there = {at: spec.names.at_source(at) for topic in topics for at in topic.all_partitions()}
    ends = source.logs.ends(list(there.values()), by)
    found, problems = {}, list[TanistError]()
    for at, original in there.items():
        one = _one(at, original, committed, ends)
        if isinstance(one, TanistError):
            problems.append(one)
        else:
            found[at] = one
    if problems:
        refuse(problems)
    return found


def _one(
    at: MirrorPartition,
    there: SourcePartition,
    committed: CommittedOf,
    ends: Mapping[SourcePartition, LogEnds | TanistError],
) -> SeededPartition | TanistError:
    held, log = committed.get(there), ends[there]
    if isinstance(log, TanistError):
        return log
    if isinstance(held, TanistError):
        return held
    if held is None:
        return SeededPartition(partition=at, start=None, may_repeat=0, lost=0)
    if held.offset > log.high_watermark:
        return SeedOutOfRange(
            f"{there}: the group has committed {held.offset}, and the log ends at {log.high_watermark}"
        )
    start = max(held.offset, log.start)
    return SeededPartition(
        partition=at, start=held.offset, may_repeat=log.high_watermark - start, lost=start - held.offset
    )
