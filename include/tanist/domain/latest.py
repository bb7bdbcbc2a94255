"""Which record of a key is the latest word: a late write of a zombie is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.reconciled.published import ReconciliationPublished as Reconciled
from tanist.domain.records import Claim, GroupPosition, MirrorSpec, PartitionObserved
from tanist.domain.state_record import MirrorRecord, StateRecord, Tombstone, mirror_of
from tanist.domain.states import BROKEN_ROW, SOURCE_DELETED_ROW, TAKEN_IN_ROW, MirrorState

if TYPE_CHECKING:
    from collections.abc import Mapping


def take(records: dict[str, StateRecord], record: StateRecord) -> bool:
    """Apply `record` to `records`; returns whether that changed them.

    The latest record of a key wins and a tombstone deletes it. A late write of a zombie, or of a worker of an earlier
    mirror of the name, is ignored.
    """
    key = record.key
    if isinstance(record, Tombstone):
        return records.pop(key, None) is not None
    held = records.get(key)
    if held is not None and (not _supersedes(record, held) or _of_an_earlier_mirror(records, held, record, key)):
        return False
    records[key] = record
    return True


def is_of(record: MirrorRecord, spec: MirrorSpec) -> bool:
    """Whether it is of this very mirror, not of an earlier one of the name."""
    return (record.mirror, record.mirror_id) == (spec.mirror, spec.mirror_id)


def _of_an_earlier_mirror(records: Mapping[str, StateRecord], held: StateRecord, record: StateRecord, key: str) -> bool:
    """Whether it would replace `held`, of the present mirror, by a record of an earlier mirror of that name."""
    if not (isinstance(held, MirrorRecord) and isinstance(record, MirrorRecord)) or held.mirror_id == record.mirror_id:
        return False
    spec = records.get(f"mirror/{mirror_of(key)}")
    return isinstance(spec, MirrorSpec) and is_of(held, spec) and not is_of(record, spec)


def _leaves_stopped(record: PartitionObserved, held: PartitionObserved) -> bool:
    """A worker that learns late that it was sealed does not undo the promotion; a newer wish does."""
    if held.row == SOURCE_DELETED_ROW and record.row in {SOURCE_DELETED_ROW, BROKEN_ROW}:
        return record.claim_epoch >= held.claim_epoch
    taken_in = record.row == TAKEN_IN_ROW and record.promotion_epoch >= held.promotion_epoch
    return record.row == held.row or taken_in


def _supersedes(record: StateRecord, held: StateRecord) -> bool:
    """Whether `record`, read after `held` with the same key, replaces it. A late write of a zombie does not."""
    match record, held:
        case MirrorRecord(), MirrorRecord() if record.mirror_id != held.mirror_id:
            return True
        case (Claim(epoch=new), Claim(epoch=old)) | (Reconciled(read_at=new), Reconciled(read_at=old)):
            return new >= old
        case PartitionObserved(), PartitionObserved(state=MirrorState.STOPPED):
            return _leaves_stopped(record, held)
        case PartitionObserved(claim_epoch=new), PartitionObserved(claim_epoch=old):
            return new >= old
        case GroupPosition(order=new), GroupPosition(order=old) if new >= 0:
            return new >= old
        case _:
            return True
