"""What follows the source is a setting of a mirror: given when it is created, altered later, and kept otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.cli.sync_options import duration_or_off, sync_settings
from tanist.domain.errors import MirrorExists, Misconfigured
from tanist.domain.records import STATE_TOPIC
from tanist.domain.rewinds import OnRewind
from tanist.domain.sync_settings import SyncSettings
from tanist.usecases.mirrors import administer
from tanist.usecases.mirrors.create import CreateRequest, create
from tests.builders import DR, a_command
from tests.fakes.failover import GuardedCluster

if TYPE_CHECKING:
    from tanist.domain.records import MirrorSpec

ORDERS = CreateRequest(mirror="dr", include=("orders",))
SETTINGS = SyncSettings(
    sync_metadata_seconds=30,
    sync_groups_seconds=120,
    workers_sync_groups=True,
    config_exclude=("segment.*",),
    group_include=("app-.*",),
    group_exclude=("app-test",),
    on_rewind=OnRewind.FOLLOW,
)


@pytest.fixture
def source() -> GuardedCluster:
    return GuardedCluster("east").with_topic("orders", 1)


@pytest.fixture
def destination() -> GuardedCluster:
    return GuardedCluster("west")


def stored(destination: GuardedCluster) -> MirrorSpec:
    spec = destination.view(STATE_TOPIC).mirror(DR)
    assert spec is not None
    return spec


def test_a_new_mirror_has_what_was_given_and_the_same_command_again_keeps_it(
    source: GuardedCluster, destination: GuardedCluster
) -> None:
    """S3.5, S3.6, S0.6. Also the same command without these options, as it was typed before they existed."""
    spec = create(replace(ORDERS, sync=SETTINGS), source.side(), destination.side(), a_command()).spec
    assert {name: getattr(spec, name) for name in SETTINGS.given} == SETTINGS.given
    for again in (SETTINGS, SyncSettings()):
        assert not create(replace(ORDERS, sync=again), source.side(), destination.side(), a_command()).changed
    other = replace(ORDERS, sync=SyncSettings(on_rewind=OnRewind.HOLD))
    with pytest.raises(MirrorExists, match="on_rewind follow, not hold"):
        create(other, source.side(), destination.side(), a_command())
    assert stored(destination) == spec


def test_each_is_altered_alone_and_taken_away_by_its_empty_value(
    source: GuardedCluster, destination: GuardedCluster
) -> None:
    spec = create(replace(ORDERS, sync=SETTINGS), source.side(), destination.side(), a_command()).spec
    for setting in (
        SyncSettings(sync_metadata_seconds=0),
        SyncSettings(workers_sync_groups=False),
        SyncSettings(config_exclude=()),
        SyncSettings(group_include=()),
        SyncSettings(on_rewind=OnRewind.ASK),
    ):
        altered = administer.alter("dr", administer.Alteration(sync=setting), destination.side(), a_command())
        spec = replace(spec, **setting.given)
        assert altered.changed
        assert stored(destination) == spec


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (SyncSettings(config_exclude=("(",)), "not a regular expression"),
        (SyncSettings(group_exclude=("(",)), "not a regular expression"),
        (SyncSettings(sync_metadata_seconds=700_000), "700000 s between two syncs of metadata"),
    ],
)
def test_a_setting_that_cannot_be_read_creates_nothing(
    settings: SyncSettings, why: str, source: GuardedCluster, destination: GuardedCluster
) -> None:
    with pytest.raises(Misconfigured, match=why):
        create(replace(ORDERS, sync=settings), source.side(), destination.side(), a_command())
    assert destination.calls == []


NONE = {
    "sync_metadata": None,
    "sync_groups": None,
    "group_sync_interval": None,
    "config_exclude": None,
    "group_include": None,
    "group_exclude": None,
    "on_rewind": None,
}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        ({"sync_metadata": 30.0}, {"sync_metadata_seconds": 30}),
        ({"sync_metadata": 0.2}, {"sync_metadata_seconds": 1}),
        ({"sync_metadata": 0.0}, {"sync_metadata_seconds": 0}),
        ({"sync_groups": 60.0}, {"sync_groups_seconds": 60, "workers_sync_groups": True}),
        ({"sync_groups": 0.0}, {"workers_sync_groups": False}),
        ({"group_sync_interval": 300.0}, {"sync_groups_seconds": 300}),
        (
            {"sync_groups": 0.0, "group_sync_interval": 300.0},
            {"sync_groups_seconds": 300, "workers_sync_groups": False},
        ),
        (
            {"sync_groups": 60.0, "group_sync_interval": 60.0},
            {"sync_groups_seconds": 60, "workers_sync_groups": True},
        ),
        ({"group_include": [""]}, {"group_include": ()}),
    ],
)
def test_the_options_of_the_command_line_say_which_settings(
    options: dict[str, object], settings: dict[str, object]
) -> None:
    """Off leaves the interval alone, which a schedule has, too. What is shorter than a second is one."""
    assert sync_settings(**NONE | options).given == settings  # type: ignore[arg-type]


def test_two_intervals_of_groups_are_refused() -> None:
    with pytest.raises(Misconfigured, match="two intervals"):
        sync_settings(**NONE | {"sync_groups": 60.0, "group_sync_interval": 30.0})  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "seconds"), [("off", 0.0), ("0", 0.0), ("30s", 30.0), ("5m", 300.0)])
def test_off_is_a_duration_here(text: str, seconds: float) -> None:
    assert duration_or_off(text) == seconds
