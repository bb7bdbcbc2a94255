"""All ACLs of a cluster as one value, which is read with one request, and what they say.

Codes are Kafka's, and stay numbers where a broker knows more of them than we do: an unknown one is never taken for
another. What an ACL allows and denies is decided as StandardAuthorizer decides it (org.apache.kafka.metadata.authorizer
.StandardAuthorizerData): a DENY wins; an ALLOW may imply another operation; a DENY implies none.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.acl_entries import ANY_HOST, ANYBODY, AclEntry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


class AclResource(IntEnum):
    """Codes of org.apache.kafka.common.resource.ResourceType."""

    TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(2, 8)


class AclPattern(IntEnum):
    """Codes of org.apache.kafka.common.resource.PatternType."""

    LITERAL, PREFIXED = 3, 4


class AclOperation(IntEnum):
    """Codes of org.apache.kafka.common.acl.AclOperation."""

    ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(2, 9)
    CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(9, 13)
    CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT = range(13, 16)


class AclPermission(IntEnum):
    """Codes of org.apache.kafka.common.acl.AclPermissionType."""

    DENY, ALLOW = 2, 3


EVERY_RESOURCE: Final = "*"
"""A literal name that stands for all resources of its type."""
IMPLYING: Final = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
"""An ALLOW of any of these allows the operation, too."""


class AclBinding(NamedTuple):
    """One ACL: the codes of ResourceType, PatternType, AclOperation and AclPermissionType, known or not."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def about(self, name: str) -> bool:
        """Whether it concerns the resource `name` of its type, by its pattern."""
        if self.pattern_type == AclPattern.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in {name, EVERY_RESOURCE}

    def spans(self, other: AclBinding) -> bool:
        """Whether it concerns everything that `other` does, which is about the same type of resource."""
        if self.pattern_type != AclPattern.PREFIXED and self.resource_name == EVERY_RESOURCE:
            return True
        if other.pattern_type == AclPattern.PREFIXED:
            return self.pattern_type == AclPattern.PREFIXED and other.resource_name.startswith(self.resource_name)
        return other.resource_name != EVERY_RESOURCE and self.about(other.resource_name)

    def reached(self, names: Collection[str]) -> Iterator[str]:
        """Those of `names`, each a resource of its type, that it is about; quick for one that is about a single one."""
        if self.pattern_type != AclPattern.PREFIXED and self.resource_name != EVERY_RESOURCE:
            return iter((self.resource_name,) if self.resource_name in names else ())
        return (name for name in names if self.about(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Acls:
    """The ACLs of a cluster. `authorizer`: whether it has one; without it there are none, and everything is allowed.

    ACLs do not list super users, nor what other authorizers decide by (roles, IAM).
    """

    bindings: frozenset[AclBinding] = frozenset()
    authorizer: bool = True

    def writing(self, topics: Iterable[str]) -> dict[str, frozenset[AclEntry]]:
        """All ACLs that concern writing to each topic, by any pattern; none without an authorizer."""
        literal: dict[str, set[AclEntry]] = {}
        prefixed: dict[str, set[AclEntry]] = {}
        for each in self._of(AclResource.TOPIC):
            if each.operation in {AclOperation.WRITE, AclOperation.ALL}:
                kept = prefixed if each.pattern_type == AclPattern.PREFIXED else literal
                entry = AclEntry(each.principal, each.host, allowed=each.permission == AclPermission.ALLOW)
                kept.setdefault(each.resource_name, set()).add(entry)
        return {topic: frozenset(_covering(topic, literal, prefixed)) for topic in topics}

    def denied(self, principal: str) -> frozenset[str]:
        """Topics with a DENY of WRITE for `principal` from any host, on the literal topic name."""
        return frozenset(each.resource_name for each in self._write_denials() if each.principal == principal)

    def denied_by_name(self, topics: Iterable[str]) -> dict[str, frozenset[str]]:
        """By topic, the principals with a DENY of WRITE from any host on its literal name."""
        names: dict[str, set[str]] = {topic: set() for topic in topics}
        for each in self._write_denials():
            if each.resource_name in names:
                names[each.resource_name].add(each.principal)
        return {topic: frozenset(principals) for topic, principals in names.items()}

    def covered(self, topics: Iterable[str], but: Collection[str] = ()) -> frozenset[str]:
        """The topics that any ACL is about, of any operation; `but`: not counting a DENY of WRITE by name for these."""
        ours = {each for each in self._write_denials() if each.principal in but}
        found = [each for each in self._of(AclResource.TOPIC) if each not in ours]
        names = {each.resource_name for each in found if each.pattern_type != AclPattern.PREFIXED}
        prefixes = tuple({each.resource_name for each in found if each.pattern_type == AclPattern.PREFIXED})
        return frozenset(t for t in topics if EVERY_RESOURCE in names or t in names or t.startswith(prefixes))

    def operators(self) -> frozenset[str]:
        """The principals that ACLs allow ALTER or CLUSTER_ACTION on the cluster."""
        wanted = {AclOperation.ALL, AclOperation.ALTER, AclOperation.CLUSTER_ACTION}
        allowed = (each for each in self._of(AclResource.CLUSTER) if each.permission == AclPermission.ALLOW)
        return frozenset(each.principal for each in allowed if each.operation in wanted) - {ANYBODY}

    def permitted(
        self, topics: Sequence[str], operations: Collection[str], principal: str
    ) -> dict[tuple[str, str], bool | None]:
        """By (operation, topic), whether ACLs allow it `principal` from any host; None: they say nothing about it."""
        if not self.authorizer:
            return dict.fromkeys(((operation, topic) for operation in operations for topic in topics), True)
        index = AclIndex(self)
        return {
            (operation, topic): permitted_by(about, AclOperation[operation.upper()], principal)
            for topic, about in ((topic, index.about(AclResource.TOPIC, topic)) for topic in topics)
            for operation in operations
        }

    def _of(self, kind: AclResource) -> Iterator[AclBinding]:
        return (each for each in self.bindings if each.resource_type == kind)

    def _write_denials(self) -> Iterator[AclBinding]:
        for each in self._of(AclResource.TOPIC):
            by_name = each.pattern_type == AclPattern.LITERAL and each.host == ANY_HOST
            if by_name and (each.operation, each.permission) == (AclOperation.WRITE, AclPermission.DENY):
                yield each


def _covering(topic: str, literal: Mapping[str, set[AclEntry]], prefixed: Mapping[str, set[AclEntry]]) -> set[AclEntry]:
    beginnings = [entries for prefix, entries in prefixed.items() if topic.startswith(prefix)]
    return literal.get(topic, set()).union(literal.get(EVERY_RESOURCE, set()), *beginnings)


def permitted_by(
    about: Iterable[AclBinding], operation: AclOperation, principal: str, host: str = ANY_HOST
) -> bool | None:
    """Whether these ACLs of one resource allow `principal` the operation from `host`; None: they say nothing of it."""
    ours = [each for each in about if each.principal in {principal, ANYBODY}]
    denying, hosts = {operation, AclOperation.ALL}, {ANY_HOST, host}
    denied = (each for each in ours if each.permission == AclPermission.DENY and each.operation in denying)
    if any(host == ANY_HOST or each.host in hosts for each in denied):
        return False
    implying = {operation, AclOperation.ALL, *IMPLYING.get(operation, ())}
    allowed = (each for each in ours if each.permission == AclPermission.ALLOW and each.operation in implying)
    return True if any(each.host in hosts for each in allowed) else None


class AclIndex:
    """The ACLs by the resource that they are about, for who asks about many. None are about anything unknown."""

    def __init__(self, acls: Acls) -> None:
        self._literal: dict[tuple[int, str], list[AclBinding]] = defaultdict(list)
        self._prefixed: dict[int, list[AclBinding]] = defaultdict(list)
        for each in sorted(acls.bindings):
            if each.pattern_type == AclPattern.PREFIXED:
                self._prefixed[each.resource_type].append(each)
            else:
                self._literal[each.resource_type, each.resource_name].append(each)

    def about(self, kind: AclResource, name: str) -> list[AclBinding]:
        """Those about one resource."""
        literal = [*self._literal.get((kind, name), ()), *self._literal.get((kind, EVERY_RESOURCE), ())]
        return literal + [each for each in self._prefixed.get(kind, ()) if each.about(name)]


NO_AUTHORIZER: Final = Acls(authorizer=False)


def write_binding(topic: str, entry: AclEntry) -> AclBinding:
    """The ACL of WRITE on the literal topic name."""
    permission = AclPermission.ALLOW if entry.allowed else AclPermission.DENY
    where = (AclResource.TOPIC, topic, AclPattern.LITERAL)
    return AclBinding(*where, entry.principal, entry.host, AclOperation.WRITE, permission)
