"""The unfinished failover of a mirror: continued or undone only by a request for it, and if nobody is at work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tanist.domain.approval.entries import approvals
from tanist.domain.checks import Mode
from tanist.domain.circle import pending_reversal
from tanist.domain.errors import PastReturn, Refused, RunUnderWay
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.problems import refuse, to_finish
from tanist.domain.records import RunStatus
from tanist.domain.selection import pattern_problems
from tanist.usecases.failover.observe import Observer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.failover.plan import FailoverRequest, Intent
    from tanist.domain.records import FailoverRun
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


WATCH_SECONDS: Final = 10.0
"""A run that goes step by step, each in another process, is silent for some seconds between two of them."""
_LOOK_SECONDS: Final = 0.5


class AnotherUnfinished(Refused):
    name = "ANOTHER_FAILOVER_UNFINISHED"
    operator_action = (
        "request exactly that failover to resume it, or undo it first: `tanist failover abort`, or "
        "`unfinished: abort` in Airflow; nothing was changed"
    )


class MustBeFinished(Refused):
    name = "FAILOVER_MUST_BE_FINISHED"
    operator_action = (
        "it is past its point of no return: request exactly that failover or use `tanist failover run "
        "--plan HASH` to complete it, then request this one again; nothing was changed"
    )


def must_be_asked_for(
    held: FailoverRun, request: FailoverRequest, clusters: OpenMirror, command: CommandContext
) -> None:
    """Whether the unfinished run `held` is what somebody asks for: whoever goes on with it asks nobody again.

    Raises:
        AnotherUnfinished: it is not, and can be undone. MustBeFinished: it is not, and cannot.
        Misconfigured: an expression is none.
    """
    if problems := pattern_problems((*request.include, *request.exclude, *request.groups)):
        refuse(problems)
    observer = Observer(clusters=clusters, context=command)
    topics = observer.view().mirrored(clusters.spec.mirror)
    unlike = differences(
        ApprovedPlan.read(held.plan_json).intent,
        request,
        [each.topic for each in topics],
    )
    if held.mirror_id != clusters.spec.mirror_id:
        unlike = ("it belongs to a deleted mirror of the same name", *unlike)
    if unlike:
        kind = MustBeFinished if held.no_return else AnotherUnfinished
        raise to_finish(
            held.plan,
            kind(
                f"plan {held.plan}, approved by {held.approver}, is unfinished and differs from this request: "
                f"{'; '.join(unlike)}"
            ),
        )


def not_reversed(request: FailoverRequest, clusters: OpenMirror, command: CommandContext) -> FailoverRun | None:
    """The failover that is done, and whose reversal, which was approved with it, is not; None: there is none.

    Raises as `must_be_asked_for`: it is not what somebody asks for.
    """
    observer = Observer(clusters=clusters, context=command)
    left = pending_reversal(observer.view(), clusters.spec.mirror)
    if left is None or left.run is None:
        return None
    must_be_asked_for(left.run, request, clusters, command)
    return left.run


def differences(intent: Intent, request: FailoverRequest, known: Iterable[str]) -> tuple[str, ...]:
    """In what a plan is not what is asked for. `known`: the topics that are in the mirror now.

    What nobody names is the plan's own.
    """
    names = request.topics.of({*known, *intent.names})
    tolerated = intent.loss_tolerance if request.loss_tolerance is None else request.loss_tolerance
    pairs: tuple[tuple[str, str, str], ...] = (
        ("mode", str(intent.mode), str(request.mode)),
        ("topics", _listed(intent.names), _listed(names)),
        ("groups", " ".join(intent.groups), " ".join(request.groups)),
        ("tolerated loss", str(intent.loss_tolerance), str(tolerated)),
    )
    pairs += (("reversal afterwards", str(intent.reverse), str(request.reverse)),)
    if intent.mode is Mode.UNPLANNED:
        reserve = intent.reserve if request.reserve is None else request.reserve
        pairs += (
            ("reserve", str(intent.reserve), str(reserve)),
            ("time of the last record", str(intent.dead_since), str(request.dead_since or intent.dead_since)),
        )
    return tuple(f"its {what} is {has}, requested is {wants}" for what, has, wants in pairs if has != wants)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def must_be_undoable(held: FailoverRun) -> None:
    """Raises PastReturn where the unfinished run `held` cannot be undone any more."""
    if held.no_return:
        why = f"plan {held.plan} of mirror {held.mirror!r}, approved by {held.approver}"
        raise to_finish(held.plan, PastReturn(why))


def must_be_ours(
    plan: str, wanted: FailoverRequest, request: str, clusters: OpenMirror, command: CommandContext
) -> None:
    """Whether the run of `plan`, as far as it has begun, is what is asked for, or has begun on an answer to `request`.

    Raises what `must_be_asked_for` does.
    """
    observer = Observer(clusters=clusters, context=command)
    held = observer.view().failover(clusters.spec.mirror, plan)
    if held is None or held.status is not RunStatus.RUNNING:
        return
    try:
        must_be_asked_for(held, wanted, clusters, command)
    except Refused:
        if not begun_on(held, request, clusters, command):
            raise


def begun_on(held: FailoverRun, request: str, clusters: OpenMirror, command: CommandContext) -> bool:
    """Whether `held` is on an approval that answers `request`."""
    entries = clusters.destination.approvals.all(command.by)
    return any(each.id == held.approval and each.request == request for each in approvals(entries))


def unfinished(clusters: OpenMirror, command: CommandContext) -> FailoverRun | None:
    """The unfinished run of this mirror; None: there is none."""
    observer = Observer(clusters=clusters, context=command)
    return observer.view().unfinished(clusters.spec.mirror)


def left_alone(clusters: OpenMirror, command: CommandContext) -> FailoverRun | None:
    """The unfinished run of this mirror that nobody is at work on; None: there is none.

    Raises:
        RunUnderWay: somebody is, or has been within the seconds that we watched.
    """
    observer = Observer(clusters=clusters, context=command)
    first = observer.view().unfinished(clusters.spec.mirror)
    until = command.clock.deadline(WATCH_SECONDS)
    while first is not None and until.left(command.clock.monotonic()):
        command.clock.wait(_LOOK_SECONDS)
        now = observer.view().unfinished(clusters.spec.mirror)
        if now is not None and (now.plan, now.at) != (first.plan, first.at):
            raise RunUnderWay(f"{now.runner or 'another process'} is running plan {now.plan}")
    return observer.view().unfinished(clusters.spec.mirror)
