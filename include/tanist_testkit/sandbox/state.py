"""What is remembered of a cluster on disk, so that a later command finds it again: `cluster.json`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from tanist.domain.errors import Misconfigured
from tanist_testkit.sandbox.ports import free_ports
from tanist_testkit.sandbox.processes import Process
from tanist_testkit.sandbox.properties import Layout
from tanist_testkit.sandbox.spec import ClusterSpec

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "cluster.json"


@dataclass(slots=True, kw_only=True)
class ClusterState:
    """`processes` holds the nodes that shall be running, by node id; one of them may have crashed.

    `formatted`: its files are there, so it is started with what it holds.
    """

    spec: ClusterSpec
    layout: Layout
    cluster_id: str = ""
    formatted: bool = False
    processes: dict[int, Process] = field(default_factory=dict)

    @classmethod
    def new(cls, spec: ClusterSpec, directory: Path) -> Self:
        """One that was never started, on ports that are free now."""
        controller, *chosen = free_ports(1 + (0 if spec.ports else spec.brokers))
        ports = dict(zip(spec.broker_ids, spec.ports or chosen, strict=True))
        return cls(spec=spec, layout=Layout(directory=directory, ports=ports, controller_port=controller))

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Raises Misconfigured when there is no cluster in `directory`, or its file cannot be read."""
        try:
            read = json.loads((directory / FILE).read_text(encoding="utf-8"))
            return cls._of(directory, read)
        except FileNotFoundError:
            raise Misconfigured(f"no cluster in {directory}: start one with `tanist sandbox up`") from None
        except (ValueError, KeyError, TypeError) as problem:
            raise Misconfigured(f"{directory / FILE} is damaged ({problem}): remove {directory}") from problem

    @classmethod
    def _of(cls, directory: Path, read: dict[str, Any]) -> Self:
        ports = {int(node): port for node, port in read["ports"].items()}
        return cls(
            spec=ClusterSpec(**read["spec"] | {"ports": tuple(read["spec"]["ports"])}),
            layout=Layout(directory=directory, ports=ports, controller_port=read["controller_port"]),
            cluster_id=read["cluster_id"],
            formatted=read["formatted"],
            processes={int(node): Process(**process) for node, process in read["processes"].items()},
        )

    def save(self) -> None:
        """Replaces the file in one go: a reader, or a crash, sees the old one or the new one."""
        shown = {
            "spec": asdict(self.spec),
            "ports": self.layout.ports,
            "controller_port": self.layout.controller_port,
            "cluster_id": self.cluster_id,
            "formatted": self.formatted,
            "processes": {node: asdict(process) for node, process in self.processes.items()},
        }
        file = self.layout.directory / FILE
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(shown, indent=1), encoding="utf-8")
        fresh.replace(file)
