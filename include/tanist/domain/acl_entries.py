"""The ACLs for writing to a topic: stored while it is mirrored, created when it is failed over.

Only the mirror may write to a mirror topic. So these ACLs are stored in the state topic, not created on the topic.
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
    """An ACL of one principal, from one host (`*`: any), that allows or denies writing to a topic."""

    principal: str
    host: str
    allowed: bool

    def __str__(self) -> str:
        where = "" if self.host == ANY_HOST else f" from {self.host}"
        return f"{'allow' if self.allowed else 'deny'} {self.principal}{where}"


CLOSED = AclEntry(ANYBODY, ANY_HOST, allowed=False)
"""The ACL of a source fence. While it is in force it hides who may write otherwise, so nothing is stored from it."""


def learnt(found: Iterable[AclEntry]) -> tuple[AclEntry, ...] | None:
    """The ACLs of one topic to store; None: a source fence hides them now."""
    rules = frozenset(found)
    return None if CLOSED in rules else tuple(sorted(rules))


def writers(rules: Iterable[AclEntry], mirrors: Collection[str] = ()) -> frozenset[str]:
    """Principals other than `mirrors` that these ACLs allow to write to one topic, from any host.

    An ACL for `User:*` allows everybody. ACLs do not list super users: see `authorizer`.
    """
    found = frozenset(rules)
    shut = {rule.principal for rule in found if not rule.allowed and rule.host == ANY_HOST}
    return frozenset() if ANYBODY in shut else frozenset(r.principal for r in found if r.allowed) - shut - set(mirrors)


def to_deny(rules: Iterable[AclEntry], mirrors: Collection[str] = ()) -> tuple[str, ...]:
    """Principals other than `mirrors` to deny by name, so that only the mirror may write once a source fence is lifted.

    The fence itself is not counted. `User:*` is not among them: a DENY for everybody would deny the mirror, too.
    """
    found = frozenset(rules) - {CLOSED}
    shut = {rule.principal for rule in found if not rule.allowed and rule.host == ANY_HOST}
    return tuple(sorted({rule.principal for rule in found if rule.allowed} - shut - {ANYBODY} - set(mirrors)))


def denied_by_name(rules: Iterable[AclEntry]) -> tuple[str, ...]:
    """Principals that one ACL allows to write to a topic and another one denies it, from any host."""
    found = frozenset(rules)
    shut = {rule.principal for rule in found if not rule.allowed and rule.host == ANY_HOST}
    return tuple(sorted({rule.principal for rule in found if rule.allowed} & shut - {ANYBODY}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """What is to change on one mirror topic: principals to deny WRITE, and principals to allow it again."""

    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()

    def before(self, denied: Collection[str]) -> tuple[str, ...]:
        """Whom to store as denied before any ACL is created; `denied`: whom is stored now."""
        return tuple(sorted({*denied, *self.deny}))

    def after(self, denied: Collection[str]) -> tuple[str, ...]:
        """Whom to store as denied once the DENY of `allow` is removed."""
        return tuple(sorted({*denied, *self.deny} - {*self.allow}))


def said(rules: Iterable[AclEntry]) -> str:
    """In words, for people."""
    return ", ".join(map(str, rules)) or "nobody"
