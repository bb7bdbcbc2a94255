"""Facts about the topics at source and destination, read before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tanist.domain.acl_rules import entries_here
from tanist.domain.approval.entries import APPROVALS_TOPIC
from tanist.domain.broker_errors import TopicAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import AuthorizationFailed, TanistError, UnknownTopic
from tanist.domain.names import MirrorPartition
from tanist.domain.problems import refuse
from tanist.domain.promotions import replaced
from tanist.domain.records import STATE_TOPIC, PromotionEpoch
from tanist.usecases import rights

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.topics import TopicFacts
    from tanist.usecases.snapshot import ClusterSnapshot, DestinationSnapshot, SourceSnapshot


_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationTopic:
    """`records`: offsets used so far in all partitions, including deleted ones."""

    facts: TopicFacts
    records: int


def select(source: SourceSnapshot, selection: Selection, by: Deadline) -> tuple[str, ...]:
    """Names of the source's topics that `selection` matches.

    Raises:
        UnknownTopic: an expression matches no topic. AuthorizationFailed: we lack the permission to see it.
    """
    names = source.topic_names(by)
    if idle := selection.idle(names):
        refuse([_not_found(source, text, len(names), selection, by) for text in idle])
    return selection.of(names)


def _not_found(source: SourceSnapshot, text: str, seen: int, selection: Selection, by: Deadline) -> TanistError:
    spelled_out = [name for name in selection.literals() if name == text.replace("\\", "")]
    for found in source.described(spelled_out, by).values():
        if isinstance(found, (TopicAuthorizationFailed, AuthorizationFailed)):
            return AuthorizationFailed(
                f"on {source.name!r}, the principal of this login lacks DESCRIBE on Topic {spelled_out[0]}"
            )
    return UnknownTopic(f"{text!r} matches none of the {seen} topics that this login can see on {source.name!r}")


def source_topics(source: SourceSnapshot, names: Sequence[str], by: Deadline) -> tuple[TopicFacts, ...]:
    """Facts about `names` at the source. Reports all missing permissions at once."""
    if not names:
        return ()
    if missing := rights.refusals(source.cluster, rights.source_needs(names), by):
        refuse(missing)
    facts = _all_or_refuse(source, source.described(names, by), "DESCRIBE or DESCRIBE_CONFIGS on Topic")
    return tuple(facts[name] for name in names)


def write_rules(
    source: SourceSnapshot, names: Sequence[str], by: Deadline, principals: Sequence[str] = ()
) -> Mapping[str, tuple[AclEntry, ...] | None]:
    """The ACLs for writing to `names` at the source. `principals`: as `MirrorSpec.acl_principals`.

    Raises:
        AuthorizationFailed: with the missing permission.
    """
    try:
        found = source.write_rules(names, by)
    except TanistError as error:
        raise rights.named(error, source.cluster, "DESCRIBE on Cluster kafka-cluster") from error
    return {name: entries_here(each, principals) for name, each in found.items()}


def destination_topics(
    destination: DestinationSnapshot, names: Sequence[str], by: Deadline
) -> dict[str, DestinationTopic]:
    """Those of `names` that exist at the destination already."""
    if not names:
        return {}
    found = {
        name: facts
        for name, facts in destination.described(names, by).items()
        if not isinstance(facts, UnknownTopicOrPartition)
    }
    facts = _all_or_refuse(destination, found, "DESCRIBE or DESCRIBE_CONFIGS on Topic")
    spent = _records(destination, facts.values(), by)
    return {name: DestinationTopic(facts=each, records=spent[name]) for name, each in facts.items()}


def _records(destination: DestinationSnapshot, topics: Iterable[TopicFacts], by: Deadline) -> dict[str, int]:
    partitions = [MirrorPartition(topic.name, n) for topic in topics for n in range(topic.partitions)]
    ends = _all_or_refuse(destination, destination.ends(partitions, by), "DESCRIBE on Topic")
    spent = dict.fromkeys((tp.topic for tp in partitions), 0)
    for tp, each in ends.items():
        spent[tp.topic] += each.high_watermark
    return spent


def _all_or_refuse(cluster: ClusterSnapshot[Any], answers: Mapping[_K, _V | TanistError], right: str) -> dict[_K, _V]:
    problems = [
        rights.named(answer, cluster.cluster, f"{right} {item}")
        for item, answer in answers.items()
        if isinstance(answer, TanistError)
    ]
    if problems:
        refuse(problems)
    return {item: answer for item, answer in answers.items() if not isinstance(answer, TanistError)}


def known_configs(destination: DestinationSnapshot, by: Deadline) -> frozenset[str] | None:
    """Names of topic configs that the destination supports, read from any topic there; None: this login sees none."""
    for name in (*destination.topic_names(by)[:1], STATE_TOPIC, APPROVALS_TOPIC):
        facts = destination.described([name], by)[name]
        if not isinstance(facts, TanistError):
            return frozenset(facts.effective)
    return None


def read_promotions(source: SourceSnapshot, by: Deadline) -> StateView:
    """The promotions that are recorded at a source.

    Raises:
        AuthorizationFailed: we lack the permission to read it. Otherwise the source's error.
    """
    try:
        return source.state(STATE_TOPIC, by)
    except TanistError as error:
        raise rights.named(error, source.cluster, f"READ on Topic {STATE_TOPIC}") from error


def promotion_epochs_on_add(
    source: SourceSnapshot,
    view: StateView,
    mirror: MirrorName,
    names: Sequence[str],
    by: Deadline,
    *,
    acknowledged: bool,
) -> Mapping[str, int]:
    """The promotion epoch of each topic to add, by the `names` of the copies.

    `acknowledged`: also topics in which the source was replaced.

    Raises:
        SourceReplaced, or several: another cluster took over from it. AuthorizationFailed: we lack READ.
    """
    if not names:
        return {}
    reported = read_promotions(source, by)
    both = {name: (reported.promotions(mirror, name), view.promotions(mirror, name)) for name in names}
    higher = [replaced(mirror, name, there, here) for name, (there, here) in both.items() if there > here]
    if higher and not acknowledged:
        refuse(higher)
    return {name: max(counts) for name, counts in both.items()}


def raised_promotions(view: StateView, spec: MirrorSpec, entered: Mapping[str, int]) -> tuple[PromotionEpoch, ...]:
    """Promotion epochs of the source that the destination has to record as well."""
    return tuple(
        PromotionEpoch(mirror=spec.mirror, mirror_id=spec.mirror_id, topic=name, count=count)
        for name, count in entered.items()
        if count > view.promotions(spec.mirror, name)
    )
