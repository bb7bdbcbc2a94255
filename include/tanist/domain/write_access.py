"""Who may write to a topic after a failover: what is given at the new primary, and who is locked out there.

Judged is who may write, not which ACLs exist: one principal may be allowed by its name, by a prefix or as everybody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from tanist.domain.acl_entries import ANY_HOST, ANYBODY, CLOSED, AclEntry, Denial, to_deny
from tanist.domain.checks import named
from tanist.domain.errors import TanistError
from tanist.domain.metadata import Change, Kind, MetadataRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tanist.domain.names import BrokerId
    from tanist.domain.records import TopicDesired


def denial(
    topic: TopicDesired, rules: Iterable[AclEntry], fetchers: Collection[str], spared: Collection[str] = ()
) -> Denial | None:
    """The change that `topic` needs; None: nobody. `rules`: its ACLs for writing.

    `fetchers`: their principals, which are allowed again if they were denied. `spared`: others that are not denied.
    """
    found = Denial(
        deny=to_deny(rules, {*fetchers, *spared}),
        allow=tuple(who for who in topic.denied if who in frozenset(fetchers)),
    )
    return found if found != Denial() else None


def denial_rows(topic: str, of: Denial) -> Iterator[MetadataRow]:
    """The same for people."""
    for change, principals, reason in (
        (Change.DENY, of.deny, "only the mirror may write to a mirror topic: WRITE is denied by name until a failover"),
        (Change.ALLOW, of.allow, "it was denied WRITE by name, and fetchers log in with it"),
    ):
        if principals:
            name = f"{topic}:WRITE"
            who = ", ".join(principals)
            yield MetadataRow(topic=topic, kind=Kind.ACL, name=name, change=change, destination=who, reason=reason)


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


def may_write(principal: str, acls: Iterable[AclEntry]) -> bool:
    """Whether `acls` allow `principal` to write from some host, and no DENY from any host concerns it."""
    ours = [each for each in acls if each.principal in {principal, ANYBODY}]
    return any(each.allowed for each in ours) and not any(not each.allowed and each.host == ANY_HOST for each in ours)


def own_acls(found: Iterable[AclEntry], denied: Collection[str]) -> frozenset[AclEntry]:
    """The ACLs of a topic without those that the mirror has created: a source fence, and a DENY of `denied` by name."""
    ours = {AclEntry(principal, ANY_HOST, allowed=False) for principal in denied}
    return frozenset(found) - ours - {CLOSED}


def to_give(
    wanted: Iterable[AclEntry], own: Collection[AclEntry], mirrors: Collection[str] = ()
) -> tuple[AclEntry, ...]:
    """What a failover creates of the source's ACLs (`wanted`) at a topic that has ACLs of its `own`.

    Nothing for principals of the mirror, and no DENY of somebody whom the cluster allows to write by itself: such a
    DENY is the other cluster's, and would lock its producers out here. Another DENY is created only beside an ALLOW
    that would let in its principal, who may not write at the source: the ALLOW of everybody, for instance.
    """
    lacking = [each for each in wanted if each not in own and each.principal not in mirrors]
    let_in = {each.principal for each in lacking if each.allowed}
    return tuple(
        each
        for each in lacking
        if each.allowed or (not may_write(each.principal, own) and let_in & {each.principal, ANYBODY})
    )


def locked_out(
    wanted: Collection[AclEntry], own: Collection[AclEntry], mirrors: Collection[str] = ()
) -> tuple[str, ...]:
    """Principals that may write at the source (`wanted`), and may not once the topic is opened here.

    `own`: its ACLs, without what the mirror has created. Super users are unknown.
    """
    return shut_out_of(wanted, {*own, *to_give(wanted, own, mirrors)}, mirrors)


def shut_out_of(
    wanted: Collection[AclEntry], now: Collection[AclEntry], mirrors: Collection[str] = ()
) -> tuple[str, ...]:
    """Principals that `wanted` allow to write, and the ACLs that a topic has `now` do not.

    Without any `wanted` everybody may write at the source, as far as is known: so whom the topic denies is named.
    """
    known = wanted or (AclEntry(ANYBODY, ANY_HOST, allowed=True),)
    named = {each.principal for each in (*wanted, *now)} - set(mirrors)
    return tuple(sorted(who for who in named if may_write(who, known) and not may_write(who, now)))


def acl_changes(
    stored: Collection[AclEntry], now: Collection[AclEntry] | None, mirrors: Collection[str] = ()
) -> tuple[str, ...]:
    """What differs at the source from what is stored of it, in words. `now`: None while a source fence hides it."""
    if now is None:
        return ()
    added = (f"{each} was added" for each in sorted({*now} - {*stored}) if each.principal not in mirrors)
    removed = (f"{each} was removed" for each in sorted({*stored} - {*now}) if each.principal not in mirrors)
    return (*added, *removed)
