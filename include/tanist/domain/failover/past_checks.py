"""Checks of `tanist status` of what failovers left: fences that disagree with their records, and recorded losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain import losses
from tanist.domain.checks import Check, Verdict, named
from tanist.domain.fences import (
    HOLDS_PRODUCERS_OFF,
    LEFT_TO_A_FETCHER,
    STRAY,
    UNRECORDED,
    FenceStatus,
    fence_command,
    is_stray,
)
from tanist.domain.losses import OnLoss, UncopiedRecordsDeleted
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from tanist.domain.fences import FencedTopic
    from tanist.domain.lag import PartitionRow
    from tanist.domain.records import MirrorSpec


AGAIN: Final = "both sides can be written to; `tanist fetcher run` sets it again"
_LIFTED: Final = "it was failed over, and its source fence was lifted: producers can write to both clusters"
_NO_FENCE: Final = (
    "it was failed over, and no source fence is on record: producers may write to both clusters; `tanist mirrors "
    "delete`, then `tanist state restore` again, records it"
)
_UNFENCED: Final = "the mirror fences no source, so whoever stopped its producers keeps them stopped"
_SOURCE_SILENT: Final = "the source does not report whether its source fence is in force"


def fences_check(
    fences: Iterable[FencedTopic], stands: Mapping[str, bool | None], promoted: Collection[str], spec: MirrorSpec
) -> Check:
    """Whether every recorded source fence matches the source. `stands`: by topic, None or missing: not reported.

    The fence of a `promoted` topic must be on record and in force: once a command has lifted it, producers can write to
    both clusters until another one sets it again. That of another topic that was lifted must not be in force, and none
    may be without a record. While the source does not report it, the check is UNKNOWN.
    """
    held = list(fences)
    strange = [f"{each.topic}: {UNRECORDED}" for each in held if each.status is FenceStatus.UNRECORDED]
    owed = [f"{each.topic}: {each.status}" for each in held if each.status in LEFT_TO_A_FETCHER]
    stray = [
        f"{e.topic}: {STRAY}"
        for e in held
        if e.status is FenceStatus.LIFTED and (e.reason or is_stray(e, stands=stands.get(e.topic)))
    ]
    gone = [
        f"{each.topic}: it was failed over, but its source fence is not in force: {AGAIN}"
        for each in held
        if each.status in HOLDS_PRODUCERS_OFF and each.topic in promoted and stands.get(each.topic) is False
    ]
    lifted = [
        each.topic
        for each in held
        if each.status is FenceStatus.LIFTED and each.topic in promoted and stands.get(each.topic) is not True
    ]
    both = [f"{topic}: {_LIFTED}" for topic in lifted]
    known = {each.topic for each in held}
    absent = [f"{topic}: {_NO_FENCE}" for topic in sorted(promoted) if topic not in known and spec.fence_source]
    unfenced = [_UNFENCED] if known < {*known, *promoted} and not spec.fence_source else []
    wrong = [*gone, *both, *absent, *stray, *strange, *owed]
    blind = [f"{e.topic}: {_SOURCE_SILENT}" for e in held if stands.get(e.topic) is None and _must_agree(e, promoted)]
    again = fence_command("set", spec.mirror, spec.destination, lifted)
    return Check(
        name="fences",
        verdict=Verdict.FAIL if wrong else Verdict.UNKNOWN if blind else Verdict.PASS,
        observed=f"{len(owed)} pending, {len(gone) + len(stray) + len(strange)} differ from the record, of {len(held)}"
        + (f"; {len(both)} lifted" if both else "")
        + (f"; {len(absent)} not on record" if absent else ""),
        limit="none pending, all match the record",
        reason=named([*wrong, *blind, *unfenced]) + (f"; set again with `{again}`" if both else ""),
    )


def _must_agree(fence: FencedTopic, promoted: Container[str]) -> bool:
    """Whether the record requires the fence to be in force, or not to be, so that the source can differ from it."""
    if fence.status is FenceStatus.LIFTED:
        return not fence.reason and is_stray(fence, stands=True)
    return fence.status in HOLDS_PRODUCERS_OFF and fence.topic in promoted


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
