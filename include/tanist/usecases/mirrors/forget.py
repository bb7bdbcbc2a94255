"""Delete offset maps and committed offsets of an earlier mirror before the next one of its name begins.

These topics have transactional ids of their own, which the mirror's lock does not fence. Therefore the order is: open
the topic (which initialises its id), confirm the lock, read what to delete. A command that takes the lock later also
opens the topic later, which fences us; one that has taken it before is found by confirming the lock.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tanist.domain.losses import TombstonesMissed
from tanist.domain.mapped_runs import OffsetRangesWritten
from tanist.domain.reconciled.published import ReconciledSteps, ReconciliationPublished
from tanist.domain.records import OFFSETS_TOPIC, OffsetRangeWritten
from tanist.domain.state_record import Tombstone
from tanist.usecases import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.lock import LockedMirror, Rehearsal


def runs(destination: Cluster, mirror_now: LockedMirror | Rehearsal, topics: Sequence[str]) -> None:
    """Delete what is stored of the earlier mirror topics of `topics`: it would shift later offsets.

    Raises:
        MirrorLocked, OperatorFenced: another command holds the lock now; nothing was deleted.
    """
    kinds = (OffsetRangeWritten, OffsetRangesWritten, TombstonesMissed, ReconciliationPublished, ReconciledSteps)
    prefixes = tuple(f"{kind.stored_as}/{mirror_now.spec.mirror}/{topic}/" for kind in kinds for topic in topics)
    _forget(destination, mirror_now, OFFSETS_TOPIC, lambda kept: (k for k in kept if k.startswith(prefixes)))


def everything(destination: Cluster, mirror_now: LockedMirror | Rehearsal, topic: str) -> None:
    """Delete all keys of a state topic that belong to any mirror of this name. Idempotent.

    Raises as `runs`.
    """
    _forget(destination, mirror_now, topic, lambda kept: kept.keys_of(mirror_now.spec.mirror))


def _forget(
    destination: Cluster,
    mirror_now: LockedMirror | Rehearsal,
    topic: str,
    which: Callable[[StateView], Iterable[str]],
) -> None:
    by = mirror_now.command.by
    if not snapshot.exists(destination, topic, by):
        return
    with closing(destination.open_store(topic, mirror_now.spec.mirror, by)) as store:
        mirror_now.confirm()
        if keys := tuple(which(store.catch_up(by))):
            store.append([Tombstone(key) for key in keys], by)
