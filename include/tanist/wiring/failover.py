"""Who runs a failover, and its evidence as files."""

from __future__ import annotations

import getpass
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from platform import node as host_name
from typing import TYPE_CHECKING, Any

from tanist.domain.errors import Misconfigured
from tanist.domain.failover.evidence import as_json, as_page, from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.failover.evidence import Evidence


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
