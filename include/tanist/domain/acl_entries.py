"""Who may write to a topic, as access rules say: remembered while it is mirrored, given on the day it takes over.

While a topic is a copy nobody may write there but the mirror. So these rules are kept beside the topic, not on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

ANYBODY = "User:*"
ANY_HOST = "*"


@dataclass(frozen=True, slots=True, order=True)
class AclEntry:
    """One principal, from one host (`*`: any), may write to a topic, or may not."""

    principal: str
    host: str
    allowed: bool

    def __str__(self) -> str:
        where = "" if self.host == ANY_HOST else f" from {self.host}"
        return f"{'allow' if self.allowed else 'deny'} {self.principal}{where}"


CLOSED = AclEntry(ANYBODY, ANY_HOST, allowed=False)
"""What a fence looks like. While it stands nobody can tell who may write otherwise, so nothing is learnt from it."""


def learnt(found: Iterable[AclEntry]) -> tuple[AclEntry, ...] | None:
    """The rules of one topic that are worth remembering; None: it is closed to everybody now."""
    rules = frozenset(found)
    return None if CLOSED in rules else tuple(sorted(rules))


def writers(rules: Iterable[AclEntry], mirrors: Collection[str] = ()) -> frozenset[str]:
    """Principals besides `mirrors` that these rules of one topic let write to it, from whatever host.

    A rule for `User:*` lets everybody. Super users are in no rule, so nobody can name them.
    """
    found = frozenset(rules)
    shut = {rule.principal for rule in found if not rule.allowed and rule.host == ANY_HOST}
    return frozenset() if ANYBODY in shut else frozenset(r.principal for r in found if r.allowed) - shut - set(mirrors)


def said(rules: Iterable[AclEntry]) -> str:
    """In words, for people."""
    return ", ".join(map(str, rules)) or "nobody"
