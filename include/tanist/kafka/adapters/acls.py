"""The ACLs of a cluster: the port `AclStore`, and what the other adapters read of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.acls import NO_AUTHORIZER, Acls
from tanist.domain.broker_errors import SecurityDisabled
from tanist.domain.errors import TanistError
from tanist.kafka.wire.admin import AccessFilter, create_acls, delete_acls, describe_acls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.acls import AclBinding
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline

_AT_ONCE: Final = 1000
"""ACLs in one request: a controller writes the records of a request as one batch."""


class KafkaAcls:
    """Owned by one thread."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def read(self, by: Deadline) -> Acls:
        return read_acls(self._router, by)

    def create(self, bindings: Sequence[AclBinding], by: Deadline) -> Mapping[AclBinding, TanistError | None]:
        found: dict[AclBinding, TanistError | None] = {}
        for due in _portions(bindings):
            found |= dict(zip(due, create_acls(self._router, due, by), strict=True))
        return found

    def delete(self, bindings: Sequence[AclBinding], by: Deadline) -> Mapping[AclBinding, TanistError | None]:
        found: dict[AclBinding, TanistError | None] = {}
        for due in _portions(bindings):
            answers = delete_acls(self._router, [AccessFilter(*each) for each in due], by)
            pairs = zip(due, answers, strict=True)
            found |= {each: answer if isinstance(answer, TanistError) else None for each, answer in pairs}
        return found


def read_acls(router: Router, by: Deadline) -> Acls:
    """All ACLs of the cluster.

    Raises:
        ClusterAuthorizationFailed: DESCRIBE on the cluster is missing.
    """
    try:
        return Acls(bindings=frozenset(describe_acls(router, AccessFilter(), by)))
    except SecurityDisabled:
        return NO_AUTHORIZER


def _portions(bindings: Sequence[AclBinding]) -> list[Sequence[AclBinding]]:
    return [bindings[at : at + _AT_ONCE] for at in range(0, len(bindings), _AT_ONCE)]
