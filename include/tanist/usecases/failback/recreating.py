"""Topics that cannot return as they are: deleted at the old source, created again there, and copied from the start.

What a survey has compared is deleted only once its tail is in quarantine and decided. That is asked again directly
before the deletion, while the source fence is in force; until then a reversal can be withdrawn, as nothing else was
changed. Killed between deletion and creation, the next attempt finds no topic, and creates it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import TopicAlreadyExists
from tanist.domain.errors import Refused, TimedOut
from tanist.domain.failback.reversal import (
    QUARANTINE_INCOMPLETE,
    TopicCannotReturn,
    problems_of_recreation,
    unlike_the_plan,
)
from tanist.domain.failback.survey import not_compared
from tanist.domain.names import MirrorPartition
from tanist.domain.problems import refuse
from tanist.domain.selection import only
from tanist.usecases.failback.recreation_plan import known_topics, plan_recreations, unfit_topics, value_of
from tanist.usecases.failback.rescued import QuarantineChanged, altered_topics
from tanist.usecases.failback.survey import survey
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import RunRow, RunTable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tanist.domain.failback.reversal import ReturningTopic
    from tanist.ports.topics import NewTopic, TopicFacts
    from tanist.usecases.failback.reversing import Reversing

_AGAIN_SECONDS: Final = 0.2
_GONE_SECONDS: Final = 30.0


class RecreatedTopicNotEmpty(Refused):
    name = "RECREATED_TOPIC_NOT_EMPTY"
    operator_action = "other clients use the topic that was created again: stop them, then plan the reversal again"


class RecreatedTopicDiffers(Refused):
    name = "RECREATED_TOPIC_DIFFERS"
    operator_action = (
        "another client has created the topic, by writing to it or asking for it: stop that client, then plan the "
        "reversal again"
    )


class TopicNotDeleted(TimedOut):
    name = "TOPIC_NOT_DELETED"
    operator_action = "run the same command again; a broker that is down may hold the deletion up"


def recreate(of: Reversing) -> None:
    """Delete and create what is left of it.

    Raises:
        TailWouldBeDeleted, TopicCannotReturn: a log has got records since it was decided, or may not be deleted.
        QuarantineChanged. RecreatedTopicNotEmpty, RecreatedTopicDiffers: it is another client's topic.
        TopicNotDeleted, CouldNotTell, BrokerError: run it again.
    """
    topics = [each for each in of.reversal.topics if each.recreation is not None]
    if topics:
        described = known_topics(of.old.topics.describe(sorted(t.topic for t in topics), of.command.by), missing=True)
        old = [each for each in topics if _is_old(each, described.get(each.topic))]
        of.rows.do(RECREATION, Recreating(of, topics, old))


@dataclass(frozen=True, slots=True)
class Recreating:
    """What each row of a recreation is given. `topics`: that are recreated. `old`: those that are to be deleted yet."""

    of: Reversing
    topics: Sequence[ReturningTopic]
    old: Sequence[ReturningTopic]

    def check(self) -> None:
        """Raises TailWouldBeDeleted, TopicCannotReturn, QuarantineChanged."""
        _must_be_decided(self.of, self.old)
        accepted = self.of.reversal.accepted(QUARANTINE_INCOMPLETE)
        _must_be_in_quarantine(self.of, {each.topic for each in self.old} - accepted)

    def delete(self) -> None:
        """Raises TopicCannotReturn, TopicNotDeleted."""
        for each in self.old:
            _delete(self.of, each)
        self.of.checkpoint("deleted")

    def create(self) -> None:
        """Raises RecreatedTopicNotEmpty, RecreatedTopicDiffers."""
        for each in self.topics:
            _create(self.of, each)
        self.of.checkpoint("recreated")


RECREATION: Final[RunTable[Recreating, Recreating, None]] = RunTable(
    "a recreation",
    (
        RunRow("check", "what is to be deleted is decided and in quarantine", Recreating.check),
        RunRow("delete", "the topics are deleted at the old source (the point of no return)", Recreating.delete),
        RunRow("create", "they exist there again, without a record", Recreating.create),
    ),
    no_return="delete",
)
"""Nothing of it can be put back."""


def _is_old(wanted: ReturningTopic, facts: TopicFacts | None) -> bool:
    assert wanted.recreation is not None  # noqa: S101  # the caller's filter
    return facts is not None and facts.topic_id == wanted.recreation.topic_id


def _must_be_decided(of: Reversing, left: Sequence[ReturningTopic]) -> None:
    """Raises what forbids the deletion by now."""
    if not left:
        return
    names = tuple(each.topic for each in left)
    view = of.lock.view()
    replaced = {each.topic for each in unfit_topics(view, of.clusters, names, of.command) if each.replaced}
    found = survey(of.clusters, only(names), of.command)
    compared = (each for each in found if each.identical and each.partition.topic not in replaced)
    problems = list(problems_of_recreation(compared))
    if problems:
        refuse(problems)
    now = plan_recreations(view, of.clusters, names, not_compared(found), of.command)
    for topic in left:
        assert topic.recreation is not None  # noqa: S101
        if (more := now[topic.topic][1].discarded) > topic.recreation.discarded:
            raise TopicCannotReturn(
                f"{topic.topic!r} has {more} offsets at the old source that were not compared, "
                f"{topic.recreation.discarded} were approved"
            )


def _must_be_in_quarantine(of: Reversing, names: Collection[str]) -> None:
    """Raises QuarantineChanged: what was rescued of these topics is not there any more as it was."""
    if wrong := altered_topics(of.clusters, of.lock.view(), names, of.command.by):
        refuse(QuarantineChanged(reason) for reason in wrong.values())


def _delete(of: Reversing, topic: ReturningTopic) -> None:
    source, again = of.old, topic.recreation
    assert again is not None  # noqa: S101
    error = of.clusters.source.deletion.delete(topic.topic, again.topic_id, of.lock.confirm_action())
    if error is not None and not error.retriable:
        raise TopicCannotReturn(f"{topic.topic!r} cannot be deleted at {source.name!r}: {error}") from error
    if error is not None:
        raise error
    until = of.command.clock.deadline(_GONE_SECONDS)
    while _is_old(topic, _facts(of, topic.topic)):
        if not until.left(of.command.clock.monotonic()):
            raise TopicNotDeleted(f"{topic.topic!r} is still at {source.name!r}")
        of.command.clock.wait(_AGAIN_SECONDS)


def _facts(of: Reversing, name: str) -> TopicFacts | None:
    """None: there is no topic of this name."""
    return known_topics(of.old.topics.describe([name], of.command.by), missing=True).get(name)


def _create(of: Reversing, topic: ReturningTopic) -> None:
    """Create it, if it is not there; else it must be empty: this or an earlier attempt has created it."""
    source, again, name = of.old, topic.recreation, topic.topic
    assert again is not None  # noqa: S101
    until = of.command.clock.deadline(_GONE_SECONDS)
    while (facts := _facts(of, name)) is None:
        of.lock.confirm()
        new = replace(_new_topic(of, name), replication_factor=again.replicas or None)
        error = source.topics.create([new], of.command.by)[name]
        waits = isinstance(error, TopicAlreadyExists) and until.left(of.command.clock.monotonic()) > 0
        if error is not None and not waits:
            raise named(error, source, f"CREATE on Topic {name}")
        of.command.clock.wait(_AGAIN_SECONDS)
    partitions = [MirrorPartition(name, n) for n in range(facts.partitions)]
    used = sum(value_of(end) for end in source.logs.true_ends(partitions, of.command.by).values())
    if used:
        raise RecreatedTopicNotEmpty(f"{name!r} has {used} offset(s) in use at {source.name!r}")
    if wrong := unlike_the_plan(topic, facts.partitions, facts.replication_factor):
        raise RecreatedTopicDiffers(f"{name!r} has {wrong} at {source.name!r}")


def _new_topic(of: Reversing, name: str) -> NewTopic:
    (planned,) = of.topic_plans([name])
    return planned.new_topic()
