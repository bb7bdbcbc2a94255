"""What our principal may do, as the brokers tell it (KIP-430): the port `Access`."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from tanist.clusters import rules
from tanist.clusters.admin import Admin
from tanist.clusters.librdkafka import Doing, cause, translate
from tanist.clusters.logins import login_of
from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.errors import AuthorizationFailed, TanistError
from tanist.domain.logins import LoginSeen, PrincipalUnknown, nameless, unbound
from tanist.domain.write_rules import learnt
from tanist.ports.access import RightHeld, Verdict
from tanist.wire.clock import SystemClock
from tanist.wire.rights import may_write
from tanist.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._acl import AclOperation

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.write_rules import WriteRule
    from tanist.ports.access import Right
    from tanist.ports.clock import Deadline

_Told: TypeAlias = "frozenset[str] | TanistError"
"""Names of the operations that are allowed on one resource, or why that is not known."""

_TOPIC, _GROUP, _CLUSTER = "topic", "group", "cluster"
_AGAIN: Final = 0.1
_COORDINATOR: Final = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


class KafkaAccess:
    """Thread-safe. Without an authorizer the brokers report that everything is allowed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._clock = SystemClock()
        self._admin = Admin(endpoint, "access")

    def check(self, rights: Sequence[Right], by: Deadline) -> tuple[RightHeld, ...]:
        told = self._topics(_names(rights, _TOPIC), by) | self._groups(_names(rights, _GROUP), by)
        told |= self._cluster(by) if rights else {}
        return tuple(_held(right, told) for right in rights)

    def write_rules(self, topics: Sequence[str], by: Deadline) -> Mapping[str, tuple[WriteRule, ...] | None]:
        with closing(Router(self._endpoint, "tanist-access")) as router:
            return {topic: learnt(found) for topic, found in rules.writing(router, topics, by).items()}

    def login(self, topics: Sequence[str], by: Deadline) -> LoginSeen:
        login = login_of(self._endpoint)
        with closing(Router(self._endpoint, "tanist-access")) as router:
            if not rules.has_authorizer(router, by):
                return LoginSeen(login=login, authorizer=False)
            if login.principal is None:
                raise PrincipalUnknown(nameless(self._endpoint.name))
            told = may_write(router, topics, by)
            known = {topic: may for topic, may in told.items() if isinstance(may, bool)}
            sign = unbound(login.principal, known, rules.writing(router, list(known), by))
        return LoginSeen(login=login, authorizer=True, unbound=sign)

    def close(self) -> None:
        self._admin.close()

    def _topics(self, names: list[str], by: Deadline) -> dict[tuple[str, str], _Told]:
        found = TopicCollection(names)
        return self._ask(
            _TOPIC,
            names,
            lambda client, left: client.describe_topics(
                found, request_timeout=left, include_authorized_operations=True
            ),
            by,
        )

    def _groups(self, names: list[str], by: Deadline) -> dict[tuple[str, str], _Told]:
        return self._ask(
            _GROUP,
            names,
            lambda client, left: client.describe_consumer_groups(
                names, request_timeout=left, include_authorized_operations=True
            ),
            by,
        )

    def _cluster(self, by: Deadline) -> dict[tuple[str, str], _Told]:
        return self._ask(
            _CLUSTER,
            [""],
            lambda client, left: {
                "": client.describe_cluster(request_timeout=left, include_authorized_operations=True)
            },
            by,
        )

    def _ask(
        self,
        kind: str,
        names: list[str],
        ask: Callable[[AdminClient, float], Mapping[str, Future[object]]],
        by: Deadline,
    ) -> dict[tuple[str, str], _Told]:
        if not names:
            return {}
        doing = Doing(f"ask for rights on {kind}s", "DESCRIBE")
        found = self._admin.calls(ask, by, doing)
        while any(map(_passing, found.values())) and by.left(self._clock.monotonic()) > _AGAIN:
            self._clock.wait(_AGAIN)
            found = self._admin.calls(ask, by, doing)
        return {(kind, name): self._operations(f"{kind} {name}".strip(), found[name]) for name in names}

    def _operations(self, resource: str, outcome: object) -> _Told:
        if isinstance(outcome, KafkaException):
            return translate(cause(outcome), Doing(f"see {resource}", f"DESCRIBE on {resource}"), self._endpoint)
        operations: list[AclOperation] = getattr(outcome, "authorized_operations", None) or []
        return frozenset(operation.name for operation in operations)


def _passing(outcome: object) -> bool:
    """Whether a coordinator moves, or is only being made: the first question about any group does that."""
    return isinstance(outcome, KafkaException) and cause(outcome).code() in _COORDINATOR


def _names(rights: Iterable[Right], kind: str) -> list[str]:
    return sorted({right.resource for right in rights if right.resource_type.lower() == kind})


def _held(right: Right, told: Mapping[tuple[str, str], _Told]) -> RightHeld:
    kind = right.resource_type.lower()
    operations = told.get((kind, "" if kind == _CLUSTER else right.resource))
    if operations is None:
        return _unknown(right, f"brokers do not tell rights on a {right.resource_type}")
    if isinstance(operations, AuthorizationFailed):
        return RightHeld(right=right, verdict=Verdict.FAIL, reason=f"it cannot even be seen: {operations.reason}")
    if isinstance(operations, UnknownTopicOrPartition):
        return _absent(right, told)
    if isinstance(operations, TanistError):
        return _unknown(right, operations.reason)
    if right.operation.upper() in operations:
        return RightHeld(right=right, verdict=Verdict.PASS)
    return RightHeld(right=right, verdict=Verdict.FAIL, reason=_lacking(operations))


def _absent(right: Right, told: Mapping[tuple[str, str], _Told]) -> RightHeld:
    """A topic that is not there yet: CREATE may come from the cluster, DESCRIBE is proven, the rest is not told."""
    cluster = told.get((_CLUSTER, ""))
    if right.operation.upper() == "DESCRIBE":
        return RightHeld(right=right, verdict=Verdict.PASS, reason="the topic is not there, and we may know that")
    if right.operation.upper() == "CREATE" and isinstance(cluster, frozenset) and "CREATE" in cluster:
        return RightHeld(right=right, verdict=Verdict.PASS, reason="granted on the cluster")
    return _unknown(right, "the topic is not there, and brokers tell rights on existing topics only")


def _unknown(right: Right, reason: str) -> RightHeld:
    return RightHeld(right=right, verdict=Verdict.UNKNOWN, reason=reason)


def _lacking(operations: frozenset[str]) -> str:
    return f"allowed are {', '.join(sorted(operations))}" if operations else "nothing is allowed"
