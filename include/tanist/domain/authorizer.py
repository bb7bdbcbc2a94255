"""Who may write to a topic although no ACL names them, so that no DENY can be created for them by name.

Besides ACLs, two static configs of each broker decide. A broker reports whether one is set and hides its value, as both
are the authorizer's own and so count as sensitive (Kafka 2.4.1 to 4.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.acl_entries import ANYBODY
from tanist.domain.checks import named
from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.names import BrokerId

SUPER_USERS: Final = "super.users"
WITHOUT_ACLS: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER_CONFIGS: Final = (SUPER_USERS, WITHOUT_ACLS)
_HIDDEN: Final = "set (its value is hidden)"

ConfigsReported: TypeAlias = "Mapping[str, str | None] | TanistError"
"""The `AUTHORIZER_CONFIGS` that a broker has set (value None: hidden), or why that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorizer:
    """The authorizer of a cluster. `enabled`: whether it has one.

    `configs`: of every broker that is alive, as each decides by its own file. `bare`: topics that no ACL of any
    operation is about, not counting ACLs that are removed before a mirror writes.
    """

    enabled: bool
    configs: Mapping[BrokerId, ConfigsReported] = field(default_factory=dict)
    bare: frozenset[str] = frozenset()


def may_allow_without_acls(configs: Mapping[BrokerId, ConfigsReported]) -> bool:
    """Whether a broker may let everybody write to a topic that no ACL is about."""
    return any(isinstance(each, TanistError) or bool(_openness(each)) for each in configs.values())


def others_may_write(
    topic: str, rules: Iterable[AclEntry], authorizer: Authorizer, mirrors: Collection[str] = ()
) -> str:
    """Why others may write to `topic` even if everybody that its ACLs name is denied; empty: they may not.

    `rules`: its ACLs for writing. `mirrors`: principals of the mirror; other super users are others. What is not known
    is a reason.
    """
    if not authorizer.enabled:
        return "the cluster has no authorizer"
    return "; ".join(_reasons(topic, rules, authorizer, frozenset(mirrors)))


def _reasons(topic: str, rules: Iterable[AclEntry], authorizer: Authorizer, mirrors: frozenset[str]) -> Iterator[str]:
    if any(rule.allowed and rule.principal == ANYBODY for rule in rules):
        yield f"an ACL allows {ANYBODY} to write"
    known = {broker: each for broker, each in authorizer.configs.items() if not isinstance(each, TanistError)}
    if others := sorted({who for each in known.values() for who in _super_users(each)} - mirrors):
        yield f"{SUPER_USERS} lists {named(others, ', ')}"
    if hidden := [broker for broker, each in known.items() if each.get(SUPER_USERS, "") is None]:
        yield f"{SUPER_USERS} is set on {_brokers(hidden)}, which hides whom it lists"
    if topic in authorizer.bare:
        for value in ("true", _HIDDEN):
            if at := [broker for broker, each in known.items() if _openness(each) == value]:
                yield f"no ACL is about the topic, and {WITHOUT_ACLS} is {value} on {_brokers(at)}"
    for broker, error in authorizer.configs.items():
        if isinstance(error, TanistError):
            yield f"who the super users of broker {broker} are is unknown: {error.reason}"
            return


def _super_users(reported: Mapping[str, str | None]) -> frozenset[str]:
    return frozenset(filter(None, (each.strip() for each in (reported.get(SUPER_USERS) or "").split(";"))))


def _openness(reported: Mapping[str, str | None]) -> str:
    """What the broker says of topics without ACLs, if everybody may write to them, or may be allowed to."""
    value = reported.get(WITHOUT_ACLS, "false")
    return _HIDDEN if value is None else "true" if value.strip().lower() == "true" else ""


def _brokers(ids: Iterable[BrokerId]) -> str:
    every = sorted(ids)
    return f"broker{'s' if len(every) > 1 else ''} {named(every, ', ')}"
