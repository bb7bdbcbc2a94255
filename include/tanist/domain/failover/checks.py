"""What `tanist status` says of failovers: could they start, and do those of the past still hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Verdict
from tanist.domain.fences import FenceStatus
from tanist.domain.records import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.checks import Mode
    from tanist.domain.errors import TanistError
    from tanist.domain.fences import FencedTopic
    from tanist.domain.names import TopicPartition
    from tanist.domain.records import FailoverRun

NEITHER: Final[frozenset[Mode]] = frozenset()
"""Of the past: it is told, and stops no failover of other topics."""
_MOST_NAMED: Final = 5


def replicas_check(in_sync: Mapping[TopicPartition, tuple[int, int] | TanistError]) -> Check:
    """(replicas in sync, needed) of every partition of the copy: could anybody write there?"""
    blind = [f"{at}: {seen}" for at, seen in in_sync.items() if not isinstance(seen, tuple)]
    known = {at: seen for at, seen in in_sync.items() if isinstance(seen, tuple)}
    offline = [f"{at} has no leader" for at, (replicas, _) in known.items() if not replicas]
    short = [f"{at} has {have} of {need} in sync" for at, (have, need) in known.items() if 0 < have < need]
    verdict = Verdict.FAIL if offline or short else Verdict.UNKNOWN if blind else Verdict.PASS
    return Check(
        name="replicas",
        verdict=verdict,
        observed=f"{len(offline)} offline, {len(short)} below min ISR",
        limit="none",
        age_ms=0,
        reason=_named([*offline, *short, *blind]),
    )


_AGAIN: Final = "; `tanist fetcher run` puts it up again"
_ADDS: Final = (
    "; `tanist fetcher run` repeats the last record there, once the partition rests for some seconds and where the"
    " mirror's login may WRITE"
)


def barrier_check(
    sealed: Mapping[TopicPartition, bool | TanistError], bare: Mapping[TopicPartition, bool | TanistError]
) -> Check:
    """Does the barrier of everything that took over still stand, and would it outlive the cleaner?

    It lasts as long as brokers remember our ids. `bare`: of compacted topics, whether it is a marker alone, which the
    cleaner takes away from whoever rebuilds that memory from the log.
    """
    gone = [f"{at}: its barrier has expired" for at, seen in sealed.items() if seen is False]
    weak = [
        f"{at}: compaction erases its barrier"
        for at, seen in bare.items()
        if seen is True and sealed.get(at) is not False
    ]
    blind = [f"{at}: {seen}" for at, seen in (*sealed.items(), *bare.items()) if not isinstance(seen, bool)]
    return Check(
        name="barrier",
        verdict=Verdict.FAIL if gone or weak else Verdict.UNKNOWN if blind else Verdict.PASS,
        observed=f"{sum(seen is True and bare.get(at, False) is False for at, seen in sealed.items())}"
        f" of {len(sealed)} proved",
        limit="all partitions that took over",
        age_ms=0,
        reason=_named([*gone, *weak, *blind]) + (_AGAIN if gone else _ADDS if weak else ""),
        counts_for=NEITHER,
    )


def fences_check(fences: Iterable[FencedTopic]) -> Check:
    """Source fences that could not be put up, or not be lifted, yet; or that stand though they were lifted."""
    held = list(fences)
    pending = {FenceStatus.OWED, FenceStatus.LIFT_OWED}
    owed = [each for each in held if each.status in pending or (each.status is FenceStatus.LIFTED and each.reason)]
    return Check(
        name="fences",
        verdict=Verdict.FAIL if owed else Verdict.PASS,
        observed=f"{len(owed)} owed of {len(held)}",
        limit="none owed",
        reason=_named([f"{each.topic}: {each.status}{f', {each.reason}' if each.reason else ''}" for each in owed]),
        counts_for=NEITHER,
    )


def runs_check(runs: Sequence[FailoverRun]) -> Check:
    """An unfinished run is in the way of any other."""
    unfinished = [run for run in runs if run.status is RunStatus.RUNNING]
    return Check(
        name="runs",
        verdict=Verdict.FAIL if unfinished else Verdict.PASS,
        observed=f"{len(unfinished)} unfinished of {len(runs)}",
        limit="none unfinished",
        reason=_named(
            [
                f"plan {run.plan} of {run.runner or 'nobody'}: {run.ways_on}{f' ({run.reason})' if run.reason else ''}"
                for run in unfinished
            ]
        ),
    )


def _named(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return "; ".join(texts[:_MOST_NAMED]) + more
