"""A real Apache Kafka cluster on this machine.

    with Cluster.new(ClusterSpec(name="east")) as east:
        connect(east.endpoint())

Its processes end with the `with` block, with this Python process, or with both, whatever comes first and however.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from tanist.domain.endpoint import Address, Endpoint, Sasl, SaslMechanism, Tls
from tanist.domain.errors import Misconfigured, PortTaken, TimedOut
from tanist.ports.clock import Deadline
from tanist_testkit.sandbox import node_log
from tanist_testkit.sandbox.class_archive import kafka_java
from tanist_testkit.sandbox.credentials import certificate_file, password_file, read_passwords
from tanist_testkit.sandbox.node_command import node_command
from tanist_testkit.sandbox.ports import HOST, check_free, free_ports
from tanist_testkit.sandbox.processes import Guardian, Process
from tanist_testkit.sandbox.spec import ADMIN, USERS
from tanist_testkit.sandbox.state import ClusterState
from tanist_testkit.sandbox.storage import chosen_id, format_cluster, write_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist_testkit.sandbox.spec import ClusterSpec

_START: Final = 90.0  # seconds; a cached cluster is ready in a tenth of it on an idle machine
_STOP: Final = 10.0
_KILL: Final = 5.0
_POLL: Final = 0.05
_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker as it is now; `pid` is None for one that we have stopped or killed."""

    id: int
    pid: int | None
    port: int
    alive: bool


class SandboxCluster:
    """Made by `new` or `open`. Safe to use from several threads."""

    def __init__(self, state: ClusterState, guardian: Guardian | None, *, bound: bool, temporary: bool) -> None:
        self._state, self._bound, self._temporary = state, bound, temporary
        self._guardian, self._own_guardian = guardian or Guardian(), guardian is None
        self._lock = threading.RLock()
        self._is_blank = False
        """Its files were made here, and it has not served yet: nothing can be lost."""

    @classmethod
    def new(
        cls, spec: ClusterSpec, directory: Path | None = None, *, guardian: Guardian | None = None, bound: bool = True
    ) -> Self:
        """A cluster that is not started yet, in `directory`, or in a temporary one that `close` removes.

        Unbound ones (`bound=False`) live on after `guardian.release()`; `open` finds them again.
        """
        home = directory or Path(tempfile.mkdtemp(prefix=f"tanist-{spec.name}-"))
        return cls(ClusterState.new(spec, home.resolve()), guardian, bound=bound, temporary=directory is None)

    @classmethod
    def open(cls, directory: Path, *, guardian: Guardian | None = None, bound: bool = True) -> Self:
        """The cluster that was started in `directory`, running or not. Raises Misconfigured when there is none."""
        return cls(ClusterState.load(directory.resolve()), guardian, bound=bound, temporary=False)

    def __repr__(self) -> str:
        return f"Cluster({self.name!r}, {self.bootstrap_servers!r})"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── what it is ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def spec(self) -> ClusterSpec:
        """What the cluster was asked to be."""
        return self._state.spec

    @property
    def name(self) -> str:
        """The name of its specification."""
        return self._state.spec.name

    @property
    def directory(self) -> Path:
        """Where its configuration, its data and its logs are."""
        return self._state.layout.directory

    @property
    def cluster_id(self) -> str:
        """Empty before the first start."""
        return self._state.cluster_id

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, separated by commas."""
        return ",".join(f"{HOST}:{port}" for port in self._state.layout.ports.values())

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """As they are now. A paused broker is alive; `pid` is None for one that was stopped or killed by us."""
        with self._lock:
            ports, running = self._state.layout.ports, dict(self._state.processes)
        return tuple(
            Broker(node, p.pid if p else None, ports[node], p.alive if p else False)
            for node, p in ((node, running.get(node)) for node in self.spec.broker_ids)
        )

    @property
    def running(self) -> bool:
        """Whether every node is alive, the separate controller included."""
        return all(node in self._state.processes and self._state.processes[node].alive for node in self.spec.node_ids)

    def endpoint(self) -> Endpoint:
        """How `admin`, a super user, connects; without an authorizer everybody does so."""
        return self.endpoint_for(ADMIN) if self.spec.authorizer else self._endpoint(None)

    def endpoint_for(self, user: str, mechanism: SaslMechanism = SaslMechanism.SCRAM_SHA_512) -> Endpoint:
        """How `user`, one of `spec.USERS`, connects. For a cluster with an authorizer, once started."""
        if not self.spec.authorizer or user not in USERS:
            raise Misconfigured(f"{self.name} has no user {user!r}")
        if self.spec.client_certificates:
            return self._endpoint(None, certificate_file(self._state.layout.secrets, user))
        password = read_passwords(self._state.layout.secrets)[user]
        return self._endpoint(Sasl(mechanism=mechanism, username=user, password=password))

    def password_file(self, user: str) -> Path:
        """The file with the password of `user`."""
        return password_file(self._state.layout.secrets, user)

    def log_file(self, node: int) -> Path:
        """What `node` has logged since its last start."""
        return self._state.layout.node(node) / "node.log"

    def _endpoint(self, sasl: Sasl | None, certificate: Path | None = None) -> Endpoint:
        bootstrap = tuple(Address(HOST, port) for port in self._state.layout.ports.values())
        tls = self._tls(certificate) if self.spec.tls else None
        return Endpoint(name=self.name, bootstrap=bootstrap, tls=tls, sasl=sasl)

    def _tls(self, certificate: Path | None) -> Tls:
        authority = str(self._state.layout.ca)
        if certificate is None:
            return Tls(ca_location=authority)
        key = str(certificate.with_suffix(".key"))
        return Tls(ca_location=authority, certificate_location=str(certificate), key_location=key)

    # ── what it does ──────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, seconds: float = _START) -> None:
        """Starts what is not running, and waits until all of it serves requests.

        Raises:
            PortTaken: somebody else listens on a port that was asked for.
            ProcessFailed: a node ended by itself; names its log.
            TimedOut: not ready within `seconds`.
            MissingDependency, DownloadFailed: see `tanist.spark_submit.jars`.
        """
        deadline = Deadline(time.monotonic() + seconds)
        for left in reversed(range(_TRIES)):
            self.launch()
            try:
                return self.wait_ready(deadline)
            except PortTaken:
                if self.spec.ports or not self._is_blank or not left:
                    raise
                self._start_afresh()
        raise AssertionError

    def launch(self) -> None:
        """Starts what is not running without waiting for it."""
        command = kafka_java(self.spec.version)
        with self._lock:
            if not self._state.formatted:
                if self._temporary:
                    self._guardian.remove_at_end(self.directory)
                for port in self.spec.ports:
                    check_free(port)
                self._state.cluster_id = format_cluster(self.spec, self._state.layout, command)
                self._state.formatted = self._is_blank = True
            for node in self.spec.node_ids:
                self._launch(node, command)

    def start_broker(self, broker: int, seconds: float = _START) -> None:
        """Starts a broker again that was killed, on its data and its port. Raises as `start` does."""
        self._require(broker)
        with self._lock:
            self._launch(broker, kafka_java(self.spec.version))
        self._wait_for(broker, Deadline(time.monotonic() + seconds))

    def wait_ready(self, deadline: Deadline) -> None:
        """Returns when every node that shall be running serves requests. Raises as `start` does."""
        for node in tuple(self._state.processes):
            self._wait_for(node, deadline)
        self._is_blank = False
        with self._lock:
            if not self._state.cluster_id:
                self._state.cluster_id = chosen_id(self._state.layout, self.spec.broker_ids[0])
                self._state.save()

    def kill(self, broker: int | None = None) -> None:
        """SIGKILL: no flush, no goodbye; None: the whole cluster at once. Returns when it is gone."""
        nodes = self.spec.node_ids if broker is None else (self._require(broker),)
        hit = self._send(nodes, signal.SIGKILL)
        self._forget(nodes)
        deadline = Deadline(time.monotonic() + _KILL)
        for process in hit:
            process.wait(deadline)

    def pause(self, broker: int) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        self._send([self._require(broker)], signal.SIGSTOP)

    def unpause(self, broker: int) -> None:
        """SIGCONT: it goes on where it was."""
        self._send([self._require(broker)], signal.SIGCONT)

    def stop(self, seconds: float = _STOP) -> None:
        """Brokers first, so that they can hand over to the controller; SIGKILL for what is left after `seconds`."""
        deadline = Deadline(time.monotonic() + seconds)
        self._end(self.spec.broker_ids, signal.SIGTERM, deadline)
        self._end(self.spec.node_ids, signal.SIGTERM, deadline)
        self._end(self.spec.node_ids, signal.SIGKILL, Deadline(time.monotonic() + _KILL))
        self._forget(self.spec.node_ids)

    def move(self) -> None:
        """Gives a stopped cluster other ports: the next start serves the same data under the same id elsewhere."""
        with self._lock:
            ports = dict(zip(self.spec.broker_ids, free_ports(self.spec.brokers), strict=True))
            self._state.layout = replace(self._state.layout, ports=ports)
            write_properties(self.spec, self._state.layout)
            self._state.save()

    def close(self) -> None:
        """Ends it at once; a temporary directory goes with it, a given one stays and can be started again."""
        self.stop(0)
        if self._own_guardian:
            self._guardian.close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    # ── how ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _require(self, broker: int) -> int:
        if broker not in self.spec.broker_ids:
            raise Misconfigured(f"{self.name} has no broker {broker}, only 1 to {self.spec.brokers}")
        return broker

    def _launch(self, node: int, command: Sequence[str]) -> None:
        running = self._state.processes.get(node)
        if running and running.alive:
            return
        log = self.log_file(node)
        node_log.begin(log)
        argv = node_command(command, self.spec, self._state.layout, node)
        self._state.processes[node] = self._guardian.spawn(argv, log, bound=self._bound)
        self._state.save()

    def _wait_for(self, node: int, deadline: Deadline) -> None:
        while not node_log.is_ready(self.log_file(node)):
            process = self._state.processes.get(node)
            if process is None:
                return  # killed by us meanwhile
            if not process.alive and not node_log.is_ready(self.log_file(node)):
                raise node_log.failure(self.log_file(node), f"{self.name}: node {node}")
            if not deadline.left(time.monotonic()):
                raise TimedOut(f"{self.name}: node {node} is not ready yet, log: {self.log_file(node)}")
            time.sleep(_POLL)

    def _start_afresh(self) -> None:
        """Another process was faster with one of our ports: all over again, with others. Nothing was stored yet."""
        self.stop(0)
        for node in self.spec.node_ids:
            shutil.rmtree(self._state.layout.node(node), ignore_errors=True)
        self._state = ClusterState.new(self.spec, self.directory)

    def _end(self, nodes: Iterable[int], sign: signal.Signals, deadline: Deadline) -> None:
        for process in self._send(nodes, sign):
            process.send(signal.SIGCONT)
            process.wait(deadline)

    def _forget(self, nodes: Iterable[int]) -> None:
        with self._lock:
            for node in nodes:
                self._state.processes.pop(node, None)
            if self._state.formatted:
                self._state.save()

    def _send(self, nodes: Iterable[int], sign: signal.Signals) -> list[Process]:
        with self._lock:
            hit = [self._state.processes[node] for node in nodes if node in self._state.processes]
        return [process for process in hit if process.send(sign)]
