"""The one thing that the user brings besides Python."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Final

from tanist.domain.errors import MissingDependency

OLDEST: Final = 17
_TIMEOUT: Final = 20.0  # seconds
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')


def java() -> str:
    """The path of a Java that can run Kafka 4.

    Raises:
        MissingDependency: no `java` on PATH, one that does not run, or one older than 17; names what was found.
    """
    path = shutil.which("java")
    if path is None:
        raise MissingDependency(f"no `java` on PATH: a Java runtime (JRE or JDK), version {OLDEST} or newer, is needed")
    found = _VERSION.search(_version_of(path))
    if found is None:
        raise MissingDependency(f"{path} does not report its version: Java {OLDEST} or newer is needed")
    if int(found[1]) < OLDEST:
        raise MissingDependency(f"{path} is Java {found[1]}{found[2]}: Java {OLDEST} or newer is needed")
    return path


def _version_of(path: str) -> str:
    try:
        reported = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=_TIMEOUT, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return reported.stderr + reported.stdout
