"""The composition root: the only package that connects adapters to use cases."""

from __future__ import annotations

from tanist.wiring.dump import dump, follow
from tanist.wiring.fetcher import run_fetcher, worker_store
from tanist.wiring.host import host_checks
from tanist.wiring.registry import ClusterRegistry

__all__ = ["ClusterRegistry", "dump", "follow", "host_checks", "run_fetcher", "worker_store"]
