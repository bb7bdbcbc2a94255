"""`tanist groups restore` asks on a terminal, and needs --yes elsewhere."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.cli import group_snapshots, options
from tanist.domain.names import TopicPartition
from tanist.settings import Settings
from tanist.wiring.registry import ClusterRegistry
from tests.fakes.failover import GuardedCluster
from tests.fakes.positions import MemoryGroups, MemoryPositions

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.ports.cluster import Cluster
    from tests.kafka.cli.conftest import Tanist

ORDERS = TopicPartition("orders", 0)


class OneCluster(ClusterRegistry):
    """Of one cluster in memory, with its groups."""

    def __init__(self, groups: MemoryGroups) -> None:
        super().__init__(Settings("nowhere", {}))
        self._groups = groups

    def connect(self, name: str) -> Cluster:
        assert name == "west"
        return replace(self._groups.cluster.side(), positions=lambda mirror: MemoryPositions(self._groups, mirror))


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> MemoryGroups:
    """Thirty groups at offset 10 of 100."""
    made = MemoryGroups(GuardedCluster("west").with_topic(ORDERS.topic, 1, 100))
    for n in range(30):
        made.commit(f"g{n:02}", ORDERS, 10)
    monkeypatch.setattr(options, "ClusterRegistry", lambda *_: OneCluster(made))
    monkeypatch.setattr(options, "SystemClock", lambda *_: made.cluster.clock)
    monkeypatch.setenv("TANIST_DESTINATION", "west")
    return made


@pytest.fixture
def moved(groups: MemoryGroups, tanist: Tanist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The command that restores the snapshot of groups which have moved on to 50 since, but one that has members."""
    monkeypatch.setenv("TANIST_DESTINATION", "west")
    file = str(tmp_path / "west.jsonl")
    taken = tanist("groups", "snapshot", "--file", file)
    assert (taken.code, taken.err) == (0, ""), taken.err
    assert "west" in taken.out
    for name in list(groups.groups):
        groups.commit(name, ORDERS, 50)
    groups.group("g00").members = 1
    return ("groups", "restore", file)


def stand(groups: MemoryGroups) -> set[int]:
    return {now.offset for each in groups.groups.values() for _, now in each.positions.values()}


def test_without_a_terminal_it_needs_a_yes_and_asks_no_cluster(
    tanist: Tanist, groups: MemoryGroups, moved: tuple[str, ...]
) -> None:
    groups.cluster.dead = True
    answer = tanist(*moved)
    assert (answer.code, answer.errors) == (2, ["INVALID_CONFIG"])
    assert "--yes" in answer.err
    assert stand(groups) == {50}


@pytest.mark.parametrize("confirmed", [True, False])
def test_on_a_terminal_it_shows_the_changes_and_asks(
    tanist: Tanist, groups: MemoryGroups, moved: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    monkeypatch.setattr(group_snapshots, "on_terminal", lambda: True)
    monkeypatch.setattr(options, "on_terminal", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" if confirmed else "n\n"))
    answer = tanist(*moved)
    assert "g00 orders-0: withheld: it has 1 member(s)" in answer.err
    assert "g01 orders-0: 50 to 10 (backwards)" in answer.err
    assert "and 10 more: --dry-run shows all" in answer.err
    assert "would restore 29 offset(s) of 29 group(s): 29 backwards; 1 withheld" in answer.err
    if confirmed:
        assert (answer.code, stand(groups)) == (4, {10, 50})
        assert "restored 29 offset(s)" in answer.err
    else:
        assert (answer.code, stand(groups)) == (1, {50})
        assert "ABORTED: not confirmed (nothing was changed)" in answer.err


def test_the_table_has_what_changes_and_not_what_is_the_same(
    tanist: Tanist, groups: MemoryGroups, moved: tuple[str, ...]
) -> None:
    groups.group("g00").members = 0
    assert tanist(*moved, "--group", "g0[0-4]", "--yes").code == 0
    shown = tanist(*moved, "--dry-run")
    assert len(shown.out.splitlines()) == 1 + 25
    assert "5 the same already" in shown.err
    assert shown.code == 0
