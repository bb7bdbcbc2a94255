"""ACLs for writing to a topic, as a kind that follows the source: stored at once, created by a failover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import said
from tanist.domain.errors import AuthorizationFailed, TanistError
from tanist.domain.metadata import Change, Kind, MetadataRow, Outcome, Share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.acl_entries import AclEntry
    from tanist.domain.metadata import MetadataRules
    from tanist.domain.records import TopicDesired

    Found = tuple[AclEntry, ...] | TanistError | None

_CLOSED: Final = "WRITE is denied to everybody at the source, as by a source fence: the ACLs are not taken from there"


def decide(topic: TopicDesired, found: Found, rules: MetadataRules) -> Share:
    """The ACLs for writing that a failover creates. `found`: of the source; None: a source fence hides them.

    ACLs that could not be read stay as stored.
    """
    deferred = found if isinstance(found, tuple) else topic.deferred_acls
    return Share(rows=tuple(_rows(topic, found, rules)), recorded={"deferred_acls": deferred})


def _rows(topic: TopicDesired, found: Found, rules: MetadataRules) -> Iterator[MetadataRow]:
    def row(change: Change, verdict: Outcome, now: str | None, reason: str) -> MetadataRow:
        return MetadataRow(
            topic=topic.topic,
            kind=Kind.ACL,
            name=f"{topic.topic}:WRITE",
            change=change,
            source=now,
            destination=said(topic.deferred_acls),
            verdict=verdict,
            reason=reason,
        )

    if found is None:
        yield row(Change.NOTHING, Outcome.SKIPPED, None, _CLOSED)
    elif isinstance(found, TanistError):
        optional = rules.is_mapped and isinstance(found, AuthorizationFailed)
        yield row(Change.NOTHING, Outcome.SKIPPED if optional else Outcome.UNKNOWN, None, str(found))
    elif found != topic.deferred_acls:
        yield row(
            Change.REMEMBER, Outcome.DIFFERS, said(found), "deferred while the topic is mirrored; granted by a failover"
        )
