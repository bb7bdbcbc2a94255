"""`--adopt`: destination topics that have records are taken into a mirror, or refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Tanist
    from tests.kafka.fetcher.rig import Rig


def copy_starts(tanist: Tanist, mirror: str, topic: str) -> list[int]:
    line = tanist("state", "dump", "-d", "west", "--key", f"topic/{mirror}/{topic}").out
    return list(json.loads(line)["value"]["copy_starts"])


def test_topics_that_have_records_are_adopted_on_request(
    tanist: Tanist, rig: Rig, topic_name: str, configured: Path
) -> None:
    same, later, other, new = (f"{topic_name}.{kind}" for kind in ("same", "later", "other", "new"))
    for name, copied in ((same, b"b"), (later, b"b"), (other, b"x")):
        [at, *_] = rig.create(name, 2)
        for side, value in ((rig.source, b"b"), (rig.destination, copied)):
            side.produce(at, [b"a"])
            side.produce(at, [value])
        rig.source.produce(at, [b"c"])
    rig.source.create(new)
    to_west = ("--source", "east", "--destination", "west")
    plain = tanist("mirrors", "create", topic_name, *to_west, "--topic", same)
    assert (plain.code, plain.errors, "--adopt" in plain.err) == (1, ["DESTINATION_TOPIC_NOT_EMPTY"], True)
    every = ("--topic", f"{topic_name}.*", "--adopt")
    differing = tanist("mirrors", "create", topic_name, *to_west, *every)
    assert (differing.code, differing.errors) == (1, ["DESTINATION_NOT_A_PREFIX"])
    assert f"{other}-0: the first differing offset is 1" in differing.err
    created = tanist("mirrors", "create", topic_name, *to_west, "--topic", f"{same}|{new}", "--adopt")
    assert created.code == 0, created.err
    assert f"adopted {same}: copying begins at offset 2, 0" in created.err
    assert copy_starts(tanist, topic_name, same) == [2, 0]
    assert copy_starts(tanist, topic_name, new) == []
    again = tanist("mirrors", "create", topic_name, *to_west, "--topic", f"{same}|{new}", "--adopt")
    assert (again.code, "nothing was changed" in again.err) == (0, True)

    into = ("mirrors", "add", topic_name, "--destination", "west", "--topic", later)
    assert tanist(*into).errors == ["DESTINATION_TOPIC_NOT_EMPTY"]
    assert tanist(*into, "--adopt", "--dry-run").code == 0
    added = tanist(*into, "--adopt")
    assert added.code == 0, added.err
    assert copy_starts(tanist, topic_name, later) == [2, 0]


def test_a_state_is_restored_to_its_own_cluster_only(
    tanist: Tanist, rig: Rig, topic_name: str, configured: Path
) -> None:
    rig.create(topic_name)
    to_west = ("--source", "east", "--destination", "west")
    assert tanist("mirrors", "create", topic_name, *to_west, "--topic", topic_name, "--adopt").code == 0
    file = str(configured.with_name("west.jsonl"))
    (exported,) = tanist("state", "export", "-d", "west", "--file", file, "--json").items
    assert topic_name in exported["mirrors"]
    printed = tanist("state", "export", "-d", "west").out.splitlines()
    assert len(printed) == exported["records"] + 2
    assert "password" not in "".join(printed)
    assert tanist("state", "export", "-d", "west", "--json").errors == ["INVALID_CONFIG"]
    assert tanist("state", "restore", file, "-d", "east").errors == ["STATE_OF_ANOTHER_CLUSTER"]
    assert tanist("state", "restore", file, "-d", "west", "--mirror", "unknown").errors == ["UNKNOWN_MIRROR"]
    (same,) = tanist("state", "restore", file, "-d", "west", "--mirror", topic_name, "--json").items
    assert same["changed"] is False
