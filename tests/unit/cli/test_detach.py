"""`tanist mirrors remove --keep-copy`, and what the commands beside it say of a detached topic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.cli.options import Session
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.wiring.registry import ClusterRegistry
from tests.builders import a_command
from tests.fakes.failover import GuardedCluster
from tests.unit.usecases.test_detached import Prefixes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Tanist

WHERE = ("dr", "--destination", "west")


@pytest.fixture
def west(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GuardedCluster:
    """The destination of a mirror of orders and payments; commands are led to it, and to its source."""
    east = GuardedCluster("east").with_topic("orders", 1, 10).with_topic("payments")
    west = GuardedCluster("west")
    create(CreateRequest(mirror="dr", include=("orders", "payments")), east.side(), west.side(), a_command())
    file = tmp_path / "tanist.toml"
    file.write_text('[clusters.west]\nbootstrap_servers = "127.0.0.1:1"\n')
    monkeypatch.setenv("TANIST_CONFIG", str(file))
    sides = {"east": east, "west": west}
    monkeypatch.setattr(Session, "destination", lambda _: west.side())
    monkeypatch.setattr(Session, "destinations", lambda *_: (west.side(),))
    monkeypatch.setattr(ClusterRegistry, "connect", lambda _, name: sides[name].side())
    monkeypatch.setattr(ClusterRegistry, "source", lambda _, spec: sides[spec.source].side())
    monkeypatch.setattr(ClusterRegistry, "bootstrap", lambda *_: "east:9092")
    monkeypatch.setattr(ClusterRegistry, "log_prefixes", lambda *_: Prefixes(east, west))
    return west


def mirrored(west: GuardedCluster) -> list[str]:
    return [each.topic for each in west.view(STATE_TOPIC).mirrored()]


def test_a_topic_is_detached_and_the_command_that_adds_it_is_printed(tanist: Tanist, west: GuardedCluster) -> None:
    rehearsed = tanist("mirrors", "remove", *WHERE, "--topic", "ord.*", "--keep-copy", "--dry-run", "--json")
    assert (rehearsed.code, mirrored(west)) == (0, ["orders", "payments"])
    assert "would detach 1 topic(s): orders" in rehearsed.err
    done = tanist("mirrors", "remove", *WHERE, "--topic", "ord.*", "--keep-copy", "--yes", "--json")
    assert done.code == 0, done.err
    assert done.items == rehearsed.items == [{"mirror": "dr", "topic": "orders", "state": "DETACHED"}]
    assert "detach 1 topic(s): orders" in done.err
    assert "orders detached: `tanist mirrors add dr --destination west --topic orders`" in done.err
    assert mirrored(west) == ["payments"]
    again = tanist("mirrors", "remove", *WHERE, "--topic", "orders", "--keep-copy", "--json")
    assert (again.code, again.errors) == (1, ["TOPIC_DETACHED"])


def test_what_reads_names_it(tanist: Tanist, west: GuardedCluster) -> None:
    tanist("mirrors", "remove", *WHERE, "--topic", "orders", "--keep-copy")
    listed = tanist("mirrors", "list", "--destination", "west", "--json")
    assert [(each["topics"], each["detached"]) for each in listed.items] == [(1, ["orders"])]
    assert "mirror dr: detached: orders (since " in listed.err
    rows = tanist("mirrors", "describe", *WHERE, "--topic", "orders", "--json").items
    assert [(each["topic"], each["state"]) for each in rows] == [("orders", "DETACHED")]
    shown = tanist("mirrors", "lineage", *WHERE, "--json")
    assert [(each["topic"], each["cluster"]) for each in shown.items] == [("orders", "east")]
    assert "detached: orders (since " in shown.err


def test_its_partitions_are_counted_and_can_be_asked_for(tanist: Tanist, west: GuardedCluster) -> None:
    tanist("mirrors", "remove", *WHERE, "--topic", "orders", "--keep-copy")
    assert (
        "mirror dr: 1 partition(s): 1 UNKNOWN; lag 0 offsets; 1 DETACHED" in tanist("mirrors", "describe", *WHERE).err
    )
    rows = tanist("mirrors", "describe", *WHERE, "--state", "detached", "--json").items
    assert [each["topic"] for each in rows] == ["orders"]
    rows = tanist("mirrors", "describe", *WHERE, "--state", "UNKNOWN", "--json").items
    assert [each["topic"] for each in rows] == ["payments"]
    wrong = tanist("mirrors", "describe", *WHERE, "--state", "gone", "--json")
    assert (wrong.code, wrong.errors) == (2, ["INVALID_USAGE"])


def test_the_deletion_of_its_mirror_prints_how_to_open_a_copy_at_the_source(
    tanist: Tanist, west: GuardedCluster
) -> None:
    """After a reversal nobody else knows whom it denies there."""
    tanist("mirrors", "remove", *WHERE, "--topic", "orders|payments", "--keep-copy")
    assert tanist("mirrors", "delete", *WHERE, "--yes").code == 1
    for each in west.view(STATE_TOPIC).detached():
        kept = replace(each.kept, denied=("User:app",) if each.topic == "orders" else ())
        west.write(STATE_TOPIC, replace(each, cluster_id="id-east", kept=kept))
    done = tanist("mirrors", "delete", *WHERE, "--yes")
    assert done.code == 0, done.err
    assert "warning: the copies of detached topics stay closed at east: orders, payments" in done.err
    assert "by hand: kafka-acls.sh --bootstrap-server east:9092 --remove --force --deny-principal User:app" in done.err


def test_it_is_added_again_where_it_stopped(tanist: Tanist, west: GuardedCluster) -> None:
    west.ends |= {at: (0, 4, 4) for at in west.ends if at.topic == "orders"}
    tanist("mirrors", "remove", *WHERE, "--topic", "orders", "--keep-copy")
    added = tanist("mirrors", "add", *WHERE, "--topic", "orders", "--json")
    assert (added.code, "orders goes on where it stopped: at offset 4 of its partitions" in added.err) == (0, True)
    assert mirrored(west) == ["orders", "payments"]


def test_removing_it_without_a_copy_forgets_it(tanist: Tanist, west: GuardedCluster) -> None:
    tanist("mirrors", "remove", *WHERE, "--topic", "orders", "--keep-copy")
    refused = tanist("mirrors", "remove", *WHERE, "--topic", "orders")
    assert (refused.code, refused.errors) == (1, ["DETACHED_COPY_EXISTS"])
    del west.topics["orders"]
    done = tanist("mirrors", "remove", *WHERE, "--topic", "orders", "--json")
    assert (done.code, done.items) == (0, [{"mirror": "dr", "topic": "orders", "state": "REMOVED"}])


def test_nothing_is_detached_that_was_not_named(tanist: Tanist, west: GuardedCluster) -> None:
    answer = tanist("mirrors", "remove", *WHERE, "--keep-copy")
    assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
    assert "give --topic REGEX" in answer.err
