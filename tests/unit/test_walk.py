"""How far a reader goes who follows one command."""

from __future__ import annotations

from bench.walk import walk


def test_status_passes_few_packages_and_hardly_ever_comes_back() -> None:
    """It passed 19 places with 16 returns: facts of a failover came through a callback."""
    found = walk("tanist.cli.health:status")
    assert {"tanist.cli", "tanist.wiring", "tanist.usecases", "tanist.kafka"} <= set(found.packages)
    assert len(found.packages) <= 8
    assert found.returns <= 3, found.visits
