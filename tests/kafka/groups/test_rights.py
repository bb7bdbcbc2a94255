"""What happens where rights are missing: it is said, it is done another way, and nobody else is delayed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.acls import AclBinding
from tanist.domain.broker_errors import GroupAuthorizationFailed
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition, ProducerId
from tanist.domain.records import MirrorSpec, OffsetTailMode
from tanist.fetcher import group_tail
from tanist.kafka.adapters.positions import KafkaPositions
from tanist.kafka.adapters.topics import KafkaTopics
from tanist.kafka.wire.admin import AccessFilter, create_acls, delete_acls
from tanist.kafka.wire.router import Router
from tanist.ports.positions import CommitChange, CommittedPosition
from tanist.ports.topics import NewTopic
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.fetcher.rig import soon, until
from tests.kafka.groups.readers import Followed, moved
from tests.ports import over, over_positions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.processes import Guardian


TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
READ, DESCRIBE = 3, 8
WRITE = 4
LITERAL, PREFIXED, DENY, ALLOW = 3, 4, 2, 3
USER = "mirror"
ORDERS = MirrorPartition("orders", 0)
SPEC = MirrorSpec(
    mirror=MirrorName("m"),
    source="guarded",
    destination="west",
    source_cluster_id="",
    destination_cluster_id="",
    data_id=ProducerId(1),
    marker_id=ProducerId(2),
    start_id=ProducerId(3),
    created_at=EpochMs(0),
)


class Guarded:
    """A cluster with an authorizer; `admin` commits, `mirror` follows."""

    def __init__(self, cluster: SandboxCluster) -> None:
        self.cluster = cluster
        self.endpoint = cluster.endpoint_for(USER)
        self._router = Router(cluster.endpoint(), "test")
        self._positions = KafkaPositions(self._router, SPEC.mirror)
        with over(KafkaTopics, cluster.endpoint()) as topics:
            topics.create([NewTopic(name="orders", partitions=1, replication_factor=1)], soon())

    def close(self) -> None:
        self._positions.close()
        self._router.close()

    def rule(self, kind: int, name: str, operation: int, permission: int = ALLOW, *, pattern: int = LITERAL) -> None:
        rules = [AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, permission)]
        assert not any(create_acls(self._router, rules, soon()))

    def take_back(self, kind: int, name: str, operation: int) -> None:
        delete_acls(self._router, [AccessFilter(kind, name, LITERAL, f"User:{USER}", None, operation, 1)], soon())

    def reset(self) -> None:
        delete_acls(self._router, [AccessFilter(principal=f"User:{USER}")], soon())

    def commit(self, group: str, offset: int) -> None:
        by = soon()
        while True:
            answer = moved(self._positions, [group], ORDERS, offset, by)[group]
            if answer == {ORDERS: None}:
                return
            assert by.left(time.monotonic()), answer


@pytest.fixture(scope="module")
def _cluster(guardian: Guardian) -> Iterator[Guarded]:
    with SandboxCluster.new(ClusterSpec(name="guarded", authorizer=True, heap_mb=384), guardian=guardian) as cluster:
        guarded = Guarded(cluster)
        yield guarded
        guarded.close()


@pytest.fixture
def guarded(_cluster: Guarded) -> Guarded:
    _cluster.reset()
    for kind in (TOPIC, GROUP):
        _cluster.rule(kind, "*", DESCRIBE)
    return _cluster


def test_without_the_log_it_asks_and_says_so(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes back to the log as soon as it may read it."""
    monkeypatch.setattr(group_tail, "TAIL_AGAIN_SECONDS", 2.0)
    guarded.commit("polled", 3)
    with Followed(SPEC, guarded.endpoint, ["orders"]) as followed:
        until(lambda: followed.position("polled", ORDERS) == 3, 20, followed.note)
        guarded.commit("polled", 5)
        until(lambda: followed.position("polled", ORDERS) == 5, 10, followed.note)
        note = followed.note()
        assert note is not None
        assert note.mode is OffsetTailMode.POLLING
        assert "READ on Topic __consumer_offsets is missing" in note.reason
        assert note.complete_until_ms > 0
        guarded.rule(TOPIC, "__consumer_offsets", READ)
        until(lambda: (now := followed.note()) and now.mode is OffsetTailMode.TAILING, 20, followed.note)
        guarded.commit("polled", 7)
        until(lambda: followed.position("polled", ORDERS) == 7, 10, followed.note)


@pytest.mark.parametrize(("kind", "name"), [(GROUP, "hidden"), (TOPIC, "orders")])
def test_a_right_that_is_taken_away_deletes_nothing(guarded: Guarded, kind: int, name: str) -> None:
    """No broker calls it an error: the group is not listed, the topic is left out of the answer."""
    guarded.commit("hidden", 4)
    guarded.commit("seen", 4)
    with Followed(SPEC, guarded.endpoint, ["orders"]) as followed:
        until(lambda: followed.position("hidden", ORDERS) == 4, 20, followed.note)
        guarded.rule(kind, name, DESCRIBE, DENY)
        if kind == GROUP:
            guarded.commit("seen", 6)
            until(lambda: followed.position("seen", ORDERS) == 6, 10, followed.note)
        before = followed.note()
        until(
            lambda: (now := followed.note()) and before and now.complete_until_ms > before.complete_until_ms + 3000,
            20,
            followed.note,
        )
        assert followed.position("hidden", ORDERS) == 4


def asked_twice(followed: Followed) -> None:
    """Waits until the tail has asked, and written what it found, for the second time."""
    until(
        lambda: (now := followed.note()) and now.mode is OffsetTailMode.POLLING and now.complete_until_ms,
        20,
        followed.note,
    )
    first = followed.note()
    until(
        lambda: (now := followed.note()) and first and now.complete_until_ms > first.complete_until_ms,
        20,
        followed.note,
    )


@pytest.mark.parametrize(("kind", "name"), [(GROUP, "unseen"), (TOPIC, "orders")])
def test_whoever_begins_to_ask_deletes_nothing_that_was_read_from_the_log(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, kind: int, name: str
) -> None:
    """Neither a worker that loses the log together with another right, nor the next one, which has never seen more."""
    monkeypatch.setattr(group_tail, "NOTE_EVERY_SECONDS", 0.2)
    guarded.rule(TOPIC, "__consumer_offsets", READ)
    guarded.commit("unseen", 4)
    with Followed(SPEC, guarded.endpoint, ["orders"]) as followed:
        until(lambda: followed.position("unseen", ORDERS) == 4, 20, followed.note)
        before = followed.positions()
        guarded.rule(kind, name, DESCRIBE, DENY)
        guarded.take_back(TOPIC, "__consumer_offsets", READ)
        asked_twice(followed)
        assert followed.positions() == before
    with Followed(SPEC, guarded.endpoint, ["orders"], followed.groups) as following:
        asked_twice(following)
        assert following.positions() == before


def test_one_forbidden_group_delays_nobody(guarded: Guarded) -> None:
    groups = [f"many-{n}" for n in range(30)]
    for kind in (TOPIC, GROUP):
        guarded.rule(kind, "*", READ)
    guarded.rule(TRANSACTIONAL_ID, "tanist-", WRITE, pattern=PREFIXED)
    for group in groups:
        guarded.commit(group, 1)
    for operation in (READ, DESCRIBE):
        guarded.rule(GROUP, groups[7], operation, DENY)
    with over_positions(guarded.endpoint, SPEC.mirror) as positions:
        began = time.monotonic()
        found = positions.committed(groups, soon())
        changes = {
            group: {ORDERS: CommitChange(CommittedPosition(1, ""), CommittedPosition(2, "tanist"))} for group in groups
        }
        done = positions.commit(changes, soon())
        assert time.monotonic() - began < 20
    assert isinstance(found[groups[7]], GroupAuthorizationFailed)
    others = [group for group in groups if group != groups[7]]
    assert [found[group] for group in others] == [{ORDERS: CommittedPosition(1, "")}] * len(others)
    assert [group for group in groups if done[group] == {ORDERS: None}] == others
    assert "GroupAuthorizationFailed" in repr(done[groups[7]])


def test_a_mirror_of_another_cluster_is_refused(guarded: Guarded) -> None:
    """A connection that leads elsewhere must not bring foreign positions."""
    with Followed(replace(SPEC, source_cluster_id="another"), guarded.endpoint, ["orders"]) as followed:
        until(lambda: (now := followed.note()) and "CLUSTER_ID_MISMATCH" in now.reason, 20, followed.note)
        assert followed.positions() == []
