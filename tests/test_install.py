"""What `make` shows while it installs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

INSTALL = Path(__file__).resolve().parents[1] / "locks" / "install.py"
NOWHERE = "https://nobody:secret@packages.invalid/simple"


def install(lock: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(INSTALL), str(lock), "--dry-run", *more], capture_output=True, text=True, check=False
    )


def test_an_install_that_fails_says_why_and_fails(tmp_path: Path) -> None:
    """With pip's own words, but without the names of servers, which differ from machine to machine."""
    lock = tmp_path / "lock.txt"
    lock.write_text(f"no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    failed = install(lock, "--no-index", "--find-links", NOWHERE, "--retries", "0")
    assert failed.returncode != 0
    assert "No matching distribution found for no-such-package" in failed.stderr
    assert "invalid" not in failed.stdout + failed.stderr
    assert "secret" not in failed.stdout + failed.stderr


def test_an_install_is_never_silent_and_counts_to_the_end(tmp_path: Path) -> None:
    """Nothing but the count: where packages come from is nobody's business."""
    lock = tmp_path / "lock.txt"
    there = [f"{name}=={version(name)} \\\n    --hash=sha256:{'0' * 64}\n" for name in ("pip", "pytest")]
    lock.write_text("# two packages\n" + "".join(there))
    done = install(lock)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 of 2 packages found, 0 installed, ")
    assert len(done.stdout.splitlines()) == 1
