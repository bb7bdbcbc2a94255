"""The one place that introduces adapters to use cases."""

from __future__ import annotations

from tanist.composition.dump import dump, follow
from tanist.composition.fetcher import run_fetcher
from tanist.composition.host import host_checks
from tanist.composition.world import World

__all__ = ["World", "dump", "follow", "host_checks", "run_fetcher"]
