"""The ACLs of a cluster: read all at once, created and deleted exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.acls import AclBinding, Acls
    from tanist.domain.errors import TanistError
    from tanist.ports.clock import Deadline


class AclStore(Protocol):
    """The ACLs of one cluster."""

    def read(self, by: Deadline) -> Acls:
        """All of them, with one request.

        Raises:
            ClusterAuthorizationFailed: this login may not DESCRIBE the cluster, so ACLs are not reported.
        """
        ...

    def create(self, bindings: Sequence[AclBinding], by: Deadline) -> Mapping[AclBinding, TanistError | None]:
        """Create these ACLs, in no order that counts; one that exists is no error."""
        ...

    def delete(self, bindings: Sequence[AclBinding], by: Deadline) -> Mapping[AclBinding, TanistError | None]:
        """Delete exactly these ACLs, in no order that counts; one that does not exist is no error."""
        ...
