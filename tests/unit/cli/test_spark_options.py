"""Where a Spark job runs and where its results go, as people type it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tanist.cli.spark_options import results_in

if TYPE_CHECKING:
    from tests.kafka.cli.conftest import Tanist

DEFAULT = Path("validation/dr")


@pytest.mark.parametrize(
    ("typed", "folder"),
    [
        (None, DEFAULT),
        ("reports/a:b", Path("reports/a:b")),
        ("/srv/reports", Path("/srv/reports")),
        ("file:///srv/our%20reports", Path("/srv/our reports")),
        ("file:/srv/reports", Path("/srv/reports")),
        ("file://localhost/srv", Path("/srv")),
    ],
)
def test_a_report_is_a_path_or_a_uri_of_this_machine(typed: str | None, folder: Path) -> None:
    assert results_in(typed, DEFAULT) == (folder, "")


@pytest.mark.parametrize("uri", ["hdfs://namenode/reports", "s3a://bucket/reports", "abfss:/reports"])
def test_a_report_on_another_file_system_is_kept_here_too(uri: str) -> None:
    """The job once made a folder `hdfs:` here, and said that the results were at the URI."""
    found = results_in(f"{uri}/", DEFAULT)
    assert found == (DEFAULT, uri)
    assert found.shown == uri


@pytest.mark.parametrize("command", [("validate", "dr"), ("reconcile", "dr")])
def test_a_file_of_another_machine_is_bad_input(
    tanist: Tanist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, str]
) -> None:
    """It is not taken for a folder of this machine."""
    monkeypatch.chdir(tmp_path)
    uri = "file://elsewhere/reports"
    answer = tanist(*command, "--bootstrap-server", "127.0.0.1:1", "--report", uri)
    assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
    assert uri in answer.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["validate", "reconcile"])
def test_cluster_mode_is_refused_before_a_cluster_is_asked(tanist: Tanist, command: str) -> None:
    asked = (command, "dr", "--bootstrap-server", "127.0.0.1:1", "--master", "spark://m:7077")
    answer = tanist(*asked, "--deploy-mode", "cluster")
    assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
    assert "no cluster mode for Python applications" in answer.err


def test_only_a_reconciliation_of_a_mirror_can_be_published(tanist: Tanist) -> None:
    """Nothing is asked, and no job is started."""
    topics = ("--source", "east", "--source-topic", "orders", "--bootstrap-server", "127.0.0.1:1")
    answer = tanist("reconcile", *topics, "--publish")
    assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
    assert "give its name" in answer.err
