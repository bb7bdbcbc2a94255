"""What happens to a source while a worker copies it: topics and records that are deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from tanist.domain.acls import AclBinding
from tanist.domain.names import MirrorPartition
from tests.kafka.failover.conftest import DENY, LITERAL, TOPIC, WRITE, take
from tests.kafka.failover.test_metadata import delete_before, write
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.failover.conftest import KafkaSide, Pair


def described(pair: Pair, mirror: str) -> list[dict[str, Any]]:
    found = json.loads(pair.tanist("mirrors", "describe", mirror, "--json").out)["items"]
    return sorted(found, key=lambda row: int(row["partition"]))


def told(pair: Pair, mirror: str) -> set[tuple[str, str | None]]:
    """State and error of each partition."""
    return {(row["state"], row["error"]) for row in described(pair, mirror)}


def delete(side: KafkaSide, topic: str) -> None:
    client = AdminClient(side.client("admin"))
    client.delete_topics([topic])[topic].result(20)


def test_a_topic_that_is_deleted_at_the_source_stops_and_keeps_its_records(pair: Pair) -> None:
    """A new topic of that name is another one: its records are never mixed with those of the deleted one."""
    pair.worker()
    pair.east.topic("gone")
    write(pair.east, "gone", range(2), range(10))
    pair.tanist("mirrors", "create", "gone", "--source", "east", "--topic", "gone")
    pair.tanist("mirrors", "wait", "gone", "--for", "lag=0", "--timeout", "200s")
    copied = pair.west.read("gone")
    delete(pair.east, "gone")
    until(lambda: told(pair, "gone") == {("STOPPED", "SOURCE_TOPIC_DELETED")}, 40, lambda: described(pair, "gone"))
    assert all("was deleted at the source" in row["reason"] for row in described(pair, "gone"))
    assert pair.west.read("gone") == copied


@pytest.mark.long
def test_a_topic_that_is_created_again_is_never_mixed_with_the_deleted_one(pair: Pair) -> None:
    """Beside it, another topic is copied and can be failed over all the time."""
    pair.worker()
    for topic in ("again", "beside"):
        pair.east.topic(topic)
        write(pair.east, topic, range(2), range(10))
    pair.tanist("mirrors", "create", "again", "--source", "east", "--topic", "again|beside")
    pair.tanist("mirrors", "wait", "again", "--for", "lag=0", "--timeout", "200s")
    copied = pair.west.read("again")
    delete(pair.east, "again")
    until(lambda: ("STOPPED", "SOURCE_TOPIC_DELETED") in told(pair, "again"), 40, lambda: described(pair, "again"))
    plan = pair.tanist("failover", "plan", "again", "--json", expected=1).item
    blocking = {each["name"]: each["detail"] for each in plan["limitations"] if each["blocks"]}
    assert (
        "take it out with `tanist mirrors remove again --destination west --topic again`"
        in blocking["SOURCE_TOPIC_DELETED"]
    )
    others = pair.tanist("failover", "plan", "again", "--topic", "beside", "--json").item
    assert [each["name"] for each in others["limitations"] if each["blocks"]] == []

    pair.east.topic("again")
    write(pair.east, "again", range(2), range(50, 80))
    until(lambda: ("FAILED", "SOURCE_TOPIC_RECREATED") in told(pair, "again"), 40, lambda: described(pair, "again"))
    assert pair.west.read("again") == copied
    write(pair.east, "beside", range(2), range(10, 20))
    pair.tanist("mirrors", "wait", "again", "--topic", "beside", "--for", "lag=0", "--timeout", "200s")


@pytest.mark.long
def test_a_topic_that_was_deleted_at_the_source_leaves_the_mirror_and_a_new_one_of_its_name_is_added(
    pair: Pair,
) -> None:
    """To take it out is a failover, so the new topic of that name is fenced until somebody lifts the source fence."""
    pair.worker()
    pair.east.topic("anew")
    write(pair.east, "anew", range(2), range(10))
    pair.tanist("mirrors", "create", "anew", "--source", "east", "--topic", "anew")
    pair.tanist("mirrors", "wait", "anew", "--for", "lag=0", "--timeout", "200s")
    copied = pair.west.read("anew")
    delete(pair.east, "anew")
    until(lambda: told(pair, "anew") == {("STOPPED", "SOURCE_TOPIC_DELETED")}, 40, lambda: described(pair, "anew"))
    removal = ("mirrors", "remove", "anew", "--topic", "anew")
    plan = pair.tanist(*removal, "--dry-run", "--json").item["plan_hash"]
    approval = ("--topic", "anew", "--mode", "unplanned", "--reason", "deleted", "--valid", "1h")
    pair.tanist("failover", "approve", "anew", plan, *approval, user="approver")
    pair.tanist(*removal, "--fence-proof", "1s", "--json")
    assert pair.west.read("anew") == copied
    assert pair.west.writes("anew", range(2))

    delete(pair.west, "anew")
    pair.east.topic("anew")
    fence = ("fence", "show", "anew", "--json")
    until(lambda: pair.tanist(*fence).item["status"] != "owed", 90, lambda: pair.tanist(*fence).item)
    pair.tanist("fence", "lift", "anew", "--promoted")
    shut_out = AclBinding(TOPIC, "anew", LITERAL, pair.west.cluster.spec.principal("mirror"), "*", WRITE, DENY)
    take(pair.west.cluster, shut_out)
    write(pair.east, "anew", range(2), range(50, 80))
    pair.tanist("mirrors", "add", "anew", "--topic", "anew", "--promoted")
    pair.tanist("mirrors", "wait", "anew", "--for", "lag=0", "--timeout", "200s")
    assert pair.west.read("anew") == pair.east.read("anew")
    assert told(pair, "anew") == {("MIRRORING", None)}


def resumed_in_vain(pair: Pair, mirror: str, error: str) -> None:
    """Both logs are compared again, and the partition fails again with the same name."""
    pair.tanist("mirrors", "resume", mirror, "--topic", mirror)
    waited = pair.tanist("mirrors", "wait", mirror, "--for", "lag=0", "--timeout", "200s", expected=1)
    assert error in waited.err
    assert "row 900" in waited.err


def losses(pair: Pair, mirror: str) -> dict[str, Any]:
    """What `tanist status` says of records that the source deleted before they were copied."""
    checks = pair.tanist("status", mirror, "--json", expected=None).item["checks"]
    (found,) = (check for check in checks if check["name"] == "losses")
    return dict(found)


def test_records_that_the_source_deletes_before_they_are_copied_are_counted_listed_and_accepted(pair: Pair) -> None:
    """It is paused meanwhile, so that no worker of another test copies them."""
    pair.worker()
    pair.east.topic("overrun")
    write(pair.east, "overrun", range(2), range(10))
    pair.tanist("mirrors", "create", "overrun", "--source", "east", "--topic", "overrun")
    pair.tanist("mirrors", "wait", "overrun", "--for", "lag=0", "--timeout", "200s")
    pair.tanist("mirrors", "pause", "overrun", "--topic", "overrun")
    pair.tanist("mirrors", "wait", "overrun", "--for", "state=PAUSED", "--timeout", "200s")
    write(pair.east, "overrun", range(2), range(10, 40))
    delete_before(pair.east, MirrorPartition("overrun", 1), 25)
    pair.tanist("mirrors", "resume", "overrun", "--topic", "overrun")

    def settled() -> bool:
        whole, short = described(pair, "overrun")
        return (whole["lag"], short["error"]) == (0, "UNCOPIED_RECORDS_DELETED")

    until(settled, 60, lambda: described(pair, "overrun"))
    _, short = described(pair, "overrun")
    assert short["state"] == "FAILED"
    assert (short["lost_offsets"], [(each["first"], each["last"]) for each in short["lost"]]) == (15, [(10, 24)])
    assert "--on-loss continue" in short["reason"]
    assert short["destination_end_offset"] == 10
    found = losses(pair, "overrun")
    assert found["verdict"] == "FAIL"
    assert "mirrors alter overrun --destination west --on-loss continue" in found["reason"]

    resumed_in_vain(pair, "overrun", "UNCOPIED_RECORDS_DELETED")  # to resume is not to accept the loss

    pair.tanist("mirrors", "alter", "overrun", "--on-loss", "continue")
    until(lambda: described(pair, "overrun")[1]["state"] != "FAILED", 40)
    pair.tanist("mirrors", "wait", "overrun", "--for", "lag=0", "--timeout", "200s")
    write(pair.east, "overrun", range(2), range(40, 50))
    pair.tanist("mirrors", "wait", "overrun", "--for", "lag=0", "--timeout", "200s")
    records = pair.east.read("overrun")
    assert len(records) == 50 + 25
    until(lambda: pair.west.read("overrun") == records, 20)
    whole, short = described(pair, "overrun")
    assert (whole["lost"], short["state"], short["lost_offsets"]) == ([], "MIRRORING", 15)
    assert "15 offsets were deleted at the source before they were copied: 10 to 24" in short["reason"]
    found = losses(pair, "overrun")
    assert (found["verdict"], found["observed"].split(" ")[0]) == ("PASS", "15")
    assert "overrun-1: 15 offsets were deleted at the source before they were copied: 10 to 24" in found["reason"]
    (line,) = pair.tanist("state", "dump", "--key", "lost/overrun/").out.splitlines()
    assert '"until": 25' in line
