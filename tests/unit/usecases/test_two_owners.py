"""A destination topic belongs to one mirror, also where two mirrors take it in at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.copier import Copier
from tanist.domain.errors import TopicAlreadyInMirror
from tanist.domain.followed import CopyTrouble
from tanist.domain.names import MirrorName
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import Selection
from tanist.usecases.mirror import OpenMirror
from tanist.usecases.mirrors import create as creating
from tanist.usecases.mirrors import desire, take
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.mirrors.follow import FollowRequest, follow
from tanist.usecases.mirrors.followed import followed
from tests.builders import a_command, a_mirror, a_topic, a_view
from tests.fakes.cluster import MemoryCluster, nowhere, pair_with
from tests.fakes.failover import GuardedCluster

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


# ── a mirror that somebody else copies ────────────────────────────────────────────────────────────────────────────

SAME_NAMES = FollowRequest(mirror="mm", copied_by=Copier.MM2, include=("orders.*",))
RENAMED = FollowRequest(mirror="mm", copied_by=Copier.MM2, include=("orders.*",), rename=("mm2-default",))


@pytest.fixture
def east() -> GuardedCluster:
    return GuardedCluster("east").with_topic("orders", 3, 10).with_topic("east.orders", 3, 10).with_topic("pay", 1, 5)


@pytest.fixture
def west() -> GuardedCluster:
    return GuardedCluster("west")


@pytest.mark.parametrize(
    ("theirs", "topic"), [(SAME_NAMES, "orders"), (RENAMED, "east.orders")], ids=["same names", "renamed"]
)
@pytest.mark.parametrize("exists", [False, True], ids=["not copied yet", "empty copy"])
def test_a_topic_that_somebody_else_copies_is_not_created_over(
    east: GuardedCluster, west: GuardedCluster, theirs: FollowRequest, topic: str, *, exists: bool
) -> None:
    """Tanist took the copy in, so that two replicators wrote into one topic."""
    follow(theirs, east.side(), west.side(), a_command())
    if exists:
        west.with_topic(topic, 3)
    before = len(west.calls)
    wanted = CreateRequest(mirror="dr", include=(topic.replace(".", "\\."),))
    with pytest.raises(TopicAlreadyInMirror, match=f"'{topic}' belongs to mirror 'mm', which MirrorMaker 2 copies"):
        create(wanted, east.side(), west.side(), a_command())
    assert len(west.calls) == before


def test_a_topic_that_somebody_else_copies_is_not_added(east: GuardedCluster, west: GuardedCluster) -> None:
    create(CreateRequest(mirror="dr", include=("pay",)), east.side(), west.side(), a_command())
    follow(SAME_NAMES, east.side(), west.side(), a_command())
    with pytest.raises(TopicAlreadyInMirror, match="'orders' is in mirror 'mm', which MirrorMaker 2 copies"):
        desire.add("dr", Selection(("orders",)), west.side(), {"east": east.side()}.__getitem__, a_command())


def test_a_topic_that_somebody_else_copies_is_not_free_when_records_are_written() -> None:
    """The last look of create, add, adopt, `state rebuild` and `state restore`."""
    theirs = a_mirror(MirrorName("mm"), copied_by=Copier.MM2, include=("orders",), rename=("mm2-default",))
    view = a_view(a_mirror(), a_topic("own"), theirs)
    with pytest.raises(
        TopicAlreadyInMirror, match=r"'east\.orders' belongs to mirror 'mm', which MirrorMaker 2 copies"
    ):
        desire.must_be_free(view, MirrorName("dr"), ["own", "east.orders"])
    desire.must_be_free(view, MirrorName("dr"), ["own", "orders", "east.orders.internal"])
    desire.must_be_free(view, MirrorName("mm"), ["east.orders"])


def test_two_mirrors_that_others_copy_do_not_have_one_copy(east: GuardedCluster, west: GuardedCluster) -> None:
    """Both were registered, and each translated positions into the records of the other."""
    follow(SAME_NAMES, east.side(), west.side(), a_command())
    north = GuardedCluster("north").with_topic("orders", 1, 3)
    second = FollowRequest(mirror="second", copied_by=Copier.OTHER)
    with pytest.raises(TopicAlreadyInMirror, match="'orders' is in mirror 'mm', which MirrorMaker 2 copies"):
        follow(second, north.side(), west.side(), a_command())
    assert west.view(STATE_TOPIC).mirror("second") is None


def test_a_copy_that_two_mirrors_of_others_have_since_is_ambiguous(east: GuardedCluster, west: GuardedCluster) -> None:
    follow(SAME_NAMES, east.side(), west.side(), a_command())
    north = GuardedCluster("north").with_topic("stock", 1, 3)
    follow(FollowRequest(mirror="second", copied_by=Copier.OTHER), north.side(), west.side(), a_command())
    north.with_topic("orders", 1, 3)
    west.with_topic("orders", 3, 10)
    for name, source, other in (("mm", east, "second"), ("second", north, "mm")):
        spec = west.view(STATE_TOPIC).mirror(name)
        assert spec is not None
        mirror = OpenMirror(
            spec=spec, source=source.side(), destination=west.side(), pair=pair_with(), from_source=nowhere
        )
        found = followed(mirror, a_command()).topics["orders"]
        assert found.trouble is CopyTrouble.AMBIGUOUS
        assert f"orders is in mirror '{other}'" in found.why
