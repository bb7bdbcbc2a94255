"""Where a job runs, and what it is told of it: nothing of this machine goes to a cluster, and no login in clear."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from tanist.domain.endpoint import Secret, Tls
from tanist.domain.errors import Misconfigured
from tanist.spark.carried import carry_files
from tanist.spark_submit.place import LOCAL, DeployMode, SparkPlace
from tanist.spark_submit.submission import Submission, environment

if TYPE_CHECKING:
    from pathlib import Path


def settings(scratch: Path, **place: object) -> dict[str, str]:
    submission = Submission(application="", job=None, folder=scratch, place=SparkPlace(**place))  # type: ignore[arg-type]
    return dict(submission.settings(scratch))


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", "k8s://https://k"])
def test_no_loopback_address_and_no_local_path_goes_to_a_cluster(tmp_path: Path, master: str) -> None:
    """What only the driver is told may name its folder."""
    told = settings(tmp_path, master=master)
    of_driver = told.pop("spark.driver.extraJavaOptions") + told.pop("spark.pyspark.driver.python")
    assert str(tmp_path) in of_driver
    assert not [name for name, value in told.items() if "127.0.0.1" in value or str(tmp_path) in value]
    there = environment(tmp_path, SparkPlace(master=master))
    assert not {"SPARK_LOCAL_IP", "PYSPARK_PYTHON"} & there.keys()
    assert told["spark.pyspark.python"] == LOCAL.python


@pytest.mark.parametrize(("master", "ours"), [("spark://m:7077", None), ("yarn", "true"), ("k8s://https://k", "true")])
def test_encryption_is_turned_on_where_spark_makes_the_secret(tmp_path: Path, master: str, ours: str | None) -> None:
    """A standalone cluster must share it: set by an application alone it could not register."""
    told = settings(tmp_path, master=master)
    assert told.get("spark.network.crypto.enabled") == told.get("spark.authenticate") == ours
    assert told["spark.io.encryption.enabled"] == "true"


def test_an_image_gets_no_packages(tmp_path: Path) -> None:
    there = Submission(application="", job=None, folder=tmp_path, place=SparkPlace(master="yarn", image=True))
    assert there.shipped(tmp_path).keys() == {"py-files"}
    assert "spark.executorEnv.PYTHONPATH" not in there.settings(tmp_path)


@pytest.mark.parametrize("wrong", [{"master": "mesos://m"}, {"properties": "none"}])
def test_a_place_that_cannot_be_is_bad_input(tmp_path: Path, wrong: dict[str, str]) -> None:
    values = {name: tmp_path / value if name == "properties" else value for name, value in wrong.items()}
    with pytest.raises(Misconfigured):
        SparkPlace(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("local[*]", "is not a Spark cluster"),
        ("spark://m:7077", "no cluster mode for Python applications on standalone clusters"),
        ("yarn", "would upload the file with the logins"),
        ("k8s://https://k", "would upload the file with the logins"),
    ],
)
def test_cluster_mode_is_refused_with_the_reason(master: str, reason: str) -> None:
    with pytest.raises(Misconfigured, match=reason):
        SparkPlace(master=master, deploy_mode=DeployMode.CLUSTER)


def test_settings_cannot_turn_cluster_mode_on(tmp_path: Path) -> None:
    """spark-submit would take `spark.submit.deployMode` from the file, if the command did not say it."""
    file = tmp_path / "spark.properties"
    file.write_text("spark.submit.deployMode cluster\n")
    place = SparkPlace(master="yarn", image=True, properties=file)
    submission = Submission(application="data_validation.py", job=None, folder=tmp_path, place=place)
    command = submission.command(tmp_path / "job.json")
    assert command[command.index("--deploy-mode") + 1] == "client"


def test_certificates_travel_without_their_files(tmp_path: Path) -> None:
    """And again from where they have come to, as Spark's planning does."""
    carry_files()
    for name in ("ca", "key"):
        (tmp_path / name).write_text(f"of {name}")
    sent = Tls(ca_location=str(tmp_path / "ca"), key_location=str(tmp_path / "key"), key_password=Secret("p"))
    once = pickle.dumps(sent)
    for name in ("ca", "key"):
        (tmp_path / name).unlink()
    come = pickle.loads(pickle.dumps(pickle.loads(once)))  # noqa: S301  # our own
    assert come.certificate_location is None
    assert (come.key_password, come.verify_hostname) == (sent.key_password, True)
    for name, where in (("ca", come.ca_location), ("key", come.key_location)):
        with open(where, encoding="utf-8") as file:  # noqa: PTH123
            assert file.read() == f"of {name}"
    with pytest.raises(Misconfigured, match="cannot be read"):
        pickle.dumps(sent)
