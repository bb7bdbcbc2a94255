"""Keeps what an old source has as soon as it has returned: retention and cleaning of topics with tails are held.

`tanist failback survey` and `replay` put back what the topics had.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tanist.domain.errors import MirrorLocked, OperatorFenced, Stopped, TanistError
from tanist.domain.failback.pending import pending
from tanist.domain.failover.plan import is_another_topic
from tanist.domain.tails import hold_changes, hold_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.state import Locked
    from tanist.ports.topics import TopicFacts, Topics

log = logging.getLogger(__name__)


class RetentionHolder:
    """Owned by one thread. `topics`: of a mirror's source. Each topic is set once by a worker."""

    def __init__(
        self,
        topics: Callable[[MirrorSpec], Topics] | None,
        lock: Callable[[MirrorName, str, Deadline], AbstractContextManager[Locked]],
        clock: Clock,
    ) -> None:
        self._topics, self._lock, self._clock = topics, lock, clock
        self._held: set[tuple[str, str, int]] = set()
        self._warned: set[tuple[str, str, str]] = set()

    def wanted(self, spec: MirrorSpec, view: StateView) -> tuple[str, ...]:
        """The topics with tails that are not done, and that this worker has not held yet."""
        if self._topics is None:
            return ()
        found = ((each.topic, each.promotion_epoch) for each in pending(view, spec.mirror))
        return tuple(topic for topic, epoch in found if (spec.id, topic, epoch) not in self._held)

    def hold(self, spec: MirrorSpec, wanted: Sequence[str], by: Deadline) -> None:
        """Hold `wanted`; what they had is stored before. A topic that cannot be changed does not stop the others.

        The lock is not taken while the source does not answer. Under it the topics are described again: what is stored
        as what they had must be what no command can change before they are held.

        Raises:
            MirrorLocked: a command changes the mirror. TanistError: the source does not answer.
        """
        if self._topics is None:
            return
        topics = self._topics(spec)
        _must_answer(topics.describe(list(wanted), by))
        with self._lock(spec.mirror, "retention of the old source", by) as lock:
            view = lock.view()
            still = sorted((each.topic, each.promotion_epoch) for each in pending(view, spec.mirror))
            described = topics.describe([topic for topic, _ in still if topic in wanted], by)
            for topic, epoch in still:
                facts = described.get(topic)
                if facts is None or isinstance(facts, TanistError):
                    continue
                desired = view.topic(spec.mirror, topic)
                other = desired is not None and is_another_topic(facts.topic_id, desired.source_topic_id)
                if other or self._hold_alone(spec, facts, topics, lock, by):
                    self._held.add((spec.id, topic, epoch))

    def _hold_alone(self, spec: MirrorSpec, facts: TopicFacts, topics: Topics, lock: Locked, by: Deadline) -> bool:
        """Whether the topic is held. An error is logged once; a lost lock stops all."""
        try:
            self._hold(spec, facts, topics, lock, by)
        except (Stopped, MirrorLocked, OperatorFenced):
            raise
        except TanistError as why:
            if (seen := (spec.id, facts.name, why.name)) not in self._warned:
                self._warned.add(seen)
                extra = {"mirror": spec.mirror, "topic": facts.name, "reason": str(why)}
                log.warning("retention of an old source's topic cannot be held: its tail may expire", extra=extra)
            return False
        return True

    def _hold(self, spec: MirrorSpec, facts: TopicFacts, topics: Topics, lock: Locked, by: Deadline) -> None:
        held = lock.view().retention_held(spec.mirror).get(facts.name)
        if held is None or held.topic_id != facts.topic_id:
            now = self._clock.now()
            lock.append([hold_of(spec.mirror, spec.mirror_id, facts.name, facts.configs, facts.topic_id, now)])
        if not (changes := hold_changes(facts.configs)):
            return
        lock.confirm()
        if error := topics.alter_configs({facts.name: changes}, by)[facts.name]:
            raise error
        log.warning("held retention at an old source", extra={"mirror": spec.mirror, "topic": facts.name})


def _must_answer(described: Mapping[str, TopicFacts | TanistError]) -> None:
    """Raises the error of a topic if no topic was described."""
    errors = [facts for facts in described.values() if isinstance(facts, TanistError)]
    if errors and len(errors) == len(described):
        raise errors[0]
