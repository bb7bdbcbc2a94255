"""Connects a failover to its clusters, and its evidence to files."""

from __future__ import annotations

import getpass
import json
import os
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from platform import node as host_name
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.failover.page import as_json, as_page, from_json
from tanist.usecases.command import CommandContext
from tanist.usecases.failover.context import FailoverContext
from tanist.usecases.failover.steps.groups import moved_by
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_groups
from tanist.usecases.mirror_spec import spec_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.failover.context import GroupsMoved
    from tanist.wiring.registry import ClusterRegistry


_PROVE_SECONDS: Final = 2.0
"""Time limit of comparing records: offsets are committed without a proof rather than late."""


def runner() -> str:
    """The name of this process in locks and runs, for people and for `is_process_dead`."""
    return f"{getpass.getuser()}@{host_name()} pid {os.getpid()}"


def is_process_dead(text: str) -> bool:
    """Whether the runner of that name was a process of this host that has ended; False if that is unknown."""
    found = re.fullmatch(rf"\S+@{re.escape(host_name())} pid (\d+)", text)
    if found is None:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@contextmanager
def failover_clusters(
    registry: ClusterRegistry, destination: Cluster, mirror: MirrorName, context: CommandContext
) -> Iterator[FailoverContext]:
    """Both clusters of a mirror, with all ports that a failover needs.

    Raises:
        UnknownMirror: the destination has no such mirror.
        AnotherCluster: the destination is not the cluster that the mirror was created on.
        CouldNotTell, BrokerError: the destination cannot be read.
    """
    spec = spec_at(destination, mirror, context)
    yield both_clusters(registry, spec, source_of(registry, spec), destination, context)


def both_clusters(
    registry: ClusterRegistry,
    spec: MirrorSpec,
    source: Cluster | TanistError,
    destination: Cluster,
    context: CommandContext,
) -> FailoverContext:
    """Both clusters of a mirror, and the translation of its groups between them."""
    return FailoverContext(
        spec=spec,
        source=source,
        destination=destination,
        move_groups=_Groups(registry, destination, spec, context),
    )


def source_of(registry: ClusterRegistry, spec: MirrorSpec) -> Cluster | TanistError:
    """The source of a mirror; one that is not configured on this host counts as unreachable."""
    try:
        return registry.source(spec)
    except TanistError as error:
        return error


@dataclass(frozen=True, slots=True)
class _Groups:
    """The final translation of groups, by the use case of `tanist groups sync`."""

    registry: ClusterRegistry
    destination: Cluster
    spec: MirrorSpec
    context: CommandContext

    def __call__(
        self,
        topics: Sequence[str],
        groups: Sequence[str],
        by: Deadline,
        confirm: Callable[[], None],
        *,
        ask_source: bool,
    ) -> GroupsMoved:
        """Groups with members at the destination, and other offsets that must not be committed, are only reported."""
        contacts = self.registry.group_contacts(self.spec, self.destination)
        chosen = Chosen(groups=tuple(groups), topics=frozenset(topics), ask_source=ask_source)
        command = CommandContext(clock=self.context.clock, by=by)
        request = SyncRequest(chosen=chosen, prove_seconds=_PROVE_SECONDS, confirm=confirm)
        return moved_by(sync_groups(self.spec, contacts, request, command))


# ── evidence as files ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Folder:
    """`evidence.json` and `evidence.html`, or the manifest of what was rescued; each replaced as a whole."""

    path: Path

    def flush(self, evidence: Evidence) -> None:
        self.replace("evidence.json", as_json(evidence))
        self.replace("evidence.html", as_page(evidence))

    def before(self) -> Evidence | None:
        """The evidence of earlier calls; None: none. Raises Misconfigured if the file is not valid evidence."""
        file = self.path / "evidence.json"
        if not file.exists():
            return None
        try:
            return from_json(file.read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError) as why:
            raise Misconfigured(
                f"{file} was modified or is corrupt ({why}): choose another --evidence directory"
            ) from why

    def check(self) -> None:
        """Raise Misconfigured if evidence cannot be written; called before anything is changed."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as why:
            raise Misconfigured(f"evidence cannot be written to {self.path}: {why.strerror}") from why

    def write_manifest(self, manifest: Mapping[str, Any], name: str = "manifest.json") -> None:
        """Replace the manifest, a file of its own beside others."""
        self.replace(name, json.dumps(manifest, indent=2) + "\n")

    def replace(self, name: str, text: str) -> None:
        """Replace the file `name` as a whole."""
        self.path.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.path, prefix=f".{name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(self.path / name)
