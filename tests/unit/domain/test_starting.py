"""Where copies begin: the setting as it is written and stored, and what lies before."""

from __future__ import annotations

import pytest

from tanist.domain.errors import Misconfigured
from tanist.domain.names import MirrorPartition
from tanist.domain.records import OffsetMode
from tanist.domain.starting import outside_copy, start_setting, start_time
from tests.builders import a_mirror, a_topic

MAPPED = a_mirror(offsets=OffsetMode.MAPPED)
AT = MirrorPartition("orders", 1)


@pytest.mark.parametrize(
    ("text", "stored", "time"),
    [
        ("", "", None),
        ("earliest", "", None),
        ("latest", "latest", None),
        ("1700000000000", "1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", "1700000000000", 1_700_000_000_000),
        ("2023-11-14T23:13:20.5+01:00", "1700000000500", 1_700_000_000_500),
    ],
)
def test_a_setting_is_stored_without_doubt_about_its_zone(text: str, stored: str, time: int | None) -> None:
    assert start_setting(text) == stored
    assert start_setting(stored) == stored
    assert start_time(stored) == time


@pytest.mark.parametrize("text", ["-1", "now", "2023-11-14T22:13:20", "\u0661", "1.5", " latest"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="--start"):
        start_setting(text)


def test_what_a_copy_leaves_out_is_on_one_side_only() -> None:
    topic = a_topic("orders", partitions=3, source_starts=(0, 7), copy_starts=(0, 5))
    found = [(each.at_source, each.start, each.until) for each in outside_copy(MAPPED, topic, AT)]
    assert found == [(True, 0, 7), (False, 0, 5)]
    assert list(outside_copy(MAPPED, topic, MirrorPartition("orders", 0))) == []
    assert list(outside_copy(MAPPED, topic, MirrorPartition("orders", 2))) == []  # it was added later
    assert list(outside_copy(a_mirror(), topic, AT)) == []  # adopted: the same records are at the source
