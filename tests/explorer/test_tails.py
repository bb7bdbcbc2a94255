"""The model of divergent tails does what the adapters do: `rules.ON_THE_WAY_BACK` names the tests on real brokers."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.broker_errors import OutOfOrderSequence
from tanist.domain.names import EpochMs, MirrorPartition, ProducerId
from tanist.ports.tails import CopiedSpan, TailCopy
from tests.explorer.product import (
    MemoryDeletion,
    MemoryQuarantine,
    MemoryReplays,
    MemorySizes,
    MemoryTails,
    MemoryTransactions,
    OpenTransaction,
    RecordedCluster,
    Written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.ports.clock import Deadline

AT: Final = MirrorPartition("orders", 0)
INTO: Final = MirrorPartition("quarantine", 0)


def nothing(_point: str) -> None:
    """Nobody is late."""


class Rig:
    """Five records at both clusters, and three more at the old source."""

    def __init__(self) -> None:
        self.old, self.new = (RecordedCluster(name, authorizer=False).with_topic("orders") for name in ("east", "west"))
        for number in range(5):
            self.old.keep(AT, written(number))
            self.new.keep(AT, written(number))
        for number in range(5, 8):
            self.old.keep(AT, written(number))
        self.by: Deadline = self.old.clock.deadline(9)
        self.tail = TailCopy(
            source=AT, cluster_id="id-east", begin=5, end=8, into=INTO, start=0, producer_id=ProducerId(7)
        )

    def confirmed(self) -> Deadline:
        return self.by

    def quarantine(self, point: Callable[[str], None] = nothing) -> MemoryQuarantine:
        return MemoryQuarantine(self.old, self.new, point)


def written(number: int) -> Written:
    return Written(number, b"k", 1_000 + number)


def test_logs_are_compared_up_to_where_they_part() -> None:
    rig = Rig()
    tails = MemoryTails(rig.old, rig.new)
    assert tails.common_ends({AT: CopiedSpan(5, 8)}, rig.by) == {AT: 5}
    rig.new.records[AT][3] = written(99)
    assert tails.common_ends({AT: CopiedSpan(5, 8)}, rig.by) == {AT: 3}
    assert tails.common_ends({AT: CopiedSpan(5, 8, reserves=((3, 4),))}, rig.by) == {AT: 5}
    assert tails.counts({AT: (5, 8)}, rig.by)[AT].records == 3
    assert tails.transactions({}, rig.by) == {}


def test_a_record_of_a_tail_is_copied_once_whoever_is_late() -> None:
    """Another process copies the same between the last look of the first one and its append."""
    rig, calls = Rig(), count()
    rig.quarantine().create(INTO.topic, 1, rig.by)

    def late(_point: str) -> None:
        if not next(calls):
            copied(rig.quarantine())

    def copied(by: MemoryQuarantine) -> list[int]:
        return list(by.copy(rig.tail, rig.confirmed, rig.by))

    copied(rig.quarantine(late))
    assert [each.number for _, each in rig.new.log(INTO)] == [5, 6, 7]
    assert rig.quarantine().at_source(rig.tail, rig.by).digest == rig.quarantine().rescued(rig.tail, rig.by).digest
    assert rig.quarantine().rescued(rig.tail, rig.by).until == rig.quarantine().ends([INTO], rig.by)[INTO] == 3


def test_a_late_batch_of_a_replay_is_refused() -> None:
    rig = Rig()
    rig.quarantine().create(INTO.topic, 1, rig.by)
    list(rig.quarantine().copy(rig.tail, rig.confirmed, rig.by))
    replays = MemoryReplays(rig.new, "app")
    records, start, producer = (
        list(replays.rescued(rig.tail, rig.by)),
        replays.end(AT, rig.by),
        replays.new_producer_id(rig.by),
    )
    assert [each.offset for each in records] == [5, 6, 7]
    assert replays.replayed(AT, start, producer, rig.by) == (None, None)
    replays.append(rig.tail, records[:2], producer, 0, rig.by)
    with pytest.raises(OutOfOrderSequence):
        replays.append(rig.tail, records[:2], producer, 0, rig.by)
    assert replays.replayed(AT, start, producer, rig.by) == (2, 6)
    assert not replays.last_of_keys(AT, (start, 99), {b"k"}, start, {producer}, rig.by)
    assert replays.may_write(["orders"], rig.by) == {"orders": True}


def test_an_aborted_transaction_leaves_a_marker() -> None:
    rig = Rig()
    rig.old.named = (OpenTransaction(AT, 77, EpochMs(3), "payer"),)
    transactions = MemoryTransactions(rig.old)
    (found,) = transactions.on([AT], rig.by)
    transactions.abort(found, rig.by)
    assert transactions.on([AT], rig.by) == ()
    assert rig.old.ends[AT] == (0, 9, 9)
    assert (AT, 8) in rig.old.control


def test_exactly_the_topic_with_an_id_is_deleted() -> None:
    """What is created after that has another id."""
    rig = Rig()
    deletion, former = MemoryDeletion(rig.old), rig.old.topics["orders"].topic_id
    for _ in range(2):
        assert deletion.delete("orders", former, rig.by) is None
        assert "orders" not in rig.old.topics
    rig.old.with_topic("orders")
    deletion.delete("orders", former, rig.by)
    assert rig.old.topics["orders"].topic_id != former
    assert MemorySizes(rig.new).sizes([AT], rig.by) == {AT: 5}
