"""What makes nodes start in half the time, and never is in the way."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tanist_testkit.sandbox import jars
from tanist_testkit.sandbox.class_archive import kafka_java
from tests.unit.spark_submit.test_java import fake_java

if TYPE_CHECKING:
    from pathlib import Path

TOOL = ("kafka.tools.StorageTool", "random-uuid")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kafka's jars are there, and nothing else."""
    real = jars.class_path().removesuffix("/*")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / str(jars.KAFKA)).symlink_to(real)
    monkeypatch.setenv("TANIST_CACHE", str(tmp_path))
    return tmp_path / "jars"


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_it_is_made_once_java_takes_it_and_a_damaged_one_only_costs_time(cache: Path) -> None:
    command = kafka_java()
    (archive,) = cache.glob("*.jsa")
    made = archive.stat()
    assert f"-XX:SharedArchiveFile={archive}" in command
    assert kafka_java() == command
    assert archive.stat() == made
    assert "shared objects file (top)" in output_of(*command, "-Xlog:class+load", *TOOL)
    assert not [path for path in cache.iterdir() if path.name.startswith(".")], "nothing half is left"
    archive.chmod(0o600)
    archive.write_bytes(b"damaged")
    assert "shared objects file (top)" not in output_of(*command, "-Xlog:class+load", *TOOL)


def test_a_java_that_makes_none_is_not_asked_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = cache / "asked"
    fake_java(cache, f"echo 'version \"17\"' >&2; [ $1 = -version ] || {{ echo x >> {asked}; exit 1; }}", monkeypatch)
    plain = (str(cache / "java"), "-cp", jars.class_path())
    assert kafka_java() == plain
    assert kafka_java() == plain
    assert asked.read_text() == "x\n"
