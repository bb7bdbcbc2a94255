"""All state topics of a destination are lost: its mirror continues where its logs end, at the same offsets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from confluent_kafka import Producer

from tanist.domain.names import MirrorPartition
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
from tests.kafka.fetcher.rig import transact

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


def test_a_mirror_with_mapped_offsets_is_rebuilt_from_its_positions_and_both_logs(own: Pair) -> None:
    """Its map is as exact as before, also where it had been published and was lost; and it copies nothing again."""
    own.worker()
    name = "mapped"
    own.east.topic(name, 1)
    producer = Producer(own.east.client(transactional_id=uuid4().hex, linger_ms="0"))
    producer.init_transactions(20)
    mapped = ("--offsets", "mapped", "--transaction-ms", "50")
    own.tanist("mirrors", "create", name, "--source", "east", "--topic", name, *mapped)
    for n in range(160):
        transact(producer, MirrorPartition(name, 0), [b"%d-%d" % (n, m) for m in range(n % 4 + 1)], commit=n % 8 > 0)
    own.tanist("mirrors", "wait", name, *LAG)
    stored = {each["key"]: each["value"] for each in dumped(own, "")}
    assert any(key.startswith(f"ranges/{name}/") for key in stored), "what is published is lost, too"
    spec = stored[f"mirror/{name}"]
    lose(own)
    assert own.east.writes(name, range(300, 320), partitions=1)
    done = own.tanist("state", "rebuild", "--source", "east", "--mirror", name, "--topic", name, "--json")
    (again,) = (each["value"] for each in dumped(own, f"mirror/{name}"))
    assert [again[key] for key in ("mirror_id", "transactional_id")] == [
        spec[key] for key in ("mirror_id", "transactional_id")
    ]
    assert "delivery is exactly-once, as its positions show" in done.err
    assert "translated to a lower bound" not in done.err
    assert exact(own, name)
    repeated = own.tanist("state", "rebuild", "--source", "east", "--mirror", name, "--topic", name, "--json")
    assert not repeated.item["changed"]
    own.worker("w2")
    own.tanist("mirrors", "resume", name, "--topic", name)
    own.tanist("mirrors", "wait", name, *LAG)
    assert exact(own, name)
    source, copy = (
        [(p, v) for p, _, v in side.read(name, 1, isolation="read_committed")] for side in (own.east, own.west)
    )
    assert copy == source


def exact(pair: Pair, topic: str) -> int:
    """How many positions are translated, all of them to their very next record."""
    source, copy = (
        [offset for _, offset, _ in side.read(topic, 1, isolation="read_committed")] for side in (pair.east, pair.west)
    )
    file = pair.home / "positions.json"
    asked = [{"topic": topic, "partition": 0, "offset": each} for each in source[: len(copy)]]
    file.write_text(json.dumps(asked))
    told = json.loads(pair.tanist("offsets", "lookup", topic, "--file", str(file), "--json").out)["items"]
    assert [(each["destination_offset"], each["precision"]) for each in told] == [(each, "exact") for each in copy]
    return len(told)
