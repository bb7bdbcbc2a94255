"""Who runs a failover, and its evidence as files."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from platform import node as host_name
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tanist.domain.errors import Misconfigured
from tanist.domain.failover.evidence import as_json, as_page, from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.failover.evidence import Evidence


_PROC: Final = Path("/proc")
_ENDED: Final = frozenset({"Z", "X"})
"""States of a process that runs no code any more: its parent has not asked for its exit code yet."""


def runner() -> str:
    """The name of this process in locks and runs, for people and for `is_process_dead`.

    In brackets the host as it was booted, and when the process was started; not where the system does not tell.
    """
    name = f"{getpass.getuser()}@{host_name()} pid {os.getpid()}"
    where, seen = _booted_host(), _process(os.getpid())
    return f"{name} [{where}:{seen.started}]" if where and seen else name


def is_process_dead(text: str) -> bool:
    """Whether the runner of that name was a process of this host that has ended; False if that is unknown.

    A number of a process proves nothing alone: numbers are used again, and other hosts and containers have the same.
    """
    found = re.fullmatch(r".+ pid (\d+) \[([0-9a-f]+):(\d+)\]", text)
    if found is None or found[2] != _booted_host():
        return False
    pid = int(found[1])
    seen = _process(pid)
    if seen is not None:
        return seen.started != found[3] or seen.ended
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False  # the system hides it


class _Process(NamedTuple):
    """`started`: in clock ticks since the host was booted. `ended`: none of its threads runs any more."""

    started: str
    ended: bool


def _process(pid: int) -> _Process | None:
    """None: there is none, or the system does not tell."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        alone = len([*(_PROC / str(pid) / "task").iterdir()]) <= 1
    except OSError:
        return None
    return _Process(started=fields[19], ended=fields[0] in _ENDED and alone)


def _booted_host() -> str:
    """Names this host until it is booted again, and the container whose processes we see; empty: not known."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        spaces = [_PROC / "self/ns" / kind for kind in ("pid", "time")]
        seen = [str(each.readlink()) for each in spaces if each.exists()]
    except OSError:
        return ""
    return hashlib.sha256(" ".join((host_name(), boot, *seen)).encode()).hexdigest()[:16]


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
