"""What an unplanned failover has left at a source that answers: rescued, decided, replayed, with authorizers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tanist.domain.failback.prefix import NothingToCompare
from tanist.domain.names import MirrorName, MirrorPartition
from tanist.domain.records import STATE_TOPIC
from tanist.kafka.adapters.compacted_topic import WORKER, CompactedTopic
from tanist.kafka.adapters.divergent_tails import KafkaDivergentTails
from tanist.kafka.wire.router import Router
from tanist.ports.tails import CopiedSpan
from tests.kafka.failover.conftest import DESCRIBE_CONFIGS, SOON, give, rules
from tests.kafka.failover.conftest import TOPIC as TOPICS
from tests.kafka.failover.own.returning import configs
from tests.kafka.failover.test_real import QUICK, SMALL
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

MIRROR, TOPIC = "tails", "tails-orders"
CLASSES = ("--replay", "safe", "--drop", "conflict")


def items(pair: Pair, *command: str, expected: int | None = 0) -> list[dict[str, Any]]:
    return list(json.loads(pair.tanist(*command, "--json", expected=expected).out)["items"])


@pytest.mark.long  # the demo rescues and replays what nobody copied
def test_records_that_were_not_copied_are_rescued_and_replayed(pair: Pair) -> None:
    pair.worker()
    pair.mirror(MIRROR, TOPIC)
    pair.tanist("mirrors", "pause", MIRROR, "--topic", TOPIC)
    pair.tanist("mirrors", "wait", MIRROR, "--for", "state=PAUSED", "--timeout", "200s")
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
    pair.tanist("failback", "survey", "--no-rescue", MIRROR, expected=None)
    until(lambda: configs(pair, TOPIC)["cleanup.policy"] == "compact", 20)


@pytest.mark.long
def test_a_stale_epoch_of_copied_records_made_a_topic_diverged(pair: Pair) -> None:
    """A race: the worker had not yet stored that it copied records of a later leader epoch when the topic took over.

    The new primary's retention then left nothing that could be compared, and the survey ended the common prefix where
    the stored epoch ends: DIVERGED, with the advice to delete the topic.
    """
    pair.worker()
    pair.east.topic("epochs")
    assert pair.east.writes("epochs", range(10))
    pair.tanist("mirrors", "create", "epochs", "--source", "east", "--topic", "epochs")
    pair.tanist("mirrors", "wait", "epochs", "--for", "lag=0", "--timeout", "200s")
    for restart in (pair.east.cluster.kill, pair.east.cluster.start):
        restart()
    assert pair.east.writes("epochs", range(10, 20))
    pair.tanist("mirrors", "wait", "epochs", "--for", "lag=0", "--timeout", "200s")
    plan = pair.approved("epochs")
    pair.dismiss()
    until(lambda: not any(worker.alive for worker in pair.workers.values()), 20)
    stored_before_the_restart(pair, "epochs")
    pair.tanist("failover", "run", "epochs", "--plan", plan, *QUICK)
    assert pair.west.writes("epochs", range(100, 104))
    admin = AdminClient(pair.west.client("admin"))
    for future in admin.delete_records([At("epochs", n, 10) for n in range(2)]).values():
        future.result(20)
    pair.worker("w3")
    looked = items(pair, "failback", "survey", "--no-rescue", "epochs")
    assert [(row["verdict"], row["common_end"], row["old_end"]) for row in looked] == [("NO_TAIL", 10, 10)] * 2
    assert "no copied record is left to compare" in str(looked[0]["warnings"])

    east, west = (Router(side.cluster.endpoint_for("mirror"), "test") for side in (pair.east, pair.west))
    tails, at = KafkaDivergentTails(east, west), MirrorPartition("epochs", 0)
    end = looked[0]["end"]
    (unknown,) = tails.common_ends({at: CopiedSpan(10, end, 0)}, SOON(20)).values()
    assert isinstance(unknown, NothingToCompare), "a run of an earlier version has not stored the epoch"
    assert tails.common_ends({at: CopiedSpan(10, end, 0, certain=True)}, SOON(20)) == {at: 5}
    for router in (east, west):
        router.close()


def stored_before_the_restart(pair: Pair, mirror: str) -> None:
    """As a worker has it in the state topic that dies before its next report: what it has copied is of epoch 0."""
    endpoint = pair.west.cluster.endpoint_for("mirror")
    with CompactedTopic.open(endpoint, STATE_TOPIC, SOON(20), layout=SMALL, writer=WORKER) as state:
        view = state.view()
        observed = [
            replace(each, last_mirrored_epoch=0)
            for n in range(2)
            if (each := view.observed(MirrorName(mirror), MirrorPartition(mirror, n)))
        ]
        chunks = [
            replace(chunk, ends=tuple(replace(each, record_until=None, record_epoch=None) for each in chunk.ends))
            for chunk in view.source_ends(MirrorName(mirror))
        ]
        assert len(observed) == 2
        state.append([*observed, *chunks], SOON(20))
