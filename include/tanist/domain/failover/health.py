"""The report of `tanist status` about a mirror: the verdict for both modes, their limitations, and checks.

The verdicts come only from the limitations of both plans. A check of the present shows what was observed, a check of
the past whether earlier failovers still hold; neither passes if a limitation says so. No check decides a verdict.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import MOST_NAMED, Check, Mode, Readiness, Verdict, named, worst
from tanist.domain.errors import TanistError
from tanist.domain.failover.facts import SourceState
from tanist.domain.failover.limitations import SILENT_MS, limitations, not_copying, planned_intent, word
from tanist.domain.filled import exact_options, filled
from tanist.domain.lag import lag_bytes, lag_ms
from tanist.domain.lag_amounts import lag_text, longest, total
from tanist.domain.limitation_kinds.table import KINDS
from tanist.domain.records import OffsetTailMode, RunStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.limitation import Limitation
    from tanist.domain.names import EpochMs, MirrorName, MirrorPartition, SourcePartition
    from tanist.domain.records import FailoverRun, GroupSyncStatus, WorkerAlive

_WANTED: Final[Mapping[str, str]] = {
    "source": "answers",
    "source_partitions": "all partitions and topics are mirrored",
    "destination": "all partitions answer",
    "replicas": "none offline, none below min ISR",
    "copies": "no records missing, no partitions added, no configs altered, last batch written by the mirror",
    "partitions": "at least 1 partition; none FAILED, PREPARING, UNKNOWN, deleted at the source or longer than there",
    "running": "none paused or stopped",
    "offset_map": "exists",
    "lag": "known for every partition",
    "detached": "no topic that was taken out of the mirror without a failover",
    "writers": "who may write at the source could at the destination, as stored at the last sync",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """`limitations`: of the plan of each mode, for all topics of the mirror and the loss that is forecast now."""

    mirror: MirrorName
    limitations: Mapping[Mode, tuple[Limitation, ...]]
    checks: tuple[Check, ...]

    @property
    def planned(self) -> Readiness:
        return word(self.limitations[Mode.PLANNED])

    @property
    def unplanned(self) -> Readiness:
        return word(self.limitations[Mode.UNPLANNED])

    def word(self, mode: Mode) -> Readiness:
        return word(self.limitations[mode])


def judged(intents: Mapping[Mode, Intent], facts: Facts, past: Sequence[Check] = ()) -> Status:
    """Both verdicts on `facts`. `intents`: all topics of the mirror, by mode. `past`: checks that block nothing."""
    found = {
        mode: tuple(sorted(limitations(planned_intent(intent, facts, None), facts))) for mode, intent in intents.items()
    }
    mirror = next(iter(intents.values())).mirror
    checks = (_with_limitations(each, found) for each in (*_present(facts, found), *past))
    return Status(mirror=mirror, limitations=found, checks=tuple(_typable(each, mirror, facts) for each in checks))


# ── the present ───────────────────────────────────────────────────────────────────────────────────────────────────


def _answer_of(facts: Facts) -> str:
    if facts.source.another_cluster:
        return "another cluster answers"
    return "answers" if facts.source.state is SourceState.ALIVE else f"does not answer ({facts.source.state})"


def _present(facts: Facts, found: Mapping[Mode, Iterable[Limitation]]) -> Iterable[Check]:
    seen = {
        "source": (_answer_of(facts), 0),
        "source_partitions": (_without_copy(facts), 0),
        "destination": (f"{sum(e.end is not None for e in facts.partitions)} of {len(facts.partitions)} answer", 0),
        "replicas": (f"{sum(bool(e.in_sync) for e in facts.partitions)} of {len(facts.partitions)} have a leader", 0),
        "copies": (f"{sum(e.missing_at_start or 0 for e in facts.partitions)} offsets missing at the start", 0),
        "partitions": (_states(facts), None),
        "running": (f"{len(not_copying(facts)) if _said('running', found) else 0} not being copied", None),
        "offset_map": ("missing" if facts.map_missing else "exists", None),
        "lag": _lag(facts),
        "writers": (f"{sum(len(e.locked_out) for e in facts.topics)} would be locked out", 0),
    }
    if facts.detached or facts.detached_elsewhere:  # those that are here never pass: see the limitation
        seen["detached"] = ("; ".join(_detached(facts)), 0)
    for name, (observed, age) in seen.items():
        yield Check(name=name, verdict=Verdict.PASS, observed=observed, limit=_WANTED[name], age_ms=age)


def _detached(facts: Facts) -> Iterator[str]:
    if facts.detached:
        yield named(facts.detached, ", ")
    if facts.detached_elsewhere:
        yield f"with their copies at the source: {named(facts.detached_elsewhere, ', ')}"


def _typable(check: Check, mirror: MirrorName, facts: Facts) -> Check:
    """`check`, whose commands name the mirror."""
    reason = filled(check.reason, mirror=mirror, destination=facts.destination, topics=(), plan="")
    return replace(check, reason=reason)


def _with_limitations(check: Check, found: Mapping[Mode, Iterable[Limitation]]) -> Check:
    """`check`, and worse if a limitation says so; one that is as bad by itself has given its reason."""
    said = _said(check.name, found)
    if not said or worst((check.verdict, verdict := _verdict(said))) is check.verdict:
        return check
    reasons = (f"{each.name}: {each.detail}" for each in said)
    return replace(
        check,
        verdict=verdict,
        age_ms=check.age_ms if check.name not in _WANTED or check.name == "lag" else None,
        reason=named((*filter(None, (check.reason,)), *reasons)),
    )


def _said(check: str, found: Mapping[Mode, Iterable[Limitation]]) -> list[Limitation]:
    """The limitations of both plans that fail `check`, each once; what every failover of its kind has fails none."""
    each = {limitation.name: limitation for mode in found for limitation in found[mode] if not limitation.usual}
    return [limitation for name, limitation in sorted(each.items()) if check in KINDS[name].checks]


def _verdict(said: Sequence[Limitation]) -> Verdict:
    return Verdict.UNKNOWN if all(each.unknown or KINDS[each.name].unknown for each in said) else Verdict.FAIL


def _states(facts: Facts) -> str:
    counts = Counter(str(each.state) for each in facts.partitions)
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"


def _without_copy(facts: Facts) -> str:
    topics = f", {len(facts.source.new_topics)} topic(s) not mirrored" if facts.source.new_topics else ""
    return f"{len(facts.source.uncopied)} not mirrored{topics}"


def _lag(facts: Facts) -> tuple[str, int | None]:
    """The lag, and its age in ms: that of the oldest log end in the sum. The number alone fails no check."""
    ages = [facts.now if each.live else each.known.at if each.known else None for each in facts.partitions]
    seen = [age for age in ages if age is not None]
    behind = [(each.at_risk, each) for each in facts.partitions if each.at_risk]
    said = lag_text(
        sum(offsets for offsets, _ in behind),
        total(lag_bytes(offsets, each.known) for offsets, each in behind),
        longest(lag_ms(each.known, facts.now) for _, each in behind),
    )
    least = "at least " if any(each.at_risk is None for each in facts.partitions) else ""
    return f"{least}{said}", max(0, facts.now - min(seen)) if seen else None


def workers_check(workers: Sequence[WorkerAlive], now: EpochMs) -> Check:
    """Whether a worker is alive: its last heartbeat is at most SILENT_MS old."""
    ages = {worker.worker: max(0, now - worker.at) for worker in workers}
    alive = [worker for worker, age in ages.items() if age <= SILENT_MS]
    return Check(
        name="workers",
        verdict=Verdict.PASS if alive else Verdict.FAIL,
        observed=f"{len(alive)} of {len(ages)} alive",
        limit=f"1 with a heartbeat within {SILENT_MS // 1000} s",
        age_ms=min(ages.values(), default=None),
        reason="" if alive else "no fetcher is running: start one with `tanist fetcher run`",
    )


def groups_check(followed: GroupSyncStatus | None, now: EpochMs) -> Check:
    """How committed offsets of groups reach the destination. If the source is down, only the stored ones are left."""
    if followed is None:
        why = "start `tanist fetcher run`, or wait for its first pass"
        return Check(
            name="groups", verdict=Verdict.UNKNOWN, observed="no committed offsets of groups are kept", reason=why
        )
    silent = now - followed.at > SILENT_MS
    never, old = followed.complete_until_ms == 0, now - followed.complete_until_ms > SILENT_MS
    return Check(
        name="groups",
        verdict=Verdict.UNKNOWN if old or followed.mode is OffsetTailMode.DEGRADED else Verdict.PASS,
        observed=f"{followed.groups} group(s), {followed.mode}",
        limit=f"updated within {SILENT_MS // 1000} s",
        age_ms=None if never else max(0, now - followed.complete_until_ms),
        reason=followed.reason
        or ("its worker no longer reports" if silent else "not all of them could be read since" if old else ""),
    )


# ── the past ──────────────────────────────────────────────────────────────────────────────────────────────────────


_AGAIN: Final = "; `tanist fetcher run` sets it again"
_ADDS: Final = (
    "; `tanist fetcher run` rewrites the last record once the partition is idle for some seconds, if the "
    "mirror's login has WRITE"
)


_UNVERIFIED: Final = (
    "; end workers that were frozen during the failover; brokers from Kafka 3.6 on refuse what they still send if "
    "`transaction.partition.verification.enable` is true and the mirror delivers exactly once"
)


def barrier_check(
    producer_fenced: Mapping[MirrorPartition, bool | TanistError],
    bare: Mapping[MirrorPartition, bool | TanistError],
    forgotten: Collection[MirrorPartition] = (),
) -> Check:
    """Whether the producer fence of every failed-over partition is in force and survives log compaction.

    It lasts as long as brokers remember the producer ids (`producer.id.expiration.ms`). `bare`: of partitions of
    compacted topics, whether the fence is a marker alone. The log cleaner reduces such a marker, so a broker that
    rebuilds its producer state from the log does not learn the fence. `forgotten`: of those that are not fenced, whose
    leader neither remembers the fence of a transactional id nor asks the coordinator about it.
    """
    gone = [
        f"{at}: its producer fence has expired"
        for at, seen in producer_fenced.items()
        if seen is False and at not in forgotten
    ]
    late = [f"{at}: its brokers have forgotten the fence of its transactional id" for at in forgotten]
    weak = [
        f"{at}: compaction will erase its producer fence"
        for at, seen in bare.items()
        if seen is True and producer_fenced.get(at) is not False
    ]
    blind = [f"{at}: {seen}" for at, seen in (*producer_fenced.items(), *bare.items()) if not isinstance(seen, bool)]
    return Check(
        name="barrier",
        verdict=Verdict.FAIL if gone or weak or late else Verdict.UNKNOWN if blind else Verdict.PASS,
        observed=f"{sum(seen is True and bare.get(at, False) is False for at, seen in producer_fenced.items())}"
        f" of {len(producer_fenced)} proved",
        limit="all failed-over partitions",
        age_ms=0,
        reason=named([*gone, *late, *weak, *blind])
        + (_AGAIN if gone else _UNVERIFIED if late else _ADDS if weak else ""),
    )


def promoted_check(
    recreated: Mapping[str, MirrorName | None] | TanistError, twice: Mapping[str, MirrorName], count: int
) -> Check:
    """Whether every failed-over topic is still the one that was promoted, and was promoted by this mirror only.

    `recreated`, `twice`: as in `domain.promotions`. `count`: how many topics have left the mirror.
    """
    limit = "all failed-over topics, as they were promoted"
    if isinstance(recreated, TanistError):
        observed = "the destination does not report its topics"
        return Check(name="promoted", verdict=Verdict.UNKNOWN, observed=observed, limit=limit, reason=str(recreated))
    gone = [
        f"{topic}: the failed-over topic was deleted and re-created at the destination"
        + (f", and mirror {other!r} has promoted the new one" if other else "")
        for topic, other in sorted(recreated.items())
    ]
    shared = [
        f"{topic}: mirror {other!r} has promoted it as well; compare each mirror with `tanist validate`"
        for topic, other in sorted(twice.items())
    ]
    return Check(
        name="promoted",
        verdict=Verdict.FAIL if gone or shared else Verdict.PASS,
        observed=f"{len(gone)} re-created, {len(shared)} promoted twice, of {count}",
        limit=limit,
        age_ms=0,
        reason=named([*gone, *shared]) + (_take_in(recreated) if gone else ""),
    )


def _take_in(topics: Iterable[str]) -> str:
    first = shlex.join(exact_options("--topic", sorted(topics)[:MOST_NAMED]))
    return (
        f"; its producer fence is no longer renewed; `tanist mirrors add {first}` mirrors an empty topic again, "
        "`tanist mirrors delete` forgets the mirror"
    )


def openings_check(shut_out: Mapping[str, bool | TanistError], logins: Iterable[str]) -> Check:
    """Whether the mirror is still denied WRITE on every failed-over topic; somebody may have removed the ACL."""
    open_topics = [topic for topic, shut in shut_out.items() if shut is False]
    let_in = [f"{topic}: the mirror's login may write to it" for topic in open_topics]
    blind = [f"{topic}: {shut}" for topic, shut in shut_out.items() if not isinstance(shut, bool)]
    denied = " ".join(f"--deny-principal {shlex.quote(login)}" for login in sorted(logins))
    named_topics = " ".join(f"--topic {topic}" for topic in open_topics)
    mend = f"; deny it again with `kafka-acls.sh --add {denied} --operation Write {named_topics}`" if let_in else ""
    return Check(
        name="openings",
        verdict=Verdict.FAIL if let_in else Verdict.UNKNOWN if blind else Verdict.PASS,
        observed=f"the mirror is denied WRITE on {sum(shut is True for shut in shut_out.values())} of {len(shut_out)}",
        limit="all failed-over topics with ACLs, unless accepted otherwise",
        reason=named([*let_in, *blind]) + mend,
    )


def left_behind_check(behind: Mapping[SourcePartition, int | TanistError] | TanistError) -> Check:
    """Whether the old source has records of failed-over topics that were not copied, from before or after its fence."""
    if isinstance(behind, TanistError):
        silent, limit = "the old source does not answer", "0 offsets"
        return Check(name="left_behind", verdict=Verdict.UNKNOWN, observed=silent, limit=limit, reason=str(behind))
    lacking = {at: count for at, count in behind.items() if isinstance(count, int) and count}
    blind = [f"{at}: {count}" for at, count in behind.items() if not isinstance(count, int)]
    reported = [
        (f"{at}: the old source has {count} offsets that the new primary does not have")
        for at, count in lacking.items()
    ]
    return Check(
        name="left_behind",
        verdict=Verdict.FAIL if lacking else Verdict.UNKNOWN if blind else Verdict.PASS,
        observed=f"{sum(lacking.values())} offsets only at the old source",
        limit="0 offsets",
        age_ms=0,
        reason=named([*reported, *blind]),
    )


def runs_check(runs: Sequence[FailoverRun]) -> Check:
    """Whether a run is unfinished: it blocks every other one."""
    unfinished = [run for run in runs if run.status is RunStatus.RUNNING]
    return Check(
        name="runs",
        verdict=Verdict.FAIL if unfinished else Verdict.PASS,
        observed=f"{len(unfinished)} unfinished of {len(runs)}",
        limit="none unfinished",
        reason=named(
            f"plan {run.plan} of {run.runner or 'nobody'}: {run.next_actions}{f' ({run.reason})' if run.reason else ''}"
            for run in unfinished
        ),
    )
