"""Kafka's classes as Java maps them into memory: with them a node starts in half the time, for half the processor.

    CACHE/jars/kafka_2.13-4.3.1-1f0c5a7e.jsa     of one Java; empty: that Java makes none

Made once per user and Java, by a node that runs for a moment. Java itself checks that an archive is of its own build
and of these jars; without one, or with one that it does not take, all works and takes longer.
"""

from __future__ import annotations

import hashlib
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tanist.domain.endpoint import Address, Endpoint, Sasl, SaslMechanism
from tanist.domain.errors import TanistError
from tanist.ports.clock import Deadline
from tanist.spark_submit.jars import cache_dir, java, locked
from tanist_testkit.sandbox.credentials import read_passwords
from tanist_testkit.sandbox.jars import KAFKA_VERSION, class_path, release
from tanist_testkit.sandbox.node_command import node_command
from tanist_testkit.sandbox.node_log import is_ready
from tanist_testkit.sandbox.ports import HOST
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.spec import ADMIN, ClusterSpec
from tanist_testkit.sandbox.state import ClusterState
from tanist_testkit.sandbox.storage import format_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist_testkit.sandbox.jars import Release

_SECONDS: Final = 60.0
_REHEARSAL_SECONDS: Final = 20.0
_POLL: Final = 0.05
_CONTENTS: Final = "rehearsed"
"""Part of an archive's name: one that was made of other classes is not taken for this one."""


def kafka_java(version: str = KAFKA_VERSION) -> tuple[str, ...]:
    """Java with Kafka's class path and its archive; the first time makes both. None where it needs a ZooKeeper.

    Raises:
        MissingDependency, DownloadFailed: see `tanist.spark_submit.jars`.
    """
    kafka = release(version)
    plain = (java(), "-cp", class_path(kafka.module))
    if kafka.zookeeper:
        return plain
    archive = _archive(Path(plain[0]), kafka)
    if not archive.exists():
        with locked(archive.with_suffix(".lock")):
            if not archive.exists():
                _make(plain, archive, version)
    return (*plain, f"-XX:SharedArchiveFile={archive}") if archive.stat().st_size else plain


def _archive(program: Path, kafka: Release) -> Path:
    found = program.resolve().stat()
    build = f"{program.resolve()} {found.st_size} {found.st_mtime_ns} {_CONTENTS}"
    return cache_dir() / "jars" / f"{kafka.module}-{hashlib.sha256(build.encode()).hexdigest()[:8]}.jsa"


def _make(plain: Sequence[str], archive: Path, version: str) -> None:
    """All of it or an empty one; nothing where it is interrupted."""
    with tempfile.TemporaryDirectory(prefix=f".{archive.stem}-", dir=archive.parent) as home:
        made = Path(home) / "made.jsa"
        try:
            _run_once([*plain, f"-XX:ArchiveClassesAtExit={made}"], Path(home), version)
        except TanistError:  # a cluster that cannot start says so itself, better
            made.unlink(missing_ok=True)
        if not made.exists():
            made.touch()
        made.rename(archive)


def _endpoint(state: ClusterState) -> Endpoint:
    login = Sasl(
        mechanism=SaslMechanism.SCRAM_SHA_512,
        username=ADMIN,
        password=read_passwords(state.layout.secrets)[ADMIN],
    )
    bootstrap = tuple(Address(HOST, port) for port in state.layout.ports.values())
    return Endpoint(name=state.spec.name, bootstrap=bootstrap, sasl=login)


def _run_once(command: Sequence[str], home: Path, version: str) -> None:
    """A node with an authorizer, which loads most of what others do, and serves what clients ask; then it ends."""
    from tanist_testkit.sandbox.rehearsal import rehearse  # noqa: PLC0415 -- librdkafka, for once per user

    state = ClusterState.new(ClusterSpec(name="archive", authorizer=True, version=version), home)
    (node,) = state.spec.node_ids
    log, by = home / "node.log", Deadline(time.monotonic() + _SECONDS)
    format_cluster(state.spec, state.layout, command[:-1])
    with Guardian() as guardian:
        process = guardian.spawn(node_command(command, state.spec, state.layout, node), log)
        while process.alive and not is_ready(log) and by.left(time.monotonic()):
            time.sleep(_POLL)
        rehearse(_endpoint(state), Deadline(time.monotonic() + _REHEARSAL_SECONDS))
        process.send(signal.SIGTERM)
        process.wait(Deadline(time.monotonic() + _SECONDS))  # it writes the archive before it ends
