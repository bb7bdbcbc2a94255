"""What a whole topic of MirrorMaker 2 says in the end, and what of it could not be used. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tanist.domain.mirrormaker.records import (
    Checkpoint,
    CheckpointDeleted,
    Heartbeat,
    HeartbeatDeleted,
    OffsetSync,
    SyncsDeleted,
    Undecodable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.mirrormaker.records import CheckpointEvent, HeartbeatEvent, SyncEvent
    from tanist.domain.names import MirrorPartition, SourcePartition

_T = TypeVar("_T")

TOMBSTONE: Final = "a tombstone, which MirrorMaker 2 does not write"


@dataclass(frozen=True, slots=True)
class Folded(Generic[_T]):
    """`skipped`: how many records could not be used, by reason."""

    found: _T
    skipped: Mapping[str, int]


def offset_syncs(events: Iterable[SyncEvent]) -> Folded[Mapping[SourcePartition, tuple[OffsetSync, ...]]]:
    """The syncs of each partition, in the order of the topic. A tombstone deletes those before it."""
    found: dict[SourcePartition, list[OffsetSync]] = {}
    skipped = Counter[str]()
    for event in events:
        match event:
            case OffsetSync(partition):
                found.setdefault(partition, []).append(event)
            case SyncsDeleted(partition):
                found.pop(partition, None)
                skipped[TOMBSTONE] += 1
            case Undecodable(why):
                skipped[why] += 1
    return Folded({at: tuple(syncs) for at, syncs in found.items()}, dict(skipped))


def checkpoints(events: Iterable[CheckpointEvent]) -> Folded[Mapping[MirrorPartition, Mapping[str, Checkpoint]]]:
    """The latest checkpoint of each group, by partition of the copy."""
    found: dict[MirrorPartition, dict[str, Checkpoint]] = {}
    skipped = Counter[str]()
    for event in events:
        match event:
            case Checkpoint(group, partition):
                found.setdefault(partition, {})[group] = event
            case CheckpointDeleted(group, partition):
                found.get(partition, {}).pop(group, None)
                skipped[TOMBSTONE] += 1
            case Undecodable(why):
                skipped[why] += 1
    return Folded(found, dict(skipped))


def heartbeats(events: Iterable[HeartbeatEvent]) -> Folded[Mapping[tuple[str, str], Heartbeat]]:
    """The latest heartbeat of each pair of aliases."""
    found: dict[tuple[str, str], Heartbeat] = {}
    skipped = Counter[str]()
    for event in events:
        match event:
            case Heartbeat(source, target):
                found[source, target] = event
            case HeartbeatDeleted(source, target):
                found.pop((source, target), None)
                skipped[TOMBSTONE] += 1
            case Undecodable(why):
                skipped[why] += 1
    return Folded(found, dict(skipped))


def described(skipped: Mapping[str, int]) -> str:
    """The reasons in one line, the most frequent one first; empty: nothing was skipped."""
    ordered = sorted(skipped.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{number} x {why}" for why, number in ordered)
