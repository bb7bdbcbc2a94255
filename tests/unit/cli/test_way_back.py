"""The whole way back as it is typed: the command line in this process, on clusters in memory."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import pytest

from tanist.cli import failover, options
from tanist.usecases.failover.tools import GroupsMoved, Tools
from tanist.usecases.mirrors.describe import Describer
from tests.builders import DR
from tests.unit.usecases.way_back import WayBack

if TYPE_CHECKING:
    from pathlib import Path

    from tanist.ports.cluster import Cluster
    from tests.kafka.cli.conftest import Answer, Tanist


class MemoryRegistry:
    """Both clusters of a world by name, as `ClusterRegistry` has them."""

    def __init__(self, world: WayBack) -> None:
        self.world = world

    def __call__(self, *_settings: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def names(self) -> tuple[str, ...]:
        return "east", "west"

    def connect(self, name: str) -> Cluster:
        return self.world.ports(self.world.east if name == "east" else self.world.west)

    def open_mirror(self, *_: object) -> Any:
        return self.world.mirror()

    def destinations(self, *_: object) -> tuple[Cluster, ...]:
        return (self.connect(self.world.home().name),)

    def describer(self, destination: Cluster, *selection: Any) -> Describer:
        return Describer(destination, self.connect, *selection)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> WayBack:
    made = WayBack()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TANIST_FOUR_EYES", raising=False)
    monkeypatch.setattr(options, "ClusterRegistry", MemoryRegistry(made))
    monkeypatch.setattr(options, "SystemClock", lambda: made.clock)
    moved = GroupsMoved(rows=())
    monkeypatch.setattr(failover, "Tools", partial(Tools, move_groups=lambda *_: moved))
    return made


def item(answer: Answer) -> Any:
    assert answer.code == 0, answer.err
    return json.loads(answer.out)["items"][0]


def test_seven_commands_lead_the_whole_way_back_with_a_tail(world: WayBack, tanist: Tanist) -> None:
    """No hash but that of the failover, no decision: what is safe is replayed, the rest stays in quarantine."""
    typed: list[tuple[str, ...]] = []

    def types(*words: str) -> Any:
        typed.append(words)
        return item(tanist(*words, "--json"))

    west, east = ("--destination", "west"), ("--destination", "east")
    tail = types("failback", "survey", DR, *west)
    assert (tail["records"], tail["rescued"], tail["quarantine"]) == (3, 3, "__mirror_quarantine.orders")
    (replayed,) = types("failback", "replay", DR, *west, "--reason", "as agreed")["tails"]
    assert (replayed["records"], replayed["replayed"], replayed["dropped"]) == (3, 1, 2)
    assert types("mirrors", "reverse", DR, *west, "--reason", "east is back")["destination"] == "east"
    assert types("mirrors", "wait", DR, *east, "--for", "lag=0")["lag"] == 0
    plan = types("failover", "plan", DR, *east, "--reverse")["plan_hash"]
    types("failover", "approve", DR, plan, *east, "--reason", "home again")
    done = types("failover", "run", DR, *east, "--plan", plan, "--fence-proof", "0.1")
    assert (done["status"], done["reversal"]["destination"]) == ("DONE", "west")
    assert len(typed) == 7
    print(typed)
