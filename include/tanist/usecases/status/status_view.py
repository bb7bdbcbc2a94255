"""What the status page shows of a mirror, most urgent first. The field names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tanist.domain.checks import Check, Mode, Readiness, Verdict
from tanist.domain.lag import counted
from tanist.domain.limitation import Limitation
from tanist.domain.next_steps.rules import guide
from tanist.domain.next_steps.step import ask_command
from tanist.domain.states import MirrorState
from tanist.usecases.failover.items import pending_reversal_item, run_item
from tanist.usecases.items import check_item, following, limitation_item, row_item, status_item
from tanist.usecases.workers import worker_item

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import EpochMs
    from tanist.domain.records import FailoverRun
    from tanist.usecases.status.observe import MirrorStatus

STALE_MS: Final = 30_000
"""An older observation has no verdict."""
MOST_SHOWN: Final = 20
_CALM: Final = frozenset({MirrorState.MIRRORING, MirrorState.PAUSED, MirrorState.STOPPED})
_URGENCY: Final = (
    MirrorState.FAILED,
    MirrorState.UNKNOWN,
    MirrorState.PREPARING,
    MirrorState.PAUSING,
    MirrorState.STOPPING,
)


def _nowhere(_plan: str) -> None:
    """The default of `evidence`: there is none."""


def board_item(seen: MirrorStatus, at: EpochMs, evidence: Callable[[str], str | None] = _nowhere) -> dict[str, Any]:
    """One mirror as it was observed at `at`. `evidence`: the folder of a plan's evidence, if it is on this host."""
    troubled = sorted((row for row in seen.rows if _troubled(row)), key=_urgency)
    counts = counted(seen.rows)
    return (
        status_item(seen.status)
        | following(guide(seen.situation))
        | {
            "source": seen.spec.source,
            "destination": seen.spec.destination,
            "read_at_ms": at,
            "partitions": dict(counts.states),
            "lag": {
                "offsets": counts.lag,
                "unknown": counts.unknown,
                "bytes": counts.bytes,
                "ms": counts.ms,
                "age_ms": max((at - row.source.at for row in seen.rows if row.source), default=None),
            },
            "troubled": [row_item(row) for row in troubled[:MOST_SHOWN]],
            "troubled_count": len(troubled),
            "last_failover": _run_item(seen.runs[-1], evidence) if seen.runs else None,
            "pending_reversal": pending_reversal_item(seen.situation.reversal),
            "workers": [worker_item(worker, at) for worker in seen.workers],
        }
    )


def aged(item: Mapping[str, Any], now: EpochMs) -> dict[str, Any]:
    """The same with its age; without a verdict if it is too old."""
    age = max(0, now - item["read_at_ms"])
    if age <= STALE_MS:
        return {**item, "age_ms": age}
    check = Check(
        name="reading",
        verdict=Verdict.UNKNOWN,
        observed=f"{age // 1000} s old",
        limit=f"{STALE_MS // 1000} s",
        age_ms=age,
        reason=(
            f"the last answer was planned {item['planned']}, unplanned {item['unplanned']}, and no newer one has "
            "arrived"
        ),
    )
    old = limitation_item(Limitation("READING_OLD", check.reason, blocks=True, unknown=True))
    verdicts = {str(mode): Readiness.UNKNOWN for mode in Mode}
    found = {mode: [old, *limitations] for mode, limitations in item["limitations"].items()}
    asks = ask_command(item["mirror"], item["destination"])
    again = {"command": asks, "why": "asks the clusters now: this answer is old", "decision": None}
    checks = [check_item(check), *item["checks"]]
    return {**item, **verdicts, "age_ms": age, "limitations": found, "checks": checks, "next": [again]}


def _troubled(row: PartitionRow) -> bool:
    return not row.followed and (row.state not in _CALM or row.lag != 0)


def _urgency(row: PartitionRow) -> tuple[int, float]:
    """Order: FAILED first, then the greatest lag; an unknown lag counts as the greatest."""
    rank = _URGENCY.index(row.state) if row.state in _URGENCY else len(_URGENCY)
    return rank, -(float("inf") if row.lag is None else row.lag)


def _run_item(run: FailoverRun, evidence: Callable[[str], str | None]) -> dict[str, Any]:
    return run_item(run, folder=evidence(run.plan))
