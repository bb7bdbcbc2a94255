"""Mirrors with mapped offsets into a broker that forgets ids soon and takes short positions only."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pytest

from tanist.domain.states import DesiredState
from tanist.domain.writer_identity import TransactionalWriter, transactional_id_of
from tanist.fetcher.engines.transactions import owned_id
from tanist.kafka.adapters.producer_fencing import KafkaProducerFencing
from tanist.kafka.wire.hot import Appends
from tanist.kafka.wire.requests import End
from tanist.kafka.wire.transactions import transactional_producers
from tanist.ports.fencing import TransactionFence
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.builders import a_topic
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.copier import SLICE
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.raw import producers
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, until
from tests.kafka.fetcher.test_mapped import FIVE, mapped_spec, must_be_equal
from tests.kafka.fetcher.test_writers import broken
from tests.kafka.fetcher.worker import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tanist.kafka.protocol.frames import ProduceBatch
    from tanist.ports.clock import Deadline
    from tanist_testkit.sandbox.processes import Guardian

STRICT: Final = {
    "offset.metadata.max.bytes": "120",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "producer.id.expiration.check.interval.ms": "200",
    "producer.id.expiration.ms": "3000",
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


@pytest.mark.long  # its short sibling is tests/unit/domain/test_transaction_size.py
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


def known_ids(rig: Rig) -> set[str]:
    """The transactional ids of the mirror that a coordinator knows."""
    found = transactional_producers(rig.destination.router, soon())
    return {each for each in found if each.startswith(rig.spec.transactional_id)}


@pytest.mark.long  # its short sibling is the worker below, which must not go on
def test_a_worker_whose_transactional_id_has_expired_goes_on_with_a_new_one(mapped: Rig, topic_name: str) -> None:
    """Nothing was to be copied for as long as coordinators keep an id: seven days, by default."""
    rig = mapped
    at = rig.create(topic_name, 2)
    with rig.copier(at) as copier:
        for _ in range(2):
            for each in at:
                rig.source.produce(each, FIVE)
            rig.copied(copier)
            until(lambda: not known_ids(rig), 20)
    must_be_equal(rig, at)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 3))])
def test_a_worker_that_was_frozen_before_a_failover_and_wakes_after_its_id_has_expired_writes_nothing(
    mapped: Rig, topic_name: str, tmp_path: Path, seed: int
) -> None:
    """Neither the coordinator nor a leader remembers the fence by then: whoever asks for an epoch gets one.

    Only the state of the mirror, which the worker reads after that, keeps it off.
    """
    rig, store, dice = mapped, tmp_path / "state", Random(seed)
    at, rig.store = rig.create(topic_name, 3), worker_store(store)
    added = a_topic(topic_name, mirror=rig.spec.mirror, mirror_id=rig.spec.mirror_id, partitions=3)
    rig.store.append([rig.spec, added], soon())
    with process(rig, at, store) as worker:
        for n in range(dice.randrange(20, 30)):
            rig.source.transaction(dice.choice(at), [b"%d-%d" % (n, m) for m in range(100)])
        until(lambda: sum(rig.destination.ends(at, End.HIGH_WATERMARK).values()) > 500, 30)
        worker.send_signal(signal.SIGSTOP)
        rig.store.append([replace(added, desired=DesiredState.REMOVED)], soon())
        writers = dict.fromkeys(at, TransactionalWriter(transactional_id_of(rig.spec, SLICE)))
        fences = KafkaProducerFencing(rig.destination.router).fence_transactional_ids(writers, soon())
        assert all(isinstance(each, TransactionFence) for each in fences.values()), fences
        until(lambda: not known_ids(rig), 20)
        until(lambda: not any(producers(rig.destination, each) for each in at), 20)
        ends = rig.destination.ends(at, End.LOG_END)
        for each in at:
            rig.source.produce(each, FIVE)
        worker.send_signal(signal.SIGCONT)
        until(lambda: known_ids(rig), 20)  # it has asked for an epoch, and has got one
        time.sleep(2)  # noqa: TID251  # it would write now
        assert worker.poll() is None
    assert rig.destination.ends(at, End.LOG_END) == ends == rig.destination.ends(at, End.LAST_STABLE)
