"""What an unplanned failover has left at a source that answers: rescued, decided, replayed, with authorizers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka.failover.conftest import DESCRIBE_CONFIGS, give, rules
from tests.kafka.failover.conftest import TOPIC as TOPICS
from tests.kafka.failover.own.returning import configs
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

pytestmark = pytest.mark.timeout(240)
MIRROR, TOPIC = "tails", "tails-orders"
CLASSES = ("--replay", "safe", "--drop", "conflict")


def items(pair: Pair, *command: str, expected: int | None = 0) -> list[dict[str, Any]]:
    return list(json.loads(pair.tanist(*command, "--json", expected=expected).out)["items"])


def test_records_that_were_not_copied_are_rescued_and_replayed(pair: Pair) -> None:
    pair.worker()
    pair.mirror(MIRROR, TOPIC)
    pair.tanist("mirrors", "pause", MIRROR, "--topic", TOPIC)
    pair.tanist("mirrors", "wait", MIRROR, "--for", "state=PAUSED", "--timeout", "30s")
    assert pair.east.writes(TOPIC, range(100, 106))
    plan = pair.approved(MIRROR, mode="unplanned")
    pair.tanist("failover", "run", MIRROR, "--plan", plan, *QUICK, expected=None)
    assert pair.tanist("failover", "status", MIRROR, "--json").item["status"] == "DONE"

    looked = items(pair, "failback", "survey", MIRROR, "--dry-run", expected=None)
    assert [row["records"] for row in looked] == [3, 3]
    until(lambda: configs(pair, TOPIC)["retention.ms"] == "-1", 30)  # by the fetcher
    rescued = items(pair, "failback", "rescue", MIRROR, "--evidence", str(pair.home / "rescued"))
    assert [(row["rescued"], row["stage"]) for row in rescued] == [(3, "NOT_DECIDED")] * 2
    copies = pair.west.read(f"__mirror_quarantine.{TOPIC}")
    assert [(partition, value) for partition, _, value in copies] == [
        (n % 2, b"%d" % n) for n in sorted(range(100, 106), key=lambda n: (n % 2, n))
    ]

    decided = pair.tanist("failback", "decide", MIRROR, *CLASSES, "--json").item
    assert [row["safe"] for row in decided["tails"]] == [3, 3]
    other = (MIRROR, "0" * 16, *CLASSES, "--reason", "drill")
    assert "ANOTHER_DECISION" in pair.tanist("failback", "approve", *other, user="approver", expected=1).err
    chosen = (MIRROR, decided["plan_hash"], *CLASSES, "--reason", "drill")
    assert "MIRROR_AUTHORIZATION_FAILED" in pair.tanist("failback", "approve", *chosen, expected=1).err
    pair.tanist("failback", "approve", *chosen, user="approver")
    before = len(pair.west.read(TOPIC))
    replay = ("failback", "replay", MIRROR, "--plan", decided["plan_hash"], "--evidence", str(pair.home / "rescued"))
    assert "REPLAY_DENIED" in pair.tanist(*replay, expected=1).err  # as the mirror's login, which a failover shuts out
    give(pair.west.cluster, *rules(pair.west.cluster.spec.principal("app"), (TOPICS, DESCRIBE_CONFIGS)))
    dry = pair.tanist(*replay, "--dry-run", "--json", user="app").item
    assert [row["done"] for row in dry["tails"]] == [False, False]
    assert len(pair.west.read(TOPIC)) == before
    done = pair.tanist(*replay, "--json", user="app").item
    assert [row["replayed"] for row in done["tails"]] == [3, 3]
    assert (len(pair.west.read(TOPIC)), done["held"]) == (before + 6, [TOPIC])  # it may not change the old source
    pair.tanist("failback", "survey", MIRROR, expected=None)
    until(lambda: configs(pair, TOPIC)["cleanup.policy"] == "compact", 20)
