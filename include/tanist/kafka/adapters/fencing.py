"""Source fences, as ACLs or as a topic config: the port `Fencing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANYBODY
from tanist.domain.errors import BrokerError, TanistError
from tanist.domain.fences import SMALLEST_MESSAGE_BYTES, FenceBefore, FenceKind
from tanist.domain.topic_configs import MAX_MESSAGE_BYTES
from tanist.kafka.adapters import rules
from tanist.kafka.adapters.acls import read_acls
from tanist.kafka.wire.admin import TOPIC_ITSELF, ConfigKind, ConfigResource, ConfigValue, alter_configs, topic_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

SMALLEST: Final = str(SMALLEST_MESSAGE_BYTES)


class KafkaFencing:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def has_authorizer(self, by: Deadline) -> bool:
        return rules.has_authorizer(self._router, by)

    def snapshot(
        self, topics: Sequence[str], by: Deadline, *, authorizer: bool | None = None
    ) -> Mapping[str, FenceBefore | TanistError]:
        if not (self.has_authorizer(by) if authorizer is None else authorizer):
            return self._limits(topics, by)
        acls = read_acls(self._router, by)
        covered, denied = acls.covered(topics), acls.denied(ANYBODY)
        kind = FenceKind.DENY_WRITE
        found = {topic: FenceBefore(topic=topic, kind=kind, had_deny=topic in denied) for topic in covered}
        return found | self._limits([topic for topic in topics if topic not in covered], by)

    def apply(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]:
        answers = rules.deny(self._router, _denying(before), ANYBODY, by)
        return answers | {each.topic: self._limit(each.topic, SMALLEST, by) for each in _limiting(before)}

    def fence_status(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, bool | TanistError]:
        found: dict[str, bool | TanistError] = {}
        if denying := _denying(before):
            denied = read_acls(self._router, by).denied(ANYBODY)
            found |= {topic: topic in denied for topic in denying}
        now = self._limits([each.topic for each in _limiting(before)], by)
        return found | {
            topic: each if isinstance(each, TanistError) else each.max_message_bytes == SMALLEST
            for topic, each in now.items()
        }

    def lift(self, before: Sequence[FenceBefore], by: Deadline) -> Mapping[str, TanistError | None]:
        answers = rules.allow_again(self._router, _denying(before, ours=True), ANYBODY, by)
        answers |= dict.fromkeys(set(_denying(before)) - answers.keys())
        return answers | {each.topic: self._limit(each.topic, each.max_message_bytes, by) for each in _limiting(before)}

    def _limits(self, topics: Sequence[str], by: Deadline) -> dict[str, FenceBefore | TanistError]:
        """The topics' own `max.message.bytes`, in one request."""
        found = topic_config(self._router, topics, MAX_MESSAGE_BYTES, by)
        return {
            topic: each if isinstance(each, TanistError) else _limited(topic, each) for topic, each in found.items()
        }

    def _limit(self, topic: str, value: str | None, by: Deadline) -> TanistError | None:
        try:
            alter_configs(self._router, ConfigResource(ConfigKind.TOPIC, topic), {MAX_MESSAGE_BYTES: value}, by)
        except BrokerError as error:
            return error
        return None


def _limited(topic: str, limit: ConfigValue | None) -> FenceBefore:
    own = limit.value if limit is not None and limit.source == TOPIC_ITSELF else None
    return FenceBefore(topic=topic, kind=FenceKind.TINY_MESSAGES, max_message_bytes=own)


def _denying(before: Sequence[FenceBefore], *, ours: bool = False) -> list[str]:
    """Topics with a DENY of WRITE for everybody; `ours`: that did not exist before the fence."""
    return [e.topic for e in before if e.kind is FenceKind.DENY_WRITE and not (ours and e.had_deny)]


def _limiting(before: Sequence[FenceBefore]) -> list[FenceBefore]:
    return [each for each in before if each.kind is FenceKind.TINY_MESSAGES]
