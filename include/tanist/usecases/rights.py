"""The permissions of the table in `domain.rights` that one cluster has to grant, and whether it does."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain import broker_errors
from tanist.domain.checks import Verdict
from tanist.domain.errors import AuthorizationFailed, TanistError
from tanist.domain.rights import CLUSTER, ClusterRole, Each, Use, required, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.records import MirrorSpec
    from tanist.domain.rights import Permission, RequiredAcl
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster

REFUSALS: Final = (
    broker_errors.TopicAuthorizationFailed,
    broker_errors.ClusterAuthorizationFailed,
    broker_errors.GroupAuthorizationFailed,
    broker_errors.TransactionalIdAuthorizationFailed,
)
"""What a broker answers where a permission is missing."""
OPERATION_NAMES = {
    "READ": "Read",
    "WRITE": "Write",
    "CREATE": "Create",
    "DELETE": "Delete",
    "ALTER": "Alter",
    "DESCRIBE": "Describe",
    "DESCRIBE_CONFIGS": "DescribeConfigs",
    "ALTER_CONFIGS": "AlterConfigs",
}
"""Operations as kafka-acls.sh spells them."""


_ACL_STEPS: Final = frozenset({"fence", "open"})
"""The steps of a failover that change ACLs."""


@dataclass(frozen=True, slots=True)
class RequiredAclCheck:
    acl: RequiredAcl
    verdict: Verdict
    reason: str


def source_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions that a fetcher needs to read `topics`."""
    return required(rows(Use.COPY, ClusterRole.SOURCE), topics)


def destination_needs(
    topics: Iterable[str], *, mapped: bool, state: bool, fenced: bool = False
) -> tuple[RequiredAcl, ...]:
    """The permissions that a fetcher needs to write to the existing `topics` and state topics (`state`).

    `mapped`: offsets are mapped. `fenced`: a source fence may be in force on the topics, which denies WRITE to
    everybody.
    """
    of_kind = Use.MAPPED if mapped else Use.IDENTICAL
    found = rows(Use.COPY, ClusterRole.DESTINATION) + rows(of_kind, ClusterRole.DESTINATION)
    wanted = (each for each in found if state or isinstance(each.resource, Each) or each.resource == CLUSTER)
    left = (each for each in wanted if not (fenced and isinstance(each.resource, Each) and "WRITE" in each.operations))
    return required(left, topics)


def fetcher_needs(topics: Iterable[str], *, mapped: bool = False) -> tuple[RequiredAcl, ...]:
    """All permissions that fetchers need at a destination that has `topics`, but `position_needs`."""
    serving = required(rows(Use.SERVE, ClusterRole.DESTINATION))
    return (*serving, *destination_needs(topics, mapped=mapped, state=True))


def identical_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions at a destination that only mirrors with identical offsets need."""
    return required(rows(Use.IDENTICAL, ClusterRole.DESTINATION), topics)


def mapped_needs(topics: Iterable[str], mirrors: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions at a destination that only mirrors with mapped offsets need, as far as brokers report them."""
    positions = required(rows(Use.POSITIONS, ClusterRole.DESTINATION), mirrors)
    return (*required(rows(Use.MAPPED, ClusterRole.DESTINATION), topics), *positions)


def position_needs(spec: MirrorSpec) -> tuple[RequiredAcl, ...]:
    """The permissions to commit how far a mirror with mapped offsets is; none for another one."""
    return required(rows(Use.POSITIONS, ClusterRole.DESTINATION), [spec.mirror]) if spec.is_mapped else ()


def written_back_needs(spec: MirrorSpec) -> tuple[RequiredAcl, ...]:
    """What a mirror with mapped offsets can be done without at its source; none for another one."""
    found = rows(Use.POSITIONS, ClusterRole.SOURCE, optional=True)
    return required(found, [spec.mirror]) if spec.is_mapped else ()


def following_needs(where: ClusterRole, topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """Of a mirror that somebody else copies. `topics`: at the source, or their copies at the destination."""
    serving = required(rows(Use.SERVE, where))
    return (*serving, *required(rows(Use.FOLLOW, where), topics))


def denying_needs() -> tuple[RequiredAcl, ...]:
    """Of mirrors that deny other writers, where the destination has an authorizer."""
    return required(rows(Use.DENY, ClusterRole.DESTINATION))


def recreation_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions to delete `topics` and to create them again."""
    return required(rows(Use.RECREATE, ClusterRole.DESTINATION), topics)


def run_needs(where: ClusterRole, topics: Iterable[str], spec: MirrorSpec) -> tuple[RequiredAcl, ...]:
    """The permissions at one cluster that a failover must have before it begins: without them it could not end.

    `spec`: of the mirror, whose kind decides about the producer fence, and whose positions are read and settled.
    """
    of_kind = Use.RUN_MAPPED if spec.is_mapped else Use.RUN_IDENTICAL
    positions = position_needs(spec) if where is ClusterRole.DESTINATION else ()
    steps = _steps_left_out(spec)
    found = (row for row in rows(of_kind, where) + rows(Use.RUN, where) if row.step not in steps)
    return (*required(found, topics), *positions)


def acl_needs(where: ClusterRole, spec: MirrorSpec) -> tuple[RequiredAcl, ...]:
    """The permissions at one cluster with which failovers change ACLs; none where the mirror leaves that to people."""
    left = _steps_left_out(spec)
    return required(row for row in rows(Use.RUN, where) if row.step in _ACL_STEPS and row.step not in left)


def _steps_left_out(spec: MirrorSpec) -> frozenset[str]:
    """Steps of a failover that change ACLs, where the mirror leaves these to people."""
    left = (("fence", spec.fence_source), ("open", spec.grant_writers))
    return frozenset(step for step, is_done in left if not is_done)


def failover_needs(where: ClusterRole, topics: Iterable[str], spec: MirrorSpec) -> tuple[RequiredAcl, ...]:
    """As `run_needs`, and those that a failover can do without while it runs, but not afterwards."""
    return run_needs(where, topics, spec) + required(rows(Use.NOTIFY, where))


def reversal_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions at the source by which a mirror returns: survey, rescue, reversal, and copying to it.

    Not those on transactional ids, which brokers do not report.
    """
    names = tuple(topics)
    return (*required(rows(Use.RETURN, ClusterRole.SOURCE), names), *fetcher_needs(names))


def rescue_needs(topics: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions at the destination to rescue tails, and to read `topics` for the old source."""
    names = tuple(topics)
    return (*source_needs(names), *required(rows(Use.RETURN, ClusterRole.DESTINATION), names))


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


def group_needs(where: ClusterRole, groups: Iterable[str]) -> tuple[RequiredAcl, ...]:
    """The permissions to follow `groups` at the source, or to commit their offsets at the destination."""
    return required(rows(Use.GROUPS, where), groups)


def group_log_needs() -> tuple[RequiredAcl, ...]:
    """What following groups can be done without."""
    return required(rows(Use.GROUPS, ClusterRole.SOURCE, optional=True))


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
    if isinstance(error, REFUSALS):
        return AuthorizationFailed(f"on {cluster.name!r}, the principal of this login lacks {right}: {error.reason}")
    return error
