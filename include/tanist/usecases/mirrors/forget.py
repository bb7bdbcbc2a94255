"""What an earlier mirror has left in the offset map and among the positions, taken out before the next one begins.

These topics have transactional ids of their own, which the mirror's lock does not fence. So the topic is opened first,
always, and the lock confirmed once more behind that: whoever takes the lock later opens the topic later, which fences
us; whoever has taken it before is found by the lock. Only then is it read what there is to forget.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tanist.domain.records import OFFSETS_TOPIC
from tanist.domain.state_record import Tombstone
from tanist.usecases import state_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.lock import LockedMirror, Rehearsal


def runs(destination: Cluster, mirror_now: LockedMirror | Rehearsal, topics: Sequence[str]) -> None:
    """Forget the offset map of `topics`: runs of an earlier mirror topic would shift the positions of the next one.

    Raises:
        MirrorLocked, OperatorFenced: somebody else has the lock by now; nothing was forgotten.
    """
    prefixes = tuple(f"run/{mirror_now.spec.mirror}/{topic}/" for topic in topics)
    _forget(destination, mirror_now, OFFSETS_TOPIC, lambda kept: (k for k in kept if k.startswith(prefixes)))


def everything(destination: Cluster, mirror_now: LockedMirror | Rehearsal, topic: str) -> None:
    """Forget every key of the mirrors that have ever had this name in a state topic; repeating it is harmless.

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
    if not state_topics.exists(destination, topic, by):
        return
    with closing(destination.open_store(topic, mirror_now.spec.mirror, by)) as store:
        mirror_now.confirm()
        if keys := tuple(which(store.catch_up(by))):
            store.append([Tombstone(key) for key in keys], by)
