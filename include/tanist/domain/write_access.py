"""Who may write to a topic after a failover: what is given at the new primary, and who is locked out there.

Judged is who may write, not which ACLs exist: one principal may be allowed by its name, by a prefix or as everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.acl_entries import ANY_HOST, ANYBODY, CLOSED, AclEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


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
