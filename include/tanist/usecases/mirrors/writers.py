"""Other writers of mirror topics are denied WRITE by name, for mirrors that want it.

Whom that concerns is stored with the topic before the first ACL is created, so a failover removes exactly these ACLs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.acl_entries import others_may_write, to_deny
from tanist.domain.errors import Interrupted
from tanist.domain.failback.reversal import MIRROR_TOPIC_WRITABLE
from tanist.domain.logins import logins_of, principals
from tanist.usecases import rights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster


def with_denied(
    topics: Sequence[TopicDesired], spec: MirrorSpec, view: StateView, destination: Cluster, by: Deadline
) -> tuple[tuple[TopicDesired, ...], tuple[str, ...]]:
    """The topics with the principals that are to be denied WRITE, and warnings about those who can write nonetheless.

    Never the logins of running fetchers, nor our own.

    Raises:
        ClusterAuthorizationFailed: this login may not see ACLs.
    """
    if not spec.deny_writers or not topics:
        return tuple(topics), ()
    guarded, rules = destination.opening.has_authorizer(by), destination.opening.writing([t.topic for t in topics], by)
    own = destination.opening.principal()
    mirrors = principals(logins_of(view.workers())) | frozenset({own} if own else ())
    found = tuple(replace(each, denied=to_deny(rules[each.topic], mirrors)) for each in topics)
    writable = {each.topic: others_may_write(rules[each.topic], guarded=guarded) for each in topics}
    return found, tuple(f"{MIRROR_TOPIC_WRITABLE}: {topic}: {why}" for topic, why in writable.items() if why)


def deny(topics: Sequence[TopicDesired], destination: Cluster, by: Deadline) -> None:
    """Create the ACLs of topics that are stored already. Idempotent.

    Raises:
        Interrupted: not all were created.
    """
    wanted = {each.topic: each.denied for each in topics if each.denied}
    if not wanted:
        return
    answers = destination.opening.deny(wanted, by)
    failed = {topic: why for topic, why in answers.items() if why is not None}
    if failed:
        topic, why = next(iter(failed.items()))
        missing = rights.named(why, destination, "ALTER on Cluster kafka-cluster")
        raise Interrupted(f"other writers of {len(failed)} mirror topic(s) could not be denied; {topic!r}: {missing}")
