"""ACLs of topics for WRITE: source fences and openings consist of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.acl_entries import ANY_HOST, ANYBODY, AclEntry
from tanist.domain.broker_errors import ClusterAuthorizationFailed, SecurityDisabled
from tanist.domain.errors import TanistError
from tanist.kafka.wire.admin import AccessFilter, AclBinding, create_acls, delete_acls, describe_acls
from tanist.kafka.wire.rights import AclOperation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_TOPIC, _CLUSTER = 2, 4  # ResourceType
_LITERAL, _PREFIXED, _EVERY_TOPIC = 3, 4, "*"  # PatternType; a literal name that stands for all
_ALL, _WRITE, _DENY, _ALLOW = 2, 4, 2, 3  # AclOperation, AclPermissionType
_IMPLYING = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""An ALLOW of any of these allows the operation, too (org.apache.kafka.metadata.authorizer.StandardAuthorizerData)."""


def has_authorizer(router: Router, by: Deadline) -> bool:
    """Whether the cluster has an authorizer; True also if it refuses to list ACLs."""
    try:
        describe_acls(router, AccessFilter(resource_type=_TOPIC, resource_name="-"), by)
    except SecurityDisabled:
        return False
    except ClusterAuthorizationFailed:
        return True
    return True


def denied(router: Router, principal: str, by: Deadline) -> frozenset[str]:
    """Topics with a DENY of WRITE for `principal` from any host, on the literal topic name.

    Raises:
        ClusterAuthorizationFailed, SecurityDisabled.
    """
    which = AccessFilter(
        resource_type=_TOPIC,
        pattern_type=_LITERAL,
        principal=principal,
        host=ANY_HOST,
        operation=_WRITE,
        permission=_DENY,
    )
    return frozenset(rule.resource_name for rule in describe_acls(router, which, by))


def denied_principals(router: Router, topics: Sequence[str], by: Deadline) -> dict[str, frozenset[str]]:
    """By topic, the principals with a DENY of WRITE from any host on its literal name; none without an authorizer.

    Raises:
        ClusterAuthorizationFailed.
    """
    which = AccessFilter(resource_type=_TOPIC, pattern_type=_LITERAL, host=ANY_HOST, operation=_WRITE, permission=_DENY)
    try:
        found = describe_acls(router, which, by)
    except SecurityDisabled:
        found = ()
    names: dict[str, set[str]] = {topic: set() for topic in topics}
    for rule in found:
        if rule.resource_name in names:
            names[rule.resource_name].add(rule.principal)
    return {topic: frozenset(principals) for topic, principals in names.items()}


def deny(router: Router, topics: Sequence[str], principal: str, by: Deadline) -> dict[str, TanistError | None]:
    """Deny WRITE on each topic; an existing DENY is not an error."""
    if not topics:
        return {}
    rules = [AclBinding(_TOPIC, topic, _LITERAL, principal, ANY_HOST, _WRITE, _DENY) for topic in topics]
    return dict(zip(topics, create_acls(router, rules, by), strict=True))


def allow_again(router: Router, topics: Sequence[str], principal: str, by: Deadline) -> dict[str, TanistError | None]:
    """Delete exactly these DENY ACLs; one that does not exist is not an error."""
    if not topics:
        return {}
    filters = [AccessFilter(_TOPIC, topic, _LITERAL, principal, ANY_HOST, _WRITE, _DENY) for topic in topics]
    answers = delete_acls(router, filters, by)
    pairs = zip(topics, answers, strict=True)
    return {topic: answer if isinstance(answer, TanistError) else None for topic, answer in pairs}


# ── who may write ─────────────────────────────────────────────────────────────────────────────────────────────────


def writing(router: Router, topics: Sequence[str], by: Deadline) -> dict[str, frozenset[AclEntry]]:
    """All ACLs that concern writing to each topic; empty without an authorizer.

    Raises:
        ClusterAuthorizationFailed: DESCRIBE on the cluster is missing.
    """
    try:
        found = describe_acls(router, AccessFilter(resource_type=_TOPIC), by)
    except SecurityDisabled:
        return dict.fromkeys(topics, frozenset())
    return of_topics(found, topics)


def of_topics(found: Iterable[AclBinding], topics: Sequence[str]) -> dict[str, frozenset[AclEntry]]:
    """The ACLs of WRITE and ALL that match each topic, by any pattern type."""
    literal: dict[str, set[AclEntry]] = {}
    prefixed: dict[str, set[AclEntry]] = {}
    for rule in found:
        if rule.operation in {_WRITE, _ALL}:
            kept = prefixed if rule.pattern_type == _PREFIXED else literal
            said = AclEntry(rule.principal, rule.host, allowed=rule.permission == _ALLOW)
            kept.setdefault(rule.resource_name, set()).add(said)
    return {topic: frozenset(_covering(topic, literal, prefixed)) for topic in topics}


def _covering(topic: str, literal: Mapping[str, set[AclEntry]], prefixed: Mapping[str, set[AclEntry]]) -> set[AclEntry]:
    beginnings = [rules for prefix, rules in prefixed.items() if topic.startswith(prefix)]
    return literal.get(topic, set()).union(literal.get(_EVERY_TOPIC, set()), *beginnings)


def permitted(
    router: Router, topics: Sequence[str], operations: Collection[str], principal: str, by: Deadline
) -> dict[tuple[str, str], bool | None]:
    """By (operation, topic), what ACLs say of `principal`, also of topics that do not exist; None: nothing.

    True only if it is allowed from any host. ACLs do not list super users. Without an authorizer all is True.

    Raises:
        ClusterAuthorizationFailed: DESCRIBE on the cluster is missing.
    """
    asked = [(operation, topic) for operation in operations for topic in topics]
    try:
        found = describe_acls(router, AccessFilter(resource_type=_TOPIC), by)
    except SecurityDisabled:
        return dict.fromkeys(asked, True)
    return {(operation, topic): _said_of(found, topic, operation, principal) for operation, topic in asked}


def _said_of(found: Iterable[AclBinding], topic: str, operation: str, principal: str) -> bool | None:
    about = [rule for rule in found if _matches(rule, topic) and rule.principal in {principal, ANYBODY}]
    named = AclOperation[operation.upper()]
    if any(rule.permission == _DENY and rule.operation in {named, _ALL} for rule in about):
        return False
    implying = {named, _ALL, *_IMPLYING.get(named, ())}
    allowed = (r.permission == _ALLOW and r.host == ANY_HOST and r.operation in implying for r in about)
    return True if any(allowed) else None


def _matches(rule: AclBinding, topic: str) -> bool:
    if rule.pattern_type == _PREFIXED:
        return topic.startswith(rule.resource_name)
    return rule.resource_name in {topic, _EVERY_TOPIC}


def covered(router: Router, topics: Sequence[str], by: Deadline, but: Collection[str] = ()) -> frozenset[str]:
    """The topics that any ACL matches, of any operation and pattern type. `but`: not counting what `deny` gives these.

    Raises:
        ClusterAuthorizationFailed, SecurityDisabled.
    """
    ours = {(_LITERAL, who, ANY_HOST, _WRITE, _DENY) for who in but}
    found = [
        rule
        for rule in describe_acls(router, AccessFilter(resource_type=_TOPIC), by)
        if (rule.pattern_type, rule.principal, rule.host, rule.operation, rule.permission) not in ours
    ]
    names = {rule.resource_name for rule in found if rule.pattern_type != _PREFIXED}
    prefixes = tuple({rule.resource_name for rule in found if rule.pattern_type == _PREFIXED})
    return frozenset(t for t in topics if _EVERY_TOPIC in names or t in names or t.startswith(prefixes))


def operators(router: Router, by: Deadline) -> frozenset[str]:
    """The principals that ACLs allow ALTER or CLUSTER_ACTION on the cluster.

    Raises:
        ClusterAuthorizationFailed, SecurityDisabled.
    """
    wanted = {_ALL, AclOperation.ALTER, AclOperation.CLUSTER_ACTION}
    found = describe_acls(router, AccessFilter(resource_type=_CLUSTER, permission=_ALLOW), by)
    return frozenset(rule.principal for rule in found if rule.operation in wanted) - {ANYBODY}


def give(router: Router, wanted: Mapping[str, Sequence[AclEntry]], by: Deadline) -> dict[str, TanistError | None]:
    """Create these ACLs on the literal topic names. An error of any ACL is that of its topic.

    DENY is created before ALLOW.
    """
    due = [(topic, rule) for topic, rules in wanted.items() for rule in sorted(rules, key=lambda each: each.allowed)]
    found: dict[str, TanistError | None] = dict.fromkeys(wanted)
    if not due:
        return found
    made = [_binding(topic, rule) for topic, rule in due]
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
    filters = [AccessFilter(*_binding(topic, acl)) for topic, acl in due]
    for (topic, _), answer in zip(due, delete_acls(router, filters, by), strict=True):
        found[topic] = found[topic] or (answer if isinstance(answer, TanistError) else None)
    return found


def _binding(topic: str, rule: AclEntry) -> AclBinding:
    """The ACL of WRITE on the literal topic name."""
    return AclBinding(_TOPIC, topic, _LITERAL, rule.principal, rule.host, _WRITE, _ALLOW if rule.allowed else _DENY)
