"""S3.16: what has a name in KIP-1279 has the same one here, or the table of errors says which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import TABLE
from tanist.domain.errors import MirrorLocked, TanistError, TopicNotInMirror
from tanist.domain.names import MirrorName, mirror_name
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import Selection
from tanist.domain.states import DesiredState
from tanist.usecases.mirrors import administer, desire
from tanist.usecases.mirrors.create import CreateRequest, create
from tests import kip_1279
from tests.builders import DR, a_command, a_run, a_topic
from tests.fakes.failover import GuardedCluster
from tests.reference import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kip_1279 import KipError

SEED = (
    "UNKNOWN_TOPIC_OR_PARTITION COORDINATOR_NOT_AVAILABLE CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_VERSION "
    "MIRROR_AUTHORIZATION_FAILED READ_ONLY_TOPIC INVALID_MIRROR_NAME UNKNOWN_MIRROR TOPIC_ALREADY_IN_MIRROR "
    "TOPIC_NOT_IN_MIRROR MIRROR_TOPIC_ALREADY_PAUSED MIRROR_TOPIC_NOT_PAUSED MIRROR_TOPIC_BEING_REMOVED "
    "MIRROR_NOT_EMPTY"
)
"""The table of the KIP, in its order."""


def test_s3_16_every_error_of_the_kip_is_in_the_table_and_leads_to_one_that_exists() -> None:
    assert [each.name for each in kip_1279.ERRORS] == SEED.split()
    assert {name for each in kip_1279.ERRORS for name in each.ours} <= names()


@pytest.mark.parametrize("error", [each for each in kip_1279.ERRORS if each.code], ids=lambda each: each.name)
def test_s3_16_codes_that_the_kip_takes_from_brokers_are_theirs(error: KipError) -> None:
    assert {row.code: row.name for row in TABLE}[error.code or 0] == error.name


def test_a_name_that_is_no_error_breaks_the_reference() -> None:
    with pytest.raises(KeyError):
        kip_1279.section(frozenset({"UNKNOWN_MIRROR"}))


def world() -> GuardedCluster:
    """A destination with one mirror of two topics, of which one is paused and another was failed over."""
    east, west = GuardedCluster("east").with_topic("orders", 1).with_topic("payments", 1), GuardedCluster("west")
    create(CreateRequest(mirror="dr", include=("orders", "payments")), east.side(), west.side(), a_command())
    spec = west.view(STATE_TOPIC).mirror(DR)
    assert spec is not None
    west.write(
        STATE_TOPIC,
        a_topic("payments", mirror_id=spec.mirror_id, desired=DesiredState.PAUSED),
        a_topic("gone", mirror_id=spec.mirror_id, desired=DesiredState.REMOVED),
    )
    return west


def failing_over(west: GuardedCluster) -> None:
    spec = west.view(STATE_TOPIC).mirror(DR)
    assert spec is not None
    west.write(STATE_TOPIC, a_run(mirror_id=spec.mirror_id))


def _set(west: GuardedCluster, topic: str, how: Callable[..., object]) -> object:
    return desire.set_desired("dr", Selection((topic,)), how, west.side(), a_command())  # type: ignore[arg-type]


CASES: dict[str, Callable[[GuardedCluster], object]] = {
    "INVALID_MIRROR_NAME": lambda _: mirror_name("m/m"),
    "UNKNOWN_MIRROR": lambda west: administer.delete(MirrorName("other"), west.side(), a_command()),
    "TOPIC_NOT_IN_MIRROR": lambda west: _set(west, "unknown", desire.paused),
    "MIRROR_TOPIC_ALREADY_PAUSED": lambda west: _set(west, "payments", desire.paused),
    "MIRROR_TOPIC_NOT_PAUSED": lambda west: _set(west, "orders", desire.resumed),
    "MIRROR_NOT_EMPTY": lambda west: administer.delete(DR, west.side(), a_command()),
}


@pytest.mark.parametrize("name", CASES)
def test_s3_16_what_goes_wrong_has_the_name_that_the_kip_gives_it(name: str) -> None:
    west = world()
    with pytest.raises(TanistError) as raised:
        CASES[name](west)
    assert raised.value.name == name


def test_s3_16_a_topic_that_is_being_removed_is_locked_and_then_in_no_mirror() -> None:
    """MIRROR_TOPIC_BEING_REMOVED of the KIP: here removing is a failover."""
    west = world()
    with pytest.raises(TopicNotInMirror):
        _set(west, "gone", desire.resumed)
    failing_over(west)
    with pytest.raises(MirrorLocked):
        _set(west, "payments", desire.resumed)
