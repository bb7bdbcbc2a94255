"""WRITE denied on a topic, as access rules of a cluster: what fences and openings are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.broker_errors import ClusterAuthorizationFailed, SecurityDisabled
from tanist.domain.errors import TanistError
from tanist.wire.admin import AccessFilter, AccessRule, create_acls, delete_acls, describe_acls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.ports.clock import Deadline
    from tanist.wire.router import Router

ANYBODY: Final = "User:*"
_ANY_HOST: Final = "*"
_TOPIC, _LITERAL, _WRITE, _DENY = 2, 3, 4, 2  # ResourceType, PatternType, AclOperation, AclPermissionType


def has_authorizer(router: Router, by: Deadline) -> bool:
    """Whether access rules exist on this cluster; one that refuses to tell has them."""
    try:
        describe_acls(router, AccessFilter(resource_type=_TOPIC, resource_name="-"), by)
    except SecurityDisabled:
        return False
    except ClusterAuthorizationFailed:
        return True
    return True


def denied(router: Router, principal: str, by: Deadline) -> frozenset[str]:
    """Topics on which `principal` is denied WRITE from anywhere, by their very names.

    Raises:
        ClusterAuthorizationFailed, SecurityDisabled.
    """
    which = AccessFilter(
        resource_type=_TOPIC,
        pattern_type=_LITERAL,
        principal=principal,
        host=_ANY_HOST,
        operation=_WRITE,
        permission=_DENY,
    )
    return frozenset(rule.resource_name for rule in describe_acls(router, which, by))


def deny(router: Router, topics: Sequence[str], principal: str, by: Deadline) -> dict[str, TanistError | None]:
    """Deny WRITE on each topic; what is denied already is no error."""
    if not topics:
        return {}
    rules = [AccessRule(_TOPIC, topic, _LITERAL, principal, _ANY_HOST, _WRITE, _DENY) for topic in topics]
    return dict(zip(topics, create_acls(router, rules, by), strict=True))


def allow_again(router: Router, topics: Sequence[str], principal: str, by: Deadline) -> dict[str, TanistError | None]:
    """Take exactly these denials away; what is not there is no error."""
    if not topics:
        return {}
    filters = [AccessFilter(_TOPIC, topic, _LITERAL, principal, _ANY_HOST, _WRITE, _DENY) for topic in topics]
    answers = delete_acls(router, filters, by)
    pairs = zip(topics, answers, strict=True)
    return {topic: answer if isinstance(answer, TanistError) else None for topic, answer in pairs}
