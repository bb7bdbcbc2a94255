"""`tanist doctor` names every right that groups need, on either side, and what fails without it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acls import AclBinding
from tests.kafka.failover.conftest import DENY, DESCRIBE, GROUP, LITERAL, READ, TOPIC, WRITE, Pair, give, take
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator


def denied(kind: int, name: str, operation: int) -> AclBinding:
    return AclBinding(kind, name, LITERAL, "User:mirror", "*", operation, DENY)


@pytest.fixture(scope="module")
def readers(pair: Pair) -> Pair:
    """A mirror whose topic two groups read."""
    pair.worker()
    pair.mirror("readers", "readers")
    groups = ("reader-1", "reader-2")
    for group in groups:
        pair.east.commit(group, "readers", 3)
    until(lambda: all(group in pair.tanist("state", "dump", "--key", "group/readers").out for group in groups), 40)
    return pair


def doctor(pair: Pair) -> dict[str, tuple[str, str]]:
    """(verdict, reason) of each check about groups."""
    answer = pair.tanist("doctor", "--json", expected=None)
    return {
        row["check"]: (row["verdict"], row["reason"])
        for row in json.loads(answer.out)["items"]
        if "groups of readers" in row["check"]
    }


@pytest.fixture
def without(readers: Pair) -> Iterator[None]:
    """Denied: the log of groups and one group at the source, the other at the destination."""
    here = denied(TOPIC, "__consumer_offsets", READ), denied(GROUP, "reader-1", DESCRIBE)
    there = denied(GROUP, "reader-2", READ)
    give(readers.east.cluster, *here)
    give(readers.west.cluster, there)
    yield
    take(readers.east.cluster, *here)
    take(readers.west.cluster, there)


def test_with_every_right_all_checks_pass(readers: Pair) -> None:
    """Also of groups that the destination has never heard of."""
    assert doctor(readers) == dict.fromkeys(
        ("log of groups of readers on east", "groups of readers on east", "groups of readers on west"), ("PASS", "")
    )


@pytest.mark.usefixtures("without")
def test_what_is_missing_is_named_with_what_it_is_needed_for(readers: Pair) -> None:
    found = doctor(readers)
    assert found["log of groups of readers on east"] == (
        "PASS",
        (
            "missing: READ on Topic __consumer_offsets (reading committed offsets within milliseconds (without "
            "it they are polled each second))"
        ),
    )
    assert found["groups of readers on east"] == (
        "FAIL",
        "missing: DESCRIBE on Group reader-1 (reading committed offsets)",
    )
    assert found["groups of readers on west"] == (
        "FAIL",
        "missing: READ on Group reader-2 (committing offsets of the group)",
    )


def test_rights_that_only_the_way_back_needs_are_named_with_the_command_that_grants_them(readers: Pair) -> None:
    """At the source, before any failover; also on state topics that do not exist there."""
    lacking = denied(TOPIC, "readers", WRITE), denied(TOPIC, "__mirror_groups", WRITE)

    def reversal() -> dict[str, tuple[str, str]]:
        answer = readers.tanist("doctor", "--json", expected=None)
        rows = json.loads(answer.out)["items"]
        return {r["check"]: (r["verdict"], r["reason"]) for r in rows if r["check"].startswith("reversal of readers")}

    assert reversal() == dict.fromkeys(("reversal of readers on east", "reversal of readers on west"), ("PASS", ""))
    give(readers.east.cluster, *lacking)
    until(lambda: reversal()["reversal of readers on east"][0] == "FAIL", 20)
    _, reason = reversal()["reversal of readers on east"]
    take(readers.east.cluster, *lacking)
    assert "missing: WRITE on Topic readers (appending records); WRITE on Topic __mirror_groups (recording" in reason
    assert "--add --allow-principal User:mirror --operation Write --topic __mirror_groups --topic readers" in reason
