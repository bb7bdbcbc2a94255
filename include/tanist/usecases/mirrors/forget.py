"""What an earlier life has left in the offset map and among the positions, taken out before the next one begins."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tanist.domain.records import OFFSETS_TOPIC
from tanist.domain.state_record import Tombstone
from tanist.usecases import sides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorName
    from tanist.usecases.sides import Run, Side


def runs(destination: Side, mirror: MirrorName, topics: Sequence[str], run: Run) -> None:
    """Forget the offset map of `topics`: runs of an earlier copy would shift the positions of the next one."""
    prefixes = tuple(f"run/{mirror}/{topic}/" for topic in topics)
    keys(destination, mirror, OFFSETS_TOPIC, prefixes, run)


def keys(destination: Side, mirror: MirrorName, topic: str, prefixes: tuple[str, ...], run: Run) -> None:
    """Forget everything in a state topic whose key begins with one of `prefixes`; repeating it is harmless.

    It needs the mirror's transactional id for itself: one operator writes to one topic at a time.
    """
    kept = sides.read(destination, topic, run.by)
    if ours := [key for key in kept if key.startswith(prefixes)]:
        with closing(destination.open_store(topic, mirror, run.by)) as store:
            store.append([Tombstone(key) for key in ours], run.by)
