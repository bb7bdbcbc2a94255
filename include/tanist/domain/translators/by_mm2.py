"""Translation by the offset-syncs that MirrorMaker 2 has written: pairs of offsets, some 100 records apart by default.

MM2 keeps 64 of them in memory; here all count that its topic still has and that still hold (`mirrormaker.history`).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from tanist.domain.mirrormaker.history import NO_SYNCS
from tanist.domain.mirrormaker.sync_store import OffsetSyncStore
from tanist.domain.names import DestinationOffset
from tanist.domain.translation import Conservative, Exact, InputKind, Translator, Unknown

if TYPE_CHECKING:
    from tanist.domain.log_ends import Span
    from tanist.domain.mirrormaker.history import Mm2Partition
    from tanist.domain.mirrormaker.records import OffsetSync
    from tanist.domain.mirrormaker.sync_store import NoAnswer
    from tanist.domain.names import SourceOffset
    from tanist.domain.translation import Inputs, Translation

_NOT_READ: Final = "the topics of MirrorMaker 2 were not read"


def translate(position: SourceOffset, known: Mm2Partition | None, copy: Span[DestinationOffset] | None) -> Translation:
    """The destination offset for the committed offset `position`: of the nearest sync before it.

    Behind that sync one offset at most: of the records behind it, an unknown number is not at the destination. An exact
    answer is a candidate: the records of the sync are to be compared (`Translator.unproved`).
    """
    if copy is None:
        return Unknown("the log of the mirror partition could not be read")
    if known is None or known.missing:
        return Unknown(_NOT_READ if known is None else known.missing)
    if position < 0:
        return Unknown(f"{position} is not a valid offset")
    sync = _nearest(position, known, copy)
    return _before_all(position, known, copy) if sync is None else _from(sync, position, known, copy)


def _from(
    sync: OffsetSync, position: SourceOffset, known: Mm2Partition, copy: Span[DestinationOffset]
) -> Exact | Conservative:
    evidence = (sync.upstream, sync.downstream)
    hit = sync.upstream == position
    offset = DestinationOffset(sync.downstream + (not hit))
    if offset < copy.start:
        return Conservative(copy.start, f"the mirror partition begins at {copy.start}: older records are gone")
    if not hit:
        why = f"the nearest offset-sync of MirrorMaker 2 before it is {sync.upstream} at {sync.downstream}"
        return Conservative(offset, why, evidence=evidence)
    if known.exact_from is None or position < known.exact_from:
        why = "MirrorMaker 2 has copied again from about there, so some records come twice"
        return Conservative(offset, why, evidence=evidence)
    return Exact(offset)


def _nearest(position: SourceOffset, known: Mm2Partition, copy: Span[DestinationOffset]) -> OffsetSync | None:
    """The newest sync up to `position`; the end of the copy may have been read before the last syncs were written."""
    at_most = bisect_right(known.syncs, position, key=lambda each: each.upstream)
    inside = bisect_right(known.syncs, copy.end - 1, key=lambda each: each.downstream)
    index = min(at_most, inside)
    return known.syncs[index - 1] if index else None


def _before_all(position: SourceOffset, known: Mm2Partition, copy: Span[DestinationOffset]) -> Translation:
    first = known.syncs[0]
    if first.downstream <= copy.start:
        return Conservative(copy.start, f"the mirror partition begins at {copy.start}, with {first.upstream} or before")
    if first.upstream > position:
        return Unknown(f"the oldest offset-sync of MirrorMaker 2 is of {first.upstream}, behind {position}")
    return Unknown(f"the copy ends at {copy.end}, before the first offset-sync of MirrorMaker 2 at {first.downstream}")


def explain(position: SourceOffset, read: Inputs) -> str:
    """Which sync was used, of how many."""
    known = read.mm2
    if known is None or known.missing:
        return f"mm2: {_NOT_READ if known is None else known.missing}"
    total = f"{len(known.syncs)} of {len(known.written)} offset-syncs hold"
    sync = None if read.copy is None else _nearest(position, known, read.copy)
    notes = "".join(f"; {note}" for note in known.notes)
    if sync is None:
        return f"mm2: {total}, none at or before {position}{notes}"
    return f"mm2: {total}; source {sync.upstream} was copied to destination {sync.downstream}{notes}"


def answered(group: str, position: SourceOffset, known: Mm2Partition) -> tuple[str, ...]:
    """What MM2 itself answers for a position of a group: its last checkpoint, and a replay of its store.

    MM2 is not asked: it answers nobody. The replay is what it would translate if it started over its topic as it is
    now; while it runs it may have more syncs than the topic still has, or fewer.
    """
    found = known.checkpoints.get(group)
    last = (
        "none of this group and partition"
        if found is None
        else f"{found.upstream} at the source is {found.downstream} at the destination"
    )
    return (
        f"MirrorMaker 2's last checkpoint: {last}",
        f"a replay of its store over its topic now: {_replay(known, position)}",
    )


def _replay(known: Mm2Partition, position: SourceOffset) -> str:
    if not known.written:
        return known.missing or NO_SYNCS
    found = replayed(known, position)
    return f"{found}" if isinstance(found, int) else f"{found.value} (its oldest offset-sync is behind {position})"


def replayed(known: Mm2Partition, position: SourceOffset) -> DestinationOffset | NoAnswer:
    """The translation by MM2's own store over the syncs of the topic as it is now."""
    store = OffsetSyncStore.replayed(known.written)
    return store.translate(known.written[0].partition, position)


MM2: Final = Translator(
    name="mm2",
    basis="offset-syncs of MirrorMaker 2",
    needs=frozenset({InputKind.MM2}),
    translate=lambda position, read: translate(position, read.mm2, read.copy),
    explain=explain,
    blames_itself=True,
    peers=lambda group, position, read: () if read.mm2 is None else answered(group, position, read.mm2),
    unproved="MirrorMaker 2 says that it is exact, but the records at both offsets could not be compared",
)
"""Not exact before the records at both offsets were compared: MM2 keeps offset-syncs that no longer hold."""
