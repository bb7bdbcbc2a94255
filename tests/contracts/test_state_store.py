"""What every StateStore does, the fake as well as the compacted topic."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

from tanist.domain.errors import OperatorFenced
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition
from tanist.domain.records import Claim, PartitionObserved, PromotionEpoch
from tanist.domain.state_record import Tombstone
from tanist.domain.states import MirrorState
from tanist.kafka.adapters.compacted_topic import CompactedTopic, TopicLayout, operator_of
from tanist.kafka.wire.clock import SystemClock
from tests.fakes.cluster import MemoryCluster
from tests.fakes.state import WORKER, FileLog, MemoryStateStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tanist.domain.state_record import StateRecord
    from tanist.ports.state import StateStore
    from tanist_testkit.sandbox.cluster import SandboxCluster

MIRROR = MirrorName("m")
OPERATOR = operator_of(MIRROR)
SOON = SystemClock().deadline


class Opener(Protocol):
    def __call__(self, writer: str | None = None, beside: str = "") -> StateStore: ...


@pytest.fixture(params=["memory", "file", "kafka"])
def open_store(request: pytest.FixtureRequest, topic_name: str, tmp_path: Path) -> Iterator[Opener]:
    """Opens the same topic again and again, or one `beside` it."""
    if request.param != "kafka":
        cluster = MemoryCluster()
        if request.param == "file":
            cluster.states[topic_name] = FileLog(tmp_path / "log")
        yield lambda writer=None, beside="": MemoryStateStore(cluster, topic_name + beside, writer)
        return
    clusters: Mapping[str, SandboxCluster] = request.getfixturevalue("clusters")
    with ExitStack() as stack:

        def real(writer: str | None = None, beside: str = "") -> StateStore:
            return stack.enter_context(
                CompactedTopic.open(
                    clusters["west"].endpoint(),
                    topic_name + beside,
                    SOON(20),
                    layout=TopicLayout(partitions=6, allow_small=True),
                    writer=f"{writer}-{topic_name}" if writer == OPERATOR else writer,
                    create=True,
                )
            )

        yield real


def generation(count: int, topic: str = "orders.v1_a-b") -> PromotionEpoch:
    return PromotionEpoch(mirror=MIRROR, topic=topic, count=count)


def claim(number: int, epoch: int) -> Claim:
    return Claim(state_partition=number, epoch=epoch, worker=f"w{epoch}")


def state(n: int, claim_epoch: int) -> PartitionObserved:
    return PartitionObserved(
        mirror=MIRROR,
        partition=MirrorPartition("t", n),
        state=MirrorState.MIRRORING,
        row=102,
        claim_epoch=claim_epoch,
        at=EpochMs(1),
    )


def test_a_writer_reads_its_own_record_back(open_store: Opener) -> None:
    for writer in (WORKER, OPERATOR):
        record = generation(1, writer)
        assert open_store(writer).append([record], SOON(10))[record.key] == record


def test_a_reader_that_has_caught_up_misses_nothing(open_store: Opener) -> None:
    reader, writer = open_store(), open_store(WORKER)
    records: list[StateRecord] = [generation(7), claim(3, 1), *(state(n, 1) for n in range(20))]
    writer.append(records, SOON(10))
    assert dict(reader.catch_up(SOON(10))) == {record.key: record for record in records}
    assert dict(open_store().view()) == dict(reader.view())


def test_a_transaction_is_seen_whole(open_store: Opener) -> None:
    reader, operator = open_store(), open_store(OPERATOR)
    operator.append([generation(1), generation(1, "other"), claim(5, 9)], SOON(10))
    assert len(reader.catch_up(SOON(10))) == 3


def test_a_tombstone_takes_its_record_away_in_every_partition(open_store: Opener) -> None:
    store = open_store(WORKER)
    records: list[StateRecord] = [generation(1), claim(3, 1), state(4, 1)]
    store.append(records, SOON(10))
    assert not store.append([Tombstone(record.key) for record in records], SOON(10))


def test_a_zombies_late_word_is_not_the_last(open_store: Opener) -> None:
    store = open_store(WORKER)
    store.append([claim(3, 5), state(4, 5)], SOON(10))
    view = store.append([claim(3, 4), state(4, 4)], SOON(10))
    assert view[claim(3, 5).key] == claim(3, 5)
    assert view[state(4, 5).key] == state(4, 5)


def test_of_two_operators_the_older_is_fenced_not_overwritten(open_store: Opener) -> None:
    older = open_store(OPERATOR)
    older.append([generation(1)], SOON(10))
    newer = open_store(OPERATOR)
    with pytest.raises(OperatorFenced):
        older.append([generation(66)], SOON(10))
    assert newer.append([generation(2, "u")], SOON(10))[generation(0).key] == generation(1)
    with pytest.raises(OperatorFenced):
        older.append([generation(66)], SOON(10))
    assert open_store().view()[generation(0).key] == generation(1)


def test_an_operator_writes_to_one_topic_at_a_time(open_store: Opener) -> None:
    """Its transactional id is the cluster's: to open another topic fences the store that was open."""
    first, second = open_store(OPERATOR), open_store(OPERATOR, "-b")
    with pytest.raises(OperatorFenced):
        first.append([generation(1)], SOON(10))
    assert second.append([generation(2)], SOON(10))[generation(0).key] == generation(2)


def test_an_operator_decides_on_the_last_word_of_the_one_it_fenced(open_store: Opener) -> None:
    open_store(OPERATOR).append([generation(3)], SOON(10))
    assert open_store(OPERATOR).view()[generation(0).key] == generation(3)


def test_a_view_that_was_handed_out_never_changes(open_store: Opener) -> None:
    store = open_store(WORKER)
    before = store.append([generation(1)], SOON(10))
    store.append([generation(2)], SOON(10))
    assert before[generation(0).key] == generation(1)
    with pytest.raises(TypeError):
        before["x"] = generation(1)  # type: ignore[index]


def test_a_reader_must_not_write(open_store: Opener) -> None:
    with pytest.raises(TypeError):
        open_store().append([generation(1)], SOON(1))


def test_following_begins_at_the_beginning(open_store: Opener) -> None:
    store = open_store(WORKER)
    for count in range(3):
        store.append([generation(count)], SOON(10))
    seen = []
    for record in store.follow(SOON(10)):
        seen.append(record)
        if len(seen) == 3:
            break
    assert seen == [generation(0), generation(1), generation(2)]
