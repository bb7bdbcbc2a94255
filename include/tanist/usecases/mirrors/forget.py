"""What an earlier mirror has left in the offset map and among the positions, taken out before the next one begins."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tanist.domain.records import OFFSETS_TOPIC
from tanist.domain.state_record import Tombstone
from tanist.usecases import sides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.usecases.sides import Run, Side


def runs(destination: Side, spec: MirrorSpec, topics: Sequence[str], command: Run) -> None:
    """Forget the offset map of `topics`: runs of an earlier mirror topic would shift the positions of the next one."""
    prefixes = tuple(f"run/{spec.mirror}/{topic}/" for topic in topics)
    _forget(destination, spec.mirror, OFFSETS_TOPIC, lambda kept: (k for k in kept if k.startswith(prefixes)), command)


def everything(destination: Side, mirror: MirrorName, topic: str, command: Run) -> None:
    """Forget every key of the mirrors that have ever had this name in a state topic; repeating it is harmless."""
    _forget(destination, mirror, topic, lambda kept: kept.keys_of(mirror), command)


def _forget(
    destination: Side, mirror: MirrorName, topic: str, which: Callable[[StateView], Iterable[str]], command: Run
) -> None:
    if keys := tuple(which(sides.read(destination, topic, command.by))):
        with closing(destination.open_store(topic, mirror, command.by)) as store:
            store.append([Tombstone(key) for key in keys], command.by)
