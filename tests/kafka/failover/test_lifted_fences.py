"""A source fence that is lifted is that of the topic that was named, and one that was lifted can be set again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from tanist.domain.acls import AclBinding
from tests.kafka.failover.conftest import DENY, LITERAL, TOPIC, WRITE, take

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import Pair

QUICK = ("--fence-proof", "1s", "--drain", "30s", "--json")


def fences(pair: Pair, mirror: str) -> dict[str, Any]:
    """The check of source fences."""
    found = pair.tanist("status", mirror, "--json", expected=None).item["checks"]
    return dict(next(each for each in found if each["name"] == "fences"))


def statuses(pair: Pair, mirror: str) -> dict[str, str]:
    rows = json.loads(pair.tanist("fence", "show", mirror, "--json").out)["items"]
    return {row["topic"]: row["status"] for row in rows}


@pytest.mark.long
def test_the_repair_of_one_topic_leaves_the_source_fences_of_the_others(pair: Pair) -> None:
    """`fence lift --promoted` lifted those of all that were failed over, so producers wrote on both sides."""
    worker = pair.worker()
    pair.mirror("healed", "healed.a", "healed.b")
    pair.tanist("failover", "run", "healed", "--plan", pair.approved("healed"), *QUICK)
    client = AdminClient(pair.west.client("admin"))
    client.delete_topics(["healed.b"])["healed.b"].result(20)
    refused = pair.tanist("fence", "lift", "healed", "--promoted", expected=1)
    assert r"`tanist fence lift healed --destination west --promoted --topic 'healed\.b'`" in refused.err
    assert set(statuses(pair, "healed").values()) == {"proved"}
    pair.tanist("fence", "lift", "healed", "--promoted", "--topic", r"healed\.b")
    assert pair.east.writes("healed.b", range(10, 12))
    assert not pair.east.writes("healed.a", range(10, 12))
    shut_out = AclBinding(TOPIC, "healed.b", LITERAL, pair.west.cluster.spec.principal("mirror"), "*", WRITE, DENY)
    take(pair.west.cluster, shut_out)
    pair.tanist("mirrors", "add", "healed", "--topic", r"healed\.b", "--promoted")
    pair.tanist("mirrors", "wait", "healed", "--topic", r"healed\.b", "--for", "lag=0", "--timeout", "200s")
    assert (fences(pair, "healed")["verdict"], worker.alive) == ("PASS", True)


def test_a_promoted_topic_that_is_writable_at_its_old_source_is_named_before_anybody_writes(pair: Pair) -> None:
    """`status` said PASS, GO and GO, and no command set the source fence again."""
    pair.worker()
    pair.mirror("reset", "reset.a", "reset.b")
    pair.tanist("failover", "run", "reset", "--plan", pair.approved("reset"), *QUICK)
    waited = pair.tanist("mirrors", "wait", "reset", "--for", "lag=0", expected=1)
    assert "NOTHING_TO_WAIT_FOR: mirror 'reset' of 'west' copies no topic from 'east'" in waited.err
    pair.tanist("fence", "lift", "reset", "--promoted", "--topic", ".*")
    check = fences(pair, "reset")
    assert check["verdict"] == "FAIL"
    command = ("fence", "set", "reset", "--topic", r"reset\.a", "--topic", r"reset\.b")
    assert "`tanist fence set reset --destination west --topic 'reset\\.a' --topic 'reset\\.b'`" in check["reason"]
    pair.tanist(*command, "--dry-run")
    assert pair.east.writes("reset.a", range(10, 12)), "a dry run changes nothing"
    for _ in range(2):
        done = json.loads(pair.tanist(*command, "--json").out)["items"]
        assert [(row["topic"], row["status"]) for row in done] == [("reset.a", "standing"), ("reset.b", "standing")]
        assert not pair.east.writes("reset.a", range(20, 22))
        assert fences(pair, "reset")["verdict"] == "PASS"
    pair.tanist("fence", "lift", "reset", "--promoted", "--topic", ".*", "--exclude", r"reset\.b")
    assert statuses(pair, "reset") == {"reset.a": "lifted", "reset.b": "standing"}
    assert pair.east.writes("reset.a", range(30, 32)), "what was there before the fence is restored"
