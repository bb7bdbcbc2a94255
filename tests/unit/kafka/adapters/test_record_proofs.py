"""The records at both offsets of translations: what one partition needs is not taken from the others."""

from __future__ import annotations

import time
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import TimedOut
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, SourcePartition
from tanist.domain.translation import Proof
from tanist.kafka.adapters import record_proofs
from tanist.kafka.adapters.log_reader import LogPart
from tanist.kafka.adapters.record_proofs import KafkaProofs
from tanist.kafka.wire.requests import End
from tanist.ports.clock import Deadline
from tanist.ports.positions import Pair
from tests.unit.kafka.protocol.test_refilling import BASE_TIME, StoredBatch, Written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.names import TopicPartition
    from tanist.kafka.adapters.log_reader import UnreadSpan

SECONDS = 0.6


def a_batch(offset: int, key: bytes = b"k") -> memoryview:
    return memoryview(StoredBatch(offset, offset + 1, [Written(offset, BASE_TIME, key, b"v")], 0).bytes())


class Leaders:
    """Of both clusters. `stuck`: partitions whose leader uses up all the time that a request has."""

    def __init__(self) -> None:
        self.stuck: set[tuple[str, int]] = set()
        self.silent: set[tuple[str, int]] = set()
        self.batch: dict[str, memoryview] = {"east": a_batch(5), "west": a_batch(5)}

    def list_offsets(
        self, _router: object, wanted: Mapping[TopicPartition, object], by: Deadline
    ) -> dict[TopicPartition, int | TanistError]:
        if self.silent & wanted.keys():
            Event().wait(by.left(time.monotonic()))
        which = next(iter(wanted.values()), None)
        end = 0 if which is End.EARLIEST else 9
        return {at: TimedOut("stuck") if at in self.silent else end for at in wanted}

    def parts_of(
        self, router: Any, at: TopicPartition, span: UnreadSpan, by: Deadline, **_: object
    ) -> Iterator[LogPart]:
        if at in self.stuck:
            Event().wait(by.left(time.monotonic()))
        if not by.left(time.monotonic()):
            raise TimedOut(f"{at} could not be read in time")
        yield LogPart(span.position, 9, self.batch[router])


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch) -> Leaders:
    found = Leaders()
    monkeypatch.setattr(record_proofs, "list_offsets", found.list_offsets)
    monkeypatch.setattr(record_proofs, "parts_of", found.parts_of)
    return found


def compared(*partitions: int, position: int = 5) -> list[tuple[Proof, bool]]:
    east: Any = "east"
    west: Any = "west"
    at = SourceOffset(position), DestinationOffset(position)
    pairs = [Pair(SourcePartition("orders", n), at[0], MirrorPartition("orders", n), at[1]) for n in partitions]
    found = KafkaProofs(east, west).compare(pairs, Deadline(time.monotonic() + SECONDS))
    return [(found[pair].proof, found[pair].exact_place) for pair in pairs]


def test_a_stuck_leader_leaves_the_partitions_after_it_their_time(leaders: Leaders) -> None:
    leaders.stuck = {("orders", 0)}
    assert [proof for proof, _ in compared(0, 1, 2)] == [Proof.NONE, Proof.MATCH, Proof.MATCH]


def test_a_leader_that_does_not_tell_where_its_log_begins_leaves_the_others_their_time(leaders: Leaders) -> None:
    leaders.silent = {("orders", 1)}
    assert [proof for proof, _ in compared(0, 1, 2)] == [Proof.MATCH, Proof.NONE, Proof.MATCH]


def test_a_mismatch_says_whether_both_logs_hold_a_record_at_the_very_offset(leaders: Leaders) -> None:
    leaders.batch["west"] = a_batch(5, b"l")
    assert compared(0) == [(Proof.MISMATCH, True)]
    assert compared(0, position=3) == [(Proof.MISMATCH, False)]
    leaders.batch["west"] = a_batch(5)
    assert compared(0, position=3) == [(Proof.MATCH, True)]
