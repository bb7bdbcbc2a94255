"""Adding topics to a mirror, for `create` and `add`: examine all of them first, then create the mirror topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.acl_entries import ANYBODY
from tanist.domain.broker_errors import InvalidReplicationFactor, TopicAlreadyExists
from tanist.domain.errors import (
    AuthorizationFailed,
    BrokerError,
    CouldNotTell,
    Interrupted,
    Misconfigured,
    TanistError,
    TopicFenced,
    UnsafeStateTopic,
)
from tanist.domain.metadata import is_fenced
from tanist.domain.problems import ProblemCollector
from tanist.domain.topic_configs import MAX_MESSAGE_BYTES
from tanist.usecases import rights
from tanist.usecases.mirrors import observe
from tanist.usecases.mirrors.decide import Situation, TopicPlan, owners, plan_topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.records import MirrorSpec
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.ports.topics import NewTopic, TopicFacts
    from tanist.usecases.mirrors.adopt import Adoption
    from tanist.usecases.snapshot import ClusterSnapshot


def examine(
    source: ClusterSnapshot,
    destination: ClusterSnapshot,
    names: Sequence[str],
    situation: Situation,
    by: Deadline,
    adoption: Adoption | None = None,
) -> tuple[TopicPlan, ...]:
    """How each of the source's topics `names` is added. Changes nothing.

    `adoption`: how topics are adopted that have records at the destination; None: they are refused.

    Raises:
        Problems, or the single error: everything that forbids it, at both clusters.
    """
    found = ProblemCollector()
    at_source = found.attempt(lambda: observe.source_topics(source, names, by)) or ()
    writers = found.attempt(lambda: observe.write_rules(source, names, by)) or {}
    existing = found.attempt(lambda: observe.destination_topics(destination, names, by))
    if existing is None:
        found.raise_all()
        return ()
    existing = {name: each for name, each in existing.items() if name not in situation.replaced}
    needs = rights.recreation_needs(sorted(situation.replaced))
    needs += rights.destination_needs(existing, state=situation.state_exists, fenced=situation.returning)
    found.problems += found.attempt(lambda: rights.refusals(destination.cluster, needs, by)) or ()
    found.problems += [fenced for topic in at_source if (fenced := _fenced(topic, writers))]
    answers = [plan_topic(topic, existing.get(topic.name), situation) for topic in at_source]
    found.problems += [answer for answer in answers if isinstance(answer, TanistError)]
    plans = tuple(
        replace(answer, deferred_acls=writers.get(answer.name) or ())
        for answer in answers
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


def _fenced(topic: TopicFacts, writers: Mapping[str, tuple[AclEntry, ...] | None]) -> TanistError | None:
    """Topics with a source fence: a config fence would be copied, and an ACL fence hides who may write."""
    if writers.get(topic.name, ()) is None:
        return TopicFenced(f"{topic.name!r} is fenced at the source: an ACL denies WRITE to {ANYBODY}")
    if not is_fenced(None, topic.effective):
        return None
    limit = f"{MAX_MESSAGE_BYTES}={topic.effective[MAX_MESSAGE_BYTES]}"
    return TopicFenced(f"{topic.name!r} has {limit} at the source, which blocks producers like a source fence")


def situation(
    destination: ClusterSnapshot, view: StateView, wanted: MirrorSpec, by: Deadline, *, adopting: bool = False
) -> Situation:
    """The inputs that all topics of one command share."""
    return Situation(
        destination=destination.name,
        owners=owners(view),
        known_configs=observe.known_configs(destination, by),
        replication_factor=wanted.replication_factor,
        holes=wanted.holes,
        state_exists=bool(view),
        adopting=adopting,
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
    for plan in plans:
        if plan.changes:
            answers[plan.name] = destination.topics.alter_configs(plan.name, plan.changes, by)
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


def selection_names(source: ClusterSnapshot, selection: Selection, by: Deadline) -> tuple[str, ...]:
    """Names that `selection` matches at the source; none without an expression."""
    return observe.select(source, selection, by) if selection.include else ()
