"""The result of a DAG run, and the next step. The run succeeds only if the request is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tanist.domain.records import RunStatus
from tanist.usecases.failback.reversal_route import ReversalWithdrawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.records import FailoverRun

DONE: Final = "DONE"
UNDONE: Final = "UNDONE"
AS_ASKED: Final = f"{UNDONE}, as asked: "
UNKNOWN: Final = "UNKNOWN: "
REVERSE_AGAIN: Final = "reverse_again"
NEXT_GATE: Final = "approve_next_reversal"
_BEFORE: Final = ("survey", "rescue", "replay", "reverse")
"""Tasks of `mirror_failback` that may have changed something before its failover begins."""
_SUCCESS: Final = "success"
_BLOCKED: Final = "PLAN_BLOCKED"
_AGAIN: Final = "trigger it again with the same parameters and `unfinished: continue`"
_ABORT: Final = (
    "`unfinished: abort`, which undoes it, makes a new plan and asks for approval (with `mode: "
    "unplanned` if the source is down); or with `unfinished: abort-only`"
)
_ONCE_MORE: Final = "trigger it again with the same parameters: it asks for this reversal only"
_WAY_ON: Final = "fix the failure named under `failed`, then trigger a new run"
_OTHER_WAY: Final = (
    "this plan cannot be approved: resolve the blocking limitations or choose the other mode (unplanned "
    "if the source is down), then trigger a new run"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictSeen:
    """The inputs of the verdict. `failed`: reasons by task.

    `record`: the plan's failover run, None: it never began; with `abort_only` the run to undo. `undone`: the plan that
    was undone first. `not_reversed`: why the requested reversal after the failover was not done; empty: it was.
    `destination`: of the failover. `before`: tasks before the failover that have succeeded, and may have changed
    something. `new_primary`: of a failback, whose last reversal has an approval of its own; empty: the failover was
    approved with its reversal.
    """

    record: FailoverRun | None
    failed: Mapping[str, str]
    undone: str | None = None
    abort_only: bool = False
    not_reversed: str = ""
    destination: str = ""
    before: tuple[str, ...] = ()
    new_primary: str = ""


def seen_of_a_failback(seen: VerdictSeen, states: Mapping[str, str], new_primary: str) -> VerdictSeen:
    """`seen` of a run of `mirror_failback`, with the states of its tasks: it asks for the reversal after the failover.

    `new_primary`: the old source, which takes over again.
    """
    left = ""
    if states[REVERSE_AGAIN] != _SUCCESS and not seen.abort_only:
        why = next((seen.failed[task] for task in (NEXT_GATE, REVERSE_AGAIN) if task in seen.failed), "")
        left = why or f"task {REVERSE_AGAIN} is {states[REVERSE_AGAIN]}"
    before = tuple(task for task in _BEFORE if states.get(task) == _SUCCESS)
    return replace(seen, not_reversed=left, before=before, new_primary=new_primary)


def verdict(seen: VerdictSeen) -> str:
    """The result, and the next step."""
    if seen.record is None:
        return _not_started(seen)
    if seen.abort_only and seen.record.status is not RunStatus.RUNNING:
        undone = seen.record.status is RunStatus.ABORTED
        return f"{AS_ASKED}{seen.record.reason}" if undone else f"NOT {UNDONE}: plan {seen.record.plan} is done"
    match seen.record.status:
        case RunStatus.DONE:
            return _done(seen, seen.record)
        case RunStatus.ABORTED:
            return f"{UNDONE}: {seen.record.reason or 'aborted'}"
        case RunStatus.RUNNING if seen.record.no_return:
            return f"UNFINISHED past the point of no return: {_AGAIN} to complete it"
        case RunStatus.RUNNING:
            return f"UNFINISHED: {_AGAIN}; or with {_ABORT}"


def _done(seen: VerdictSeen, record: FailoverRun) -> str:
    if seen.not_reversed and seen.new_primary:
        command = f"tanist mirrors reverse {record.mirror} --destination {seen.new_primary} --dry-run"
        return f"FAILED BACK, NOT REVERSED: {seen.not_reversed}; {_ONCE_MORE}, or use `{command}`"
    if ReversalWithdrawn.name in seen.not_reversed:
        command = f"tanist mirrors reverse {record.mirror} --destination {seen.destination} --dry-run"
        return f"FAILED OVER, NOT REVERSED: {seen.not_reversed}; `{command}` shows the plan to approve"
    if seen.not_reversed:
        command = f"tanist failover run {record.mirror} --destination {seen.destination} --plan {record.plan}"
        return f"FAILED OVER, NOT REVERSED: {seen.not_reversed}; {_AGAIN}, or use `{command}`"
    return DONE if not seen.failed else f"{DONE}; failed tasks: {', '.join(seen.failed)}"


def _not_started(seen: VerdictSeen) -> str:
    blocked = any(_BLOCKED in why for why in seen.failed.values())
    changed = f"plan {seen.undone} was undone, nothing else was changed" if seen.undone else "nothing was changed"
    if seen.before:
        changed = f"the failover has not begun; tasks that succeeded before it: {', '.join(seen.before)}"
    return f"NOT STARTED: {changed}; {_OTHER_WAY if blocked else _WAY_ON}"


def green(said: str) -> bool:
    """Whether the request is done according to that verdict."""
    return said.startswith((DONE, AS_ASKED))
