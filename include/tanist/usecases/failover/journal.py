"""What a run says of itself, to its evidence and to whoever watches, and what it is given for that."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from tanist.domain.errors import TimedOut
from tanist.domain.failover.evidence import Evidence, as_json
from tanist.domain.failover.forecast import forecast
from tanist.domain.failover.plan import canonical
from tanist.usecases.groups.items import position_item
from tanist.usecases.groups.sync import sync_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.failover.approving import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan
    from tanist.domain.records import FailoverRun
    from tanist.ports.clock import Clock
    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.rows import PositionRow
    from tanist.usecases.groups.sync import GroupSyncResult, SyncRequest
    from tanist.usecases.mirror import OpenMirror


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsMoved:
    """What became of consumer groups: one row per group and partition, as `tanist groups sync` prints it.

    `problems`: what was not moved, or not all the way. `mismatches`: where the map is proved to be wrong.
    """

    rows: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    mismatches: tuple[str, ...] = ()


MoveGroups: TypeAlias = "Callable[[OpenMirror, SyncRequest, CommandContext], GroupsMoved]"


def move_groups(mirror: OpenMirror, request: SyncRequest, command: CommandContext) -> GroupsMoved:
    """The final translation, committed. Groups with members at the destination are only reported."""
    return moved_by(sync_groups(mirror, request, command))


def moved_by(synced: GroupSyncResult) -> GroupsMoved:
    """A synchronisation as the evidence tells it."""
    return GroupsMoved(
        rows=tuple(position_item(row) for row in synced.rows),
        problems=tuple(map(_describe, synced.problems)),
        mismatches=tuple(map(_describe, synced.mismatches)),
    )


def _describe(row: PositionRow) -> str:
    return f"{row.group} on {row.partition}: {row.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. `proof`: the ends of a fenced source must stay put so long (a producer's metadata refresh; 0: no proof).

    `drain`: a planned one that takes longer is undone. `budget`: an unplanned one goes on with what it has then.
    """

    proof: float = 10.0
    drain: float = 300.0
    budget: float = 15.0


class Sink(Protocol):
    def flush(self, evidence: Evidence) -> None:
        """Write all of it, atomically."""
        ...

    def before(self) -> Evidence | None:
        """What an earlier run of the same plan has left; None: nothing."""
        ...


def _unknown(_runner: str) -> bool:
    return False


def _nowhere(_point: str) -> None:
    """Tests stop a run here."""


def _report_to_nobody(_step: str, _what: str, _reason: str) -> None:
    """For runs that nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a run needs besides the clusters. `checkpoint` is told every point where a crash would be inconvenient."""

    patience: Timeouts
    sink: Sink
    runner: str
    is_process_dead: Callable[[str], bool] = field(default=_unknown)
    """Whether another runner is certainly dead; False: not known, so its heartbeat is watched."""
    checkpoint: Callable[[str], None] = field(default=_nowhere)
    move_groups: MoveGroups = field(default=move_groups)
    """The last translation of the groups of a run."""
    report: Callable[[str, str, str], None] = field(default=_report_to_nobody)
    """Hears of each step what becomes of it, and why, where there is a reason; the same again is not told."""


BEGINS: Final = "begins"
DONE: Final = "done"
NOT_YET: Final = "not yet"
STOPPED: Final = "stopped"


@dataclass(slots=True, kw_only=True)
class Journal:
    """Events are added to `evidence` and flushed at once; people hear what they have not heard yet."""

    tools: Tools
    clock: Clock
    evidence: Evidence
    _heard: dict[str, tuple[str, str]] = field(default_factory=dict)
    _hindrance: tuple[str, str] = ("", "")

    def report(self, step: str, what: str, detail: Mapping[str, Any], *, seconds: float = 0, waited: float = 0) -> None:
        """Add an event to the evidence, and flush it. `seconds`: it took; `waited`: of these, for a proof alone."""
        self.evidence = self.evidence.adding(self.clock.now(), step, what, detail, seconds=seconds, waited=waited)
        self.tools.sink.flush(self.evidence)
        heard, reason = self._heard.get(step), str(detail.get("reason", ""))
        if (what, reason) == heard or (what == BEGINS and heard is not None and heard[0] == NOT_YET):
            return
        self._heard[step] = what, reason
        self.tools.report(step, what, reason)

    def hindered_by(self, step: str, why: TanistError) -> None:
        """`step` is not done, and will be tried again: what is in its way is kept, rather than that time was short."""
        self.report(step, NOT_YET, {"reason": str(why)})
        if not isinstance(why, TimedOut) or not self.hindrance(step):
            self._hindrance = step, str(why)

    def hindrance(self, step: str) -> str:
        """What was in the way of `step` when it was tried last; empty: nothing, or it was not tried."""
        tried, why = self._hindrance
        return why if tried == step else ""


def add_event(sink: Sink, clock: Clock, step: str, what: str, detail: Mapping[str, Any]) -> None:
    """Add an event to the evidence of a run that has ended; nothing, if it is not there or says so already."""
    found = sink.before()
    if found is None:
        return
    last = next((each for each in reversed(found.events) if each.step == step), None)
    if last is None or last.what != DONE:
        sink.flush(found.adding(clock.now(), step, what, detail))


def open_evidence(tools: Tools, record: FailoverRun, head: Mapping[str, Any]) -> Evidence:
    """What an earlier process of this run has left, or a new book that begins with `head` and the run's approval.

    A run of the same plan on an earlier approval, which was aborted, is another run: its book is kept whole in the head
    of ours, as `earlier`, because ours takes its place.
    """
    found = tools.sink.before()
    if found is not None and found.approval == record.approval:
        return found
    approval = {"id": record.approval, "by": record.approver}
    new = {"mirror": record.mirror, "plan_hash": record.plan, "approval": approval, **head, "plan": record.plan_json}
    return Evidence(head=canonical(new if found is None else new | {"earlier": json.loads(as_json(found))}))


def evidence_head(approval: Approval, plan: ApprovedPlan, facts: Facts, clusters: OpenMirror) -> Mapping[str, Any]:
    """Approval, forecast and facts as they are when the run begins."""
    cost = forecast(plan.intent, facts)
    return {
        "mode": plan.intent.mode,
        "source": [clusters.spec.source, plan.intent.source_cluster_id],
        "destination": [clusters.spec.destination, plan.intent.destination_cluster_id],
        "topics": list(plan.intent.names),
        "groups": list(plan.intent.groups),
        "limitations_accepted": sorted(plan.limitations),
        "approval": {"id": approval.id, "by": approval.approver, "reason": approval.reason, "at": approval.at},
        "forecast": {"offsets_at_risk": cost.offsets_at_risk, "estimate": cost.estimate, "age_ms": cost.age_ms},
        "partitions": {
            str(each.partition): {
                "state": each.state,
                "error": each.error,
                "destination_end": each.end,
                "source_end": each.live.high_watermark if each.live else None,
                "source_last_known": each.known.high_watermark if each.known else None,
                "last_mirrored_epoch": each.last_mirrored_epoch,
            }
            for each in facts.partitions
        },
    }
