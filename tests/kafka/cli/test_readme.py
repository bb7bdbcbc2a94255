"""The README's example, typed as it stands there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]


def example() -> list[str]:
    """The commands of "A mirror of your own"."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^## A mirror of your own\n\n((?:    .*\n)+)", readme, re.MULTILINE)
    assert found
    return textwrap.dedent(found[1]).splitlines()


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A shell with our `tanist` on its path; no broker outlives it."""
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TANIST_")} | {"PATH": here}
    yield environ
    subprocess.run([sys.executable, "-m", "tanist.cli.main", "sandbox", "down"], cwd=tmp_path, check=False)


def test_the_example_of_the_readme_ends_with_go(environ: dict[str, str], tmp_path: Path) -> None:
    """Every command succeeds, from an empty sandbox to a mirror that could take over."""
    activate, *commands = example()
    assert activate == "source .venv/bin/activate"
    script = "\n".join(["set -em", *commands])
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = shell.communicate(timeout=150)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGTERM)
    assert shell.returncode == 0, err
    assert re.search(r"^m1: planned failover: GO", out, re.MULTILINE), out
    level = re.findall(r"^m1 +orders +(\d) +(\d+) +\2 +0(?: +\S+){2} +MIRRORING", out, re.MULTILINE)
    assert {partition for partition, _ in level} == {"0", "1", "2"}, out
