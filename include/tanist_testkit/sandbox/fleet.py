"""The clusters of one directory, which outlive the command that started them, and the `tanist.toml` that names them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured
from tanist.spark_submit.jars import locked
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.jars import class_path
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.spec import ADMIN, USERS
from tanist_testkit.sandbox.state import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tanist_testkit.sandbox.spec import ClusterSpec

CONFIG: Final = "tanist.toml"
_SAFE_STATE: Final = 3
"""Brokers below which a state topic cannot be replicated as it should be."""


class Fleet:
    """Commands on one directory wait for one another: a second `up` finds what the first has made."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()

    @property
    def config(self) -> Path:
        """The `tanist.toml` that names every cluster."""
        return self._directory / CONFIG

    def clusters(self) -> tuple[SandboxCluster, ...]:
        """Every cluster of the directory by name, running or not."""
        return tuple(SandboxCluster.open(file.parent) for file in sorted(self._directory.glob(f"*/{FILE}")))

    def up(self, specs: Sequence[ClusterSpec], say: Callable[[str], None]) -> bool:
        """Makes all of `specs` run; False: they did already. When it does not return, what it started is gone.

        Raises:
            Misconfigured: a cluster of that name exists with other options.
            TanistError: see `Cluster.start`.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._exclusive(), Guardian() as guardian:
            clusters = [self._cluster(spec, guardian) for spec in specs]
            waiting = [cluster for cluster in clusters if not cluster.running]
            start_all(waiting, say)
            self.config.write_text("".join(_toml(self.clusters())), encoding="utf-8")
            guardian.release()
        return bool(waiting)

    def down(self, *, delete: bool, say: Callable[[str], None]) -> bool:
        """Stops every cluster; False: none was running. `delete` removes them and their data as well."""
        if not self._directory.is_dir():
            return False
        with self._exclusive():
            clusters = self.clusters()
            stopped = [cluster for cluster in clusters if any(b.alive for b in cluster.brokers) or cluster.running]
            for cluster in clusters:
                say(f"{cluster.name}: stopping")
                cluster.stop()
            if delete:
                self._delete(clusters)
        return bool(stopped)

    def kill(self, name: str, broker: int | None) -> SandboxCluster:
        """SIGKILL for one broker, or for the whole cluster."""
        home = self._find(name)
        with self._exclusive():
            cluster = SandboxCluster.open(home)
            cluster.kill(broker)
        return cluster

    def start(self, name: str, broker: int | None, say: Callable[[str], None]) -> SandboxCluster:
        """Starts one broker again, or all that does not run, on the same data and ports."""
        home = self._find(name)
        with self._exclusive(), Guardian() as guardian:
            cluster = SandboxCluster.open(home, guardian=guardian, bound=False)
            if broker is None:
                start_all([cluster], say)
            else:
                cluster.start_broker(broker)
            guardian.release()
        return cluster

    def _exclusive(self) -> AbstractContextManager[None]:
        return locked(self._directory / ".lock")

    def _find(self, name: str) -> Path:
        known = [cluster.name for cluster in self.clusters()]
        if name not in known:
            raise Misconfigured(f"no cluster {name!r} in {self._directory}, only: {', '.join(known) or 'none'}")
        return self._directory / name

    def _cluster(self, spec: ClusterSpec, guardian: Guardian) -> SandboxCluster:
        home = self._directory / spec.name
        if not (home / FILE).exists():
            return SandboxCluster.new(spec, home, guardian=guardian, bound=False)
        found = SandboxCluster.open(home, guardian=guardian, bound=False)
        if replace(found.spec, heap_mb=spec.heap_mb) != spec:
            raise Misconfigured(
                f"{spec.name} exists in {self._directory} with other options: use those, or `sandbox down --delete` it"
            )
        return found

    def _delete(self, clusters: Sequence[SandboxCluster]) -> None:
        for cluster in clusters:
            shutil.rmtree(cluster.directory)
        self.config.unlink(missing_ok=True)


def start_all(clusters: Sequence[SandboxCluster], say: Callable[[str], None]) -> None:
    """One formats while the one before it boots. The first time on a machine Kafka is downloaded before."""
    class_path(say=say)
    for cluster in clusters:
        say(f"{cluster.name}: starting {cluster.spec.brokers} broker(s)")
        cluster.launch()
    for cluster in clusters:
        say(f"{cluster.name}: waiting until it answers")
        cluster.start()


def _toml(clusters: Sequence[SandboxCluster]) -> Iterator[str]:
    yield "# Written by `tanist sandbox up`. Throw-away clusters on this machine.\n"
    for cluster in clusters:
        yield f"\n{toml_section(cluster)}"
        if cluster.spec.authorizer:
            others = ", ".join(user for user in USERS if user != ADMIN)
            what = "certificates" if cluster.spec.client_certificates else "passwords"
            yield f"# other users: {others}; their {what} are beside that of {ADMIN}\n"


def toml_section(cluster: SandboxCluster) -> str:
    """The section of a `tanist.toml` that names the cluster, and how its admin connects."""
    keys = (f"{key} = {json.dumps(value)}\n" for key, value in _connection(cluster).items())
    return f"[clusters.{cluster.name}]\n{''.join(keys)}"


def _connection(cluster: SandboxCluster) -> dict[str, str | bool]:
    endpoint = cluster.endpoint()
    keys: dict[str, str | bool] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": endpoint.security_protocol,
    }
    if endpoint.sasl:
        keys["sasl_mechanism"] = endpoint.sasl.mechanism
        keys["sasl_username"] = endpoint.sasl.username
        keys["sasl_password_file"] = str(cluster.password_file(endpoint.sasl.username))
    if endpoint.tls:
        keys["ssl_ca_location"] = str(endpoint.tls.ca_location)
    if endpoint.tls and endpoint.tls.certificate_location:
        keys["ssl_certificate_location"] = endpoint.tls.certificate_location
        keys["ssl_key_location"] = str(endpoint.tls.key_location)
    if cluster.spec.brokers < _SAFE_STATE:
        keys["allow_small_state"] = True
    return keys
