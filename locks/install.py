"""`python locks/install.py LOCK`: pip, with one line that lives. Its own words are shown only where it fails.

Runs in a fresh environment, so it needs nothing but Python.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, TextIO

PIP: Final = (
    sys.executable,
    "-m",
    "pip",
    "install",
    "--disable-pip-version-check",
    "--no-deps",
    "--progress-bar",
    "off",
)
FOUND: Final = ("Collecting ", "Requirement already satisfied: ", "Obtaining ")
SERVER: Final = re.compile(r"(?<=://)[^/\s'\"]+|(?<=host=')[^']+")
"""Where packages come from differs from machine to machine; no output of ours names it."""


class Line:
    """What is told while pip is silent: over and over in one line on a terminal, seldom elsewhere."""

    def __init__(self, screen: TextIO, total: int) -> None:
        self._screen, self.total = screen, total
        self._on_terminal = screen.isatty()
        self._begun = self._told_at = time.monotonic()
        self.every = 0.5 if self._on_terminal else 10.0

    def tell(self, found: int, installed: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._told_at < self.every:
            return
        self._told_at = now
        text = f"{found} of {self.total} packages found, {installed} installed, {now - self._begun:.0f} s"
        begin, end = ("\r\x1b[K", "\n" if last else "") if self._on_terminal else ("", "\n")
        print(f"{begin}{text}", end=end, file=self._screen, flush=True)


def installed_since(begun: float) -> int:
    """Packages that have been written into this environment since `begun`, seconds since 1970."""
    return sum(info.stat().st_mtime >= begun for info in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))


def wanted(lock: Path) -> int:
    """Packages that `lock` names."""
    return len(re.findall(r"^[A-Za-z0-9]", lock.read_text(encoding="utf-8"), re.MULTILINE))


def pip(arguments: list[str], total: int) -> int:
    """Run `pip install`; returns its exit code."""
    line, begun = Line(sys.stdout, total), time.time() - 1
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen([*PIP, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True) as running,
    ):
        found = 0

        def count() -> None:
            nonlocal found
            for text in running.stdout or ():
                found += text.startswith(FOUND)
                line.total -= text.startswith("Ignoring ")  # not for this platform

        reader = threading.Thread(target=count, daemon=True)
        reader.start()
        while reader.is_alive():
            reader.join(0.2)
            line.tell(found, installed_since(begun))
        code = running.wait()
        line.tell(found, installed_since(begun), last=True)
        errors.seek(0)
        if code:
            print(SERVER.sub("...", errors.read()), end="", file=sys.stderr)
    return code


def main(lock: Path, *more: str) -> int:
    """Install everything that `lock` names, with its hashes."""
    os.environ["PYTHONUNBUFFERED"] = "1"
    return pip(["--require-hashes", "-r", str(lock), *more], wanted(lock))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
