"""S3.13: limits of a mirror, and quotas of brokers, which name its threads by their client ids."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.limits import LimitKey, LimitShare
from tests.kafka.fetcher.rig import soon, until

if TYPE_CHECKING:
    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.copier import Copier
    from tests.kafka.fetcher.rig import Rig, RigCluster

KB, MB = 1_000, 1_000_000
LONGEST_BATCH = 64 * KB
LOOK_SECONDS = 10.0


def fill(side: RigCluster, at: MirrorPartition, size: int) -> None:
    side.produce(at, (os.urandom(KB) for _ in range(size // KB)), batch_size=LONGEST_BATCH)


def copied_bytes(copier: Copier) -> int:
    return sum(each.bytes for each in copier.reports().values())


def bytes_in(copier: Copier, seconds: float) -> float:
    """Bytes per second from now on."""
    began, before = time.monotonic(), copied_bytes(copier)
    time.sleep(seconds)  # noqa: TID251  # the rate is what is tested
    return (copied_bytes(copier) - before) / (time.monotonic() - began)


def quota(side: RigCluster, client_id: str, **rates: float | None) -> None:
    """Of one client id, in bytes per second; None takes it away."""
    request: Any = import_module("kafka.protocol.admin.client_quotas").AlterClientQuotasRequest
    ops = [request.EntryData.OpData(key=key, value=rate or 0.0, remove=rate is None) for key, rate in rates.items()]
    entity = [request.EntryData.EntityData(entity_type="client-id", entity_name=client_id)]
    asked = request(entries=[request.EntryData(entity=entity, ops=ops)], validate_only=False, version=1)
    answer = side.router.any_connection(soon()).call(asked, soon())
    assert [each.error_code for each in answer.entries] == [0]


def test_a_limit_is_kept_over_ten_seconds_and_altered_while_it_runs(rig: Rig, topic_name: str) -> None:
    """Within 5 % or one batch from above; from below as near as a machine comes that other tests keep busy.

    A topic's limit holds up no other topic.
    """
    at, [free] = rig.create(topic_name, 4), rig.create(f"{topic_name}-free")
    for each in at:
        fill(rig.source, each, 15 * MB)
    mirror, limit = LimitKey(rig.spec.mirror), 2 * MB
    copier = rig.copier(at, limits=(mirror,))
    copier.throttle.share({mirror: LimitShare(limit)})
    with copier:
        until(lambda: copied_bytes(copier) > limit, 20)
        found = bytes_in(copier, LOOK_SECONDS)
        assert 0.5 * limit < found <= 1.05 * limit + LONGEST_BATCH / LOOK_SECONDS, found
        copier.throttle.share({mirror: LimitShare(2 * limit)})
        altered = bytes_in(copier, LOOK_SECONDS / 2)
        assert limit < altered <= 2.1 * limit + 2 * LONGEST_BATCH / LOOK_SECONDS, altered
        copier.throttle.share({mirror: LimitShare(KB)})
        fill(rig.source, free, KB)
        copier.throttle.share({})
        rig.copied(copier)
    assert rig.identical(at) == ""


@pytest.mark.long
def test_a_quota_of_the_source_makes_its_threads_wait_and_no_other(out_of_trio: Rig, topic_name: str) -> None:
    """The broker's answers are empty meanwhile: nothing is in error, and nothing counts as seen that was not read."""
    rig = out_of_trio
    slow, *others = (rig.source.create(f"{topic_name}-{n}", brokers=[n])[0] for n in (1, 2, 3))
    for each in (slow, *others):
        rig.destination.create(each.topic)
        fill(rig.source, each, MB)
    quota(rig.source, "test-w1-1", consumer_byte_rate=50.0 * KB)
    try:
        with rig.copier((slow, *others)) as copier:
            rig.copied(copier, 20, only=others)
            assert (copier.reports()[slow].position or 0) < MB // KB
            rig.copied(copier, 60, only=[slow])
            assert [each.error for each in copier.reports().values()] == [None] * 3
            assert sum(each.source.throttled_ms for each in copier.totals.threads().values()) > 1_000
    finally:
        quota(rig.source, "test-w1-1", consumer_byte_rate=None)
    assert rig.identical((slow, *others)) == ""


@pytest.mark.parametrize("size", [MB, pytest.param(4 * MB, marks=pytest.mark.long)])  # the first one is the sibling
def test_a_destination_broker_that_throttles_holds_up_no_other(into_trio: Rig, topic_name: str, size: int) -> None:
    """For a minute with 4 MB: one thread appends to all three brokers, and one of them reads nothing of it."""
    rig = into_trio
    slow, other = (rig.destination.create(f"{topic_name}-{n}", brokers=[n])[0] for n in (1, 2))
    for each in (slow, other):
        rig.source.create(each.topic)
    fill(rig.source, slow, size)
    client_ids = [f"test-w1-{each.id}" for each in rig.source.cluster.brokers]
    for client_id in client_ids:
        quota(rig.destination, client_id, producer_byte_rate=50.0 * KB)
    try:
        with rig.copier((slow, other)) as copier:
            threads = copier.totals.threads
            until(lambda: sum(each.destination.throttled_ms for each in threads().values()) > 5_000, 20)
            fill(rig.source, slow, 64 * KB)
            for _ in range(3):
                rig.source.produce(other, [b"x"])
                rig.copied(copier, 2, only=[other])
            assert (copier.reports()[slow].position or 0) < rig.source.end(slow), "it is still made to wait"
            rig.copied(copier, 120, only=[slow])
            assert [each.error for each in copier.reports().values()] == [None, None]
    finally:
        for client_id in client_ids:
            quota(rig.destination, client_id, producer_byte_rate=None)
    assert rig.identical((slow, other)) == ""


def test_a_frozen_destination_broker_holds_up_no_other(into_trio: Rig, topic_name: str) -> None:
    """S3.8: all partitions of a thread waited 15 s for it, again and again."""
    rig = into_trio
    frozen, other = (rig.destination.create(f"{topic_name}-{n}", brokers=[n])[0] for n in (1, 2))
    for each in (frozen, other):
        rig.source.create(each.topic)
        rig.source.produce(each, [b"x"])
    with rig.copier((frozen, other)) as copier:
        rig.copied(copier)
        rig.destination.cluster.pause(1)
        fill(rig.source, frozen, 2 * MB)
        waited = []
        for _ in range(20):
            rig.source.produce(other, [b"x"])
            began = time.monotonic()
            rig.copied(copier, 10, only=[other])
            waited.append(time.monotonic() - began)
        rig.destination.cluster.unpause(1)
        rig.copied(copier)
    assert max(waited) < 2, waited
    assert rig.identical((frozen, other)) == ""


def test_several_threads_for_one_broker_copy_side_by_side_and_share_a_limit(rig: Rig, topic_name: str) -> None:
    """S3.8; partitions move between threads, while they are copied, when their number is altered."""
    at = rig.create(topic_name, 6)
    for each in at:
        fill(rig.source, each, 6 * MB)
    mirror, limit = LimitKey(rig.spec.mirror), 2 * MB
    copier = rig.copier(at, spec=replace(rig.spec, threads=3), limits=(mirror,))
    copier.throttle.share({mirror: LimitShare(limit, threads=3)})
    with copier:
        until(lambda: copied_bytes(copier) > limit, 20)
        assert sorted(each.key.number for each in copier.made) == [0, 1, 2]
        found = bytes_in(copier, LOOK_SECONDS / 2)
        assert abs(found - limit) <= 0.1 * limit + 3 * LONGEST_BATCH / LOOK_SECONDS, found
        copier.alter(replace(rig.spec, threads=1))
        copier.throttle.share({})
        rig.copied(copier)
        until(lambda: sum(each.is_alive() for each in copier.made) == 1, 20)
        for each in at:
            rig.source.produce(each, [b"x"])
        rig.copied(copier)
    assert rig.identical(at) == ""
