"""One object for each cluster of a command, whatever roles it has in mirrors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import EpochMs, MirrorName, ProducerId
from tanist.domain.records import MirrorSpec
from tanist.settings import load
from tanist.wiring.registry import ClusterRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HERE = MirrorSpec(
    mirror=MirrorName("dr"),
    source="east",
    destination="west",
    source_cluster_id="id-east",
    destination_cluster_id="id-west",
    data_id=ProducerId(1),
    marker_id=ProducerId(2),
    start_id=ProducerId(3),
    created_at=EpochMs(0),
)
BACK = replace(HERE, source="west", destination="east", source_cluster_id="id-west", destination_cluster_id="id-east")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ClusterRegistry]:
    """No broker is behind its clusters."""
    file = tmp_path / "tanist.toml"
    file.write_text('[clusters.east]\nbootstrap_servers = "e:1"\n[clusters.west]\nbootstrap_servers = "w:1"\n')
    with ClusterRegistry(load(file, {})) as registry:
        yield registry


def answers(registry: ClusterRegistry, name: str, cluster_id: str, pinned: str | None = None) -> None:
    """As after the first answer of a broker."""
    registry.open(name, pinned).router.cluster_id = cluster_id


def test_the_destination_of_one_mirror_is_the_source_of_another_in_one_object(registry: ClusterRegistry) -> None:
    """They were two, each with a reader of the same state topic: one command saw two states of one cluster."""
    west = registry.connect("west")
    answers(registry, "west", "id-west")
    assert registry.source(BACK) is west
    assert registry.open("west", "id-west") is registry.open("west")


def test_the_source_of_one_mirror_is_the_destination_of_another_in_one_object(registry: ClusterRegistry) -> None:
    source = registry.source(HERE)
    answers(registry, "east", "id-east", pinned="id-east")
    assert registry.connect("east") is source
    assert registry.open("east").router.cluster_id == "id-east"


def test_both_directions_of_a_mirror_have_the_same_two_clusters(registry: ClusterRegistry) -> None:
    """As a reversal opens them: the mirror on its destination, then as the old source has it on record."""
    west = registry.connect("west")
    answers(registry, "west", "id-west")
    here = registry.mirror(HERE, west)
    answers(registry, "east", "id-east", pinned="id-east")
    assert not isinstance(here.source, Exception)
    back = registry.mirror(BACK, here.source)
    assert back.source is here.destination
    assert len({id(registry.open(*each)) for each in CONNECTIONS}) == 2


CONNECTIONS = [("east", None), ("east", "id-east"), ("west", None), ("west", "id-west")]


def test_a_cluster_that_answers_under_the_name_of_a_source_is_not_taken_for_it(registry: ClusterRegistry) -> None:
    west = registry.connect("west")
    answers(registry, "west", "id-of-another")
    source = registry.source(BACK)
    assert source is not west
    assert registry.source(BACK) is source, "always the same one"
    assert registry.connect("west") is west


def test_a_name_that_nobody_has_answered_under_has_an_object_for_each_role(registry: ClusterRegistry) -> None:
    """Any cluster may be a destination, only the pinned one a source."""
    assert registry.connect("west") is not registry.source(BACK)


def test_a_cluster_that_is_a_source_too_accepts_no_other_one_any_more(registry: ClusterRegistry) -> None:
    registry.connect("west")
    answers(registry, "west", "id-west")
    registry.source(BACK)
    assert registry.open("west").router.pinned == "id-west"
