"""A failover, wired to its clusters, its evidence to files."""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from platform import node as host_name
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured, TanistError
from tanist.domain.failover.page import as_json, as_page, from_json
from tanist.domain.records import STATE_TOPIC
from tanist.usecases import cluster_ids, state_topics
from tanist.usecases.command import CommandContext
from tanist.usecases.failover.context import FailoverContext
from tanist.usecases.failover.steps.groups import moved_by
from tanist.usecases.groups.gather import Chosen
from tanist.usecases.groups.sync import SyncRequest, sync_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.domain.failover.evidence import Evidence
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster
    from tanist.usecases.failover.context import GroupsMoved
    from tanist.wiring.registry import ClusterRegistry


_PROVE_SECONDS: Final = 2.0
"""Comparing records may take so long: positions are committed without a proof rather than late."""


def runner() -> str:
    """Who is at work, for others to read."""
    return f"{getpass.getuser()}@{host_name()} pid {os.getpid()}"


def is_process_dead(text: str) -> bool:
    """Whether a runner of that name was a process of this host, and is not there any more."""
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
    """Both clusters of a mirror, with everything that a failover asks of them.

    Raises:
        UnknownMirror, AnotherCluster; and what the destination answers if it cannot be read.
    """
    (found,) = cluster_ids.identify((destination,), context)
    spec = state_topics.spec_of(state_topics.read(destination, STATE_TOPIC, context.by), mirror, destination.name)
    cluster_ids.same_as_pinned(spec, None, found)
    yield both_clusters(registry, spec, source_of(registry, spec), destination, context)


def both_clusters(
    registry: ClusterRegistry,
    spec: MirrorSpec,
    source: Cluster | TanistError,
    destination: Cluster,
    context: CommandContext,
) -> FailoverContext:
    """Both ends of a mirror, and what moves its groups between them."""
    return FailoverContext(
        spec=spec,
        source=source,
        destination=destination,
        move_groups=_Groups(registry, destination, spec, context),
    )


def source_of(registry: ClusterRegistry, spec: MirrorSpec) -> Cluster | TanistError:
    """A source that is not configured on this host is one that cannot be reached from here."""
    try:
        return registry.source(spec)
    except TanistError as error:
        return error


@dataclass(frozen=True, slots=True)
class _Groups:
    """The last translation, by the same use case as `tanist groups sync`."""

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
        """Groups with members here, and whatever else must not be committed, are told, not moved."""
        contacts = self.registry.group_contacts(self.spec, self.destination)
        chosen = Chosen(groups=tuple(groups), topics=frozenset(topics), ask_source=ask_source)
        command = CommandContext(clock=self.context.clock, by=by)
        request = SyncRequest(chosen=chosen, prove_seconds=_PROVE_SECONDS, confirm=confirm)
        return moved_by(sync_groups(self.spec, contacts, request, command))


# ── evidence as files ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Folder:
    """`evidence.json` and `evidence.html`, each replaced whole."""

    path: Path

    def flush(self, evidence: Evidence) -> None:
        self._replace("evidence.json", as_json(evidence))
        self._replace("evidence.html", as_page(evidence))

    def before(self) -> Evidence | None:
        """Raises Misconfigured where somebody has changed what is there."""
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
        """Whether evidence can be written there, before anything is done. Raises Misconfigured."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as why:
            raise Misconfigured(f"evidence cannot be written to {self.path}: {why.strerror}") from why

    def _replace(self, name: str, text: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self.path, prefix=f".{name}-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(self.path / name)
