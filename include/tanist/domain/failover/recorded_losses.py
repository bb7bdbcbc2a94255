"""The check of `tanist status` on records that the source deleted before they were copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain import losses
from tanist.domain.checks import Check, Verdict, named
from tanist.domain.losses import OnLoss, UncopiedRecordsDeleted
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.lag import PartitionRow
    from tanist.domain.records import MirrorSpec


def losses_check(spec: MirrorSpec, rows: Iterable[PartitionRow]) -> Check:
    """What is on record of such records. It passes if a mirror with `--on-loss continue` has copied what follows.

    They are at neither cluster, so no failover depends on them. `rows`: all partitions of the mirror.
    """
    found = [(row, row.lost) for row in rows if row.lost is not None]
    waiting = [row for row, _ in found if _waits(row)]
    total = sum(lost.offsets for _, lost in found)
    shown = f"{spec.mirror} --destination {spec.destination}"
    if waiting:
        step = f"; `tanist mirrors alter {shown} --on-loss {OnLoss.CONTINUE}` accepts that and copies what follows"
    else:
        step = f"; what follows was copied; `tanist mirrors describe {shown}` lists them" if found else ""
    lines = (f"{row.partition}: {losses.describe(lost.ranges, lost.earlier)}" for row, lost in found)
    return Check(
        name="losses",
        verdict=Verdict.FAIL if waiting else Verdict.PASS,
        observed=f"{total} offsets of {len(found)} partition(s) deleted at the source before they were copied",
        limit="none, or accepted",
        reason=f"{named(lines)}{step}",
    )


def _waits(row: PartitionRow) -> bool:
    """Whether nothing is copied behind the loss until somebody accepts it."""
    error = row.observed.error if row.observed else None
    return row.state is MirrorState.FAILED and error == UncopiedRecordsDeleted.name
