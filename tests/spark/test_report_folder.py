"""Results on a file system that only Spark reaches: here `viewfs:`, Hadoop's mount table, which needs no service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.errors import CouldNotTell, Misconfigured
from tanist.spark.report_folder import ReportFolder, published

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAMES: Final = ("report.html", "result.json")


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path) -> tuple[str, Path]:
    """The URI of a folder, and where its files really are."""
    real = tmp_path / "real"
    real.mkdir()
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # a user sets it as spark.hadoop.*
    settings.set(f"fs.viewfs.mounttable.{tmp_path.name}.link./reports", real.as_uri())
    return f"viewfs://{tmp_path.name}/reports/our first", real / "our first"


def results(folder: Path, names: tuple[str, ...] = NAMES, of: str = "this") -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(f"{name} of {of} run")
    return folder


def shown(folder: Path) -> dict[str, str]:
    """Files by name; checksums that Hadoop keeps beside them are not ours."""
    return {file.name: file.read_text() for file in folder.iterdir() if file.suffix != ".crc"}


def test_results_are_in_the_folder_when_they_are_complete(
    spark: SparkSession, mounted: tuple[str, Path], tmp_path: Path
) -> None:
    """Those of an earlier run are gone before anything is computed, and files of others stay."""
    uri, real = mounted
    results(real.parent / "our first", of="an earlier")
    (real / "notes").write_text("of somebody else")
    with published(spark, uri, NAMES, "r1", tmp_path / "local 100%"):
        assert shown(real) == {"notes": "of somebody else"}
        results(tmp_path / "local 100%")
    assert shown(real) == {name: f"{name} of this run" for name in NAMES} | {"notes": "of somebody else"}
    assert shown(tmp_path / "local 100%").keys() == set(NAMES)


def test_a_job_that_fails_leaves_no_result(spark: SparkSession, mounted: tuple[str, Path], tmp_path: Path) -> None:
    uri, real = mounted
    with pytest.raises(CouldNotTell, match="of the job"), published(spark, uri, NAMES, "r1", tmp_path / "local"):
        raise CouldNotTell("of the job")
    assert shown(real) == {}


def test_results_that_cannot_be_written_are_named_with_where_they_are(
    spark: SparkSession, mounted: tuple[str, Path], tmp_path: Path
) -> None:
    """The last file says that all are there: it is not written without the others."""
    uri, real = mounted
    folder = ReportFolder(spark, uri, NAMES, "r1")
    folder.prepare()
    local = results(tmp_path / "local", ("result.json",))
    with pytest.raises(CouldNotTell) as failed:
        folder.publish(local)
    assert f"the results could not be written to {uri}: " in failed.value.reason
    assert "report.html" in failed.value.reason
    assert f"copy them from {local}" in failed.value.reason
    assert shown(real) == {}


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("nosuch://host/reports", 'No FileSystem for scheme "nosuch"'),
        ("viewfs://nosuch/reports", "nosuch"),
        ("hdfs://127.0.0.1:1/reports", "refused"),
        ("s3a://bucket/reports", "S3AFileSystem not found"),
        ("file:///proc/nosuch", "/proc/nosuch"),
    ],
)
def test_a_folder_that_spark_cannot_write_to_is_bad_input(spark: SparkSession, uri: str, reason: str) -> None:
    """Path, reason, next step; and it is found before anything is computed."""
    computed: list[str] = []
    with pytest.raises(Misconfigured) as failed, published(spark, uri, NAMES, "r1", None):  # type: ignore[arg-type]
        computed.append(uri)
    assert not computed
    assert f"results cannot be written to {uri}: " in failed.value.reason
    assert reason in failed.value.reason
    assert "--properties-file" in failed.value.reason
    assert "\n" not in failed.value.reason
