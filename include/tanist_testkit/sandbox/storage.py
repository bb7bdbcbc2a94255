"""Formats the directories of a cluster: one short Java run per cluster, the brokers' share is written here."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import ProcessFailed
from tanist_testkit.sandbox.credentials import (
    SCRAM,
    make_certificates,
    make_passwords,
    read_passwords,
    scram_record,
    write_private,
)
from tanist_testkit.sandbox.node_command import SHORT_RUN
from tanist_testkit.sandbox.node_log import logging_of
from tanist_testkit.sandbox.properties import server_properties
from tanist_testkit.sandbox.spec import USERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from tanist.domain.endpoint import Secret
    from tanist_testkit.sandbox.properties import Layout
    from tanist_testkit.sandbox.spec import ClusterSpec

_TIMEOUT: Final = 60.0  # seconds


def new_uuid() -> str:
    """A cluster or directory id as Kafka writes them. Never one that looks like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def format_cluster(spec: ClusterSpec, layout: Layout, command: Sequence[str]) -> str:
    """Makes every file of a new cluster below `layout.directory`; answers the cluster id.

    `command` is Java with its class path. A cluster with a ZooKeeper chooses its id when it starts: "".

    Raises:
        ProcessFailed: the storage tool refused, with its reason.
    """
    cluster_id = new_uuid()
    layout.secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
    if spec.authorizer:
        make_passwords(layout.secrets)
    if spec.tls:
        make_certificates(layout.secrets, USERS if spec.client_certificates else ())
    passwords = read_passwords(layout.secrets) if spec.authorizer else {}
    for node in spec.node_ids:
        _write_node(spec, layout, node, passwords)
    if spec.release.zookeeper:
        return ""
    for node in spec.node_ids:
        if node != spec.controller_id:
            _write_meta(layout.node(node) / "data", node, cluster_id)
    _format_controller(spec, layout.node(spec.controller_id), cluster_id, command, passwords)
    return cluster_id


def _write_node(spec: ClusterSpec, layout: Layout, node: int, passwords: Mapping[str, Secret]) -> None:
    home = layout.node(node)
    shutil.rmtree(home, ignore_errors=True)  # of an attempt that was interrupted
    home.mkdir(parents=True)
    write_private(home / "server.properties", server_properties(spec, layout, node, passwords))
    file, text = logging_of(spec.release)
    (home / file).write_text(text, encoding="ascii")


def write_properties(spec: ClusterSpec, layout: Layout) -> None:
    """The configuration of every node again, for another layout; what the nodes have stored stays."""
    passwords = read_passwords(layout.secrets) if spec.authorizer else {}
    for node in spec.node_ids:
        write_private(layout.node(node) / "server.properties", server_properties(spec, layout, node, passwords))


def chosen_id(layout: Layout, broker: int) -> str:
    """The cluster id that `broker` has stored; "": it has not started yet."""
    stored = layout.node(broker) / "data" / "meta.properties"
    lines = stored.read_text(encoding="ascii").splitlines() if stored.exists() else []
    return next((line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")), "")


def _write_meta(data: Path, node: int, cluster_id: str) -> None:
    """All that a broker needs before its first start: the rest comes from the controller."""
    data.mkdir()
    lines = (f"cluster.id={cluster_id}", f"directory.id={new_uuid()}", f"node.id={node}", "version=1", "")
    (data / "meta.properties").write_text("\n".join(lines), encoding="ascii")


def _format_controller(
    spec: ClusterSpec, home: Path, cluster_id: str, command: Sequence[str], passwords: Mapping[str, Secret]
) -> None:
    credentials = (scram_record(m, user, password) for m in SCRAM for user, password in passwords.items())
    tool = [
        "kafka.tools.StorageTool",
        "format",
        "--standalone",
        "-t",
        cluster_id,
        "-c",
        str(home / "server.properties"),
    ]
    for feature, level in spec.features.items():
        tool += ["--feature", f"{feature}={level}"]
    for credential in credentials:
        tool += ["--add-scram", credential]
    arguments = home / "format.arguments"
    write_private(arguments, _argument_file([*command[1:], *SHORT_RUN, *tool]))
    try:
        _run([command[0], f"@{arguments}"])
    finally:
        arguments.unlink()


def _argument_file(arguments: Iterable[str]) -> str:
    """Java reads its arguments from a private file: credentials never show in the process list."""
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in arguments)
    return "".join(f'"{text}"\n' for text in escaped)


def _run(command: list[str]) -> None:
    """Its output is dropped when it succeeds: it tells the credentials' salted forms."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False, errors="replace")
    except subprocess.TimeoutExpired:
        raise ProcessFailed(f"formatting took more than {_TIMEOUT:g} s") from None
    if done.returncode != 0:
        reported = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise ProcessFailed(f"formatting failed: {reported[-1][:300]}")
