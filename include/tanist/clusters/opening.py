"""Who may write to a topic that takes over: the port `Opening`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.clusters import rules
from tanist.clusters.rules import ANYBODY
from tanist.domain.names import TopicPartition
from tanist.wire.router import Router
from tanist.wire.transactions import empty_transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.errors import TanistError
    from tanist.domain.names import MirrorName
    from tanist.ports.clock import Deadline


class KafkaOpening:
    """Owned by one thread. The mirror's principal is who this connection logs in as; without a login nobody is."""

    def __init__(self, endpoint: Endpoint, mirror: MirrorName) -> None:
        self._router = Router(endpoint, "tanist-opening")
        self._mirror = f"User:{endpoint.sasl.username}" if endpoint.sasl else None
        self._canary = f"tanist-{mirror}-canary"

    def has_authorizer(self, by: Deadline) -> bool:
        return rules.has_authorizer(self._router, by)

    def open(self, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """The mirror is shut out first, then everybody else is let in."""
        if not self.has_authorizer(by):
            return dict.fromkeys(topics)
        shut = rules.deny(self._router, topics, self._mirror, by) if self._mirror else {}
        ready = [topic for topic in topics if shut.get(topic) is None]
        return shut | rules.allow_again(self._router, ready, ANYBODY, by)

    def is_open(self, topics: Sequence[str], by: Deadline) -> Mapping[str, bool | TanistError]:
        if not self.has_authorizer(by):
            return dict.fromkeys(topics, True)
        kept_off = rules.denied(self._router, ANYBODY, by)
        shut = rules.denied(self._router, self._mirror, by) if self._mirror else frozenset(topics)
        return {topic: topic in shut and topic not in kept_off for topic in topics}

    def canary(self, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """One marker on partition 0 of each topic."""
        answers = empty_transaction(self._router, self._canary, [TopicPartition(topic, 0) for topic in topics], by)
        return {at.topic: answer for at, answer in answers.items()}

    def close(self) -> None:
        self._router.close()
