"""What a failover asks the source, in this order. Nothing of it is decided here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from tanist.domain.acl_rules import entries_here
from tanist.domain.answers import answered, attempt, known, raise_first
from tanist.domain.broker_errors import ClusterAuthorizationFailed, TransactionalIdAuthorizationFailed
from tanist.domain.errors import (
    AnotherCluster,
    AuthorizationFailed,
    CouldNotTell,
    Stopped,
    TanistError,
    UnsupportedVersion,
)
from tanist.domain.failover.facts import NamedTransactions, SourceFacts, SourceState, Uncopied
from tanist.domain.fences import (
    HOLDS_PRODUCERS_OFF,
    FencedTopic,
    FenceKind,
    FenceStatus,
    SourceFences,
    may_stand,
    unrecorded,
)
from tanist.domain.growth import growth, new_topics
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, SourcePartition, TopicNames
from tanist.ports.clock import Deadline
from tanist.usecases.mirror import same_as_pinned
from tanist.usecases.snapshot import ClusterSnapshot, DestinationSnapshot, MirrorEnds, SourceSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.failover.facts import OpenTransaction, PartitionFacts, TransactionalProducers
    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import TopicPartition
    from tanist.domain.offset_policy import OffsetPolicy
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.domain.writer_identity import WriterIdentity
    from tanist.usecases.command import CommandContext
    from tanist.usecases.snapshot import ClusterSnapshot, DestinationSnapshot, MirrorSnapshot, SourceSnapshot


_P = TypeVar("_P", bound="TopicPartition")


def foreign(
    copies: DestinationSnapshot,
    ends: Mapping[MirrorPartition, LogEnds],
    writers: Mapping[MirrorPartition, WriterIdentity],
    fenced: AbstractSet[MirrorPartition],
    by: Deadline,
    begun: Mapping[MirrorPartition, int],
) -> dict[MirrorPartition, bool]:
    """Whether somebody else than the mirror wrote the last batch of each copy; not there: it could not be told.

    Behind a barrier it is not asked: there others write by right. An empty log has no foreign end; neither has one that
    ends where copying begins (`begun`).
    """
    last = {
        at: each.high_watermark - 1
        for at, each in ends.items()
        if max(each.start, begun.get(at, 0)) < each.high_watermark
    }
    asked = {at: offset for at, offset in last.items() if at not in fenced}
    try:
        answers = copies.last_producers(asked, by) if asked else {}
    except TanistError:
        answers = {}
    reported = {at: not writers[at].is_known(each) for at, each in answers.items() if not isinstance(each, TanistError)}
    return dict.fromkeys(set(ends) - set(asked), False) | reported


def longer(
    copies: DestinationSnapshot,
    ends: Mapping[MirrorPartition, LogEnds],
    offsets: OffsetPolicy,
    true_ends: Mapping[SourcePartition, int],
    names: TopicNames,
    by: Deadline,
) -> dict[MirrorPartition, bool | None]:
    """Whether each copy holds records from behind the true end of its source; None: they could not be read.

    `ends` (of the copies) were read before `true_ends`, and only what is committed is copied, so a source that has
    lost nothing is never the shorter one: not while it grows, nor when a leader is elected from the replicas in sync.
    Control batches alone prove nothing: a worker that died may have left one too many, which no map tells of yet.
    """
    spans: dict[MirrorPartition, tuple[int, int]] = {}
    for at, copy in ends.items():
        source_end = true_ends.get(names.at_source(at))
        if source_end is not None and offsets.copied(at, DestinationOffset(copy.high_watermark)) > source_end:
            spans[at] = (max(copy.start, offsets.in_copy(at, SourceOffset(source_end))), copy.high_watermark)
    answers = _only_control(copies, {at: span for at, span in spans.items() if span[0] < span[1]}, by)
    return {at: None if at not in answers else not answers[at] for at in spans}


def without_markers(
    both: MirrorSnapshot, found: tuple[PartitionFacts, ...], fence_status: Mapping[str, bool], by: Deadline
) -> tuple[PartitionFacts, ...]:
    """`found`, with the end of the data where markers alone follow it behind a fence.

    There a producer that tries again and again still spends offsets, on markers of its aborts.
    """
    if isinstance(both.source, TanistError):
        return found
    there = both.spec.names.at_source
    spans = {there(each.partition): each.tail for each in found if each.tail and fence_status.get(each.partition.topic)}
    answers = _only_control(both.source, spans, by)
    return tuple(_without_tail(each) if answers.get(there(each.partition)) is True else each for each in found)


def _without_tail(each: PartitionFacts) -> PartitionFacts:
    return each if each.live is None else replace(each, live=replace(each.live, data_end=each.copied))


def _only_control(cluster: ClusterSnapshot[_P], spans: Mapping[_P, tuple[int, int]], by: Deadline) -> dict[_P, bool]:
    try:
        answers = cluster.only_control(spans, by) if spans else {}
    except TanistError:
        answers = {}
    return {at: each for at, each in answers.items() if not isinstance(each, TanistError)}


_WATCHED: Final = HOLDS_PRODUCERS_OFF | {FenceStatus.LIFTED}
"""What stands, and what was lifted: the request of a command that was frozen may put that up again."""


def look_at_all_fences(source: SourceSnapshot, view: StateView, spec: MirrorSpec, by: Deadline) -> SourceFences:
    """All fences on record of a mirror, and those of its other topics that stand.

    Raises as `look_at_fences`.
    """
    held = view.source_fences(spec.mirror)
    topics = {spec.names.topic_at_source(each.topic) for each in view.topics(spec.mirror)}
    others = topics - {each.topic for each in held}
    return look_at_fences(source, held, others, by)


def look_at_fences(
    source: SourceSnapshot,
    held: Sequence[FencedTopic],
    topics: Iterable[str],
    by: Deadline,
    kinds_of: Sequence[FencedTopic] = (),
) -> SourceFences:
    """`held`: the fences on record that are to be looked at. `topics`: of which there is no record.

    `kinds_of`: fences on record of which it matters, too, whether they are near ones, or would be.

    Raises:
        TanistError: the source does not answer, or does not show its ACLs.
    """
    before = [each.before for each in held if each.before]
    others = sorted(topics)
    stands = source.fence_status(before, by) if before else {}
    kept = {each.topic: each.before for each in kinds_of if may_stand(each) and each.before}
    asked = sorted({*others, *(each.topic for each in kinds_of)} - kept.keys())
    answers = source.unfenced(asked, by) if asked else {}
    found = {topic: each for topic, each in answers.items() if not isinstance(each, TanistError)}
    stray = [unrecorded(found[topic]) for topic in others if topic in found]
    near = (topic for topic, each in (found | kept).items() if each.kind is FenceKind.TINY_MESSAGES)
    return SourceFences(
        stands=stands, unrecorded={each.topic: each for each in stray if each is not None}, near=frozenset(near)
    )


@dataclass(slots=True)
class Coordinated:
    """The transactions that coordinators know of, which may have written nothing to the partitions they name.

    It remembers what was there when the fence was first seen to stand.

    A transaction that began later is a producer that tries again behind the fence: it gets no record in, only the
    marker of its abort. If those counted, a producer that never gives up would hold a drain for ever.
    """

    _before: frozenset[tuple[str, int, int]] | None = None

    def ask(
        self, source: SourceSnapshot, partitions: Sequence[SourcePartition], by: Deadline, *, fenced: bool
    ) -> NamedTransactions:
        """`fenced`: the fences of all of `partitions` stand."""
        try:
            found = source.named_in_transactions(partitions, by)
        except (TransactionalIdAuthorizationFailed, UnsupportedVersion) as never:
            return NamedTransactions(complete=False, reason=str(never))
        except Stopped:
            raise
        except TanistError as why:
            return NamedTransactions(reason=str(why))
        if not fenced:
            self._before = None
        elif self._before is None:
            self._before = frozenset(map(_identity, found))
        old = found if self._before is None else tuple(t for t in found if _identity(t) in self._before)
        return NamedTransactions(complete=True, transactions=old)


def _identity(transaction: OpenTransaction) -> tuple[str, int, int]:
    return (transaction.transactional_id, transaction.producer_id, transaction.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSeen:
    """What is judged of the source, and what is read together with the destination. `ids`: of its topics.

    `ids`, `fences` and `acls` have the names of the copies.
    `unread`: why the true end of a partition is unknown. `acls`: by topic, those for writing; None: a fence hides them.
    """

    facts: SourceFacts
    ends: MirrorEnds[SourcePartition] = field(default_factory=MirrorEnds)
    true_ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    unread: Mapping[SourcePartition, TanistError] = field(default_factory=dict)
    named: NamedTransactions = field(default_factory=NamedTransactions)
    ids: Mapping[str, str] = field(default_factory=dict)
    fences: SourceFences = field(default_factory=SourceFences)
    transactional: Mapping[SourcePartition, TransactionalProducers] = field(default_factory=dict)
    acls: Mapping[str, tuple[AclEntry, ...] | None] = field(default_factory=dict)


class LeadersMove(CouldNotTell):
    """Brokers of the source answer, and no leader of any partition does."""

    name = "LEADERS_MOVE"
    operator_action = "none: it is asked again for a moment; a broker of the source may just have died"


def silent(why: TanistError) -> SourceSeen:
    """A source that does not answer."""
    elsewhere = why.reason if isinstance(why, AnotherCluster) else ""
    moves = isinstance(why, LeadersMove)
    facts = SourceFacts(state=SourceState.SILENT, reason=str(why), another_cluster=elsewhere, moves=moves)
    return SourceSeen(facts=facts, ends=MirrorEnds(down=why))


def soon(command: CommandContext) -> Deadline:
    """Until when a source has to answer that may be gone."""
    return Deadline(min(command.by.at, command.clock.deadline(command.source_seconds).at))


def see_source(  # noqa: PLR0913 -- what is looked at, and by whom
    spec: MirrorSpec,
    source: SourceSnapshot,
    wanted: Sequence[TopicDesired],
    view: StateView,
    coordinated: Coordinated,
    command: CommandContext,
    *,
    whole: bool,
) -> SourceSeen:
    """Everything about `wanted`. `whole`: they are the whole mirror, so new topics of the source are looked for, too.

    Raises:
        CouldNotTell, BrokerError: it does not answer. AnotherCluster: its connection leads elsewhere.
    """
    by = soon(command)
    partitions = [spec.names.at_source(at) for topic in wanted for at in topic.all_partitions()]
    true_ends = source.true_ends(partitions, by)  # first: it knows soonest that nobody is there
    answers = source.ends(partitions, by)  # after the true ends: what is committed by then was in the log
    names = frozenset(spec.names.topic_at_source(topic.topic) for topic in wanted)
    seen = source.registry(sorted(names), by)
    same_as_pinned(spec, seen.cluster_id, None)
    ends = known(answers)
    errors = [f"{at}: {answer}" for at, answer in answers.items() if isinstance(answer, TanistError)]
    failed = [answer for answer in answers.values() if isinstance(answer, TanistError)]
    moves = bool(failed) and all(each.retriable for each in failed)
    if partitions and not ends:
        if moves:
            raise LeadersMove(f"no partition's leader answers: {failed[0]}") from failed[0]
        raise_first(answers)
    more = growth(wanted, seen.partitions, spec.names)
    errors += [f"{topic}: {more.trouble(topic)}" for topic in more.unreported]
    beyond = known(source.ends(more.partitions, by)) if more.partitions else {}
    fences = {each.topic: each for each in view.source_fences(spec.mirror)}
    recorded = [each for each in fences.values() if each.topic in names]
    watched = [each for each in recorded if each.status in _WATCHED]
    looks = spec.fence_source or recorded  # else none is expected, and ACLs may not be shown to this login
    try:
        fencing = look_at_fences(source, watched, names - fences.keys(), by, recorded) if looks else SourceFences()
    except ClusterAuthorizationFailed as hidden:
        raise _fences_not_shown(spec) from hidden
    fenced = all(fencing.stands.get(topic) is True for topic in names)
    authorizer = source.authorizer(by)
    stuck = [at for at, each in ends.items() if each.last_stable < each.high_watermark]
    named = coordinated.ask(source, partitions, soon(command), fenced=fenced)
    refused = [at for at in partitions if not authorizer or at.topic in fencing.near]
    writers = answered(lambda: source.transactional(refused, soon(command))) if refused else None
    acls = answered(lambda: source.write_rules(sorted(names), soon(command))) if authorizer and not fenced else None
    unended = attempt(lambda: source.open_transactions(stuck, soon(command))) if stuck else ()
    if isinstance(unended, TanistError):
        unended, named = (), NamedTransactions(reason=str(unended))
    here = fencing.by_copy(spec.names)
    facts = SourceFacts(
        state=SourceState.PARTLY if errors else SourceState.ALIVE,
        reason="; ".join(errors[:3]),
        moves=moves and not more.unreported,
        authorizer=authorizer,
        near=here.near,
        uncopied=tuple(Uncopied(at, _record_span(beyond.get(at))) for at in more.partitions),
        new_topics=topics_without_copy(spec, view, source, by) if whole else (),
        transactions=unended,
        named=named.transactions,
        transactions_told=named.complete,
        transactions_reason=named.reason,
    )
    return SourceSeen(
        facts=facts,
        ends=MirrorEnds.of(answers),
        true_ends=known(true_ends),
        unread={at: answer for at, answer in true_ends.items() if isinstance(answer, TanistError)},
        named=named,
        ids=spec.names.by_copy(seen.topic_ids),
        fences=here,
        transactional=writers or {},
        acls=spec.names.by_copy({name: entries_here(each, spec.acl_principals) for name, each in (acls or {}).items()}),
    )


def _fences_not_shown(spec: MirrorSpec) -> AuthorizationFailed:
    command = f"tanist mirrors alter {spec.mirror} --destination {spec.destination} --no-fence-source"
    way = f", or leave its producers to people (`{command}`)" if spec.is_mapped else ""
    return AuthorizationFailed(
        f"on {spec.source!r}, this login lacks DESCRIBE on Cluster kafka-cluster, so its source fences cannot be seen: "
        f"grant it{way}"
    )


def topics_without_copy(spec: MirrorSpec, view: StateView, source: SourceSnapshot, by: Deadline) -> tuple[str, ...]:
    """What `metadata sync` would take in: new topics that no other mirror has. One request."""
    if not spec.include:
        return ()
    others = view.of_other_mirrors(spec.mirror)
    return tuple(
        name for name in new_topics(spec, source.topic_names(by), view) if spec.names.copy_of(name) not in others
    )


def _record_span(ends: LogEnds | None) -> int | None:
    return None if ends is None else ends.high_watermark - ends.start
