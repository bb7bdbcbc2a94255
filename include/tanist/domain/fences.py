"""A fence keeps producers off a topic of the source; what was there before is stored first, so lifting it is exact."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import ANY_HOST, ANYBODY
from tanist.domain.stored_names import stored_under

if TYPE_CHECKING:
    from collections.abc import Iterable

SMALLEST_MESSAGE_BYTES: Final = 78
"""The smallest max.message.bytes that lets transaction markers through. 0 strands transactions for good."""


class FenceKind(StrEnum):
    DENY_WRITE = "deny-write"
    """An ACL: DENY WRITE for User:* (refused within 50 ms, readers and open transactions untouched)."""
    TINY_MESSAGES = "max.message.bytes=78"
    """Without an authorizer: markers still pass, and records of a few bytes. Never 0: it strands transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBefore:
    """What there was before the fence, so that lifting it is its exact inverse.

    `had_deny`: the very rule existed already, so it stays. `max_message_bytes`: the topic's own setting, None if unset.
    """

    topic: str
    kind: FenceKind
    had_deny: bool = False
    max_message_bytes: str | None = None

    @property
    def alters(self) -> bool:
        """Whether the fence changes anything: what was there already is not ours, and is never lifted."""
        return not self.had_deny and self.max_message_bytes != str(SMALLEST_MESSAGE_BYTES)


class FenceStatus(StrEnum):
    SNAPSHOT, IN_FORCE, PROVED, UNPROVED = "snapshot", "standing", "proved", "not proved"
    PENDING, LIFT_PENDING, LIFTED = "owed", "lift owed", "lifted"
    UNRECORDED = "not on record"
    """It stands, and no failover of this mirror has recorded it. Never stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedTopic:
    """One topic of the source. `before` is None where the source never answered: the fence is owed, nothing is known.

    `wanted_by`: the plan that wants it. UNPROVED: it was said that nobody needs to look whether it holds.
    """

    topic: str
    status: FenceStatus
    wanted_by: str = field(metadata=stored_under("owed_by"))
    before: FenceBefore | None = None
    reason: str = ""


STRAY: Final = "still in force at the source although it was lifted: remove it with `tanist fence lift`"
"""The reason of a lifted fence that a late command, or somebody else, has put up again."""
UNRECORDED: Final = "in force at the source without a record: remove it with `tanist fence lift --unrecorded`"
"""The reason of a fence that a deleted mirror's late command, or somebody else, has put up."""
HOLDS_PRODUCERS_OFF = frozenset({FenceStatus.IN_FORCE, FenceStatus.PROVED, FenceStatus.UNPROVED})


def may_stand(fence: FencedTopic) -> bool:
    """Whether there is something to lift, by the record: also behind a request whose answer was lost."""
    return fence.before is not None and fence.status is not FenceStatus.LIFTED


def is_stray(fence: FencedTopic, *, stands: bool | None) -> bool:
    """Whether a fence of ours stands at the source, as `stands` says, though the record says that it was lifted."""
    return fence.status is FenceStatus.LIFTED and stands is True and fence.before is not None and fence.before.alters


def unrecorded(found: FenceBefore) -> FencedTopic | None:
    """A source fence of which this mirror has no record, from what `found` says of the topic now; None: there is none.

    A late request of a mirror that was deleted has put it up, or somebody else: only a person knows.
    """
    if found.alters:
        return None
    before = replace(found, had_deny=False, max_message_bytes=None)
    return FencedTopic(topic=found.topic, status=FenceStatus.UNRECORDED, wanted_by="", before=before)


# ── by hand ───────────────────────────────────────────────────────────────────────────────────────────────────────


def not_lifted(fences: Iterable[FencedTopic]) -> tuple[FencedTopic, ...]:
    """Source fences that stand, may stand, or are pending: to forget the mirror would orphan them."""
    return tuple(each for each in fences if each.status is not FenceStatus.LIFTED or each.reason)


def commands_to_lift(fences: Iterable[FencedTopic], bootstrap: str, command_config: str = "") -> tuple[str, ...]:
    """One line of shell for each topic: Kafka's own tool, as the exact inverse of the fence.

    `bootstrap`: the source's bootstrap servers. `command_config`: a property file with an administrator's login, named
    in each command. A topic with nothing to lift gets a comment that says why.
    """
    tool = ("--bootstrap-server", bootstrap, *(("--command-config", command_config) if command_config else ()))
    return tuple(_by_hand(each, tool) for each in not_lifted(fences))


def _by_hand(fence: FencedTopic, tool: tuple[str, ...]) -> str:
    before = fence.before
    if before is None:
        return f"# {fence.topic}: the source never answered, so no source fence was set"
    if before.kind is FenceKind.DENY_WRITE and before.had_deny:
        return f"# {fence.topic}: DENY WRITE for {ANYBODY} existed before the source fence and stays"
    command = _acls(before, tool) if before.kind is FenceKind.DENY_WRITE else _configs(before, tool)
    return shlex.join(command)


def _acls(before: FenceBefore, tool: tuple[str, ...]) -> tuple[str, ...]:
    """`--force` asks nothing; pattern type, principal, host and operation name exactly our rule."""
    who = ("--deny-principal", ANYBODY, "--deny-host", ANY_HOST, "--operation", "Write")
    topic = ("--topic", before.topic, "--resource-pattern-type", "literal")
    return ("kafka-acls.sh", *tool, "--remove", "--force", *who, *topic)


def _configs(before: FenceBefore, tool: tuple[str, ...]) -> tuple[str, ...]:
    name, value = "max.message.bytes", before.max_message_bytes
    change = ("--delete-config", name) if value is None else ("--add-config", f"{name}={value}")
    return ("kafka-configs.sh", *tool, "--alter", "--entity-type", "topics", "--entity-name", before.topic, *change)
