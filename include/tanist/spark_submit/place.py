"""Where a job runs: on this machine, or on a Spark cluster."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Misconfigured

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMES: Final = ("local", "spark://", "yarn", "k8s://")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """`master`: as spark-submit takes it. The rest is of no concern to `local`.

    `properties`: a file of Spark settings, as the secret that a standalone cluster shares with its applications.
    `python`: of the executors, a path or a name on their PATH; also there where the driver runs.
    `image`: the executors' Python has all that the job needs; nothing is sent but Tanist itself.
    `unencrypted`: logins may be sent to executors over connections that Spark does not encrypt.
    `ui`: Spark's own pages are served while the job runs.
    """

    master: str = "local[*]"
    properties: Path | None = None
    python: str = f"python{sys.version_info.major}.{sys.version_info.minor}"
    image: bool = False
    unencrypted: bool = False
    ui: bool = False

    def __post_init__(self) -> None:
        if not self.master.startswith(_SCHEMES):
            raise Misconfigured(f"{self.master!r} is not a master of Spark: local[*], spark://, yarn, k8s://")
        if self.properties is not None and not self.properties.is_file():
            raise Misconfigured(f"{self.properties} is not a file of Spark settings")

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def encrypts_itself(self) -> bool:
        """YARN and Kubernetes give each application a secret of its own."""
        return self.master.startswith(("yarn", "k8s://"))


LOCAL: Final = SparkPlace()
