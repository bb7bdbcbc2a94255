"""Two clusters and groups that read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fetcher.rig import Rig, Side

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.sandbox.cluster import Cluster


@pytest.fixture(scope="session")
def sides(clusters: Mapping[str, Cluster]) -> Iterator[tuple[Side, Side]]:
    both = Side(clusters["east"]), Side(clusters["west"])
    yield both
    for side in both:
        side.close()


@pytest.fixture
def rig(sides: tuple[Side, Side]) -> Rig:
    """From `east` to `west`: topics and groups of the test's own."""
    return Rig(*sides)


@pytest.fixture
def group_name(topic_name: str) -> str:
    """A group that nobody else has, with characters that are dangerous in a path."""
    return f"team/a b%2F ü·{topic_name}"
