"""The permissions that a mirror needs, each with the request that fails without it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain import broker_errors
from tanist.domain.checks import Verdict
from tanist.domain.errors import AuthorizationFailed, TanistError
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.tails import quarantine_topic
from tanist.ports.access import Permission
from tanist.ports.membership import FETCHER_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster

_REFUSALS = (
    broker_errors.TopicAuthorizationFailed,
    broker_errors.ClusterAuthorizationFailed,
    broker_errors.GroupAuthorizationFailed,
    broker_errors.TransactionalIdAuthorizationFailed,
)
CLUSTER = "kafka-cluster"
"""The name of the one resource of type Cluster."""
OPERATION_NAMES = {
    "READ": "Read",
    "WRITE": "Write",
    "CREATE": "Create",
    "DELETE": "Delete",
    "ALTER": "Alter",
    "DESCRIBE_CONFIGS": "DescribeConfigs",
    "ALTER_CONFIGS": "AlterConfigs",
}
"""Operations as kafka-acls.sh spells them."""


@dataclass(frozen=True, slots=True)
class RequiredAcl:
    """A need that any one of `rights` satisfies."""

    rights: tuple[Permission, ...]

    @property
    def title(self) -> str:
        first = self.rights[0]
        operations = " or ".join(right.operation for right in self.rights)
        return f"{operations} on {first.resource_type} {first.resource}"

    @property
    def description(self) -> str:
        """The permission, and what fails without it."""
        return f"{self.title} ({self.rights[0].needed_for})"


@dataclass(frozen=True, slots=True)
class RequiredAclCheck:
    acl: RequiredAcl
    verdict: Verdict
    reason: str


def _required(operations: str, resource_type: str, resource: str, needed_for: str) -> RequiredAcl:
    return RequiredAcl(
        tuple(
            Permission(operation=operation, resource_type=resource_type, resource=resource, needed_for=needed_for)
            for operation in operations.split("|")
        )
    )


def source_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions that a fetcher needs to read `topics`."""
    return tuple(
        need
        for topic in topics
        for need in (
            _required("READ", "Topic", topic, "fetching records"),
            _required("DESCRIBE_CONFIGS", "Topic", topic, "copying topic configurations"),
        )
    )


def destination_needs(topics: Iterable[str], *, state: bool, fenced: bool = False) -> tuple[RequiredAcl, ...]:
    """The permissions that a fetcher needs to write to the existing `topics` and state topics (`state`).

    `fenced`: a source fence may be in force on the topics, which denies WRITE to everybody.
    """
    needs = [
        _required("ALTER|CLUSTER_ACTION", "Cluster", CLUSTER, "writing the control markers that keep offsets identical")
    ]
    for topic in topics:
        needs += [] if fenced else [_required("WRITE", "Topic", topic, "appending records")]
        needs += [
            _required("READ", "Topic", topic, "finding the end of the mirror topics"),
            _required("ALTER_CONFIGS", "Topic", topic, "deferring retention while topics are mirrored"),
            _required("DELETE", "Topic", topic, "setting the log start of mirror topics"),
        ]
    for topic in (STATE_TOPIC, OFFSETS_TOPIC) if state else ():
        needs += [
            _required("WRITE", "Topic", topic, "recording states"),
            _required("READ", "Topic", topic, "reading states"),
        ]
    return tuple(needs)


DENYING_WRITERS = _required("ALTER", "Cluster", CLUSTER, "denying WRITE to others on mirror topics")
"""Of mirrors that deny other writers, where the destination has an authorizer."""


def recreation_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions to delete `topics` and to create them again."""
    why = "creating topics again that were deleted"
    create = [
        (_required("CREATE", "Topic", topic, why).rights + _required("CREATE", "Cluster", CLUSTER, why).rights)
        for topic in topics
    ]
    deleted = [each[0].resource for each in create]
    return (
        *(_required("DELETE", "Topic", topic, "deleting topics that cannot return") for topic in deleted),
        *(RequiredAcl(rights) for rights in create),
    )


def promotion_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions that a failover needs after its point of no return, where it can no longer be undone."""
    needs = [
        _required("ALTER|CLUSTER_ACTION", "Cluster", CLUSTER, "the producer fence"),
        _required("ALTER", "Cluster", CLUSTER, "granting producers WRITE at a failover"),
    ]
    for topic in topics:
        needs += [
            _required("ALTER_CONFIGS", "Topic", topic, "restoring topic configurations at a failover"),
            _required("WRITE", "Topic", topic, "the canary transaction of a failover"),
            _required("READ", "Topic", topic, "finding where copied records end at a failover"),
        ]
    return tuple(needs)


def reversal_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions at the source by which a mirror returns: survey, rescue, reversal, and copying to it.

    Not those on transactional ids, which brokers do not report.
    """
    names = tuple(topics)
    needs = [_required("ALTER", "Cluster", CLUSTER, "lifting the source fence and denying other writers")]
    for topic in names:
        needs += [_required("DESCRIBE_CONFIGS", "Topic", topic, "configuring topics as mirror topics")]
    for topic in (STATE_TOPIC, OFFSETS_TOPIC, GROUPS_TOPIC):
        needs += [_required("CREATE", "Topic", topic, "the mirror's state at its new destination")]
    needs += [
        _required("WRITE", "Topic", GROUPS_TOPIC, "recording states"),
        _required("READ", "Topic", GROUPS_TOPIC, "reading states"),
        _required("READ", "Group", FETCHER_GROUP, "sharing partitions between fetchers"),
    ]
    return (*needs, *destination_needs(names, state=True))


def rescue_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions at the destination to rescue tails, and to read `topics` for the old source."""
    names = tuple(topics)
    kept = tuple(
        _required(operation, "Topic", quarantine_topic(topic), "rescuing records that only the old source has")
        for topic in names
        for operation in ("CREATE", "WRITE", "READ")
    )
    return (*source_needs(names), *kept)


def grants(lacking: Iterable[RequiredAcl], principal: str, bootstrap: str) -> tuple[str, ...]:
    """Commands of Kafka's own tool that grant what is lacking: one for all resources that lack the same operations."""
    wanted: dict[tuple[str, str], set[str]] = {}
    for each in lacking:
        right = each.rights[0]
        wanted.setdefault((right.resource_type, right.resource), set()).add(right.operation)
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (kind, resource), operations in wanted.items():
        alike.setdefault((kind, tuple(sorted(operations))), []).append(resource)
    return tuple(_grant(kind, names, sorted(on), principal, bootstrap) for (kind, names), on in alike.items())


def _grant(kind: str, operations: Sequence[str], resources: Sequence[str], principal: str, bootstrap: str) -> str:
    on = ["--cluster"] if kind == "Cluster" else [part for name in resources for part in (f"--{kind.lower()}", name)]
    named = [part for each in operations for part in ("--operation", OPERATION_NAMES[each])]
    who = ("--bootstrap-server", bootstrap, "--add", "--allow-principal", principal)
    return shlex.join(["kafka-acls.sh", *who, *named, *on])


def source_group_needs(groups: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions to follow `groups`, besides reading `__consumer_offsets`."""
    return tuple(_required("DESCRIBE", "Group", group, "reading committed offsets") for group in groups)


GROUP_LOG_NEED = _required(
    "READ",
    "Topic",
    "__consumer_offsets",
    ("reading committed offsets within milliseconds (without it they are polled each second)"),
)


def destination_group_needs(groups: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions to commit offsets of `groups`."""
    return tuple(_required("READ", "Group", group, "committing offsets of the group") for group in groups)


def met(cluster: Cluster, needs: Sequence[RequiredAcl], by: Deadline) -> tuple[RequiredAclCheck, ...]:
    """Each need with its verdict: PASS if one of its permissions is granted, UNKNOWN if that is not known."""
    rights = [right for need in needs for right in need.rights]
    held = {found.permission: found for found in cluster.access.check(rights, by)} if rights else {}
    return tuple(
        _met(need, {right: (held[right].verdict, held[right].reason) for right in need.rights}) for need in needs
    )


def _met(need: RequiredAcl, held: Mapping[Permission, tuple[Verdict, str]]) -> RequiredAclCheck:
    for verdict in (Verdict.PASS, Verdict.UNKNOWN, Verdict.FAIL):
        for found, reason in held.values():
            if found is verdict:
                return RequiredAclCheck(need, verdict, reason)
    return RequiredAclCheck(need, Verdict.UNKNOWN, "the cluster did not report it")


def refusals(cluster: Cluster, needs: Sequence[RequiredAcl], by: Deadline) -> tuple[AuthorizationFailed, ...]:
    """An error for every need that is certainly not met. If it is unknown, the later request decides."""
    return tuple(
        AuthorizationFailed(
            f"on {cluster.name!r}, the principal of this login lacks {found.acl.title}, which is needed for "
            f"{found.acl.rights[0].needed_for}"
        )
        for found in met(cluster, needs, by)
        if found.verdict is Verdict.FAIL
    )


def named(error: TanistError, cluster: Cluster, right: str) -> TanistError:
    """`error`; if a broker refused for a missing permission, an error that names it."""
    if isinstance(error, _REFUSALS):
        return AuthorizationFailed(f"on {cluster.name!r}, the principal of this login lacks {right}: {error.reason}")
    return error
