"""`tanist mirrors list|describe`, on a mirror in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tanist.cli.options import Session
from tanist.domain.moves import MoveStatus
from tanist.domain.names import MirrorPartition
from tanist.domain.state_record import Tombstone
from tanist.domain.states import MirrorState
from tanist.usecases.mirrors.describe import Describer
from tanist.wiring.registry import ClusterRegistry
from tests.builders import a_move
from tests.unit.usecases.failover.in_memory import FailoverWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.cli.conftest import Tanist


@pytest.fixture
def world() -> FailoverWorld:
    return FailoverWorld()


@pytest.fixture
def of_west(world: FailoverWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The options of a command that finds the mirror in memory."""
    file = tmp_path / "tanist.toml"
    file.write_text('[clusters.west]\nbootstrap_servers = "127.0.0.1:1"\n')
    monkeypatch.setattr(Session, "destinations", lambda _session, _mirror: (world.west.side(),))
    monkeypatch.setattr(
        ClusterRegistry,
        "describer",
        lambda _registry, destination, selection: Describer(destination, lambda _name: world.east.side(), selection),
    )
    return ("--config", str(file))


def test_a_description_begins_with_a_summary_and_can_be_filtered(
    world: FailoverWorld, of_west: tuple[str, ...], tanist: Tanist
) -> None:
    """300 partitions were 302 lines, with the FAILED one somewhere."""
    world.observe(MirrorState.FAILED, MirrorPartition("orders", 1), error="DIVERGED")
    world.copying = False
    for _ in range(3):
        world.east.grow(MirrorPartition("payments", 0))
    everything = tanist("mirrors", "describe", "dr", *of_west)
    assert everything.code == 0, everything.err
    assert (
        "mirror dr: 3 partition(s): 1 FAILED, 2 MIRRORING; lag 3 offsets, unknown for 1" in everything.err.splitlines()
    )
    assert len(everything.out.splitlines()) == 4
    failed = tanist("mirrors", "describe", "dr", "--state", "failed", *of_west)
    assert [line.split()[2] for line in failed.out.splitlines()[1:]] == ["1"]
    assert "1 FAILED, 2 MIRRORING" in failed.err
    both = tanist("mirrors", "describe", "dr", "--state", "FAILED", "--state", "MIRRORING", "--json", *of_west)
    assert both.items == tanist("mirrors", "describe", "dr", "--json", *of_west).items
    paused = tanist("mirrors", "describe", "--state", "PAUSED", "--json", *of_west)
    assert (paused.code, json.loads(paused.out)["items"]) == (0, [])
    assert "no partition is in state PAUSED" in paused.err


def test_an_old_destination_says_where_its_mirrors_are(
    world: FailoverWorld, of_west: tuple[str, ...], tanist: Tanist
) -> None:
    """It listed nothing, and said nothing."""
    assert tanist("mirrors", "list", "--json", *of_west).items[0]["mirror"] == "dr"
    moved = a_move(MoveStatus.MOVED, mirror_id=world.spec.mirror_id)
    world.worker.append([Tombstone(world.spec.key), moved], world.soon())
    answer = tanist("mirrors", "list", *of_west)
    assert (answer.code, answer.out.splitlines()[1:]) == (0, [])
    assert "mirror dr was reversed, and is at east: `tanist mirrors list --destination east`" in answer.err


def test_a_destination_without_a_mirror_says_how_to_create_one(
    world: FailoverWorld, of_west: tuple[str, ...], tanist: Tanist
) -> None:
    world.worker.append([Tombstone(world.spec.key)], world.soon())
    assert "create one with `tanist mirrors create`" in tanist("mirrors", "list", *of_west).err
