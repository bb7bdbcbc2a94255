"""Other writers of mirror topics are denied WRITE by name, for mirrors that want it.

Whom that concerns is stored with the topic before the first ACL is created, so a failover removes exactly these ACLs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.acl_entries import to_deny
from tanist.domain.authorizer import AUTHORIZER_CONFIGS, Authorizer, may_allow_without_acls, others_may_write
from tanist.domain.errors import Interrupted
from tanist.domain.failback.reversal import MIRROR_TOPIC_WRITABLE, by_reason
from tanist.domain.logins import logins_of, principals
from tanist.usecases import rights

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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
    names = [each.topic for each in topics]
    own = destination.opening.principal()
    mirrors = principals(logins_of(view.workers())) | frozenset({own} if own else ())
    rules = destination.opening.writing(names, by)
    found = tuple(replace(each, denied=to_deny(rules[each.topic], mirrors)) for each in topics)
    reasons = by_reason(writable(destination, names, mirrors, by))
    return found, tuple(f"{MIRROR_TOPIC_WRITABLE}: {each}" for each in reasons)


def writable(cluster: Cluster, names: Sequence[str], mirrors: Collection[str], by: Deadline) -> dict[str, str]:
    """Topics that others than `mirrors` may write to even if everybody that ACLs name is denied, with the reason.

    Raises:
        ClusterAuthorizationFailed: this login may not see ACLs.
    """
    opening = cluster.opening
    if not opening.has_authorizer(by):
        authorizer = Authorizer(enabled=False)
    else:
        configs = cluster.configs.each_broker(AUTHORIZER_CONFIGS, by)
        asks = may_allow_without_acls(configs)
        bare = frozenset(names) - opening.covered(names, by, mirrors) if asks else frozenset()
        authorizer = Authorizer(enabled=True, configs=configs, bare=bare)
    rules = opening.writing(names, by)
    return {name: why for name in names if (why := others_may_write(name, rules[name], authorizer, mirrors))}


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
