"""MirrorMaker 2's records as bytes, and what is not as it writes them."""

from __future__ import annotations

import pytest

from tanist.domain.mirrormaker.records import (
    Checkpoint,
    CheckpointDeleted,
    Heartbeat,
    HeartbeatDeleted,
    OffsetSync,
    SyncsDeleted,
    Undecodable,
)
from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition, SourceOffset, SourcePartition
from tanist.kafka.protocol.mirrormaker import checkpoint, heartbeat, offset_sync

SYNC = ("0006746f7069633100000002", "00000000000000050000000000000006")
CHECKPOINT = (
    "000667726f757031000e736f75726365312e746f7069633100000002",
    "0000000000000000000d000000000000000e00046d657461",
)
HEARTBEAT = ("000141000142", "000000000000499602d2")


def raw(pair: tuple[str, str]) -> tuple[bytes, bytes]:
    return bytes.fromhex(pair[0]), bytes.fromhex(pair[1])


def test_the_three_records_as_mirrormaker_writes_them() -> None:
    at = SourcePartition("topic1", 2)
    assert offset_sync(*raw(SYNC)) == OffsetSync(at, SourceOffset(5), DestinationOffset(6))
    copy = MirrorPartition("source1.topic1", 2)
    assert checkpoint(*raw(CHECKPOINT)) == Checkpoint("group1", copy, SourceOffset(13), DestinationOffset(14), "meta")
    assert heartbeat(*raw(HEARTBEAT)) == Heartbeat("A", "B", EpochMs(1234567890))


def test_a_tombstone_names_what_it_deletes() -> None:
    assert offset_sync(raw(SYNC)[0], None) == SyncsDeleted(SourcePartition("topic1", 2))
    assert checkpoint(raw(CHECKPOINT)[0], None) == CheckpointDeleted("group1", MirrorPartition("source1.topic1", 2))
    assert heartbeat(raw(HEARTBEAT)[0], None) == HeartbeatDeleted("A", "B")


@pytest.mark.parametrize(("decode", "pair"), [(offset_sync, SYNC), (checkpoint, CHECKPOINT), (heartbeat, HEARTBEAT)])
def test_no_bytes_make_it_fail(decode: object, pair: tuple[str, str]) -> None:
    assert callable(decode)
    key, value = raw(pair)
    for broken in (
        *((key[:n], value) for n in range(len(key))),
        *((key, value[:n]) for n in range(len(value))),
        (None, value),
        (key + b"\0", value),
        (key, value + b"\0"),
        (b"\xff\xff" + key[2:], value),
        (b"\x00\x01\xff" + key[3:], value),
    ):
        found = decode(*broken)
        assert isinstance(found, Undecodable), broken
        assert found.why


def test_a_version_that_mirrormaker_never_wrote_is_named() -> None:
    for decode, pair in ((checkpoint, CHECKPOINT), (heartbeat, HEARTBEAT)):
        key, value = raw(pair)
        assert decode(key, b"\0\1" + value[2:]) == Undecodable("version 1, which MirrorMaker 2 has never written")


def test_a_negative_offset_is_none() -> None:
    key, value = raw(SYNC)
    assert offset_sync(key, b"\xff" * 8 + value[8:]) == Undecodable("offset -1")
    assert offset_sync(key, value[:8] + b"\xff" * 8) == Undecodable("offset -1")
