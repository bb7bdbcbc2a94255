"""The mirror's own position, and who else may have committed it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tanist.domain.fake_group import (
    MOST_BYTES,
    CopiedPosition,
    PositionNotOurs,
    copied_position,
    group_of,
    is_fake,
    published,
)
from tanist.domain.names import DestinationOffset, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.offset_map import OffsetRange

THERE: Final = MirrorPartition("orders", 3)
MIRROR, TOPIC = "6f1c0f0e-9f62-4a0c-9a53-0a3f4a5b8f11", "h1Zk3qk0Q2mZ2b1d0aXcVw"
OURS: Final = CopiedPosition(
    SourceOffset(120),
    MIRROR,
    TOPIC,
    DestinationOffset(131),
    7,
    (OffsetRange(SourceOffset(100), DestinationOffset(109)),),
)


def test_what_was_committed_comes_back() -> None:
    assert copied_position(THERE, OURS.position, OURS.metadata, MIRROR, TOPIC) == OURS
    assert len(OURS.metadata.encode()) < MOST_BYTES / 10


def test_a_source_without_topic_ids_proves_itself_by_the_mirror() -> None:
    ours = replace(OURS, source_topic_id="")
    assert copied_position(THERE, ours.position, ours.metadata, MIRROR, "") == ours


def test_no_group_of_a_consumer_is_taken_for_it() -> None:
    names = (
        group_of(MirrorName("dr")),
        "tanist-dr/positions/x",
        "tanist-/positions",
        "tanist-a/b/positions",
        "tanist-dr",
    )
    assert [is_fake(name) for name in names] == [True, False, False, False, False]


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "a consumer's",
        f"{OURS.metadata} more",
        " ".join(OURS.metadata.split(" ")[:4]),
        OURS.metadata.replace(MIRROR, "another"),
        OURS.metadata.replace(TOPIC, "created-again"),
    ],
    ids=["reset by hand", "a consumer", "longer", "cut", "another mirror", "another topic"],
)
def test_an_offset_without_the_proof_of_this_very_mirror_and_topic_is_never_used(metadata: str) -> None:
    with pytest.raises(PositionNotOurs, match="orders-3: offset 120"):
        copied_position(THERE, OURS.position, metadata, MIRROR, TOPIC)


def test_what_is_published_at_the_end_says_where_the_copy_ends() -> None:
    """The last range beside a position may lie before it: where the source has a marker, too, the shift stays."""
    runs = (OffsetRange(SourceOffset(0), DestinationOffset(0)), OffsetRange(SourceOffset(4), DestinationOffset(5)))
    copied = CopiedPosition(SourceOffset(9), "id", "topic", DestinationOffset(10), 3, runs)
    piece = published(MirrorName("dr"), MirrorPartition("orders", 1), copied, "id")
    assert piece.runs == (*runs, OffsetRange(SourceOffset(9), DestinationOffset(10)))
    none = replace(copied, runs=())
    assert published(MirrorName("dr"), MirrorPartition("orders", 1), none, "id").source == copied.position
