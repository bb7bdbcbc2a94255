"""A destination gets its state back from an export that is older than a failover, or from logs that have a tail."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.failover.own.test_lost_state import LAG, delete_state
from tests.kafka.failover.own.test_reverse import begin, fail_over, reverse, tanist

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


@pytest.fixture(scope="module")
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("older-state")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        yield pair


def begin_both(pair: Pair) -> None:
    for at in ("west", "east"):
        begin(pair, at)


def stop_both(pair: Pair) -> None:
    for at in ("west", "east"):
        pair.workers[at].send(signal.SIGKILL)


def in_step(pair: Pair, at: str, mirror: str) -> None:
    tanist(pair, at, "mirrors", "wait", mirror, *LAG)


def created(pair: Pair, mirror: str) -> None:
    """From east to west, of one topic of the mirror's name."""
    pair.east.topic(mirror)
    assert pair.east.writes(mirror, range(10))
    tanist(pair, "west", "mirrors", "create", mirror, "--source", "east", "--topic", mirror)
    in_step(pair, "west", mirror)


def exported(pair: Pair, name: str) -> str:
    file = str(pair.home / f"{name}.jsonl")
    tanist(pair, "west", "state", "export", "--file", file)
    return file


def test_exports_from_before_and_during_a_circle_are_refused_and_the_logs_have_the_mirror(own: Pair) -> None:
    """One named the live primary as the old source, the other one led every command to and fro."""
    begin_both(own)
    created(own, "circle")
    before = exported(own, "before")
    fail_over(own, "circle", "west")
    reverse(own, "circle", "west")
    in_step(own, "east", "circle")
    during = exported(own, "during")
    fail_over(own, "circle", "east")
    reverse(own, "circle", "east")
    in_step(own, "west", "circle")
    assert own.east.writes("circle", range(100, 110))
    in_step(own, "west", "circle")
    stop_both(own)
    delete_state(own.west)
    for file in (before, during):
        refused = tanist(own, "west", "state", "restore", file, "--mirror", "circle", expected=1)
        assert "STATE_OUTDATED" in refused.err
        assert "`tanist state rebuild`" in refused.err
    assert "UNKNOWN_MIRROR" in tanist(own, "west", "mirrors", "describe", "circle", expected=1).err
    tanist(own, "west", "state", "rebuild", "--source", "east", "--mirror", "circle", "--topic", "circle")
    begin_both(own)
    tanist(own, "west", "mirrors", "resume", "circle", "--topic", "circle")
    in_step(own, "west", "circle")
    assert own.west.read("circle", isolation="read_committed") == own.east.read("circle", isolation="read_committed")
    stop_both(own)
