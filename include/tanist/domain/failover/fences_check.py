"""The check `fences` of `tanist status`: whether recorded source fences and those at the source agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Verdict, named
from tanist.domain.fences import HOLDS_PRODUCERS_OFF, STRAY, UNRECORDED, FenceStatus, fence_command, is_stray

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from tanist.domain.fences import FencedTopic
    from tanist.domain.records import MirrorSpec

AGAIN: Final = "both sides can be written to; `tanist fetcher run` sets it again"
_LIFTED: Final = "it was failed over, and its source fence was lifted: producers can write to both clusters"
_NO_FENCE: Final = (
    "it was failed over, and no source fence is on record: producers may write to both clusters; `tanist mirrors "
    "delete`, then `tanist state restore` again, records it"
)
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
    owed = [
        f"{each.topic}: {each.status}"
        for each in held
        if each.status in {FenceStatus.PENDING, FenceStatus.LIFT_PENDING}
    ]
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
    absent = [f"{topic}: {_NO_FENCE}" for topic in sorted(promoted) if topic not in known]
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
        reason=named([*wrong, *blind]) + (f"; set again with `{again}`" if both else ""),
    )


def _must_agree(fence: FencedTopic, promoted: Container[str]) -> bool:
    """Whether the record requires the fence to be in force, or not to be, so that the source can differ from it."""
    if fence.status is FenceStatus.LIFTED:
        return not fence.reason and is_stray(fence, stands=True)
    return fence.status in HOLDS_PRODUCERS_OFF and fence.topic in promoted
