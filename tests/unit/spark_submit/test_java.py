"""What the user is told before anything was tried."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import DownloadFailed, MissingDependency
from tanist.spark_submit.jars import java
from tanist_testkit.sandbox import jars

if TYPE_CHECKING:
    from pathlib import Path


def fake_java(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = directory / "java"
    fake.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependency, match=r"no `java` on PATH.*version 17 or newer"):
        java()


@pytest.mark.parametrize(("version", "shown"), [("11.0.22", "Java 11.0.22"), ("1.8.0_402", "Java 8.0_402")])
def test_too_old(version: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, f"echo 'openjdk version \"{version}\" 2024-01-16' >&2", monkeypatch)
    with pytest.raises(MissingDependency, match=f"{shown}: Java 17 or newer is needed"):
        java()


@pytest.mark.parametrize("version", ["17", "17.0.15", "21-ea", "25.0.1"])
def test_new_enough(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, f"echo 'openjdk version \"{version}\" 2024-01-16' >&2", monkeypatch)
    assert java() == str(tmp_path / "java")


def test_a_java_that_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "exit 1", monkeypatch)
    with pytest.raises(MissingDependency, match="does not report its version"):
        java()


def test_a_failed_download_names_its_log_and_leaves_no_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "echo 'version \"17\"' >&2; echo UNRESOLVED DEPENDENCIES; [ $1 = -version ]", monkeypatch)
    monkeypatch.setenv("TANIST_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DownloadFailed, match=r"kafka_2\.13-4\.3\.1\.log") as refused:
        jars.class_path()
    log = tmp_path / "cache/jars/kafka_2.13-4.3.1.log"
    assert str(log) in str(refused.value)
    assert "UNRESOLVED" in log.read_text(encoding="utf-8")
    assert not [path for path in log.parent.iterdir() if path.is_dir()]


DOWNLOADING = r"""
echo 'version "17"' >&2; [ $1 = -version ] && exit 0
printf '\tfound org.apache.kafka#kafka_2.13;4.3.1 in central\n'
echo 'downloading https://jars.example/kafka_2.13-4.3.1.jar ...'
echo '........ (5300kB)'; echo '.. (0kB)'
echo 'downloading https://jars.example/kafka-clients-4.3.1.jar ...'
echo '................ (10400kB)'
echo '46 artifacts copied, 0 already retrieved (43980kB/133ms)'; exit 1
"""


def test_a_download_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first demo on a machine said "starting 2 brokers" for a minute."""
    fake_java(tmp_path, DOWNLOADING, monkeypatch)
    monkeypatch.setenv("TANIST_CACHE", str(tmp_path / "cache"))
    heard: list[str] = []
    with pytest.raises(DownloadFailed):
        jars.class_path(say=heard.append)
    assert heard[0].startswith("downloading Kafka 4.3.1, 0 of 44 MB")
    assert heard[-1].startswith("downloading Kafka 4.3.1, 15 of 44 MB")


def test_no_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "echo 'version \"17\"' >&2", monkeypatch)
    monkeypatch.setenv("TANIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tanist.spark_submit.jars.find_spec", lambda _: None)
    with pytest.raises(MissingDependency, match=r"tanist\[spark\]"):
        jars.class_path()


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java")
def test_what_is_cached_is_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars" / str(jars.KAFKA)).mkdir(parents=True)
    monkeypatch.setenv("TANIST_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(sys.prefix))
    assert jars.class_path() == f"{tmp_path}/jars/kafka_2.13-4.3.1/*"
