"""Where a job runs: on this machine, or on a Spark cluster."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMES: Final = ("local", "spark://", "yarn", "k8s://")


class DeployMode(StrEnum):
    """Where Spark's driver runs: where the job is submitted, or on the Spark cluster."""

    CLIENT, CLUSTER = "client", "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """`master`: as spark-submit takes it. The rest is of no concern to `local`.

    `deploy_mode`: CLUSTER is refused with the reason.
    `properties`: a file of Spark settings, as the secret that a standalone cluster shares with its applications.
    `python`: of the executors, a path or a name on their PATH; also there where the driver runs.
    `image`: the executors' Python has all that the job needs; nothing is sent but Tanist itself.
    `unencrypted`: logins may be sent to executors over connections that Spark does not encrypt.
    `ui`: Spark's own pages are served while the job runs.
    """

    master: str = "local[*]"
    deploy_mode: DeployMode = DeployMode.CLIENT
    properties: Path | None = None
    python: str = f"python{sys.version_info.major}.{sys.version_info.minor}"
    image: bool = False
    unencrypted: bool = False
    ui: bool = False

    def __post_init__(self) -> None:
        if not self.master.startswith(_SCHEMES):
            raise Misconfigured(f"{self.master!r} is not a master of Spark: local[*], spark://, yarn, k8s://")
        if self.deploy_mode is not DeployMode.CLIENT:
            raise Misconfigured(f"deploy mode {self.deploy_mode} is not supported: {_no_cluster_mode(self.master)}")
        if self.properties is not None and not self.properties.is_file():
            raise Misconfigured(f"{self.properties} is not a file of Spark settings")

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def encrypts_itself(self) -> bool:
        """YARN and Kubernetes give each application a secret of its own."""
        return self.master.startswith(("yarn", "k8s://"))


def _no_cluster_mode(master: str) -> str:
    """Why the driver cannot run on the Spark cluster."""
    if master.startswith("local"):
        return f"{master} is not a Spark cluster"
    if master.startswith("spark://"):
        return "Spark has no cluster mode for Python applications on standalone clusters"
    return (
        "Spark would upload the file with the logins of Kafka to the cluster's storage; "
        "run the command where the driver shall run (docs/spark.md)"
    )


LOCAL: Final = SparkPlace()
