"""The source's name leads to the new primary: a DNS switch that was forgotten, or a line copied in a configuration."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tanist_testkit.sandbox import forks
from tests.kafka.cli.conftest import section
from tests.kafka.failover.conftest import COMMAND_SECONDS, Answer
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.failover.conftest import Pair

QUICK = ("--fence-proof", "1s", "--drain", "30s", "--json")
ELSEWHERE = "leads to cluster"


def swapped(pair: Pair) -> Path:
    """A configuration in which the name of the source leads to the destination."""
    west = section(pair.west.cluster, pair.mirror_user)
    file = pair.home / "swapped.toml"
    file.write_text(west.replace("[clusters.west]", "[clusters.east]") + west)
    return file


def astray(pair: Pair, *arguments: str, expected: int) -> Answer:
    """What the command line does with that configuration."""
    environment = {**os.environ, "TANIST_CONFIG": str(swapped(pair))}
    done = forks.Command(forks.COMMANDS, (*arguments, "--destination", "west"), environment, pair.home).wait(
        COMMAND_SECONDS
    )
    assert done.code == expected, done.out + done.err
    return Answer(done.code, done.out, done.err)


def test_a_fetcher_fences_no_cluster_but_the_source_of_the_mirror(pair: Pair) -> None:
    """It fenced the new primary, every check was green, and no command lifted that fence."""
    pair.worker()
    pair.mirror("dns", "dns")
    pair.tanist("failover", "run", "dns", "--plan", pair.approved("dns"), *QUICK)
    for returned in (("failback", "survey"), ("failback", "rescue"), ("mirrors", "reverse")):
        assert "CLUSTER_ID_MISMATCH" in astray(pair, *returned, "dns", "--dry-run", expected=1).err
    pair.dismiss()
    log = pair.home / "astray.log"
    where = ("--config", str(swapped(pair)), "--destination", "west", "--id", "astray")
    worker = pair.guardian.spawn([sys.executable, "-m", "tanist.cli.main", "fetcher", "run", *where], log)
    try:
        until(lambda: any("reconciled" in line and ELSEWHERE in line for line in log.read_text().splitlines()), 90)
        assert "reconciled a source fence" not in log.read_text()
        assert pair.west.writes("dns", range(20, 22))
        assert not pair.east.writes("dns", range(20, 22))
    finally:
        worker.send(signal.SIGKILL)


@pytest.mark.long
def test_what_is_asked_of_another_cluster_is_unknown_and_its_answer_lifts_no_fence(pair: Pair) -> None:
    """`abort` said that all was undone, and the source refused its producers for good."""
    pair.worker()
    pair.mirror("astray", "astray")
    plan = pair.approved("astray")
    pair.tanist("failover", "run", "astray", "--plan", plan, *QUICK, "--until", "fence")
    shown = astray(pair, "fence", "show", "astray", "--json", expected=3).item
    assert shown["stands"] is None
    assert ELSEWHERE in shown["reason"]
    pair.dismiss()  # it would lift what is pending before anybody could look
    aborted = astray(pair, "failover", "abort", "astray", "--reason", "drill", "--json", expected=4)
    assert aborted.item["pending"] == ["astray"]
    assert not pair.east.writes("astray", range(20, 22))
    pair.worker()
    until(lambda: pair.east.writes("astray", range(20, 22)), 90)
