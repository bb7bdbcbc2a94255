"""A source fence blocks producers of a source topic; the earlier setting is stored first, so lifting restores it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANY_HOST, ANYBODY
from tanist.domain.filled import exactly
from tanist.domain.names import EpochMs  # noqa: TC001 -- stored records are read by their types
from tanist.domain.state_record import stored_under

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import TopicNames

SMALLEST_MESSAGE_BYTES: Final = 78
"""The smallest max.message.bytes that lets transaction markers through. 0 strands transactions for good."""


class FenceKind(StrEnum):
    DENY_WRITE = "deny-write"
    """An ACL: DENY WRITE for User:* (refused within 50 ms, readers and open transactions untouched)."""
    TINY_MESSAGES = "max.message.bytes=78"
    """Without an authorizer, or an ACL for the topic: markers pass, and tiny records. 0 would strand transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBefore:
    """The settings before the source fence, so that lifting it is its exact inverse.

    `had_deny`: the same ACL existed already, so it stays. `max_message_bytes`: the topic's own setting, None if unset.
    """

    topic: str
    kind: FenceKind
    had_deny: bool = False
    max_message_bytes: str | None = None

    @property
    def alters(self) -> bool:
        """Whether the source fence changes anything. A setting that existed before is never lifted."""
        return not self.had_deny and self.max_message_bytes != str(SMALLEST_MESSAGE_BYTES)


class FenceStatus(StrEnum):
    SNAPSHOT, IN_FORCE, PROVED, UNPROVED = "snapshot", "standing", "proved", "not proved"
    PENDING, LIFT_PENDING, LIFTED = "owed", "lift owed", "lifted"
    UNRECORDED = "not on record"
    """In force, but not recorded by any failover of this mirror. Never stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedTopic:
    """One topic of the source. `before` is None if the source never answered: the source fence is pending.

    `wanted_by`: the plan that needs it. UNPROVED: the proof was skipped on request. `proved_at`: since when no log of
    the topic has taken a record, as that was proved; `lift_asked_at`: when lifting it was first tried, ms since 1970.
    """

    topic: str
    status: FenceStatus
    wanted_by: str = field(metadata=stored_under("owed_by"))
    before: FenceBefore | None = None
    reason: str = ""
    proved_at: EpochMs | None = None
    lift_asked_at: EpochMs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFences:
    """By topics of the source, or by their copies: `stands`: whether the recorded fence stands, or why that is unknown.

    `unrecorded`: fences that stand and are on no record. `near`: topics whose fence is, or would be,
    `max.message.bytes`.
    """

    stands: Mapping[str, bool | TanistError] = field(default_factory=dict)
    unrecorded: Mapping[str, FencedTopic] = field(default_factory=dict)
    near: frozenset[str] = frozenset()

    def known(self) -> dict[str, bool]:
        """Only what the source has answered; an unrecorded fence stands."""
        answered = {topic: stands for topic, stands in self.stands.items() if isinstance(stands, bool)}
        return answered | dict.fromkeys(self.unrecorded, True)

    def by_copy(self, names: TopicNames) -> SourceFences:
        """The same by the names of the copies."""
        if names.renaming is None:
            return self
        return SourceFences(
            stands=names.by_copy(self.stands),
            unrecorded=names.by_copy(self.unrecorded),
            near=frozenset(names.by_copy(dict.fromkeys(self.near, True))),
        )


STRAY: Final = "still in force at the source although it was lifted: remove it with `tanist fence lift`"
"""The reason of a lifted source fence that a late command, or another operator, has set again."""
RESTORED: Final = "state restore"
"""`wanted_by` of a source fence whose record was lost with the state of its mirror."""
UNRECORDED: Final = "in force at the source without a record: remove it with `tanist fence lift --unrecorded`"
"""The reason of a source fence that a late command of a deleted mirror, or another operator, has set."""
HOLDS_PRODUCERS_OFF = frozenset({FenceStatus.IN_FORCE, FenceStatus.PROVED, FenceStatus.UNPROVED})
LEFT_TO_A_FETCHER = frozenset({FenceStatus.PENDING, FenceStatus.LIFT_PENDING})
"""A fetcher sets or lifts such a fence as soon as the source lets it; `tanist fence set` leaves it alone."""


def may_stand(fence: FencedTopic) -> bool:
    """Whether there may be something to lift according to the record, also after a request whose answer was lost."""
    return fence.before is not None and fence.status is not FenceStatus.LIFTED


def is_stray(fence: FencedTopic, *, stands: bool | None) -> bool:
    """Whether the source fence is in force (`stands`) although it is recorded as lifted."""
    return fence.status is FenceStatus.LIFTED and stands is True and fence.before is not None and fence.before.alters


def ended_since(fence: FencedTopic | None, seen_at: EpochMs | None, *, stands: bool | None) -> EpochMs | None:
    """Since when a proved source fence has ended the logs of its topic, ms since 1970; None: nothing proves that.

    It does as long as no lift was applied, and the source has not answered since one was asked for: that request may
    have reached it. A near fence, which records of a few bytes pass, never does. `seen_at`: the last answer of the
    source about the topic that is on record; `stands`: what the source says now, None: it does not answer.
    """
    if fence is None or fence.before is None or fence.before.kind is not FenceKind.DENY_WRITE or stands is False:
        return None
    if fence.status is FenceStatus.PROVED:
        return fence.proved_at
    asked = fence.lift_asked_at
    pending = fence.status in {FenceStatus.LIFT_PENDING, FenceStatus.PENDING}
    if not pending or stands is not None or asked is None:
        return None
    return fence.proved_at if seen_at is None or seen_at <= asked else None


def unrecorded(found: FenceBefore) -> FencedTopic | None:
    """A source fence without a record of this mirror, derived from the topic's settings `found`; None: there is none.

    A late request of a deleted mirror has set it, or another operator; Tanist cannot tell which.
    """
    if found.alters:
        return None
    return FencedTopic(topic=found.topic, status=FenceStatus.UNRECORDED, wanted_by="", before=_without_fence(found))


def restored_fence(topic: str, held: FencedTopic | None) -> FencedTopic:
    """The record of a topic that was failed over after its state was saved. `held`: the one that was saved, if any.

    One that is in force stays; every other one is pending, as nobody knows whether the failover reached the source.
    """
    if held is not None and held.status in HOLDS_PRODUCERS_OFF:
        return held
    before = held.before if held is not None and held.status is not FenceStatus.LIFTED else None
    reason = "the state of the mirror was restored from an export that is older than the failover"
    return FencedTopic(topic=topic, status=FenceStatus.PENDING, wanted_by=RESTORED, before=before, reason=reason)


def before_pending(pending: FencedTopic, found: FenceBefore) -> FenceBefore:
    """What is stored as the settings before a pending source fence. `found`: the topic's settings now.

    If the record was lost, a source fence that is in force now was set by the failover, so it can be lifted.
    """
    return _without_fence(found) if pending.wanted_by == RESTORED and not found.alters else found


def _without_fence(found: FenceBefore) -> FenceBefore:
    return replace(found, had_deny=False, max_message_bytes=None)


_MOST_TOPICS: Final = 10
"""Of more topics a command names all with one expression."""


def fence_command(verb: str, mirror: str, destination: str, topics: Sequence[str], *options: str) -> str:
    """What a person types to lift or set (`verb`) the source fences of `topics`, complete."""
    expressions = [exactly(each) for each in topics] if len(topics) <= _MOST_TOPICS else [".*"]
    named = (word for each in expressions for word in ("--topic", each))
    return shlex.join(("tanist", "fence", verb, mirror, "--destination", destination, *options, *named))


# ── by hand ───────────────────────────────────────────────────────────────────────────────────────────────────────


def not_lifted(fences: Iterable[FencedTopic]) -> tuple[FencedTopic, ...]:
    """Source fences that are or may be in force, or pending: deleting the mirror would orphan them."""
    return tuple(each for each in fences if each.status is not FenceStatus.LIFTED or each.reason)


def commands_to_lift(fences: Iterable[FencedTopic], bootstrap: str, command_config: str = "") -> tuple[str, ...]:
    """One line of shell for each topic: Kafka's own tool, as the exact inverse of the fence.

    `bootstrap`: the source's bootstrap servers. `command_config`: a property file with an administrator's login, named
    in each command. A topic with nothing to lift gets a comment that says why.
    """
    tool = ("--bootstrap-server", bootstrap, *(("--command-config", command_config) if command_config else ()))
    return tuple(_by_hand(each, tool) for each in not_lifted(fences))


def commands_to_allow(topic: str, principals: Iterable[str], bootstrap: str) -> tuple[str, ...]:
    """One line of shell for each principal: the exact inverse of denying it WRITE on `topic` by name."""
    return tuple(shlex.join(_acls(topic, each, ("--bootstrap-server", bootstrap))) for each in principals)


def _by_hand(fence: FencedTopic, tool: tuple[str, ...]) -> str:
    before = fence.before
    if before is None:
        return f"# {fence.topic}: the source never answered, so no source fence was set"
    if before.kind is FenceKind.DENY_WRITE and before.had_deny:
        return f"# {fence.topic}: DENY WRITE for {ANYBODY} existed before the source fence and stays"
    command = _acls(before.topic, ANYBODY, tool) if before.kind is FenceKind.DENY_WRITE else _configs(before, tool)
    return shlex.join(command)


def _acls(topic: str, principal: str, tool: tuple[str, ...]) -> tuple[str, ...]:
    """`--force` asks nothing; pattern type, principal, host and operation name exactly our rule."""
    who = ("--deny-principal", principal, "--deny-host", ANY_HOST, "--operation", "Write")
    on = ("--topic", topic, "--resource-pattern-type", "literal")
    return ("kafka-acls.sh", *tool, "--remove", "--force", *who, *on)


def _configs(before: FenceBefore, tool: tuple[str, ...]) -> tuple[str, ...]:
    name, value = "max.message.bytes", before.max_message_bytes
    change = ("--delete-config", name) if value is None else ("--add-config", f"{name}={value}")
    return ("kafka-configs.sh", *tool, "--alter", "--entity-type", "topics", "--entity-name", before.topic, *change)
