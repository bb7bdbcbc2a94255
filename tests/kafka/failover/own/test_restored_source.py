"""A source whose log is shorter than its copy, because its broker came back on an old backup of a partition."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.failover.conftest import Pair, running
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig

pytestmark = pytest.mark.long
TOPIC = "restored"
PATIENCE_SECONDS = 20.0
"""Less than the time after which a worker takes the end of a source for what it is."""


@pytest.fixture
def own(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A pair of which a broker may be killed; the source keeps what nobody flushed."""
    home: Path = tmp_path_factory.mktemp("restored-source")
    with running(guardian, client_config, home, source=ClusterSpec(name="east", heap_mb=384), authorizer=False) as pair:
        pair.worker()
        yield pair


def restore(pair: Pair, backup: Path) -> None:
    """The broker dies, and starts again on what partition 0 was when `backup` was made."""
    cluster = pair.east.cluster
    cluster.kill(1)
    shutil.rmtree(log_of(pair))
    shutil.copytree(backup, log_of(pair))
    cluster.start_broker(1)


def log_of(pair: Pair) -> Path:
    return pair.east.cluster.log_file(1).parent / "data" / f"{TOPIC}-0"


def plan(pair: Pair) -> dict[str, Any]:
    return pair.tanist("failover", "plan", TOPIC, "--max-loss", "0", "--json", expected=None).item


def test_a_source_that_was_restored_from_a_backup_is_named_before_a_worker_fails_its_partition(own: Pair) -> None:
    """GO and 0 at risk, until a worker had waited for half a minute; without a worker for ever."""
    own.mirror(TOPIC, TOPIC)
    backup = own.home / "backup"
    shutil.copytree(log_of(own), backup)
    assert own.east.writes(TOPIC, range(10, 20))
    own.tanist("mirrors", "wait", TOPIC, "--for", "lag=0", "--timeout", "200s")
    assert own.tanist("status", TOPIC, "--json", expected=0).item["planned"] == "GO"
    restore(own, backup)

    until(lambda: not any(each["blocks"] for each in plan(own)["limitations"]), 60)  # its coordinators load
    before = plan(own)
    named = {each["name"]: each["detail"] for each in before["limitations"]}
    assert "restored-1" not in named["SOURCE_TRUNCATED"]
    assert "restored-0 ends at 5, copied up to 10" in named["SOURCE_TRUNCATED"]
    assert "restored-0" in named["RECORDS_AT_RISK_UNKNOWN"]
    status = own.tanist("status", TOPIC, "--json", expected=0).item
    assert (status["planned"], status["unplanned"]) == ("ACCEPT", "ACCEPT")

    def errors() -> set[str | None]:
        return {row["error"] for row in json.loads(own.tanist("mirrors", "describe", TOPIC, "--json").out)["items"]}

    own.clock.wait(PATIENCE_SECONDS)
    until(lambda: "SOURCE_TRUNCATED" in errors(), 120)
    after = plan(own)
    assert after["plan_hash"] == before["plan_hash"], (before["limitations"], after["limitations"])
