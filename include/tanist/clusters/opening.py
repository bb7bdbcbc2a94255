"""Who may write to a topic that takes over: the port `Opening`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.clusters import rules
from tanist.domain.names import TopicPartition
from tanist.domain.write_rules import ANYBODY
from tanist.wire.router import Router
from tanist.wire.transactions import empty_transaction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.errors import TanistError
    from tanist.domain.names import MirrorName
    from tanist.domain.write_rules import WriteRule
    from tanist.ports.clock import Deadline


class KafkaOpening:
    """Owned by one thread. The mirror's principal is who this connection logs in as; without a login nobody is."""

    def __init__(self, endpoint: Endpoint, mirror: MirrorName) -> None:
        self._router = Router(endpoint, "tanist-opening")
        self._mirror = f"User:{endpoint.sasl.username}" if endpoint.sasl else None
        self._canary = f"tanist-{mirror}-canary"

    def has_authorizer(self, by: Deadline) -> bool:
        return rules.has_authorizer(self._router, by)

    def open(self, topics: Mapping[str, Sequence[WriteRule]], by: Deadline) -> Mapping[str, TanistError | None]:
        """The mirror is shut out first; then rules are given; last goes what kept everybody off."""
        if not self.has_authorizer(by):
            return dict.fromkeys(topics)
        done: dict[str, TanistError | None] = dict.fromkeys(topics)
        if self._mirror:
            done |= rules.deny(self._router, list(topics), self._mirror, by)
        done |= rules.give(self._router, self._lacking({t: topics[t] for t in _without_error(done)}, by), by)
        return done | rules.allow_again(self._router, _without_error(done), ANYBODY, by)

    def is_open(self, topics: Mapping[str, Sequence[WriteRule]], by: Deadline) -> Mapping[str, bool | TanistError]:
        if not self.has_authorizer(by):
            return dict.fromkeys(topics, True)
        kept_off = rules.denied(self._router, ANYBODY, by)
        shut = rules.denied(self._router, self._mirror, by) if self._mirror else frozenset(topics)
        lacking = self._lacking(topics, by)
        return {topic: topic in shut and topic not in kept_off and not lacking[topic] for topic in topics}

    def _lacking(self, wanted: Mapping[str, Sequence[WriteRule]], by: Deadline) -> dict[str, list[WriteRule]]:
        """Rules that are not there in any form. The mirror's own principal is never given one."""
        found = rules.writing(self._router, list(wanted), by)
        return {
            topic: [rule for rule in held if rule not in found[topic] and rule.principal != self._mirror]
            for topic, held in wanted.items()
        }

    def canary(self, topics: Sequence[str], by: Deadline) -> Mapping[str, TanistError | None]:
        """One marker on partition 0 of each topic."""
        answers = empty_transaction(self._router, self._canary, [TopicPartition(topic, 0) for topic in topics], by)
        return {at.topic: answer for at, answer in answers.items()}

    def close(self) -> None:
        self._router.close()


def _without_error(answers: Mapping[str, TanistError | None]) -> list[str]:
    return [topic for topic, error in answers.items() if error is None]
