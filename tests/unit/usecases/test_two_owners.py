"""A destination topic belongs to one mirror, also where two mirrors take it in at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import TopicAlreadyInMirror
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.mirrors import create as creating
from tanist.usecases.mirrors import take
from tanist.usecases.mirrors.create import CreateRequest, create
from tests.builders import a_command
from tests.fakes.cluster import MemoryCluster

if TYPE_CHECKING:
    from collections.abc import Callable


def make(mirror: str, east: MemoryCluster, west: MemoryCluster) -> None:
    create(CreateRequest(mirror=mirror, include=("orders",)), east.side(), west.side(), a_command())


@pytest.mark.parametrize("where", [(creating, "examine"), (take, "make")], ids=["examined", "made"])
def test_a_create_that_was_frozen_takes_no_topic_that_another_mirror_has_taken_in(
    monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]
) -> None:
    """Both mirrors owned the topic, and two workers wrote into one copy."""
    east = MemoryCluster("east").with_topic("orders", 3, 10)
    west = MemoryCluster("west").with_topic("orders", 3)
    real: Callable[..., object] = getattr(*where)
    frozen: list[str] = []

    def wakes_late(*args: object) -> object:
        done = real(*args)
        if not frozen:
            frozen.append("m1")
            make("m2", east, west)
        return done

    monkeypatch.setattr(*where, wakes_late)
    with pytest.raises(TopicAlreadyInMirror, match="belongs to mirror 'm2'"):
        make("m1", east, west)
    view = west.view(STATE_TOPIC)
    assert [str(each.mirror) for each in view.topics()] == ["m2"]
    assert view.mirror("m1") is None
