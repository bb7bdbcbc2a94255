"""`astro.yaml` is a Deployment file that Astro takes, of this project, and holds no secret."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
import yaml

from tanist.airflow import connections
from tanist_testkit.sandbox.airflow.config import MASKED
from tests.airflow.conftest import ROOT

TEXT: Final = (ROOT / "astro.yaml").read_text(encoding="utf-8")
CONFIGURATION: Final = set(
    re.findall(
        r"\w+",
        "name description runtime_version dag_deploy_enabled ci_cd_enforcement scheduler_size is_high_availability "
        "is_development_mode executor scheduler_au scheduler_count cluster_name workspace_name deployment_type "
        "cloud_provider region default_task_pod_cpu default_task_pod_memory resource_quota_cpu resource_quota_memory "
        "default_worker_type workload_identity remote_execution",
    )
)
QUEUE: Final = set(
    re.findall(
        r"\w+",
        "name max_worker_count min_worker_count worker_concurrency worker_type pod_cpu pod_ram pod_ephemeral_storage",
    )
)
OURS: Final = {value for value in vars(connections).values() if str(value).startswith("TANIST_")}
PARTS: Final = {"environment_variables", "configuration", "worker_queues", "alert_emails"}
"""`metadata` is what Astro writes; `hibernation_schedules` would let a deployment sleep that has to be awake."""


@pytest.fixture
def deployment() -> dict[str, Any]:
    file: dict[str, Any] = yaml.safe_load(TEXT)
    assert set(file) == {"deployment"}
    return dict(file["deployment"])


@pytest.fixture
def variables_of(deployment: dict[str, Any]) -> dict[str, str]:
    return {each["key"]: each["value"] for each in deployment["environment_variables"]}


def test_every_key_is_one_that_astro_knows(deployment: dict[str, Any]) -> None:
    """Astro's command line ignores what it does not know, silently."""
    assert set(deployment) <= PARTS
    assert set(deployment["configuration"]) <= CONFIGURATION
    for queue in deployment["worker_queues"]:
        assert set(queue) <= QUEUE
    for variable in deployment["environment_variables"]:
        assert set(variable) == {"key", "value", "is_secret"}


def test_what_astro_demands_is_there(deployment: dict[str, Any]) -> None:
    configuration = deployment["configuration"]
    assert configuration["name"] == "tanist"
    assert configuration["executor"] in {"AstroExecutor", "CeleryExecutor", "KubernetesExecutor"}
    assert configuration["deployment_type"] in {"STANDARD", "DEDICATED", "HYBRID"}
    assert configuration["scheduler_size"] in {"SMALL", "MEDIUM", "LARGE", "EXTRA_LARGE"}
    assert re.fullmatch(r"3\.3-\d+", configuration["runtime_version"]), "of the Airflow that pyproject.toml asks for"
    assert "default" in [queue["name"] for queue in deployment["worker_queues"]]
    for queue in deployment["worker_queues"]:
        assert queue["min_worker_count"] >= 1
        assert queue["max_worker_count"] >= queue["min_worker_count"]
        assert queue["worker_type"]
    assert not configuration["is_development_mode"]


def test_what_it_sets_is_read_by_somebody(variables_of: dict[str, str]) -> None:
    """Each variable is one of ours or an option of Airflow; each value is text, which an unquoted `on` is not."""
    from airflow.configuration import conf  # noqa: PLC0415 -- its settings are made by conftest

    for key, value in variables_of.items():
        assert isinstance(value, str), key
        assert value, key
        if match := re.fullmatch(r"AIRFLOW__([A-Z_]+?)__([A-Z_]+)", key):
            section, option = (part.lower() for part in match.groups())
            assert option in conf.configuration_description[section]["options"], key
        else:
            assert key in OURS
    assert variables_of["AIRFLOW__CORE__SENSITIVE_VAR_CONN_NAMES"].split(",") == list(MASKED)


def test_what_it_sets_is_understood(variables_of: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in variables_of.items():
        monkeypatch.setenv(key, value)
    assert connections.destinations() == ("west",)
    assert len(connections.approvers()) > 1, "with four eyes one approver can never ask"
    assert connections.four_eyes()


def test_the_guide_says_the_same(deployment: dict[str, Any], variables_of: dict[str, str]) -> None:
    """docs/deploy.md names all that can be set, and the image of the runtime."""
    guide = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\| `([A-Z_]+)` \|", guide)) == OURS | set(variables_of)
    assert f"runtime:{deployment['configuration']['runtime_version']}-python-3.1" in guide


def test_the_images_of_the_guide_have_all_that_its_dags_need() -> None:
    """Airflow's operator submits to the Spark within the image, which needs Java and a pyspark that is one pyspark."""
    guide = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    images = re.findall(r"^```dockerfile\n(.+?)^```", guide, re.DOTALL | re.MULTILINE)
    assert len(images) == 2
    for image in images:
        assert "[airflow,spark]" in image
        assert "uninstall -y pyspark-client" in image
        assert "default-jre-headless" in image or "`packages.txt` of one line, `default-jre-headless`" in guide
    unreported = {
        file.stem for file in (ROOT / "dags").glob("*.py") if f"`{file.stem}`" not in guide.partition("Then unpause")[2]
    }
    assert not unreported


def test_it_holds_no_secret(deployment: dict[str, Any]) -> None:
    """Neither one that is marked as such, nor a connection, nor anything that is called like one."""
    for variable in deployment["environment_variables"]:
        assert variable["is_secret"] is False
        assert not re.search(r"PASSWORD|SECRET|TOKEN|_KEY$|CONN_(?!NAMES)", variable["key"]), variable["key"]
        assert "://" not in variable["value"]


@pytest.mark.parametrize(
    "size", ["runtime_version", "scheduler_size", "worker_type", "worker_concurrency", "deployment_type"]
)
def test_a_size_says_why(size: str) -> None:
    """Beside it or above it."""
    lines = TEXT.splitlines()
    (at,) = [number for number, line in enumerate(lines) if re.match(rf"\s*(- )?{size}:", line)]
    assert "# " in lines[at] or lines[at - 1].lstrip().startswith("# ")
    assert "triggerers" in TEXT
