"""All state topics of a destination are lost: its mirror continues where its logs end, at the same offsets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.kafka.failover.both_ways import LAG
from tests.kafka.failover.lost_state import (
    STOPPED,
    TOPICS,
    dumped,
    go,
    identical,
    logs,
    lose,
    states,
    working,
    write,
)

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair


def records_of_mirror(pair: Pair) -> dict[str, str | None]:
    """By key; those that the worker renews, or the restoration stops, without their values."""
    found = {row["key"]: row["value"] for row in dumped(pair, "") if row["key"].split("/")[1] == "dr"}
    return {
        key: None if key.startswith(("ends/", "groups/", "partition/", "topic/")) else json.dumps(value)
        for key, value in found.items()
    }


def test_a_restored_mirror_copies_nothing_again(own: Pair) -> None:
    """Neither what was copied before the export, nor what was copied after it."""
    working(own)
    file = str(own.home / "west.jsonl")
    saved = records_of_mirror(own)
    own.tanist("state", "export", "--file", file)
    write(own, range(200, 220))
    own.tanist("mirrors", "wait", "dr", *LAG)
    lose(own)
    write(own, range(300, 320))
    before = logs(own)
    restored = own.tanist("state", "restore", file, "--json").item
    assert (restored["changed"], restored["topics"]) == (True, list(TOPICS))
    assert records_of_mirror(own).items() >= saved.items()
    assert (states(own), logs(own)) == ({STOPPED}, before)
    own.worker("w2")
    go(own)
    identical(own)


def test_a_mirror_that_is_rebuilt_from_its_logs_copies_nothing_again(own: Pair) -> None:
    working(own)
    (spec,) = (each["value"] for each in dumped(own, "mirror/dr"))
    lose(own)
    write(own, range(300, 320))
    before = logs(own)
    rebuilt = own.tanist("state", "rebuild", "--source", "east", "--mirror", "dr", "--topic", "lost.*", "--json")
    assert [each["topic"] for each in json.loads(rebuilt.out)["items"]] == list(TOPICS)
    (again,) = (each["value"] for each in dumped(own, "mirror/dr"))
    assert [again[name] for name in ("data_id", "filler_id")] == [spec[name] for name in ("data_id", "filler_id")]
    assert (states(own), logs(own)) == ({STOPPED}, before)
    own.worker("w2")
    go(own)
    identical(own)
