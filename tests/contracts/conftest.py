"""Clusters of this folder, and those of the whole session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tanist.wire.messages  # noqa: F401  # kafka-python is loaded through the door that filters its warnings
from tanist.sandbox.cluster import Cluster
from tanist.sandbox.spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.sandbox.processes import Guardian


@pytest.fixture(scope="package")
def guarded(guardian: Guardian) -> Iterator[Cluster]:
    """One broker with an authorizer; users other than `admin` start without any right."""
    with Cluster.new(ClusterSpec(name="guarded", authorizer=True, heap_mb=384), guardian=guardian) as cluster:
        yield cluster
