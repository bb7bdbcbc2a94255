"""Every permission that Tanist needs on clusters with an authorizer: one table, read by `doctor`, runs and the docs.

A row says whose login needs which operation, on which cluster and resource, for what, and when. A new request to a
broker that an ACL can refuse is a new row; `tests/unit/usecases/failover/test_rights.py` takes each one away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Final

from tanist.domain.approval.entries import APPROVALS_TOPIC
from tanist.domain.fake_group import group_of, shown_group
from tanist.domain.names import MirrorName
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.tails import quarantine_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

CLUSTER: Final = "kafka-cluster"
"""The name of the one resource of type Cluster."""
FETCHER_GROUP: Final = "tanist-fetchers"
"""The consumer group of the fetchers of a destination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """An operation on a resource, in Kafka's names (`READ`, `Topic`). `needed_for`: what fails without it."""

    operation: str
    resource_type: str
    resource: str
    needed_for: str


@dataclass(frozen=True, slots=True)
class RequiredAcl:
    """A need that any one of `rights` satisfies."""

    rights: tuple[Permission, ...]

    @property
    def title(self) -> str:
        first = self.rights[0]
        operations = " or ".join(dict.fromkeys(right.operation for right in self.rights))
        return f"{operations} on {first.resource_type} {first.resource}"

    @property
    def description(self) -> str:
        """The permission, and what fails without it."""
        return f"{self.title} ({self.rights[0].needed_for})"


class LoginRole(StrEnum):
    MIRROR = "the mirror"
    """The login of fetchers, and of commands that change a mirror or run a failover."""
    APPROVER = "approvers"


class ClusterRole(StrEnum):
    SOURCE, DESTINATION = "source", "destination"


class Use(StrEnum):
    """When a permission is needed."""

    COPY = "copying"
    IDENTICAL = "copying with identical offsets"
    MAPPED = "copying with mapped offsets"
    POSITIONS = "positions of a mirror with mapped offsets"
    SERVE = "fetchers"
    DENY = "denying other writers"
    GROUPS = "groups"
    FOLLOW = "following copies of others"
    SAVE = "`groups snapshot` and `restore`"
    RECREATE = "topics that are created again"
    PLAN = "`failover plan` and `approve`"
    PLAN_MAPPED = "`failover plan` and `approve` with mapped offsets"
    APPROVE = "`failover approve`"
    RUN = "`failover run`"
    RUN_IDENTICAL = "`failover run` with identical offsets"
    RUN_MAPPED = "`failover run` with mapped offsets"
    NOTIFY = "`failover run`, after the switch"
    RETURN = "way back"


class Each(StrEnum):
    """In place of a name: every resource of a kind."""

    TOPIC = "topics of the mirror"
    COPY = "copies that others make"
    QUARANTINE = "quarantine topics"
    POSITIONS = "group of the mirror's own positions"
    WRITTEN_BACK = "group that shows the lag of the mirror"
    GROUP = "groups of the applications"
    READ_BY_GROUPS = "topics of these groups"


_NAMES: Final[dict[Each, Callable[[str], str]]] = {
    Each.QUARANTINE: quarantine_topic,
    Each.POSITIONS: lambda mirror: group_of(MirrorName(mirror)),
    Each.WRITTEN_BACK: lambda mirror: shown_group(MirrorName(mirror)),
}


class Notice(StrEnum):
    """How a missing permission is noticed before it is needed."""

    REPORTED = "reported"
    """Brokers report what a login may do on topics, groups and the cluster."""
    OPTIONAL = "optional"
    """Reported, and nothing fails without it."""
    UNREPORTED = "not reported"
    """The request itself is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One row. `operations`: any one of them suffices. `step`: of a failover's route, which is refused without it.

    `on_cluster`: granted on the cluster, it is granted on every resource.
    """

    who: LoginRole
    where: ClusterRole
    use: Use
    operations: tuple[str, ...]
    resource_type: str
    resource: str
    needed_for: str
    step: str = ""
    on_cluster: bool = False
    notice: Notice = Notice.REPORTED

    def of(self, name: str) -> RequiredAcl:
        """What is required on one resource; `name` is that of the topic or group."""
        resource = self.resource
        if isinstance(resource, Each):
            resource = _NAMES.get(resource, str)(name)
        rights = [self._permission(each, self.resource_type, resource) for each in self.operations]
        if self.on_cluster:
            rights += [self._permission(each, "Cluster", CLUSTER) for each in self.operations]
        return RequiredAcl(tuple(rights))

    def _permission(self, operation: str, resource_type: str, resource: str) -> Permission:
        return Permission(
            operation=operation, resource_type=resource_type, resource=resource, needed_for=self.needed_for
        )


def _rows(
    who: LoginRole, where: ClusterRole, use: Use, *rows: tuple[str, str, str, str] | tuple[str, str, str, str, str]
) -> Iterator[Requirement]:
    """Each row: operations ("A|B": any of them), resource type, resource, what for, and the step of the route."""
    for operations, resource_type, resource, needed_for, *step in rows:
        yield Requirement(
            who=who,
            where=where,
            use=use,
            operations=tuple(operations.rstrip("?*").split("|")),
            resource_type=resource_type,
            resource=resource,
            needed_for=needed_for,
            step=step[0] if step else "",
            on_cluster=operations.startswith("CREATE") and resource_type == "Topic",
            notice=_notice(operations, resource_type),
        )


def _notice(operations: str, resource_type: str) -> Notice:
    """A trailing `?`: it can be done without. `*`: the request that needs it tells."""
    if resource_type == "TransactionalId" or operations.endswith("*"):
        return Notice.UNREPORTED
    return Notice.OPTIONAL if operations.endswith("?") else Notice.REPORTED


_MIRROR, _APPROVER = LoginRole.MIRROR, LoginRole.APPROVER
_SOURCE, _DESTINATION = ClusterRole.SOURCE, ClusterRole.DESTINATION
_STATE_TOPICS: Final = (STATE_TOPIC, OFFSETS_TOPIC, GROUPS_TOPIC)
_STATE_ROWS: Final = tuple(
    (operation, "Topic", name, needed_for)
    for name in _STATE_TOPICS
    for operation, needed_for in (
        ("WRITE", "recording states"),
        ("READ", "reading states"),
        ("DESCRIBE_CONFIGS", "checking that state is kept"),
        ("CREATE*", "creating the state topics (or CREATE on the cluster)"),
    )
)
_LOCK: Final = ("WRITE", "TransactionalId", "tanist-*", "the lock of the mirror, and committing offsets of groups")

# fmt: off
TABLE: Final[tuple[Requirement, ...]] = (
    *_rows(
        _MIRROR, _SOURCE, Use.COPY,
        ("READ", "Topic", Each.TOPIC, "fetching records"),
        ("DESCRIBE_CONFIGS", "Topic", Each.TOPIC, "copying topic configurations"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.IDENTICAL,
        ("DESCRIBE*", "Cluster", CLUSTER, "reading who may write"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.MAPPED,
        ("READ*", "Topic", STATE_TOPIC, "reading whether another cluster took over from it"),
        ("DESCRIBE_CONFIGS*", "Topic", STATE_TOPIC, "checking that state is kept, if the source has that topic"),
        ("DESCRIBE?", "Cluster", CLUSTER, "reading who may write (without it a failover grants nobody WRITE)"),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.COPY,
        ("WRITE", "Topic", Each.TOPIC, "appending records"),
        ("READ", "Topic", Each.TOPIC, "finding the end of the mirror topics"),
        ("CREATE*", "Topic", Each.TOPIC, "creating mirror topics (or CREATE on the cluster)"),
        *_STATE_ROWS,
        ("DESCRIBE_CONFIGS?", "Cluster", CLUSTER, "knowing whether brokers have super users, or verify transactions"),
        _LOCK,
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.IDENTICAL,
        ("ALTER|CLUSTER_ACTION", "Cluster", CLUSTER, "writing the control markers that keep offsets identical"),
        ("ALTER_CONFIGS", "Topic", Each.TOPIC, "deferring retention while topics are mirrored"),
        ("DELETE", "Topic", Each.TOPIC, "setting the log start of mirror topics"),
        ("IDEMPOTENT_WRITE*", "Cluster", CLUSTER, "producer ids, before Kafka 2.8"),
        ("ALTER_CONFIGS?", "Cluster", CLUSTER, "remembering producer ids longer (`producer.id.expiration.ms`)"),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.MAPPED,
        ("DESCRIBE_CONFIGS", "Topic", Each.TOPIC, "comparing topic configurations with the source's"),
        ("ALTER_CONFIGS?", "Topic", Each.TOPIC, "keeping topic configurations as at the source (`metadata sync`)"),
        ("WRITE", "TransactionalId", "tanist-*", "appending records in transactions"),
        ("DESCRIBE", "TransactionalId", "tanist-*", "finding the coordinator of these transactions"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.POSITIONS,
        ("READ?", "Group", Each.WRITTEN_BACK, "showing lag to other tools, in the group `tanist-MIRROR/copied`"),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.POSITIONS,
        ("READ", "Group", Each.POSITIONS, "committing how far the mirror is, in the group `tanist-MIRROR/positions`"),
    ),
    *_rows(_MIRROR, _DESTINATION, Use.SERVE, ("READ", "Group", FETCHER_GROUP, "sharing partitions between fetchers")),
    *_rows(
        _MIRROR, _DESTINATION, Use.DENY,
        ("ALTER", "Cluster", CLUSTER, "denying WRITE to others on mirror topics; ACLs that follow the source"),
        ("DESCRIBE*", "Cluster", CLUSTER, "reading who else may write, and which ACLs are there"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.GROUPS,
        ("DESCRIBE", "Group", Each.GROUP, "reading committed offsets"),
        (
            "READ?", "Topic", "__consumer_offsets",
            "reading committed offsets within milliseconds (without it they are polled each second)",
        ),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.GROUPS,
        ("READ", "Group", Each.GROUP, "committing offsets of the group"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.FOLLOW,
        ("READ", "Topic", Each.TOPIC, "reading the records at committed offsets"),
        (
            "READ?", "Topic", "mm2-offset-syncs.*.internal",
            "the strategy `mm2`, where MirrorMaker 2 keeps them there (`offset-syncs.topic.location=source`)",
        ),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.FOLLOW,
        ("READ", "Topic", Each.COPY, "reading the copies of these records, and committing offsets in them"),
        *_STATE_ROWS,
        _LOCK,
        (
            "READ?", "Topic", "mm2-offset-syncs.*.internal",
            "the strategy `mm2`, where MirrorMaker 2 keeps them there (`offset-syncs.topic.location=target`)",
        ),
        ("READ?", "Topic", "*.checkpoints.internal", "showing what MirrorMaker 2 answers (`groups explain`)"),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.SAVE,
        ("DESCRIBE*", "Group", Each.GROUP, "saving committed offsets; groups without it are not in the file"),
        ("READ*", "Group", Each.GROUP, "committing them again"),
        ("READ*", "Topic", Each.READ_BY_GROUPS, "committing them again"),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.RECREATE,
        ("DELETE", "Topic", Each.TOPIC, "deleting topics that cannot return"),
        ("CREATE", "Topic", Each.TOPIC, "creating topics again that were deleted"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.PLAN,
        ("DESCRIBE", "TransactionalId", "*", "proving that no transaction is open (else TRANSACTIONS_UNKNOWN)"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.RUN,
        ("DESCRIBE", "Cluster", CLUSTER, "reading source fences", "fence"),
        ("ALTER", "Cluster", CLUSTER, "blocking producers at the source", "fence"),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.RUN,
        ("READ", "Topic", APPROVALS_TOPIC, "reading approvals", "hold"),
        ("DESCRIBE_CONFIGS", "Topic", APPROVALS_TOPIC, "checking that approvals are kept", "hold"),
        ("DESCRIBE", "Cluster", CLUSTER, "reading who may write", "open"),
        ("ALTER", "Cluster", CLUSTER, "granting producers WRITE at a failover", "open"),
        ("ALTER_CONFIGS", "Topic", Each.TOPIC, "restoring topic configurations at a failover", "configs"),
        ("WRITE", "Topic", Each.TOPIC, "the canary transaction of a failover", "canary"),
        ("READ", "Topic", Each.TOPIC, "finding where copied records end at a failover", "seal"),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.RUN_IDENTICAL,
        ("ALTER|CLUSTER_ACTION", "Cluster", CLUSTER, "the producer fence", "seal"),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.RUN_MAPPED,
        ("WRITE", "TransactionalId", "tanist-*", "the producer fence", "seal"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.NOTIFY,
        ("CREATE", "Topic", STATE_TOPIC, "recording at the source that it was replaced", "movers"),
        ("WRITE", "Topic", STATE_TOPIC, "recording at the source that it was replaced", "movers"),
        ("READ", "Topic", STATE_TOPIC, "reading at the source that it was replaced", "movers"),
        ("WRITE", "TransactionalId", "tanist-*", "recording at the source that it was replaced", "movers"),
    ),
    *_rows(
        _MIRROR, _SOURCE, Use.RETURN,
        ("ALTER", "Cluster", CLUSTER, "lifting the source fence and denying other writers"),
        ("DESCRIBE_CONFIGS", "Topic", Each.TOPIC, "configuring topics as mirror topics"),
        *(("CREATE", "Topic", name, "the mirror's state at its new destination") for name in _STATE_TOPICS),
    ),
    *_rows(
        _MIRROR, _DESTINATION, Use.RETURN,
        *(
            (operation, "Topic", Each.QUARANTINE, "rescuing records that only the old source has")
            for operation in ("CREATE", "WRITE", "READ")
        ),
    ),
    *_rows(
        _APPROVER, _SOURCE, Use.PLAN,
        ("DESCRIBE", "Topic", Each.TOPIC, "comparing both clusters; also on other topics that the filters match"),
        ("DESCRIBE", "Cluster", CLUSTER, "reading source fences"),
        ("DESCRIBE", "TransactionalId", "*", "proving that no transaction is open (else TRANSACTIONS_UNKNOWN)"),
    ),
    *_rows(
        _APPROVER, _DESTINATION, Use.PLAN,
        ("READ", "Topic", Each.TOPIC, "comparing both clusters"),
        ("DESCRIBE_CONFIGS", "Topic", Each.TOPIC, "comparing both clusters"),
        *(
            row
            for name in _STATE_TOPICS
            for row in (
                ("READ", "Topic", name, "reading states"),
                ("DESCRIBE_CONFIGS", "Topic", name, "checking that state is kept"),
            )
        ),
        ("WRITE?", "Topic", STATE_TOPIC, "keeping a plan (without it the command that approves has all options in it)"),
        ("DESCRIBE", "Cluster", CLUSTER, "reading who may write"),
    ),
    *_rows(
        _APPROVER, _DESTINATION, Use.PLAN_MAPPED,
        ("DESCRIBE", "Group", Each.POSITIONS, "reading how far the mirror is, in the group `tanist-MIRROR/positions`"),
    ),
    *_rows(
        _APPROVER, _DESTINATION, Use.APPROVE,
        ("WRITE", "Topic", APPROVALS_TOPIC, "approving"),
        ("DESCRIBE_CONFIGS", "Topic", APPROVALS_TOPIC, "checking that approvals are kept"),
        ("READ?", "Topic", APPROVALS_TOPIC, "reading the approval back (without it `approve` says that it is written)"),
    ),
)
# fmt: on


def rows(
    use: Use, where: ClusterRole, who: LoginRole = LoginRole.MIRROR, *, optional: bool = False
) -> tuple[Requirement, ...]:
    """The rows that brokers report. `optional`: those that can be done without, instead."""
    wanted = Notice.OPTIONAL if optional else Notice.REPORTED
    return tuple(each for each in TABLE if (each.use, each.where, each.who, each.notice) == (use, where, who, wanted))


def required(found: Iterable[Requirement], names: Iterable[str] = ()) -> tuple[RequiredAcl, ...]:
    """What `found` requires. `names`: of the topics, or groups, that rows for each of them are about."""
    wanted = tuple(names)
    return tuple(
        row.of(name)
        for each, group in groupby(found, key=lambda row: isinstance(row.resource, Each))
        for held in (tuple(group),)
        for name in (wanted if each else ("",))
        for row in held
    )


def step_needs(step: str, *, mapped: bool) -> str:
    """What a step of a failover needs, for people; empty: nothing of its own. `mapped`: offsets of the mirror are."""
    other = Use.RUN_IDENTICAL if mapped else Use.RUN_MAPPED
    own = [each for each in TABLE if step and each.step == step and each.use is not other]
    found = [(each.where, each.of(each.resource).title) for each in own]
    return ", ".join(f"{title} at the {where}" for where, title in dict.fromkeys(found))
