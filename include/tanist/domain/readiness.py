"""Can I fail over now? Checks over what was seen of one mirror: pure, and unknown is never green."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import BOTH, PLANNED_ONLY, Check, Mode, Readiness, Verdict, readiness
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.growth import Growth
    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import EpochMs, MirrorName
    from tanist.domain.records import WorkerAlive

WORKER_SILENT_MS: Final = 30_000
"""A worker that has not written its heartbeat for so long is taken for dead."""

_UNFINISHED: Final = {MirrorState.PREPARING}
_BROKEN: Final = {MirrorState.FAILED}
_HALTED: Final = {MirrorState.PAUSING, MirrorState.PAUSED}
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One look at a mirror. The errors are None where there is none."""

    mirror: MirrorName
    rows: tuple[PartitionRow, ...]
    left: tuple[str, ...] = ()
    """Topics that are in it no more: they have taken over, or were removed."""
    workers: tuple[WorkerAlive, ...]
    source_error: str | None
    growth: Growth
    state_topic_problem: str | None
    now: EpochMs
    more: tuple[Check, ...] = ()
    """What others have looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    mirror: MirrorName
    planned: Readiness
    unplanned: Readiness
    checks: tuple[Check, ...]


def status(facts: Facts) -> Status:
    """All checks of a mirror and both verdicts."""
    checks = (
        _source(facts),
        _source_partitions(facts),
        _destination(facts),
        _state_topic(facts),
        _partitions(facts.rows) if facts.rows else _without_partitions(facts.left),
        _running(facts.rows),
        _lag(facts),
        workers_check(facts.workers, facts.now),
        *facts.more,
    )
    return Status(
        mirror=facts.mirror,
        planned=readiness(checks, Mode.PLANNED),
        unplanned=readiness(checks, Mode.UNPLANNED),
        checks=checks,
    )


def _source(facts: Facts) -> Check:
    """A planned failover needs a source that answers; an unplanned one is for when it does not."""
    if facts.source_error is None:
        return Check(name="source", verdict=Verdict.PASS, observed="answers", age_ms=0, counts_for=PLANNED_ONLY)
    return Check(
        name="source",
        verdict=Verdict.UNKNOWN,
        observed="does not answer",
        limit="answers",
        reason=facts.source_error,
        counts_for=PLANNED_ONLY,
    )


def _source_partitions(facts: Facts) -> Check:
    """What has no copy would be lost in any failover. Not to know is no reason against an unplanned one."""
    grown, untold = facts.growth.grown, facts.growth.untold
    counted = [f"{len(facts.growth.partitions)} without a copy", *(f"{len(g.partitions)} of {g.topic}" for g in grown)]
    without = [f"{each.topic}: {each.mirrored} of {each.at_source} are mirrored" for each in grown]
    return Check(
        name="source_partitions",
        verdict=Verdict.FAIL if grown else Verdict.UNKNOWN if untold else Verdict.PASS,
        observed=_named([*counted, *([f"{len(untold)} topic(s) not told"] if untold else [])]),
        limit="0",
        age_ms=None if untold else 0,
        reason=_named([*without, *(f"{topic}: {error}" for topic, error in untold.items())])
        + (f"; `tanist metadata sync {facts.mirror}`" if grown else ""),
        counts_for=BOTH if grown else PLANNED_ONLY,
    )


def _destination(facts: Facts) -> Check:
    """Partitions that cannot be read here cannot take over."""
    silent = [row for row in facts.rows if row.destination_end is None]
    return Check(
        name="destination",
        verdict=Verdict.FAIL if silent else Verdict.PASS,
        observed=f"{len(facts.rows) - len(silent)} of {len(facts.rows)} partitions answer",
        limit="all",
        age_ms=0,
        reason=_named([f"{row.partition}: {row.destination_error}" for row in silent]),
    )


def _state_topic(facts: Facts) -> Check:
    problem = facts.state_topic_problem
    verdict = Verdict.FAIL if problem else Verdict.PASS
    return Check(name="state_topic", verdict=verdict, observed="unsafe" if problem else "sane", reason=problem or "")


def _partitions(rows: Sequence[PartitionRow]) -> Check:
    """A partition that has failed, or whose copy has not begun, would be missing after any failover."""
    bad = [row for row in rows if row.state in _BROKEN | _UNFINISHED]
    unknown = [row for row in rows if row.state is MirrorState.UNKNOWN]
    counts = Counter(str(row.state) for row in rows)
    return Check(
        name="partitions",
        verdict=Verdict.FAIL if bad else Verdict.UNKNOWN if unknown else Verdict.PASS,
        observed=", ".join(f"{count} {state}" for state, count in sorted(counts.items())),
        limit="none FAILED, PREPARING or UNKNOWN",
        reason=_named([f"{row.partition} is {row.state}" for row in bad or unknown]),
    )


def _without_partitions(left: Sequence[str]) -> Check:
    """Whether it has taken over already, or has never had any."""
    return Check(
        name="partitions",
        verdict=Verdict.FAIL if left else Verdict.UNKNOWN,
        observed="none",
        limit="at least 1",
        reason=f"nothing is left to fail over: taken over or removed: {_named(left)}" if left else "no topic is in it",
    )


def _running(rows: Sequence[PartitionRow]) -> Check:
    """What is paused would never drain."""
    halted = [row for row in rows if row.state in _HALTED]
    return Check(
        name="running",
        verdict=Verdict.FAIL if halted else Verdict.PASS,
        observed=f"{len(halted)} paused",
        limit="0",
        reason=_named([str(row.partition) for row in halted]),
        counts_for=PLANNED_ONLY,
    )


def _lag(facts: Facts) -> Check:
    """The number itself is for people to judge; that it is known is what counts here."""
    known = [lag for row in facts.rows if (lag := row.lag) is not None]
    blind = [str(row.partition) for row in facts.rows if row.lag is None]
    seen = [row.source.at for row in facts.rows if row.source is not None]
    return Check(
        name="lag",
        verdict=Verdict.UNKNOWN if blind else Verdict.PASS,
        observed=f"{sum(known)} offsets",
        limit="known for every partition",
        age_ms=max(0, facts.now - min(seen)) if seen else None,
        reason=_named([f"{partition}: unknown" for partition in blind]),
        counts_for=BOTH,
    )


def workers_check(workers: Sequence[WorkerAlive], now: EpochMs) -> Check:
    """Somebody must copy for a planned failover to drain."""
    ages = {worker.worker: max(0, now - worker.at) for worker in workers}
    alive = [worker for worker, age in ages.items() if age <= WORKER_SILENT_MS]
    return Check(
        name="workers",
        verdict=Verdict.PASS if alive else Verdict.FAIL,
        observed=f"{len(alive)} of {len(ages)} alive",
        limit=f"1 heard of within {WORKER_SILENT_MS // 1000} s",
        age_ms=min(ages.values(), default=None),
        reason="" if alive else "start one with `tanist fetcher run`",
        counts_for=PLANNED_ONLY,
    )


def _named(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return "; ".join(texts[:_MOST_NAMED]) + more
