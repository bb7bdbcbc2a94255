"""ACLs of topics for WRITE: source fences and openings consist of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.acl_entries import ANY_HOST, AclEntry
from tanist.domain.acls import AclResource, write_binding
from tanist.domain.broker_errors import ClusterAuthorizationFailed, SecurityDisabled
from tanist.domain.errors import TanistError
from tanist.kafka.wire.admin import AccessFilter, create_acls, delete_acls, describe_acls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


def has_authorizer(router: Router, by: Deadline) -> bool:
    """Whether the cluster has an authorizer; True also if it refuses to list ACLs. It lists none of them."""
    try:
        describe_acls(router, AccessFilter(resource_type=AclResource.TOPIC, resource_name="-"), by)
    except SecurityDisabled:
        return False
    except ClusterAuthorizationFailed:
        return True
    return True


def deny(router: Router, topics: Sequence[str], principal: str, by: Deadline) -> dict[str, TanistError | None]:
    """Deny WRITE on each topic; an existing DENY is not an error."""
    if not topics:
        return {}
    rules = [write_binding(topic, AclEntry(principal, ANY_HOST, allowed=False)) for topic in topics]
    return dict(zip(topics, create_acls(router, rules, by), strict=True))


def allow_again(router: Router, topics: Sequence[str], principal: str, by: Deadline) -> dict[str, TanistError | None]:
    """Delete exactly these DENY ACLs; one that does not exist is not an error."""
    if not topics:
        return {}
    rules = [write_binding(topic, AclEntry(principal, ANY_HOST, allowed=False)) for topic in topics]
    answers = delete_acls(router, [AccessFilter(*rule) for rule in rules], by)
    pairs = zip(topics, answers, strict=True)
    return {topic: answer if isinstance(answer, TanistError) else None for topic, answer in pairs}


def give(router: Router, wanted: Mapping[str, Sequence[AclEntry]], by: Deadline) -> dict[str, TanistError | None]:
    """Create these ACLs on the literal topic names. An error of any ACL is that of its topic.

    DENY is created before ALLOW.
    """
    due = [(topic, rule) for topic, rules in wanted.items() for rule in sorted(rules, key=lambda each: each.allowed)]
    found: dict[str, TanistError | None] = dict.fromkeys(wanted)
    if not due:
        return found
    made = [write_binding(topic, rule) for topic, rule in due]
    for (topic, _), error in zip(due, create_acls(router, made, by), strict=True):
        found[topic] = found[topic] or error
    return found


def take_back(
    router: Router, unwanted: Mapping[str, Sequence[AclEntry]], by: Deadline
) -> dict[str, TanistError | None]:
    """Delete exactly these ACLs, as `give` creates them. An error of any ACL is that of its topic.

    ALLOW is deleted before DENY.
    """
    due = [
        (topic, rule) for topic, acls in unwanted.items() for rule in sorted(acls, key=lambda each: not each.allowed)
    ]
    found: dict[str, TanistError | None] = dict.fromkeys(unwanted)
    if not due:
        return found
    filters = [AccessFilter(*write_binding(topic, acl)) for topic, acl in due]
    for (topic, _), answer in zip(due, delete_acls(router, filters, by), strict=True):
        found[topic] = found[topic] or (answer if isinstance(answer, TanistError) else None)
    return found
