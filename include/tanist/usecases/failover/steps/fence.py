"""Producers are kept off the source: snapshot, store, fence, prove. Where the source does not answer it is owed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.answers import attempt
from tanist.domain.checks import Mode
from tanist.domain.errors import AuthorizationFailed, CouldNotTell, TanistError, TimedOut
from tanist.domain.failover.facts import SourceState
from tanist.domain.fences import HOLDS_PRODUCERS_OFF, FencedTopic, FenceKind, FenceStatus, is_stray, may_stand
from tanist.domain.kept_fences import fences_with
from tanist.domain.names import EpochMs
from tanist.usecases.command import SOURCE_SECONDS
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import Done

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.fences import FenceBefore
    from tanist.domain.names import TopicPartition
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.logs import Logs
    from tanist.usecases.failover.step import RunSession, StepContext, Undoing


def to_be_set(
    source: Cluster, names: Iterable[str], held: Mapping[str, FencedTopic], plan: str | None, by: Deadline
) -> dict[str, FencedTopic | TanistError]:
    """Of each topic what has to be stored before its fence is set, or why the source does not tell it.

    `held`: the fences on record. `plan`: which one needs them; None: the same as before. A fence of ours that is in
    force already is no new "before". Neither is one that was lifted and is in force again: taken for somebody else's it
    could never be lifted.
    """
    wanted = tuple(names)
    recorded = {name: held[name] for name in wanted if name in held}
    ended = [each.before for each in recorded.values() if each.before and not may_stand(each)]
    stands = source.fencing.fence_status(ended, by) if ended else {}
    ours = {
        name: each
        for name, each in recorded.items()
        if may_stand(each) or is_stray(each, stands=stands.get(name) is True)
    }
    unknown = {name: why for name, why in stands.items() if isinstance(why, TanistError)}
    new = [name for name in wanted if name not in ours and name not in unknown]
    answers = attempt(lambda: source.fencing.snapshot(new, by)) if new else {}
    entries: dict[str, FencedTopic | TanistError] = {}
    for name in wanted:
        wanted_by = held[name].wanted_by if plan is None else plan
        if name in ours:
            entries[name] = _again(ours[name], wanted_by)
            continue
        found = unknown.get(name) or (answers if isinstance(answers, TanistError) else answers[name])
        entries[name] = (
            found
            if isinstance(found, TanistError)
            else FencedTopic(topic=name, status=FenceStatus.SNAPSHOT, wanted_by=wanted_by, before=found)
        )
    return entries


def _again(old: FencedTopic, wanted_by: str) -> FencedTopic:
    """A proof counts as long as the fence has not been lifted."""
    status = old.status if old.status in HOLDS_PRODUCERS_OFF else FenceStatus.SNAPSHOT
    since = old.proved_at if status is old.status else None
    return replace(old, status=status, wanted_by=wanted_by, proved_at=since)


def applied(source: Cluster, entries: Iterable[FencedTopic], by: Deadline) -> dict[str, FencedTopic | TanistError]:
    """Set the fences of `entries`, whose settings before are stored: each entry as it is then, or why it is not set."""
    due = {each.topic: each for each in entries if each.before}
    before = [each.before for each in due.values() if each.before]
    answers = attempt(lambda: source.fencing.apply(before, by)) if before else {}
    after: dict[str, FencedTopic | TanistError] = {}
    for name, each in due.items():
        error = answers if isinstance(answers, TanistError) else answers[name]
        after[name] = replace(each, status=FenceStatus.IN_FORCE, reason="") if error is None else error
    return after


def lifted(
    source: Cluster | TanistError, entries: Iterable[FencedTopic], by: Deadline, now: EpochMs
) -> list[FencedTopic]:
    """`entries` after lifting. What was never set is owed no more; where an answer was lost it may be in force."""
    held = list(entries)
    fences = [each.before for each in held if each.before and may_stand(each)]
    answers = _lifted_at(source, fences, by) if fences else {}
    after = []
    for each in held:
        if (error := _answer(each, answers)) is None:
            after.append(replace(each, status=FenceStatus.LIFTED, reason="", proved_at=None, lift_asked_at=None))
        else:
            asked = each.lift_asked_at or now
            after.append(replace(each, status=FenceStatus.LIFT_PENDING, reason=str(error), lift_asked_at=asked))
    return after


def _lifted_at(
    source: Cluster | TanistError, fences: Sequence[FenceBefore], by: Deadline
) -> Mapping[str, TanistError | None] | TanistError:
    """By topic why its fence may still be in force. One that is not, as the source says, has nothing to lift.

    A login that may not lift a fence could not set it either.
    """
    if isinstance(source, TanistError):
        return source
    answers = attempt(lambda: source.fencing.lift(fences, by))
    if isinstance(answers, TanistError) or not any(answers.values()):
        return answers
    failed = [each for each in fences if answers.get(each.topic) is not None]
    stands = attempt(lambda: source.fencing.fence_status(failed, by))
    gone = set() if isinstance(stands, TanistError) else {topic for topic, found in stands.items() if found is False}
    return {topic: None if topic in gone else error for topic, error in answers.items()}


def _answer(each: FencedTopic, answers: Mapping[str, TanistError | None] | TanistError) -> TanistError | None:
    if not may_stand(each):
        return None
    return answers if isinstance(answers, TanistError) else answers.get(each.topic)


_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteActivity:
    """Since the look before. `unreported`: does not answer, or what it has taken cannot be read yet."""

    data: tuple[TopicPartition, ...]
    unreported: tuple[TopicPartition, ...]


@dataclass(slots=True)
class Watch:
    """Who writes to a source: logs are read to their very ends, because markers of transactions are no records.

    The first look is what later ones are compared with.
    """

    logs: Logs
    partitions: Sequence[TopicPartition]
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Up to here each log has been judged."""

    def look(self, by: Deadline) -> WriteActivity:
        """Raises CouldNotTell: nobody answers at all."""
        found = self.logs.true_ends(self.partitions, by)
        now = {at: end for at, end in found.items() if not isinstance(end, TanistError)}
        new = {at: end for at, end in now.items() if at not in self.ends}
        moved = {at: (self.ends[at], end) for at, end in now.items() if at in self.ends and end != self.ends[at]}
        judged = self.logs.only_control(moved, by) if moved else {}
        data = tuple(at for at, only in judged.items() if only is False)
        blind = tuple(at for at, only in judged.items() if isinstance(only, TanistError))
        self.ends |= new | {at: end for at, (_, end) in moved.items() if at not in blind}
        return WriteActivity(data=data, unreported=(*(at for at in self.partitions if at not in now), *blind))


class FenceLeaks(TimedOut):
    name = "FENCE_LEAKS"
    operator_action = "find the producers that still write to the topics named above (ACLs do not bind super users)"


class ProducersWrite(TimedOut):
    name = "PRODUCERS_WRITE"
    operator_action = (
        "the mirror resumes: stop the producers of the topics named above, which this mirror leaves to you "
        "(`--no-fence-source`), then plan again"
    )


def do(context: StepContext) -> Done:
    """Every topic ends PROVED, or OWED (which a planned failover does not accept).

    Where the mirror fences no source, a planned failover only waits until nobody writes there.
    """
    if not context.spec.fence_source:
        return _left_unfenced(context)
    if isinstance(context.source, TanistError) or context.facts.source.state is SourceState.SILENT:
        return _owe_all(context, context.facts.source.reason)
    by = context.clock.deadline(SOURCE_SECONDS)
    entries = _snapshot(context, context.source, by)
    context.checkpoint("fence:stored")
    entries = _apply(context, context.source, entries, by)
    context.checkpoint("fence:applied")
    standing = [each for each in entries.values() if each.status in HOLDS_PRODUCERS_OFF]
    waited, unproved = _prove(context, context.source, standing)
    proved_at = EpochMs(context.clock.now() - round(context.patience.proof * 1000))
    store(context.session, context.spec, (_proved(each, unproved, proved_at) for each in standing))
    statuses = {each.topic: each.status for each in context.session.view().source_fences(context.intent.mirror)}
    kinds = sorted({each.before.kind for each in standing if each.before})
    return Done({"fences": statuses, "kinds": kinds, "proof_seconds": context.patience.proof}, waited)


def _left_unfenced(context: StepContext) -> Done:
    """Raises ProducersWrite: a partition of a planned failover took records until the time for the drain was over."""
    waited, source = 0.0, context.source
    if context.intent.mode is Mode.PLANNED and context.patience.proof:
        if isinstance(source, TanistError):
            raise source
        partitions = [*map(context.spec.names.at_source, context.intent.partitions)]
        waited, _ = _until_quiet(context, Watch(source.logs, partitions), ProducersWrite, "")
    context.session.mark("fence")
    return Done({"not_fenced": sorted(_topics(context)), "proof_seconds": context.patience.proof}, waited)


def undo(of: Undoing) -> None:
    """Lift the fences of this run's topics; those that could not be lifted stay pending.

    Never that of a topic that has taken over: both sides could be written to.
    """
    view, mirror = of.session.view(), of.intent.mirror
    names_at = of.clusters.spec.names.topic_at_source
    names = frozenset(names_at(name) for name in of.intent.names if not view.promoted(mirror, name))
    ours = [each for each in view.source_fences(mirror) if each.topic in names]
    of.session.confirm()
    clock = of.session.command.clock
    after = lifted(of.clusters.source, ours, clock.deadline(2 * SOURCE_SECONDS), clock.now())
    store(of.session, of.clusters.spec, after)
    of.checkpoint("abort:lifted")
    of.pending.extend(each.topic for each in after if each.status is FenceStatus.LIFT_PENDING)


def _proved(fence: FencedTopic, unproved: frozenset[str], at: EpochMs) -> FencedTopic:
    """`at`: since when no log has taken a record. Every proof is its own: the fence was applied again before it."""
    if fence.topic in unproved:
        return replace(fence, status=FenceStatus.UNPROVED, reason="", proved_at=None)
    return replace(fence, status=FenceStatus.PROVED, reason="", proved_at=at, lift_asked_at=None)


def store(session: RunSession, spec: MirrorSpec, entries: Iterable[FencedTopic]) -> None:
    """Put `entries` into the mirror's record of fences; those of other topics stay."""
    changed = fences_with(session.view().source_fences(spec.mirror), entries, spec, session.command.clock.now())
    if changed is not None:
        session.write([changed])


def _owe_all(context: StepContext, reason: str) -> Done:
    held = {each.topic: each for each in context.session.view().source_fences(context.intent.mirror)}
    store(
        context.session,
        context.spec,
        (_pending(context, name, held.get(name), reason) for name in _topics(context)),
    )
    return Done({"owed": sorted(_topics(context)), "reason": reason})


def _topics(context: StepContext) -> tuple[str, ...]:
    """The topics to fence, as the source names them."""
    return tuple(map(context.spec.names.topic_at_source, context.intent.names))


def _pending(context: StepContext, topic: str, held: FencedTopic | None, reason: str) -> FencedTopic:
    before = held.before if held and held.status is not FenceStatus.LIFTED else None
    settled = held is not None and held.status in {FenceStatus.PROVED, FenceStatus.UNPROVED}
    status = held.status if held is not None and settled else FenceStatus.PENDING
    return FencedTopic(
        topic=topic,
        status=status,
        wanted_by=context.session.record.plan,
        before=before,
        reason=reason,
        proved_at=held.proved_at if held is not None and before is not None else None,
        lift_asked_at=held.lift_asked_at if held is not None and before is not None else None,
    )


def _snapshot(context: StepContext, source: Cluster, by: Deadline) -> dict[str, FencedTopic]:
    """What is there before the fence, on record."""
    held = {each.topic: each for each in context.session.view().source_fences(context.intent.mirror)}
    entries: dict[str, FencedTopic] = {}
    found = to_be_set(source, _topics(context), held, context.session.record.plan, by)
    for name, each in found.items():
        if isinstance(each, TanistError):
            error = _lacking(source, name, None, each)
            _must_not_be_planned(context, name, error)
            entries[name] = _pending(context, name, None, str(error))
        else:
            entries[name] = each
    store(context.session, context.spec, entries.values())
    return entries


def _apply(
    context: StepContext, source: Cluster, entries: Mapping[str, FencedTopic], by: Deadline
) -> dict[str, FencedTopic]:
    context.session.confirm()
    after = dict(entries)
    due = (each for each in entries.values() if each.status is not FenceStatus.PENDING)
    for name, each in applied(source, due, by).items():
        if isinstance(each, TanistError):
            error = _lacking(source, name, entries[name].before, each)
            _must_not_be_planned(context, name, error)
            after[name] = replace(entries[name], status=FenceStatus.PENDING, reason=str(error))
        else:
            after[name] = each
    store(context.session, context.spec, after.values())
    return after


def _must_not_be_planned(context: StepContext, topic: str, error: TanistError) -> None:
    """Raises AuthorizationFailed where a permission is missing, else CouldNotTell: a planned failover needs it."""
    if context.intent.mode is Mode.PLANNED:
        kind = AuthorizationFailed if isinstance(error, AuthorizationFailed) else CouldNotTell
        said = error.reason if isinstance(error, AuthorizationFailed) else str(error)
        raise kind(f"topic {topic!r} of the source could not be fenced: {said}") from error


def _lacking(source: Cluster, topic: str, fence: FenceBefore | None, error: TanistError) -> TanistError:
    """`error` with the permission that is missing. `fence`: what was about to be set; None: it was only looked for."""
    if fence is None:
        needed = "DESCRIBE on Cluster kafka-cluster"
    elif fence.kind is FenceKind.DENY_WRITE:
        needed = "ALTER on Cluster kafka-cluster"
    else:
        needed = f"ALTER_CONFIGS on Topic {topic}"
    return named(error, source, needed)


def _prove(context: StepContext, source: Cluster, in_force: list[FencedTopic]) -> tuple[float, frozenset[str]]:
    """Seconds waited until no log of a fenced partition had taken a record for the whole window, and what is unproved.

    Logs are watched to their leaders' true ends. Markers are no records: transactions that were open may still end, and
    a producer that tries again behind the fence ends each of its transactions with one.
    """
    window = context.patience.proof
    fenced_topics = {each.topic for each in in_force}
    every = map(context.spec.names.at_source, context.intent.partitions)
    partitions = [at for at in every if at.topic in fenced_topics]
    if not window or not partitions:
        return 0.0, frozenset(fenced_topics)
    watch = Watch(source.logs, partitions)
    waited, unreported = _until_quiet(context, watch, FenceLeaks, " after they were fenced")
    return waited, frozenset(at.topic for at in unreported)


def _until_quiet(
    context: StepContext, watch: Watch, error: type[TimedOut], since: str
) -> tuple[float, tuple[TopicPartition, ...]]:
    """Seconds waited until no log had taken a record for the whole window, and those that do not report it.

    Raises `error`, which says `since` when logs grow: it took longer than a drain may.
    """
    clock, window = context.clock, context.patience.proof
    began = still = clock.monotonic()
    seen = watch.look(clock.deadline(SOURCE_SECONDS))
    while clock.monotonic() - still < window or (seen.unreported and context.intent.mode is Mode.PLANNED):
        context.session.wait(min(_LOOK_SECONDS, window))
        seen = watch.look(clock.deadline(SOURCE_SECONDS))
        still = clock.monotonic() if seen.data else still
        if (seen.data or seen.unreported) and clock.monotonic() - began > context.patience.drain:
            raise error(_why(seen, clock.monotonic() - began, since))
    return clock.monotonic() - began, seen.unreported


def _why(seen: WriteActivity, seconds: float, since: str) -> str:
    if seen.data:
        return f"{', '.join(map(str, seen.data[:5]))} kept growing for {seconds:.0f} s{since}"
    return f"{', '.join(map(str, seen.unreported[:5]))} could not be read to the end of the log within {seconds:.0f} s"
