"""Publishes ranges of offset maps in `__mirror_offsets`, by a command that holds the lock of their mirror."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tanist.domain.records import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tanist.domain.mapped_runs import OffsetRangesWritten
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster


def publish(
    destination: Cluster, pieces: Iterable[OffsetRangesWritten], by: Deadline, confirm: Callable[[], None]
) -> None:
    """Write `pieces` of one mirror, those that are not there yet. `confirm`: called directly before.

    Raises:
        MirrorLocked: by `confirm`. OperatorFenced, AuthorizationFailed, TimedOut: as a state store does.
    """
    wanted = list(pieces)
    if not wanted:
        return
    with closing(destination.open_store(OFFSETS_TOPIC, wanted[0].mirror, by)) as store:
        view = store.view()
        missing = [each for each in wanted if view.get(each.key) != each]
        if missing:
            confirm()
            store.append(missing, by)
