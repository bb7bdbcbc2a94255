"""Mirrors with mapped offsets whose logins have the documented rights, and none on either cluster itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.rights import TABLE, ClusterRole, Each, Notice, Use
from tests.kafka.failover.conftest import give, running, take
from tests.kafka.failover.documented_rights import acl_of, grant_least
from tests.kafka.failover.test_dead_source import PARTITIONS, busily
from tests.kafka.failover.test_mapped import WAIT, committed, values
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair

COPIED: Final = "copied"
ALTER_CONFIGS: Final = 11
MIRRORS: Final = ("still", "fire", COPIED)
"""Each of a topic of its name."""
READERS: Final = "readers"
LEFT_TO_PEOPLE: Final = ("--no-fence-source", "--no-grant-writers")


def least(cluster: SandboxCluster) -> None:
    where = ClusterRole.SOURCE if cluster.spec.name == "east" else ClusterRole.DESTINATION
    grant_least(cluster, where, MIRRORS, READERS)


@pytest.fixture(scope="module")
def bare(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with running(guardian, client_config, tmp_path_factory.mktemp("bare"), grants=least) as found:
        found.worker()
        for name in MIRRORS:
            found.east.topic(name, PARTITIONS)
            assert found.east.writes(name, range(24), partitions=PARTITIONS)
            mapped = ("--offsets", "mapped", *LEFT_TO_PEOPLE)
            found.tanist("mirrors", "create", name, "--source", "east", "--topic", name, *mapped)
        for name in MIRRORS:
            found.tanist("mirrors", "wait", name, *WAIT)
        yield found


# ── a worker that loses a right ───────────────────────────────────────────────────────────────────────────────────────


_OF_COPYING: Final = {Use.COPY, Use.SERVE, Use.MAPPED, Use.POSITIONS}
ROWS: Final = {
    (str(row.where), row.operations[0], str(row.resource)): row
    for row in TABLE
    if row.use in _OF_COPYING and row.resource_type != "Cluster" and row.operations[0] not in {"CREATE", "DESCRIBE"}
}
"""Each right of a worker once; WRITE on transactional ids implies DESCRIBE."""
HALTING: Final = {
    ("source", "READ", Each.TOPIC): "TOPIC_AUTHORIZATION_FAILED: fetch of",
    ("destination", "WRITE", Each.TOPIC): "TOPIC_AUTHORIZATION_FAILED: a transaction on",
    ("destination", "READ", Each.TOPIC): "TOPIC_AUTHORIZATION_FAILED: records of",
    ("destination", "WRITE", "tanist-*"): "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: InitProducerIdResponse for",
    (
        "destination",
        "READ",
        Each.POSITIONS,
    ): "GROUP_AUTHORIZATION_FAILED: coordinator of group 'tanist-copied/positions'",
}
"""Without these nothing is copied; `mirrors describe` has the reason of each partition."""
ENDING: Final = {
    ("destination", "READ", f"__mirror_{name}"): f"needs READ on topic __mirror_{name}"
    for name in ("state", "offsets", "groups")
}
"""Without these the worker ends, with that as its last word. It is started again."""
LOGGED: Final = {
    ("destination", "WRITE", "__mirror_state"): "needs WRITE on topic __mirror_state",
    ("destination", "WRITE", "__mirror_groups"): "needs WRITE on topic __mirror_groups",
    ("destination", "READ", "tanist-fetchers"): "needs READ on group tanist-fetchers",
    ("source", "READ", Each.WRITTEN_BACK): "the position of the mirror is not written back to the source",
}
"""Without these it goes on as far as it can, and logs that."""


def title(key: tuple[str, str, str]) -> str:
    return "-".join(key).replace(" ", "_")


@pytest.mark.parametrize("key", [("destination", "WRITE", Each.TOPIC)], ids=title)
def test_what_is_not_copied_for_want_of_a_right_has_that_reason(bare: Pair, key: tuple[str, str, str]) -> None:
    must_be_named(bare, key)


@pytest.mark.long  # the one above is as they are
@pytest.mark.parametrize("key", ROWS, ids=title)
def test_each_right_that_is_taken_away_is_named_and_nothing_is_lost(bare: Pair, key: tuple[str, str, str]) -> None:
    must_be_named(bare, key)


def is_named(pair: Pair, key: tuple[str, str, str], logged: str) -> bool:
    """`logged`: since the right is gone. Without a right that only later commands need copying goes on."""
    if key in HALTING:
        return HALTING[key] in pair.tanist("mirrors", "describe", COPIED, "--json", user="admin").out
    if key in ENDING:
        return ENDING[key] in logged and not pair.workers["w1"].alive
    if key in LOGGED:
        return LOGGED[key] in logged
    return pair.tanist("mirrors", "wait", COPIED, *WAIT, user="admin").code == 0


def doctor(pair: Pair) -> str:
    """What it does not find, in small letters."""
    rows = json.loads(pair.tanist("doctor", "--json", expected=None).out)["items"]
    return " ".join(r["reason"] for r in rows if r["verdict"] == "FAIL" or "missing: " in r["reason"]).casefold()


def must_be_named(pair: Pair, key: tuple[str, str, str]) -> None:
    """While it is gone; and once it is back, every record is in the copy."""
    row, name = ROWS[key], COPIED
    side = pair.east if row.where is ClusterRole.SOURCE else pair.west
    mine = [acl_of(row.of(name).rights[0], side.cluster.spec.principal("mirror"))]
    if key == ("destination", "DESCRIBE_CONFIGS", Each.TOPIC):
        mine.append(mine[0]._replace(operation=ALTER_CONFIGS))  # it implies the other
    pair.worker()
    log = pair.home / "w1.log"
    begun = log.stat().st_size
    take(side.cluster, *mine)
    try:
        assert pair.east.writes(name, range(24), partitions=PARTITIONS)
        until(lambda: is_named(pair, key, log.read_bytes()[begun:].decode()), 60)
        if row.notice is not Notice.UNREPORTED:
            assert row.of(name).title.casefold() in doctor(pair)
    finally:
        give(side.cluster, *mine)
        pair.worker()
    assert pair.east.writes(name, range(24), partitions=PARTITIONS)
    pair.tanist("mirrors", "wait", name, *WAIT)
    assert values(committed(pair.west, name, PARTITIONS)) == values(committed(pair.east, name, PARTITIONS))


# ── failovers ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_planned_it_waits_for_producers_that_a_person_stops(bare: Pair) -> None:
    bare.east.commit(READERS, "still", 1)
    until(lambda: READERS in bare.tanist("state", "dump", "--key", "group/still").out, 40)
    until(lambda: bare.east.committed("tanist-still/copied", "still") == 2, 20)  # written back: 24 records of 12
    plan = bare.approved("still")
    asked = bare.tanist("failover", "plan", "still").err
    assert "accept: SOURCE_NOT_FENCED: producers of the source are not blocked: stop them yourself" in asked
    assert "accept: WRITERS_NOT_GRANTED: who may write at the destination is neither looked at nor changed" in asked
    with busily(bare.east, "still") as acknowledged:
        stopped = bare.tanist("failover", "run", "still", "--plan", plan, *QUICK, "--drain", "3s", expected=None)
    assert stopped.code != 0
    assert "PRODUCERS_WRITE" in stopped.err
    plan = bare.approved("still")
    done = bare.tanist("failover", "run", "still", "--plan", plan, *QUICK).item
    assert done["status"] == "DONE"
    source = values(committed(bare.east, "still", PARTITIONS))
    assert values(committed(bare.west, "still", PARTITIONS)) == source
    for at, records in acknowledged.items():
        assert set(records.values()) <= set(source[at.partition])
    assert bare.west.committed(READERS, "still") == 1
    assert bare.west.writes("still", range(100, 104))


@pytest.mark.long  # the planned one above is as it is, besides the drain
def test_unplanned_nothing_but_what_the_table_says_is_needed(bare: Pair) -> None:
    plan = bare.approved("fire", mode="unplanned")
    done = bare.tanist("failover", "run", "fire", "--plan", plan, *QUICK).item
    assert done["status"] == "DONE"
    assert values(committed(bare.west, "fire", PARTITIONS)) == values(committed(bare.east, "fire", PARTITIONS))
    assert bare.west.writes("fire", range(100, 104))


@pytest.mark.long  # a plan waits 10 s for what it is not shown; the settings above are the way on
def test_a_mirror_that_fences_its_source_says_which_right_it_lacks_and_what_goes_without(bare: Pair) -> None:
    bare.tanist("mirrors", "alter", COPIED, "--fence-source")
    told = bare.tanist("failover", "plan", COPIED, expected=None).err
    bare.tanist("mirrors", "alter", COPIED, "--no-fence-source")
    assert "this login lacks DESCRIBE on Cluster kafka-cluster, so its source fences cannot be seen" in told
    assert f"tanist mirrors alter {COPIED} --destination west --no-fence-source" in told
    assert "SOURCE_DOWN" not in bare.tanist("failover", "plan", COPIED).err
