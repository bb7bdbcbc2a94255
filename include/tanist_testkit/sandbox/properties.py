"""The configuration files of a node, as text. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist_testkit.sandbox.ports import HOST
from tanist_testkit.sandbox.spec import ADMIN, BROKER

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tanist.domain.endpoint import Secret
    from tanist_testkit.sandbox.spec import ClusterSpec

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_INTERNAL_PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a cluster lives: its directory, and one port per node (a single broker's controller has one more)."""

    directory: Path
    ports: Mapping[int, int]
    controller_port: int

    def node(self, node: int) -> Path:
        """The folder of one node: its `server.properties`, its data, its log."""
        return self.directory / f"node-{node}"

    @property
    def secrets(self) -> Path:
        """The folder of passwords and certificates."""
        return self.directory / "secrets"

    @property
    def ca(self) -> Path:
        """The certificate that signs all others."""
        return self.secrets / "ca.pem"


def server_properties(spec: ClusterSpec, layout: Layout, node: int, passwords: Mapping[str, Secret]) -> str:
    """`server.properties` of `node`. Holds passwords where the cluster has an authorizer: keep the file private."""
    if spec.release.zookeeper and node == spec.controller_id:
        return _text(_zookeeper(layout, node))
    lines: dict[str, object] = {**_identity(spec, layout, node), **_listeners(spec, layout, node), **_size(spec)}
    if spec.tls:
        lines |= _tls(spec, layout)
    if spec.authorizer:
        lines |= _authorizer(spec) | _to_the_controller(passwords)
    if spec.authorizer and not spec.client_certificates:
        lines |= _logins(spec, passwords)
    return _text(lines | dict(spec.properties))


def _text(lines: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _zookeeper(layout: Layout, node: int) -> dict[str, object]:
    """Of a ZooKeeper of one process."""
    return {
        "dataDir": layout.node(node) / "data",
        "clientPortAddress": HOST,
        "clientPort": layout.controller_port,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }


def _identity(spec: ClusterSpec, layout: Layout, node: int) -> dict[str, object]:
    if spec.release.zookeeper:
        where = f"{HOST}:{layout.controller_port}"
        return {
            "broker.id": node,
            "zookeeper.connect": where,
            "zookeeper.session.timeout.ms": 6000,
            "log.dirs": layout.node(node) / "data",
        }
    role = "controller" if node == spec.controller_id else "broker"
    return {
        "process.roles": "broker,controller" if spec.combined else role,
        "node.id": node,
        "controller.quorum.bootstrap.servers": f"{HOST}:{layout.controller_port}",
        "log.dirs": layout.node(node) / "data",
    }


def _listeners(spec: ClusterSpec, layout: Layout, node: int) -> dict[str, object]:
    client = f"{spec.protocol}://{HOST}:{layout.ports[node]}" if node in spec.broker_ids else ""
    if spec.release.zookeeper:
        return {"listeners": client, "advertised.listeners": client, "security.inter.broker.protocol": spec.protocol}
    controller = f"CONTROLLER://{HOST}:{layout.controller_port}" if node == spec.controller_id else ""
    controller_protocol = "SASL_PLAINTEXT" if spec.authorizer else "PLAINTEXT"
    own = ",".join(filter(None, (client, controller)))
    return {
        "listeners": own,
        "advertised.listeners": own,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"CONTROLLER:{controller_protocol},{spec.protocol}:{spec.protocol}",
        **({"inter.broker.listener.name": spec.protocol} if client else {}),
    }


def _size(spec: ClusterSpec) -> dict[str, object]:
    """Small, and as safe as the number of brokers allows."""
    replicas, in_sync = min(3, spec.brokers), 2 if spec.brokers >= 3 else 1
    internal = {
        "offsets.topic": ("replication.factor", "", "num.partitions"),
        "transaction.state.log": ("replication.factor", "min.isr", "num.partitions"),
        "share.coordinator.state.topic": ("replication.factor", "min.isr", "num.partitions"),
    }
    sizes = (replicas, in_sync, _INTERNAL_PARTITIONS)
    return {
        **{f"{topic}.{k}": n for topic, keys in internal.items() for k, n in zip(keys, sizes, strict=True) if k},
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "auto.create.topics.enable": "false",
        "unclean.leader.election.enable": "false",
        "controlled.shutdown.enable": "true",
        "broker.session.timeout.ms": 5000,  # a killed broker comes back no sooner
        "broker.heartbeat.interval.ms": 1000,
        "metadata.max.idle.interval.ms": 0,  # no record of nothing each half second: a third of an idle node's cost
        "group.initial.rebalance.delay.ms": 0,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "num.recovery.threads.per.data.dir": 1,
        "log.cleaner.dedupe.buffer.size": 16 * 2**20,
    }


def _tls(spec: ClusterSpec, layout: Layout) -> dict[str, object]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": layout.secrets / "server.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": layout.ca,
        "ssl.client.auth": "required" if spec.client_certificates else "none",
    }


def _authorizer(spec: ClusterSpec) -> dict[str, object]:
    """Brokers are super users, too: they know one another by their certificates where clients have some."""
    brokers = [f"User:CN={BROKER}"] if spec.client_certificates else []
    supers = dict.fromkeys([f"User:{ADMIN}", spec.principal(ADMIN), *brokers])
    return {
        "authorizer.class.name": _AUTHORIZER,
        "super.users": ";".join(supers),
        "allow.everyone.if.no.acl.found": "false",
    }


def _to_the_controller(passwords: Mapping[str, Secret]) -> dict[str, object]:
    """PLAIN: it knows no SCRAM at first."""
    return {
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f"{_PLAIN} required {_own(passwords)} {_known(passwords)};",
    }


def _logins(spec: ClusterSpec, passwords: Mapping[str, Secret]) -> dict[str, object]:
    """SCRAM and PLAIN for clients, SCRAM between brokers."""
    client, own = f"listener.name.{spec.protocol.lower()}", _own(passwords)
    return {
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        f"{client}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{client}.plain.sasl.jaas.config": f"{_PLAIN} required {own} {_known(passwords)};",
        f"{client}.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required {own};",
        f"{client}.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required {own};",
    }


def _own(passwords: Mapping[str, Secret]) -> str:
    return f'username="{ADMIN}" password="{passwords[ADMIN].reveal()}"'


def _known(passwords: Mapping[str, Secret]) -> str:
    return " ".join(f'user_{user}="{password.reveal()}"' for user, password in passwords.items())
