"""What benchmarks of one part share: a rig between two clusters of their own, and how figures are told."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.processes import Guardian
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.fetcher.rig import Rig, RigCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def rigged(heap_mb: int) -> Iterator[Rig]:
    """From `east` to `west`, one broker each; both end with the block."""
    with ExitStack() as stack:
        guardian = stack.enter_context(Guardian())
        both = [
            SandboxCluster.new(ClusterSpec(name=name, heap_mb=heap_mb), guardian=guardian) for name in ("east", "west")
        ]
        for cluster in both:
            stack.callback(cluster.close)
            cluster.start()
        source, destination = (RigCluster(cluster) for cluster in both)
        for side in (source, destination):
            stack.callback(side.close)
        yield Rig(source, destination)


def report(measure: Callable[[], dict[str, Any]], missed: Callable[[dict[str, Any]], list[str]]) -> int:
    """Measures, and prints the figures, the load, and the targets that were missed; 1 if any was."""
    before = os.getloadavg()[0]
    found = measure()
    print(json.dumps(found | {"load_average": [round(before, 1), round(os.getloadavg()[0], 1)]}, indent=2))
    for target in (wrong := missed(found)):
        print(f"missed: {target}")
    return 1 if wrong else 0
