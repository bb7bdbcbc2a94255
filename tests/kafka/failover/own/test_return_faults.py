"""An old source that returns without a topic, or whose records have expired; and other mirrors of the same topics."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.both_ways import begin, delete, fail_over, records, reverse, tanist
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Answer, KafkaSide

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("faults")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        begin(pair, "west")
        begin(pair, "east")
        yield pair


def expire(side: KafkaSide, topic: str, start: int) -> None:
    """What retention does in the end: both partitions begin at `start`; -1: they are empty."""
    client = AdminClient(side.client("admin"))
    for future in client.delete_records([At(topic, n, start) for n in (0, 1)]).values():
        future.result(20)


def failed_over(pair: Pair, mirror: str, *topics: str) -> None:
    """Planned, with ten records in each topic."""
    for topic in topics:
        pair.east.topic(topic)
        assert pair.east.writes(topic, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", "|".join(topics))
    fail_over(pair, mirror, "west")


def rows(pair: Pair, at: str, *command: str) -> list[dict[str, Any]]:
    return list(json.loads(tanist(pair, at, *command, "--json", expected=None).out)["items"])


def in_step(pair: Pair, mirror: str) -> None:
    tanist(pair, "east", "mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s")


def test_a_source_that_returns_without_a_topic_is_surveyed_and_reversed_without_it(own: Pair) -> None:
    failed_over(own, "part", "kept", "gone")
    delete(own.east, "gone")
    surveyed = tanist(own, "west", "failback", "survey", "--no-rescue", "part", "--json", expected=3)
    found = {(row["topic"], row["partition"]): row for row in json.loads(surveyed.out)["items"]}
    for partition in (0, 1):
        kept, gone = found["kept", partition], found["gone", partition]
        assert (kept["verdict"], kept["final"]) == ("NO_TAIL", True)
        assert (gone["verdict"], gone["final"], gone["end"]) == ("UNKNOWN", False, None)
        assert gone["reason"]
    rescued = tanist(own, "west", "failback", "rescue", "part", expected=3)
    assert "gone" in rescued.err
    refused = tanist(own, "west", "mirrors", "reverse", "part", "--dry-run", expected=None)
    assert "TOPIC_CANNOT_RETURN: 'gone' cannot be seen at 'east'" in refused.err
    reverse(own, "part", "west", "--exclude", "gone")
    assert own.west.writes("kept", range(100, 110))
    in_step(own, "part")
    assert records(own.east, "kept") == records(own.west, "kept")


def written_since(side: KafkaSide, topic: str) -> list[tuple[int, int, bytes | None]]:
    """The records of the new primary. A log start that lies within a batch follows once the batch is copied."""
    return [row for row in records(side, topic) if int(row[2] or 0) >= 100]


def in_both(pair: Pair, topic: str, written: list[tuple[int, int, bytes | None]]) -> bool:
    return written_since(pair.east, topic) == written


def test_retention_that_has_passed_the_end_of_what_was_copied(own: Pair) -> None:
    """At the old source: what it has lost is history. At the new primary: what was never copied back is named."""
    failed_over(own, "late", "old", "new", "both")
    for topic in ("old", "new", "both"):
        assert own.west.writes(topic, range(100, 120))
    newest = min(offset for partition, offset, value in records(own.west, "new") if value in {b"114", b"115"})
    for topic in ("old", "both"):
        expire(own.east, topic, -1)
    for topic in ("new", "both"):
        expire(own.west, topic, newest)
    assert {row["verdict"] for row in rows(own, "west", "failback", "survey", "--no-rescue", "late")} == {"NO_TAIL"}
    reverse(own, "late", "west")

    def states() -> set[tuple[str, str, str | None]]:
        return {
            (each["topic"], each["state"], each["error"]) for each in rows(own, "east", "mirrors", "describe", "late")
        }

    named = ("FAILED", "UNCOPIED_RECORDS_DELETED")
    until(lambda: states() == {("old", "MIRRORING", None), ("new", *named), ("both", *named)}, 60)
    tanist(own, "east", "mirrors", "alter", "late", "--on-loss", "continue")
    in_step(own, "late")
    for topic in ("old", "new", "both"):
        written = written_since(own.west, topic)
        assert written
        until(partial(in_both, own, topic, written), 60)


def test_second_mirrors_of_the_same_topics_are_refused_by_name(own: Pair) -> None:
    """Before the reversal, in either direction, with --adopt or without; and afterwards."""

    def second(source: str, there: str, *options: str) -> Answer:
        asked = ("mirrors", "create", "second", "--source", source, "--topic", "shared", *options)
        return tanist(own, there, *asked, expected=1)

    failed_over(own, "first", "shared")
    assert "DESTINATION_TOPIC_NOT_EMPTY" in second("east", "west").err
    assert "MIRROR_TOPIC_PROMOTED" in second("east", "west", "--adopt").err
    for options in ((), ("--adopt",)):
        said = second("west", "east", *options).err
        assert "OPPOSITE_MIRROR: 'shared': mirror 'first' has failed it over from here" in said
        assert "delete it" not in said
    assert own.west.writes("shared", range(100, 110))
    reverse(own, "first", "west")
    for options in ((), ("--adopt",)):
        assert "TOPIC_ALREADY_IN_MIRROR" in second("west", "east", *options).err
    for options in ((), ("--adopt",)):
        assert "OPPOSITE_MIRROR: 'shared': mirror 'first' copies it from here" in second("east", "west", *options).err
    in_step(own, "first")
    assert records(own.east, "shared") == records(own.west, "shared")


def test_a_topic_that_another_mirror_copies_to_the_old_source_does_not_return(own: Pair) -> None:
    """It was deleted there, and mirrored anew by hand."""
    failed_over(own, "one", "taken")
    delete(own.east, "taken")
    tanist(own, "east", "mirrors", "create", "two", "--source", "west", "--topic", "taken")
    in_step(own, "two")
    refused = tanist(own, "west", "mirrors", "reverse", "one", "--dry-run", expected=None)
    assert refused.code in {1, 3}
    assert "TOPIC_ALREADY_IN_MIRROR: 'taken' belongs to mirror 'two'" in refused.err
