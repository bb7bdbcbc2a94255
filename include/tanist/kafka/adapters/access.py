"""Permissions of our login, as the brokers report them (KIP-430): the port `Access`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from tanist.domain.broker_errors import ClusterAuthorizationFailed, UnknownTopicOrPartition
from tanist.domain.errors import AuthorizationFailed, TanistError
from tanist.domain.logins import USER, Login, LoginSeen, Origin, PrincipalUnknown, nameless, unbound
from tanist.kafka.adapters import rules
from tanist.kafka.adapters.acls import read_acls
from tanist.kafka.adapters.librdkafka import Asking, Operation
from tanist.kafka.protocol import certificates
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.coordinators import passing
from tanist.kafka.wire.rights import cluster_operations, group_operations, may_write, topic_operations
from tanist.ports.access import AclCheck, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from tanist.domain.endpoint import Endpoint
    from tanist.kafka.wire.coordinators import ByGroup
    from tanist.kafka.wire.router import Router
    from tanist.ports.access import Permission
    from tanist.ports.clock import Deadline


def login_of(endpoint: Endpoint) -> Login:
    """The setting; else the SASL user name; else the subject of the client certificate, as it is in its file now.

    Without credentials brokers call every client ANONYMOUS, so there is no principal of this login.
    """
    if endpoint.principal:
        return Login(endpoint.principal, Origin.SETTING)
    if endpoint.sasl:
        return Login(f"{USER}{endpoint.sasl.username}", Origin.SASL)
    if endpoint.tls and endpoint.tls.certificate_location:
        subject = _subject(Path(endpoint.tls.certificate_location))
        return Login(f"{USER}{subject}", Origin.CERTIFICATE) if subject else Login(None, Origin.NOWHERE)
    return Login(None, Origin.NOWHERE)


def _subject(file: Path) -> str | None:
    try:
        return certificates.subject(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


_T = TypeVar("_T")
_Operations: TypeAlias = "frozenset[str] | TanistError"
"""Names of the operations that are allowed on one resource, or why that is not known."""

_TOPIC, _GROUP, _CLUSTER = "topic", "group", "cluster"
_AGAIN: Final = 0.1


class KafkaAccess:
    """Owned by one thread. Without an authorizer the brokers report that everything is allowed."""

    def __init__(self, router: Router) -> None:
        self._router, self._endpoint = router, router.endpoint
        self._clock = SystemClock()
        self._asking = Asking(router)

    def check(self, rights: Sequence[Permission], by: Deadline) -> tuple[AclCheck, ...]:
        granted = self._topics(_names(rights, _TOPIC), by) | self._groups(_names(rights, _GROUP), by)
        granted |= self._cluster(by) if rights else {}
        found = tuple(_acl_check(right, granted) for right in rights)
        absent = {name for (_, name), each in granted.items() if isinstance(each, UnknownTopicOrPartition)}
        return self._with_acls(found, absent, by) if absent else found

    def _with_acls(self, found: Sequence[AclCheck], absent: Collection[str], by: Deadline) -> tuple[AclCheck, ...]:
        """The same, with what ACLs say of topics that do not exist, of which brokers report no permissions."""
        open_checks = {
            each.permission for each in found if each.verdict is Verdict.UNKNOWN and each.permission.resource in absent
        }
        login = login_of(self._endpoint).principal
        if not open_checks or login is None:
            return tuple(found)
        names, operations = {each.resource for each in open_checks}, {each.operation for each in open_checks}
        try:
            said = read_acls(self._router, by).permitted(sorted(names), sorted(operations), login)
        except TanistError:
            return tuple(found)  # unknown, as it was
        return tuple(
            _by_acls(each, login, said[each.permission.operation, each.permission.resource])
            if each.permission in open_checks
            else each
            for each in found
        )

    def login(self, topics: Sequence[str], by: Deadline) -> LoginSeen:
        login = login_of(self._endpoint)
        if not rules.has_authorizer(self._router, by):
            return LoginSeen(login=login, authorizer=False)
        if login.principal is None:
            raise PrincipalUnknown(nameless(self._endpoint.name))
        granted = may_write(self._router, topics, by)
        known = {topic: may for topic, may in granted.items() if isinstance(may, bool)}
        try:
            writing = read_acls(self._router, by).writing(known)
        except ClusterAuthorizationFailed:
            return LoginSeen(login=login, authorizer=True, unseen="this login lacks DESCRIBE on Cluster kafka-cluster")
        sign = unbound(login.principal, known, writing)
        return LoginSeen(login=login, authorizer=True, unbound=sign)

    def _topics(self, names: list[str], by: Deadline) -> dict[tuple[str, str], _Operations]:
        if not names:
            return {}
        found = self._read(lambda router, by: topic_operations(router, names, by), by, _TOPIC)
        return {(_TOPIC, name): self._granted(f"{_TOPIC} {name}", found[name]) for name in names}

    def _groups(self, names: list[str], by: Deadline) -> dict[tuple[str, str], _Operations]:
        if not names:
            return {}
        found = self._read(lambda router, by: self._of_groups(router, names, by), by, _GROUP)
        return {(_GROUP, name): self._granted(f"{_GROUP} {name}", found[name]) for name in names}

    def _of_groups(self, router: Router, names: list[str], by: Deadline) -> ByGroup[frozenset[str]]:
        """Repeated while a coordinator moves, or is created by the first request for any group."""
        found = group_operations(router, names, by)
        while any(map(passing, found.values())) and by.left(self._clock.monotonic()) > _AGAIN:
            router.pause(_AGAIN, by)
            found = group_operations(router, names, by)
        return found

    def _cluster(self, by: Deadline) -> dict[tuple[str, str], _Operations]:
        return {(_CLUSTER, ""): self._granted(_CLUSTER, self._read(cluster_operations, by, _CLUSTER))}

    def _read(self, ask: Callable[[Router, Deadline], _T], by: Deadline, kind: str) -> _T:
        return self._asking.read(ask, by, Operation(f"ask for permissions on {kind}s", "DESCRIBE"))

    def _granted(self, resource: str, found: _Operations) -> _Operations:
        if isinstance(found, TanistError):
            return self._asking.named(found, Operation(f"see {resource}", f"DESCRIBE on {resource}"))
        return found


def _names(rights: Iterable[Permission], kind: str) -> list[str]:
    return sorted({right.resource for right in rights if right.resource_type.lower() == kind})


def _acl_check(right: Permission, granted: Mapping[tuple[str, str], _Operations]) -> AclCheck:
    kind = right.resource_type.lower()
    operations = granted.get((kind, "" if kind == _CLUSTER else right.resource))
    if operations is None:
        return _unknown(right, f"brokers do not report permissions on a {right.resource_type}")
    if isinstance(operations, AuthorizationFailed):
        return AclCheck(
            permission=right, verdict=Verdict.FAIL, reason=f"it is not visible to this login: {operations.reason}"
        )
    if isinstance(operations, UnknownTopicOrPartition):
        return _absent(right, granted)
    if isinstance(operations, TanistError):
        return _unknown(right, operations.reason)
    if right.operation.upper() in operations:
        return AclCheck(permission=right, verdict=Verdict.PASS)
    return AclCheck(permission=right, verdict=Verdict.FAIL, reason=_lacking(operations))


def _absent(right: Permission, granted: Mapping[tuple[str, str], _Operations]) -> AclCheck:
    """A topic that does not exist: DESCRIBE is proved, CREATE may be granted on the cluster, others are unknown."""
    cluster = granted.get((_CLUSTER, ""))
    if right.operation.upper() == "DESCRIBE":
        return AclCheck(
            permission=right, verdict=Verdict.PASS, reason="the topic does not exist (this login has DESCRIBE)"
        )
    if right.operation.upper() == "CREATE" and isinstance(cluster, frozenset) and "CREATE" in cluster:
        return AclCheck(permission=right, verdict=Verdict.PASS, reason="granted on the cluster")
    return _unknown(right, "the topic does not exist, and brokers report permissions on existing topics only")


def _by_acls(found: AclCheck, login: str, said: bool | None) -> AclCheck:  # noqa: FBT001  # one of the answers
    if said is None:
        return _unknown(found.permission, f"the topic does not exist, and no ACL allows it to {login}")
    if said:
        return AclCheck(permission=found.permission, verdict=Verdict.PASS, reason="the topic does not exist yet")
    return AclCheck(permission=found.permission, verdict=Verdict.FAIL, reason=f"an ACL denies it to {login}")


def _unknown(right: Permission, reason: str) -> AclCheck:
    return AclCheck(permission=right, verdict=Verdict.UNKNOWN, reason=reason)


def _lacking(operations: frozenset[str]) -> str:
    return f"allowed are {', '.join(sorted(operations))}" if operations else "nothing is allowed"
