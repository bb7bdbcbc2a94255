"""What a cluster of the sandbox shall be."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured
from tanist_testkit.sandbox.jars import KAFKA_VERSION, release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist_testkit.sandbox.jars import Release

ADMIN: Final = "admin"
USERS: Final = (ADMIN, "mirror", "operator", "approver", "app")
"""The users of a cluster with an authorizer. `admin` is a super user, the others start with no permission at all."""

BROKER: Final = "Tanist sandbox broker"
UNIT: Final = "Tanist sandbox"
"""What all certificates of users have in common."""

CONTROLLER_ID: Final = 100
"""Node id of the separate controller of a cluster of several brokers, which are 1, 2, 3, ..."""

MOST_BROKERS: Final = 9
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """One cluster. One broker is its own controller; several have a separate one, so that any of them may be killed.

    `client_certificates`: users log in with one of these, not with a password; needs `authorizer` and `tls`.

    `heap_mb`: of each broker. `ports`: one per broker, empty: free ones are chosen. `full_speed`: let the compiler go
    all the way (for benchmarks); otherwise brokers start faster and peak lower. `version`: of Apache Kafka.
    `features`: levels that it is formatted with, such as `transaction.version`; the others are those of its version.
    """

    name: str
    brokers: int = 1
    authorizer: bool = False
    tls: bool = False
    client_certificates: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    heap_mb: int = 0
    ports: tuple[int, ...] = ()
    full_speed: bool = False
    version: str = KAFKA_VERSION
    features: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Misconfigured(f"cluster name {self.name[:80]!r} is not lower-case letters, digits and '-'")
        if not 1 <= self.brokers <= MOST_BROKERS:
            raise Misconfigured(f"{self.name}: {self.brokers} brokers, 1 to {MOST_BROKERS} are possible")
        if self.client_certificates and not (self.authorizer and self.tls):
            raise Misconfigured(f"{self.name}: client certificates need an authorizer and TLS")
        if self.ports and len(self.ports) != self.brokers:
            raise Misconfigured(f"{self.name}: {len(self.ports)} ports for {self.brokers} brokers")
        if self.release.zookeeper and self.authorizer:
            raise Misconfigured(f"{self.name}: Kafka {self.version} is run without an authorizer here")

    @property
    def combined(self) -> bool:
        """Whether the one node is broker and controller."""
        return self.brokers == 1 and not self.release.zookeeper

    @property
    def release(self) -> Release:
        """Which Apache Kafka its nodes run."""
        return release(self.version)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        """From 1 on."""
        return tuple(range(1, self.brokers + 1))

    @property
    def controller_id(self) -> int:
        """That of the only broker where the roles are combined; of ZooKeeper, where Kafka needs one."""
        return 1 if self.combined else CONTROLLER_ID

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The controller comes first."""
        return self.broker_ids if self.combined else (self.controller_id, *self.broker_ids)

    @property
    def protocol(self) -> str:
        """The security protocol of the one listener that clients and brokers use."""
        passwords = self.authorizer and not self.client_certificates
        return ("SASL_" if passwords else "") + ("SSL" if self.tls else "PLAINTEXT")

    def principal(self, user: str) -> str:
        """Who one of `USERS` is to the authorizer."""
        return f"User:CN={user},OU={UNIT}" if self.client_certificates else f"User:{user}"

    def heap_of(self, node: int) -> int:
        """Megabytes."""
        if node == CONTROLLER_ID:
            return 160
        return self.heap_mb or (512 if self.combined else 384)
