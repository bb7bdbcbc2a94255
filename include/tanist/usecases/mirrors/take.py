"""Adding topics to a mirror, for `create` and `add`: examine all of them first, then create the mirror topics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from tanist.domain.acl_entries import ANYBODY
from tanist.domain.broker_errors import InvalidReplicationFactor, TopicAlreadyExists
from tanist.domain.errors import (
    AuthorizationFailed,
    BrokerError,
    CouldNotTell,
    DestinationNotEmpty,
    Interrupted,
    Misconfigured,
    TanistError,
    TopicAlreadyInMirror,
    TopicFenced,
    TopicMismatch,
    UnsafeStateTopic,
)
from tanist.domain.failover.plan import is_another_topic
from tanist.domain.names import SAME_NAMES
from tanist.domain.originals import Originals
from tanist.domain.owners import Owners
from tanist.domain.problems import ProblemCollector, about
from tanist.domain.records import TopicDesired
from tanist.domain.states import DesiredState
from tanist.domain.synced.configs import following, is_fenced
from tanist.domain.topic_configs import MAX_MESSAGE_BYTES, differences, plan_configs
from tanist.ports.topics import NewTopic
from tanist.usecases import rights
from tanist.usecases.mirrors import observe
from tanist.usecases.mirrors.observe import read_promotions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.adoption import OppositeMirror
    from tanist.domain.compaction import Holes
    from tanist.domain.names import EpochMs, TopicNames
    from tanist.domain.records import MirrorSpec
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.domain.topic_configs import TopicConfigs
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.topics import TopicFacts
    from tanist.usecases.mirrors.observe import DestinationTopic
    from tanist.usecases.snapshot import DestinationSnapshot, SourceSnapshot


_WRITERS_UNKNOWN: Final = (
    "who may write to it at the source is not known (that needs DESCRIBE on Cluster kafka-cluster there): a failover "
    "grants nobody WRITE"
)


class MappedNotEmpty(DestinationNotEmpty):
    operator_action = (
        "delete it if its records are not needed, or give --into-existing: the copy begins behind them; nothing was "
        "changed"
    )


class DetachedNotEmpty(DestinationNotEmpty):
    operator_action = (
        "delete the topic at the destination, then add it: it is copied from its start. With mapped offsets a detached "
        "copy cannot be continued yet; nothing was changed"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The inputs that all topics of one command share. `returning`: their logs are continued, so they have records.

    `adopting`: so are those of topics that have records, if they are prefixes of the source's. `mapped`: offsets of the
    mirror are mapped, and the rights of a producer suffice. `into_existing`: topics may have records of others, behind
    which the copies begin. `detached`: topics that were detached here, as they were before that: so are theirs.
    `given_up`: those of mapped offsets, with which no copy goes on. `replaced`: topics that are deleted at the
    destination, and created again. `pair`: the ids of both clusters. `names`: of the copies; `principals`: of writers.
    """

    destination: str
    owners: Owners
    known_configs: frozenset[str] | None
    replication_factor: int | None
    holes: Holes
    state_exists: bool = True
    returning: bool = False
    adopting: bool = False
    mapped: bool = False
    into_existing: bool = False
    detached: Mapping[str, TopicDesired] = field(default_factory=dict)
    given_up: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    pair: tuple[str, str] = ("", "")
    names: TopicNames = SAME_NAMES
    principals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic that can be added. `name`: of its copy. `changes`: configs to alter if the mirror topic exists already.

    `writers_known`: whether `deferred_acls` are those of the source, which this login may not read everywhere.
    `copy_starts`: as `TopicDesired` has them, of a topic that is adopted; of one that `continues`, because it was
    detached, the ends of its copy. `source_starts`: as there, too.
    """

    name: str
    source: TopicFacts
    configs: TopicConfigs
    replication_factor: int | None
    deferred_acls: tuple[AclEntry, ...] = ()
    writers_known: bool = True
    exists: bool = False
    changes: Mapping[str, str | None]
    copy_starts: tuple[int, ...] = ()
    source_starts: tuple[int, ...] = ()
    continues: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not at the destination as it is at the source."""
        found = [f"{self.name}: {name} is not copied: {why}" for name, why in self.configs.dropped]
        if not self.writers_known:
            found.append(f"{self.name}: {_WRITERS_UNKNOWN}")
        return tuple(found)

    def new_topic(self) -> NewTopic:
        return NewTopic(
            name=self.name,
            partitions=self.source.partitions,
            replication_factor=self.replication_factor,
            configs=self.configs.now,
        )

    def desired(self, spec: MirrorSpec, promotion_epoch: int, now: EpochMs) -> TopicDesired:
        return TopicDesired(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            topic=self.name,
            desired=DesiredState.MIRRORING,
            source_topic_id=self.source.topic_id,
            partitions=self.source.partitions,
            offsets=spec.offsets,
            deferred_configs=self.configs.deferred,
            synced_configs=following(self.configs, spec.config_exclude),
            deferred_acls=self.deferred_acls,
            promotion_epoch=promotion_epoch,
            copy_starts=self.copy_starts,
            source_starts=self.source_starts,
            changed_at=now,
        )


class Adopting(Protocol):
    """Takes topics that have records: `adopting.Adoption`."""

    def adopt(
        self, plans: Sequence[TopicPlan], existing: Mapping[str, DestinationTopic], by: Deadline
    ) -> Mapping[str, TopicPlan]:
        """`plans`, with the offsets where their copying begins. Raises why a topic is not taken."""
        ...


def plan_topic(source: TopicFacts, existing: DestinationTopic | None, situation: Situation) -> TopicPlan | TanistError:
    """How the mirror topic of `source` is created, or why it cannot be. `existing`: the topic of its name."""
    name = situation.names.mirrored_topic(source.name)
    if owner := situation.owners.of(name):
        return TopicAlreadyInMirror(f"{name!r} belongs to {owner} on {situation.destination!r}")
    detached = situation.detached.get(name)
    if detached and existing and existing.facts.partitions < source.partitions:  # `metadata sync` adds the others
        source = replace(source, partitions=existing.facts.partitions)
    if existing and (problem := _unfit(source, existing, situation)):
        return problem
    replication_factor = existing.facts.replication_factor if existing else situation.replication_factor
    configs = plan_configs(
        source.configs,
        source.effective,
        known=situation.known_configs,
        replication_factor=replication_factor,
        holes=situation.holes,
        mapped=situation.mapped,
    )
    return TopicPlan(
        name=name,
        source=source,
        configs=configs,
        replication_factor=replication_factor,
        exists=existing is not None,
        continues=bool(detached and existing and existing.records),
        changes=differences(configs.now, existing.facts.configs) if existing else {},
    )


def _unfit(source: TopicFacts, existing: DestinationTopic, situation: Situation) -> TanistError | None:
    name, where = existing.facts.name, situation.destination
    detached = situation.detached.get(name)
    if existing.records and detached and is_another_topic(source.topic_id, detached.source_topic_id):
        return TopicMismatch(f"{name!r} was deleted and created again at the source since it was detached")
    if existing.records and name in situation.given_up:
        return DetachedNotEmpty(f"{name!r} on {where!r} is the copy of a topic that was detached from this mirror")
    if existing.records and not (situation.returning or situation.adopting or situation.into_existing or detached):
        why = f"{name!r} on {where!r} is not empty: {existing.records} offsets are in use"
        return MappedNotEmpty(why) if situation.mapped else DestinationNotEmpty(why)
    if existing.facts.partitions != source.partitions:
        found, wanted = existing.facts.partitions, source.partitions
        return TopicMismatch(f"{name!r} has {found} partition(s) on {where!r}, {wanted} at the source")
    wanted_replicas = situation.replication_factor
    if wanted_replicas is not None and not detached and existing.facts.replication_factor != wanted_replicas:
        found = existing.facts.replication_factor
        return TopicMismatch(
            f"{name!r} has {found} replica(s) on {where!r}, but --replication-factor is {wanted_replicas}"
        )
    return None


def examine(
    source: SourceSnapshot,
    destination: DestinationSnapshot,
    names: Sequence[str],
    situation: Situation,
    by: Deadline,
    adoption: Adopting | None = None,
) -> tuple[TopicPlan, ...]:
    """How each of the source's topics `names`, which all have copies, is added. Changes nothing.

    `adoption`: how topics are adopted that have records at the destination; None: they are refused.

    Raises:
        Problems, or the single error: everything that forbids it, at both clusters.
    """
    found = ProblemCollector()
    at_source = found.attempt(lambda: observe.source_topics(source, names, by)) or ()
    writers = found.attempt(lambda: _write_rules(source, names, situation, by))
    copy_of = situation.names.mirrored_topic
    existing = found.attempt(lambda: observe.destination_topics(destination, [*map(copy_of, names)], by))
    if existing is None:
        found.raise_all()
        return ()
    existing = {name: each for name, each in existing.items() if name not in situation.replaced}
    needs = rights.recreation_needs(sorted(situation.replaced))
    needs += rights.destination_needs(
        existing, mapped=situation.mapped, state=situation.state_exists, fenced=situation.returning
    )
    found.problems += found.attempt(lambda: rights.refusals(destination.cluster, needs, by)) or ()
    found.problems += [about(topic.name, fenced) for topic in at_source if (fenced := _fenced(topic, writers or {}))]
    copies = {topic.name: copy_of(topic.name) for topic in at_source}
    answers = {copies[t.name]: plan_topic(t, existing.get(copies[t.name]), situation) for t in at_source}
    renamed = any(topic != copy for topic, copy in copies.items())
    if (existing or renamed) and not situation.returning:
        originals = found.attempt(lambda: Originals.of(read_promotions(source, by), *situation.pair))
        answers |= _refused(originals, copies, existing) if originals else {}
    found.problems += [about(name, answer) for name, answer in answers.items() if isinstance(answer, TanistError)]
    plans = tuple(
        replace(answer, deferred_acls=(writers or {}).get(answer.source.name) or (), writers_known=writers is not None)
        for answer in answers.values()
        if not isinstance(answer, TanistError)
    )
    new = [plan.new_topic() for plan in plans if not plan.exists and plan.name not in {*existing, *situation.replaced}]
    found.problems += found.attempt(lambda: rehearse(destination.cluster, new, by)) or ()
    if adoption is not None:
        used = [plan for plan in plans if plan.name in existing and existing[plan.name].records]
        adopted = found.attempt(lambda: adoption.adopt(used, existing, by)) or {}
        plans = tuple(adopted.get(plan.name, plan) for plan in plans)
    found.raise_all()
    return plans


def _write_rules(
    source: SourceSnapshot, names: Sequence[str], situation: Situation, by: Deadline
) -> Mapping[str, tuple[AclEntry, ...] | None] | None:
    """The ACLs for writing; None: this login may not read them, which a mirror with mapped offsets can do without."""
    try:
        return observe.write_rules(source, names, by, situation.principals)
    except AuthorizationFailed:
        if situation.mapped:
            return None
        raise


def _refused(
    originals: Originals, copies: Mapping[str, str], existing: Mapping[str, DestinationTopic]
) -> dict[str, OppositeMirror]:
    """By copy, why it would go in a circle. `copies`: by their topics at the source."""
    found = {}
    for topic, copy in copies.items():
        if topic != copy:
            found[copy] = originals.circle(topic, copy)
        elif copy in existing:
            found[copy] = originals.refusal(topic, used=bool(existing[copy].records))
    return {copy: why for copy, why in found.items() if why is not None}


def _fenced(topic: TopicFacts, writers: Mapping[str, tuple[AclEntry, ...] | None]) -> TanistError | None:
    """Topics with a source fence: a config fence would be copied, and an ACL fence hides who may write."""
    if writers.get(topic.name, ()) is None:
        return TopicFenced(f"{topic.name!r} is fenced at the source: an ACL denies WRITE to {ANYBODY}")
    if not is_fenced(None, topic.effective):
        return None
    limit = f"{MAX_MESSAGE_BYTES}={topic.effective[MAX_MESSAGE_BYTES]}"
    return TopicFenced(f"{topic.name!r} has {limit} at the source, which blocks producers like a source fence")


def situation(
    destination: DestinationSnapshot,
    view: StateView,
    wanted: MirrorSpec,
    by: Deadline,
    *,
    adopting: bool = False,
    detached: Mapping[str, TopicDesired] | None = None,
) -> Situation:
    """The inputs that all topics of one command share."""
    return Situation(
        destination=destination.name,
        owners=Owners.every(view, wanted.mirror),
        known_configs=observe.known_configs(destination, by),
        replication_factor=wanted.replication_factor,
        holes=wanted.holes,
        mapped=wanted.is_mapped,
        state_exists=bool(view),
        adopting=adopting,
        detached=detached or {},
        pair=(wanted.source_cluster_id, wanted.destination_cluster_id),
        names=wanted.names,
        principals=wanted.acl_principals,
    )


def rehearse(cluster: Cluster, new: Sequence[NewTopic], by: Deadline) -> tuple[TanistError, ...]:
    """Why the destination's controller would not create `new`. Creates nothing."""
    answers = cluster.topics.create(new, by, validate_only=True) if new else {}
    refused = {name: answer for name, answer in answers.items() if answer is not None and not _made(name, answer)}
    return tuple(_translate_error(cluster, name, answer) for name, answer in refused.items())


def _made(topic: str, error: TanistError) -> bool:
    """Tolerate state topics that a starting fetcher has created meanwhile."""
    return topic.startswith("__mirror_") and isinstance(error, TopicAlreadyExists)


def _translate_error(cluster: Cluster, topic: str, error: TanistError) -> TanistError:
    if isinstance(error, InvalidReplicationFactor):
        if topic.startswith("__mirror_"):
            return UnsafeStateTopic(f"{cluster.name!r} cannot hold {topic}: {error.reason}")
        return Misconfigured(f"{cluster.name!r} cannot hold {topic!r}: {error.reason}; see --replication-factor")
    return rights.named(error, cluster, f"CREATE on Topic {topic}")


def make(destination: Cluster, plans: Sequence[TopicPlan], by: Deadline) -> None:
    """Create missing mirror topics, and alter existing ones. Idempotent.

    Raises:
        AuthorizationFailed: with the missing permission. Interrupted: only some topics were created.
    """
    new = [plan.new_topic() for plan in plans if not plan.exists]
    answers = dict(destination.topics.create(new, by)) if new else {}
    if changes := {plan.name: plan.changes for plan in plans if plan.changes}:
        answers |= destination.topics.alter_configs(changes, by)
    problems = [(name, error) for name, error in answers.items() if error is not None]
    if not problems:
        return
    name, error = problems[0]
    reported = rights.named(error, destination, f"CREATE or ALTER_CONFIGS on Topic {name}")
    if isinstance(reported, AuthorizationFailed):
        raise reported from error
    raise Interrupted(
        f"{len(problems)} of {len(plans)} mirror topics could not be created; {name!r}: {error}"
    ) from error


def partial(error: TanistError) -> TanistError:
    """The error to raise once something may have been changed: run the command again."""
    if isinstance(error, (CouldNotTell, BrokerError)):
        return Interrupted(str(error))
    return error


def selection_names(
    source: SourceSnapshot, selection: Selection, by: Deadline, names: TopicNames = SAME_NAMES
) -> tuple[str, ...]:
    """Names at the source that `selection` matches and that have a copy by `names`; none without an expression.

    Raises:
        Misconfigured: a topic that is named literally has no copy, or none that an expression matches has one.
    """
    matched = observe.select(source, selection, by) if selection.include else ()
    found = tuple(topic for topic in matched if names.copy_of(topic) is not None)
    left = {*matched} - {*found}
    asked = left & {*selection.literals()} or (left if not found else set())
    if asked:
        some = ", ".join(sorted(asked)[:5])
        raise Misconfigured(f"{some}: no rule of --rename gives this topic a name, so it cannot be in the mirror")
    return found
