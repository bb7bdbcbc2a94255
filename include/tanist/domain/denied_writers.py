"""Principals that are denied WRITE on a mirror topic by name, until the topic is failed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.acl_entries import Denial, to_deny
from tanist.domain.metadata import Change, Kind, MetadataRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tanist.domain.acl_entries import AclEntry
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
