"""Mirrors with mapped offsets into a broker that forgets ids soon and takes short positions only."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest

from tanist.fetcher.engines.transactions import owned_id
from tanist.kafka.wire.hot import Appends
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import Rig, RigCluster
from tests.kafka.fetcher.test_mapped import FIVE, mapped_spec, must_be_equal
from tests.kafka.fetcher.test_writers import broken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.kafka.protocol.frames import ProduceBatch
    from tanist.ports.clock import Deadline
    from tanist_testkit.sandbox.processes import Guardian

STRICT: Final = {
    "offset.metadata.max.bytes": "120",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transactional.id.expiration.ms": "4000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
SLOW: Final = 2_000_000
"""Bytes a second."""


@pytest.fixture(scope="module")
def strict(guardian: Guardian) -> Iterator[SandboxCluster]:
    with SandboxCluster.new(ClusterSpec(name="strict", properties=STRICT), guardian=guardian) as cluster:
        yield cluster


@pytest.fixture
def mapped(sides: tuple[RigCluster, RigCluster], strict: SandboxCluster) -> Iterator[Rig]:
    destination = RigCluster(strict)
    rig = Rig(sides[0], destination)
    rig.spec = mapped_spec(replace(rig.spec, mirror=type(rig.spec.mirror)(f"m-{uuid4().hex}")))
    yield rig
    destination.close()


def test_a_transaction_that_was_aborted_for_its_age_is_followed_by_smaller_ones(
    mapped: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow way to the destination: what one fetch brings takes longer than the brokers let a transaction last."""
    monkeypatch.setattr(owned_id, "TIMEOUT_MS", 1_000)
    post = Appends.post

    def slowly(self: Appends, batches: Sequence[ProduceBatch], by: Deadline) -> None:
        time.sleep(sum(len(each.batch) for each in batches) / SLOW)  # noqa: TID251  # as long as it would take
        post(self, batches, by)

    monkeypatch.setattr(Appends, "post", slowly)
    rig = mapped
    at = rig.create(topic_name, 2)
    for n in range(100):
        rig.source.produce(at[n % 2], [b"%d" % n + bytes(30_000)])
    with rig.copier(at) as copier:
        rig.copied(copier)
    must_be_equal(rig, at)
    everything = read(rig.destination.servers, at, "read_uncommitted")
    assert sum(map(len, everything.values())) > 100, "something was aborted"


def test_a_position_that_the_brokers_find_too_long_is_named_and_stops_no_other(mapped: Rig, topic_name: str) -> None:
    """OFFSET_METADATA_TOO_LARGE: each marker of the source leaves an offset out, so a range more rides."""
    rig, dice = mapped, Random(3)
    at = rig.create(topic_name, 2)
    for n in range(60):
        rig.source.transaction(at[0], FIVE[: dice.randrange(1, 5)], commit=n % 3 > 0)
    with rig.copier(at) as copier:
        rig.source.produce(at[1], FIVE)
        assert broken(copier, at[0]) == "POSITION_TOO_LARGE"
        rig.copied(copier, only=[at[1]])
    must_be_equal(rig, [at[1]])
