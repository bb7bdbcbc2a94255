"""Topics that cannot return as they are: deleted at the old source, created again there, and copied from the start.

What a survey has compared is deleted only once its tail is in quarantine and decided. That is asked again directly
before the deletion, while the source fence is in force; until then a reversal can be withdrawn, as nothing else was
changed. Killed between deletion and creation, the next attempt finds no topic, and creates it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import TopicAlreadyExists, UnknownTopicOrPartition
from tanist.domain.errors import Refused, TanistError, TimedOut
from tanist.domain.failback.reversal import (
    QUARANTINE_INCOMPLETE,
    Recreation,
    TopicCannotReturn,
    problems_of_recreation,
    unlike_the_plan,
)
from tanist.domain.failback.survey import not_compared
from tanist.domain.names import TopicPartition
from tanist.domain.problems import refuse
from tanist.domain.selection import only
from tanist.ports.topics import TopicFacts
from tanist.usecases.failback.quarantined import QuarantineChanged, altered_topics
from tanist.usecases.failback.survey import survey
from tanist.usecases.rights import named

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tanist.domain.failback.reversal import ReturningTopic, Reversal
    from tanist.domain.failback.survey import PartitionSurvey
    from tanist.domain.records import TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.topics import NewTopic
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.survey import ReturnContext
    from tanist.usecases.lock import LockedMirror

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


@dataclass(frozen=True, slots=True)
class UnfitTopic:
    """A topic that is not what it was at the promotion. `mended`: by deleting it at the old source, and copying it.

    `replaced`: the old source has no topic of this name, or another one, so no survey can compare it.
    """

    topic: str
    error: TanistError
    mended: bool
    replaced: bool = False


def unfit_topics(
    view: StateView, clusters: ReturnContext, names: Sequence[str], command: CommandContext
) -> list[UnfitTopic]:
    """Those of `names` that are not what they were: at either cluster."""
    mirror, by = clusters.spec.mirror, command.by
    lineage = {entry.topic: entry for entry in view.lineage(mirror)}
    promoted = {topic.topic: topic for topic in view.removed(mirror)}
    found: list[UnfitTopic] = []
    for side in (clusters.destination, clusters.source):
        described = side.topics.describe(names, by)
        old = side is clusters.source
        for name in names:
            facts, count = described[name], promoted[name].partitions
            pinned = promoted[name].source_topic_id if old else lineage[name].topic_id
            if not isinstance(facts, TopicFacts):
                error = TopicCannotReturn(f"{name!r} cannot be seen at {side.name!r}: {facts}")
                missing = old and isinstance(facts, UnknownTopicOrPartition)
                found.append(UnfitTopic(name, error, missing, missing))
            elif pinned not in {"", facts.topic_id}:
                error = TopicCannotReturn(f"{name!r} was deleted and re-created at {side.name!r}")
                found.append(UnfitTopic(name, error, old, old))
            elif facts.partitions != count:
                error = TopicCannotReturn(
                    f"{name!r} has {facts.partitions} partition(s) at {side.name!r}, {count} were copied"
                )
                found.append(UnfitTopic(name, error, mended=True))
    return found


def uncompared_topics(found: Iterable[PartitionSurvey], unfit: Iterable[UnfitTopic]) -> list[UnfitTopic]:
    """Those with partitions that cannot be compared, so they cannot return as they are; without those of `unfit`."""
    left = {each.topic for each in unfit}
    bad = [each for each in found if not each.identical]
    why = {each.partition.topic: f"{each.partition}: {'; '.join(each.reasons)}" for each in bad}
    return [
        UnfitTopic(name, TopicCannotReturn(f"{name!r} cannot be compared: {reason}"), mended=True)
        for name, reason in sorted(why.items())
        if name not in left
    ]


def plan_recreations(
    view: StateView,
    clusters: ReturnContext,
    names: Sequence[str],
    uncompared: Collection[TopicPartition],
    command: CommandContext,
) -> dict[str, tuple[int, Recreation]]:
    """What is deleted of each topic, what it costs to copy it again, and how many partitions it gets.

    `uncompared`: the partitions whose records no survey can compare.

    Raises:
        CouldNotTell, BrokerError: a cluster does not answer.
    """
    if not names:
        return {}
    promoted = {topic.topic: topic for topic in view.removed(clusters.spec.mirror)}
    old = _known(clusters.source.topics.describe(names, command.by), missing=True)
    new = _known(clusters.destination.topics.describe(names, command.by))
    unseen = {
        name: [
            at
            for at in (TopicPartition(name, n) for n in range(facts.partitions))
            if at in uncompared or at.partition >= _surveyed(facts, promoted[name])
        ]
        for name, facts in old.items()
    }
    ends = clusters.source.logs.true_ends([at for each in unseen.values() for at in each], command.by)
    again = [TopicPartition(name, n) for name, facts in new.items() for n in range(facts.partitions)]
    logs = clusters.destination.logs.ends(again, command.by)
    sizes = clusters.sizes.sizes(again, command.by)
    found: dict[str, tuple[int, Recreation]] = {}
    for name in names:
        ours = [at for at in again if at.topic == name]
        spans = [None if isinstance(end := logs[at], TanistError) else end.high_watermark - end.start for at in ours]
        found[name] = (
            new[name].partitions,
            Recreation(
                topic_id=old[name].topic_id if name in old else "",
                replicas=old[name].replication_factor if name in old else 0,
                discarded=sum(_value(ends[at]) for at in unseen.get(name, ())),
                offsets=None if None in spans else sum(span or 0 for span in spans),
                bytes=sum(sizes[at] for at in ours) if all(at in sizes for at in ours) else None,
            ),
        )
    return found


def _surveyed(facts: TopicFacts, promoted: TopicDesired) -> int:
    """How many partitions of the old source's topic a survey compares: none of another topic of that name."""
    return promoted.partitions if promoted.source_topic_id in {"", facts.topic_id} else 0


def _known(described: Mapping[str, TopicFacts | TanistError], *, missing: bool = False) -> dict[str, TopicFacts]:
    found = {}
    for name, facts in described.items():
        if isinstance(facts, TopicFacts):
            found[name] = facts
        elif not (missing and isinstance(facts, UnknownTopicOrPartition)):
            raise facts
    return found


def _value(end: int | TanistError) -> int:
    if isinstance(end, TanistError):
        raise end
    return end


# ── what is done ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Recreating:
    """One attempt, under the lock of the mirror. `new_topic`: how a topic is created; `checkpoint`: for tests."""

    clusters: ReturnContext
    command: CommandContext
    lock: LockedMirror
    checkpoint: Callable[[str], None]
    new_topic: Callable[[str], NewTopic]

    def all(self, reversal: Reversal) -> None:
        """Delete and create what is left of it.

        Raises:
            TailWouldBeDeleted, TopicCannotReturn: a log has got records since it was decided, or may not be deleted.
            QuarantineChanged. RecreatedTopicNotEmpty, RecreatedTopicDiffers: it is another client's topic.
            TopicNotDeleted, CouldNotTell, BrokerError: run it again.
        """
        again = {each.topic: each for each in reversal.topics if each.recreation is not None}
        if not again:
            return
        described = _known(self.clusters.source.topics.describe(sorted(again), self.command.by), missing=True)
        left = [each for name, each in again.items() if self._is_old(each, described.get(name))]
        self._must_be_decided(left)
        self._must_be_in_quarantine({each.topic for each in left} - reversal.accepted(QUARANTINE_INCOMPLETE))
        for each in left:
            self._delete(each)
        self.checkpoint("deleted")
        for each in again.values():
            self._create(each)
        self.checkpoint("recreated")

    @staticmethod
    def _is_old(wanted: ReturningTopic, facts: TopicFacts | None) -> bool:
        assert wanted.recreation is not None  # noqa: S101  # the caller's filter
        return facts is not None and facts.topic_id == wanted.recreation.topic_id

    def _must_be_decided(self, left: Sequence[ReturningTopic]) -> None:
        """Raises what forbids the deletion by now."""
        if not left:
            return
        names = tuple(each.topic for each in left)
        view = self.lock.view()
        replaced = {each.topic for each in unfit_topics(view, self.clusters, names, self.command) if each.replaced}
        found = survey(self.clusters, only(names), self.command)
        compared = (each for each in found if each.identical and each.partition.topic not in replaced)
        problems = list(problems_of_recreation(compared))
        if problems:
            refuse(problems)
        now = plan_recreations(view, self.clusters, names, not_compared(found), self.command)
        for topic in left:
            assert topic.recreation is not None  # noqa: S101
            if (more := now[topic.topic][1].discarded) > topic.recreation.discarded:
                raise TopicCannotReturn(
                    f"{topic.topic!r} has {more} offsets at the old source that were not compared, "
                    f"{topic.recreation.discarded} were approved"
                )

    def _must_be_in_quarantine(self, names: Collection[str]) -> None:
        """Raises QuarantineChanged: what was rescued of these topics is not there any more as it was."""
        if wrong := altered_topics(self.clusters, self.lock.view(), names, self.command.by):
            refuse(QuarantineChanged(reason) for reason in wrong.values())

    def _delete(self, topic: ReturningTopic) -> None:
        source, again = self.clusters.source, topic.recreation
        assert again is not None  # noqa: S101
        error = self.clusters.deletion.delete(topic.topic, again.topic_id, self.lock.confirm_action())
        if error is not None and not error.retriable:
            raise TopicCannotReturn(f"{topic.topic!r} cannot be deleted at {source.name!r}: {error}") from error
        if error is not None:
            raise error
        until = self.command.clock.deadline(_GONE_SECONDS)
        while self._is_old(topic, self._facts(topic.topic)):
            if not until.left(self.command.clock.monotonic()):
                raise TopicNotDeleted(f"{topic.topic!r} is still at {source.name!r}")
            self.command.clock.wait(_AGAIN_SECONDS)

    def _facts(self, name: str) -> TopicFacts | None:
        """None: there is no topic of this name."""
        return _known(self.clusters.source.topics.describe([name], self.command.by), missing=True).get(name)

    def _create(self, topic: ReturningTopic) -> None:
        """Create it, if it is not there; else it must be empty: this or an earlier attempt has created it."""
        source, again, name = self.clusters.source, topic.recreation, topic.topic
        assert again is not None  # noqa: S101
        until = self.command.clock.deadline(_GONE_SECONDS)
        while (facts := self._facts(name)) is None:
            self.lock.confirm()
            new = replace(self.new_topic(name), replication_factor=again.replicas or None)
            error = source.topics.create([new], self.command.by)[name]
            waits = isinstance(error, TopicAlreadyExists) and until.left(self.command.clock.monotonic()) > 0
            if error is not None and not waits:
                raise named(error, source, f"CREATE on Topic {name}")
            self.command.clock.wait(_AGAIN_SECONDS)
        partitions = [TopicPartition(name, n) for n in range(facts.partitions)]
        used = sum(_value(end) for end in source.logs.true_ends(partitions, self.command.by).values())
        if used:
            raise RecreatedTopicNotEmpty(f"{name!r} has {used} offset(s) in use at {source.name!r}")
        if wrong := unlike_the_plan(topic, facts.partitions, facts.replication_factor):
            raise RecreatedTopicDiffers(f"{name!r} has {wrong} at {source.name!r}")
