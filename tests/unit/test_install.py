"""What `make` shows while it installs, and what an installed package has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]
INSTALL = ROOT / "locks" / "install.py"
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
    *before, last = done.stdout.splitlines()  # another one every ten seconds, on a machine that is busy
    assert last.startswith("2 of 2 packages found, 0 installed, ")
    assert all(re.match("[0-2] of 2 packages found, 0 installed, ", line) for line in before)


def test_an_installed_package_has_the_spark_jobs_within_it(tmp_path: Path) -> None:
    """Without a checkout and without a setting: images and virtual environments validate, too."""
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    ZipFile(wheel).extractall(tmp_path / "site")
    jobs = sorted(file.name for file in (ROOT / "spark_jobs").glob("*.py"))
    find = "import sys; from tanist.spark_submit.submission import application; print(*map(application, sys.argv[1:]))"
    found = subprocess.run(
        [sys.executable, "-c", find, *jobs],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == [str(tmp_path / "site" / "tanist" / "spark_jobs" / job) for job in jobs]
