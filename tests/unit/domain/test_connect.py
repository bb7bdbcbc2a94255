"""Groups of Kafka Connect are told from others by what Connect calls them and their consumers."""

from __future__ import annotations

import pytest

from tanist.domain.connect import is_sink, sink_note


@pytest.mark.parametrize(
    ("group", "client_ids", "is_one"),
    [
        ("connect-jdbc-sink", (), True),
        ("connect-jdbc-sink", ("rdkafka",), True),
        ("orders-to-s3", ("connector-consumer-orders-to-s3-0", "connector-consumer-orders-to-s3-1"), True),
        ("orders-to-s3", (), False),
        ("my-connect-group", ("consumer-my-connect-group-1",), False),
        ("connector", ("connector-producer-x-0",), False),
    ],
)
def test_a_sink_is_known_by_its_group_or_by_its_consumers(
    group: str, client_ids: tuple[str, ...], is_one: bool
) -> None:
    assert is_sink(group, client_ids) is is_one
    assert ("tanist offsets lookup" in sink_note(group, client_ids)) is is_one
