"""The ACLs of docs/reference/permissions.md, and none besides: both clusters of a mirror that is led to and fro."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.acls import AclBinding, AclOperation
from tanist.domain.rights import TABLE, ClusterRole, Each, LoginRole, Use
from tests.kafka.failover.conftest import (
    ALL,
    ALLOW,
    CLUSTER,
    GROUP,
    LITERAL,
    READ,
    TOPIC,
    TRANSACTION,
    WRITE,
    give,
    rules,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tanist.domain.rights import Permission
    from tanist_testkit.sandbox.cluster import SandboxCluster

PREFIXED: Final = 4
_KINDS: Final = {"Topic": TOPIC, "Group": GROUP, "Cluster": CLUSTER, "TransactionalId": TRANSACTION}
_OF_MAPPED: Final = {
    *(Use.COPY, Use.SERVE, Use.MAPPED, Use.POSITIONS, Use.GROUPS),
    *(Use.PLAN, Use.PLAN_MAPPED, Use.APPROVE, Use.RUN, Use.RUN_MAPPED, Use.NOTIFY),
}
_LOGINS: Final = {LoginRole.MIRROR: "mirror", LoginRole.APPROVER: "approver"}


def grant_documented(cluster: SandboxCluster, topic: str, group: str) -> None:
    """`mirror` and `approver` as the table says of a mirror of `topic`; `app` reads, and has a group of its own."""
    app = cluster.spec.principal("app")
    clients = [(TOPIC, topic, READ), (GROUP, group, READ), (GROUP, "look", READ), (TRANSACTION, "*", ALL)]
    wanted = {AclBinding(kind, name, LITERAL, app, "*", operation, ALLOW) for kind, name, operation in clients}
    give(cluster, *wanted, *set(_documented(cluster, topic, group)))


def grant_least(cluster: SandboxCluster, where: ClusterRole, mirrors: Collection[str], group: str) -> None:
    """What the table says of mirrors with mapped offsets, each of a topic of its name, and nothing on the cluster.

    `app` reads and writes, as operators of the cluster have granted it.
    """
    names = {Each.TOPIC: mirrors, Each.POSITIONS: mirrors, Each.WRITTEN_BACK: mirrors, Each.GROUP: (group,)}
    needed = {
        acl_of(row.of(name).rights[0], cluster.spec.principal(_LOGINS[row.who]))
        for row in TABLE
        if row.where is where and row.use in _OF_MAPPED and row.resource_type != "Cluster"
        for name in (names[row.resource] if isinstance(row.resource, Each) else ("",))
    }
    clients = rules(cluster.spec.principal("app"), (TOPIC, READ), (TOPIC, WRITE), (GROUP, READ), (TRANSACTION, ALL))
    give(cluster, *needed, *clients)


def _documented(cluster: SandboxCluster, topic: str, group: str) -> Iterator[AclBinding]:
    """Of a row that names several operations the first is enough. Each cluster is a source and a destination."""
    for row in TABLE:
        if row.use in {Use.FOLLOW, Use.SAVE, Use.MAPPED, Use.POSITIONS, Use.RUN_MAPPED, Use.PLAN_MAPPED}:
            continue  # not of a mirror that Tanist copies with identical offsets
        needed = row.of(group if row.resource is Each.GROUP else topic).rights[0]
        yield acl_of(needed, cluster.spec.principal(_LOGINS[row.who]))


def acl_of(needed: Permission, principal: str) -> AclBinding:
    """The ACL that grants it; a name that ends in `*` is a prefix."""
    name, pattern = needed.resource, LITERAL
    if name.endswith("*") and name != "*":
        name, pattern = name.removesuffix("*"), PREFIXED
    operation = AclOperation[needed.operation]
    return AclBinding(_KINDS[needed.resource_type], name, pattern, principal, "*", operation, ALLOW)
