"""`tanist failover plan|approve|run --all`: what the same command does for one mirror, for each of many.

One that is refused does not stop the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import typer

from tanist.cli.failover_runs import carried_out, evidence_folder
from tanist.cli.options import following
from tanist.cli.output import emit, line, one_line, say, say_unread
from tanist.domain.answers import known
from tanist.domain.checks import Readiness, named
from tanist.domain.envelope import error_items
from tanist.domain.errors import NoStateTopic, TanistError
from tanist.domain.failover.commands import approve_all_command, run_all_command, run_command
from tanist.domain.failover.forecast import at_risk_words
from tanist.domain.failover.many import NamedPlan, mirrors_at, missing, named_plans, worst_first
from tanist.domain.failover.objections import accepted
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.problems import PARTIAL, each, exit_code, exit_code_of_many, of_mirror, refuse
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.failover import planning
from tanist.usecases.failover.items import approval_item, plan_item
from tanist.wiring.threads import for_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from tanist.cli.failover_runs import RunOptions, RunResult
    from tanist.cli.options import Session
    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.many import MirrorAt
    from tanist.domain.names import MirrorName
    from tanist.usecases.approvals import ApprovalTerms
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.planning import FailoverRequest, Planned
    from tanist.wiring.registry import ClusterRegistry

PLAN_COLUMNS = ("mirror", "destination", "verdict", "offsets_at_risk", "plan_hash", "to_accept")
APPROVAL_COLUMNS = ("mirror", "destination", "plan_hash", "result", "approver", "expires_at_ms")
RUN_COLUMNS = ("mirror", "destination", "plan_hash", "result", "seconds", "proof_seconds", "evidence")
_UNKNOWN = 3


class AtDestination(Protocol):
    """A mirror, and the name of the connection to its destination."""

    @property
    def destination(self) -> str: ...
    @property
    def mirror(self) -> MirrorName: ...


M = TypeVar("M", bound=AtDestination)
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorAnswer(Generic[R]):
    """What became of one mirror: `found`, or `why` not; both where the last step alone was refused.

    `destination`: where the mirror is; another cluster than was named if a reversal has moved it.
    """

    destination: str
    mirror: MirrorName
    found: R | None = None
    why: TanistError | None = None

    @property
    def where(self) -> str:
        return f"{self.destination}/{self.mirror}"

    @property
    def code(self) -> int:
        """The exit code of the command for this mirror alone."""
        return 0 if self.why is None else exit_code(self.why)

    @property
    def errors(self) -> list[dict[str, str]]:
        return [] if self.why is None else list(error_items(self.why))

    def result(self, done: str) -> str:
        """In a word: `done`, or the names of the errors."""
        return ", ".join(dict.fromkeys(error["name"] for error in self.errors)) or done

    def item(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """`found` as JSON, with what every item of these commands has."""
        return {**found, "mirror": self.mirror, "destination": self.destination, "errors": self.errors}


def _of_each(
    now: Session, mirrors: Sequence[M], at_once: int, work: Callable[[Session, M], R]
) -> list[MirrorAnswer[R]]:
    """What `work` has done for each mirror, in their order. A bug is the error of its mirror alone."""

    def one(registry: ClusterRegistry, context: CommandContext, at: M) -> tuple[str, R]:
        own = replace(now, registry=registry, context=context, named=at.destination, chosen=())
        return following(own, lambda there: (there.named or at.destination, work(there, at)))

    results = for_each(mirrors, one, now.registry, now.context, most=at_once, stop=now.stop)
    return [_answer(at, result) for at, result in zip(mirrors, results, strict=True)]


def _answer(at: AtDestination, result: Future[tuple[str, R]]) -> MirrorAnswer[R]:
    try:
        destination, found = result.result()
    except TanistError as why:
        known = of_mirror(why, at.mirror, at.destination)
        return MirrorAnswer(destination=at.destination, mirror=at.mirror, why=known)
    except Exception as bug:  # noqa: BLE001 -- what has become of the other mirrors has to be said
        internal = TanistError(f"{type(bug).__name__}: {bug}")
        return MirrorAnswer(destination=at.destination, mirror=at.mirror, why=internal)
    return MirrorAnswer(destination=destination, mirror=at.mirror, found=found)


def _say_errors(where: str, why: TanistError | None) -> None:
    for problem in each(why) if why is not None else ():
        say(f"error: {one_line(f'{problem.name}: {where}: {problem.reason} ({problem.action})')}")


def _end(answers: Sequence[MirrorAnswer[Any]]) -> None:
    """Raises typer.Exit unless all is done."""
    if code := exit_code_of_many([answer.code for answer in answers]):
        raise typer.Exit(code)


def _errors_of(answers: Iterable[MirrorAnswer[Any]]) -> list[dict[str, str]]:
    """What is in `errors` of the JSON."""
    return [
        {**error, "mirror": answer.mirror, "destination": answer.destination}
        for answer in answers
        for error in answer.errors
    ]


# ── plan ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def plan_all(now: Session, request: FailoverRequest, source: str | None, at_once: int) -> None:
    """Plan each mirror of the destinations that were given, or of all. `source`: only those that copy from it.

    Raises:
        NoStateTopic: there is no such mirror. What the clusters say, where none with mirrors answers. typer.Exit.
    """
    if now.chosen:
        say(f"only mirrors of {', '.join(now.chosen)} (--destination or $TANIST_DESTINATION)")
    names = now.chosen or now.registry.names()
    looks = now.registry.views(names, now.context)
    views = {name: view for name, view in known(looks).items() if view is not None}
    silent = {name: why for name, why in looks.items() if isinstance(why, TanistError)}
    found = mirrors_at(views, source)
    if not found and silent:
        refuse(silent.values())
    if not found:
        copied = f" that copies from {source}" if source else ""
        raise NoStateTopic(f"no mirror{copied} is in topic {STATE_TOPIC} of {', '.join(names) or 'any cluster'}")
    for name, why in silent.items():
        _say_errors(name, why)
    for idle in (at for at in found if at.idle):
        apart = f"; detached: {named(idle.detached, ', ')}" if idle.detached else ""
        say(f"{idle.where}: nothing to fail over: no topic is in the mirror{apart}")
    wanted = [at for at in found if not at.idle]
    planned = _of_each(now, wanted, at_once, partial(_planned, request))
    planned.sort(key=lambda at: worst_first(at.found.word if at.found else None, at.mirror, at.destination))
    _show_plans(planned, silent, now.as_json)
    blocked = [int(at.found is not None and at.found.blocked) for at in planned]
    code = exit_code_of_many([at.code or is_blocked for at, is_blocked in zip(planned, blocked, strict=True)])
    if code or missing(silent, now.chosen, found):
        raise typer.Exit(code or PARTIAL)


def _planned(request: FailoverRequest, now: Session, at: MirrorAt) -> Planned:
    return planning.plan_and_keep(request, now.mirror(at.mirror), now.context)


def _show_plans(planned: Sequence[MirrorAnswer[Planned]], silent: Mapping[str, TanistError], as_json: bool) -> None:
    """Print the table, why some cannot be approved, and the command that approves the others."""
    kept = [at for at in planned if at.found is not None and at.found.kept and not at.found.blocked]
    plans = [NamedPlan(at.destination, at.mirror, at.found.plan.hash) for at in kept if at.found is not None]
    command = approve_all_command(plans) if plans else None
    items = [_plan_item(at, command if at in kept else None) for at in planned]
    lost = [{**error, "destination": name} for name, why in silent.items() for error in error_items(why)]
    if planned or as_json:
        emit(items, PLAN_COLUMNS, as_json, rows=list(map(_plan_row, planned)), errors=[*lost, *_errors_of(planned)])
    for at in planned:
        _say_plan(at)
    if command:
        say(f"approve {len(plans)} of {len(planned)} with: {command}")


def _plan_item(at: MirrorAnswer[Planned], approve_all: str | None) -> dict[str, Any]:
    found = {"plan_hash": None, "limitations": [], "approve": None} if at.found is None else plan_item(at.found)
    return at.item({**found, "verdict": _verdict(at), "approve_all": approve_all})


def _verdict(at: MirrorAnswer[Planned]) -> Readiness:
    if at.found is not None:
        return at.found.word
    return Readiness.UNKNOWN if at.code == _UNKNOWN else Readiness.NO_GO


def _plan_row(at: MirrorAnswer[Planned]) -> dict[str, Any]:
    row: dict[str, Any] = {"mirror": at.mirror, "destination": at.destination, "verdict": _verdict(at)}
    if at.found is None:
        return row
    row["offsets_at_risk"] = at_risk_words(at.found.forecast)
    if at.found.blocked:
        return row
    names = dict.fromkeys(limitation.name for limitation in at.found.plan.limitations)
    return row | {"plan_hash": at.found.plan.hash, "to_accept": ", ".join(names) or None}


def _say_plan(at: MirrorAnswer[Planned]) -> None:
    """What an approver has to know beside the table: what no other failover of the kind has."""
    _say_errors(at.where, at.why)
    if (found := at.found) is None:
        return
    for limitation in found.plan.limitations:
        if limitation.blocks or not (found.blocked or limitation.usual):
            word = "blocked" if limitation.blocks else "accept"
            say(f"{at.where}: {word}: {limitation.name}: {limitation.detail}")
    if found.not_kept:
        say(f"{at.where}: the plan is not kept, so it is approved by a command of its own: {found.not_kept}")
        if command := found.approve_command:
            say(f"{at.where}: approve it with: {command}")


# ── approve ───────────────────────────────────────────────────────────────────────────────────────────────────────


def approve_all(now: Session, texts: Sequence[str], terms: ApprovalTerms, at_once: int) -> None:
    """Approve each of the plans, as they were typed.

    Raises:
        Misconfigured, InvalidMirrorName: as `named_plans`; nothing was approved. typer.Exit: not all are approved.
    """
    plans = named_plans(texts, now.named)
    answers = _of_each(now, plans, at_once, partial(_approval, terms))
    signed = [at for at in answers if at.found is not None]
    to_run = [NamedPlan(at.destination, at.mirror, at.found.plan) for at in signed if at.found is not None]
    command = run_all_command(to_run) if to_run else None
    items = [_approval_item(at, plan, command) for at, plan in zip(answers, plans, strict=True)]
    emit(items, APPROVAL_COLUMNS, now.as_json, errors=_errors_of(answers))
    for at in answers:
        _say_errors(at.where, at.why)
        if at.found is not None:
            say_unread(at.found)
    say(f"approved {len(signed)} of {len(answers)}{f'; run with: {command}' if command else ''}")
    _end(answers)


def _approval(terms: ApprovalTerms, now: Session, plan: NamedPlan) -> Approval:
    show = None if now.as_json else partial(_say_accepted, plan.where)
    return planning.approve_typed(plan.plan, {}, now.mirror(plan.mirror), now.context, terms=terms, show=show)


def _say_accepted(where: str, words: ApprovedPlan, facts: Facts) -> None:
    """Print what an approver is about to accept of one of the plans."""
    for limitation in accepted(words, facts):
        say(f"{where}: accepts {limitation.name}: {limitation.detail}")
    say(f"{where}: tolerates a loss of {words.intent.loss_tolerance} offsets")


def _approval_item(at: MirrorAnswer[Approval], plan: NamedPlan, run_all: str | None) -> dict[str, Any]:
    if at.found is None:
        return at.item({"plan_hash": plan.plan, "result": at.result(""), "run": None, "run_all": None})
    words = ApprovedPlan.read(at.found.plan_json)
    commands = {"run": run_command(words.intent, at.found.plan, at.destination), "run_all": run_all}
    accepts = {"limitations_accepted": sorted(words.limitations), "result": "approved"}
    return at.item(approval_item(at.found) | accepts | commands)


# ── run ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_all(now: Session, texts: Sequence[str], options: RunOptions, evidence: Path | None, at_once: int) -> None:
    """Run each of the plans, as they were typed, or go on with it. `evidence`: a folder in which each has its own.

    Raises:
        Misconfigured, InvalidMirrorName: as `named_plans`; nothing was run. typer.Exit: not all are done.
    """
    plans = named_plans(texts, now.named)
    results = _of_each(now, plans, at_once, partial(_run, options, evidence))
    answers = [at if at.found is None else replace(at, why=at.found.failed) for at in results]
    items = [_run_item(at, plan) for at, plan in zip(answers, plans, strict=True)]
    emit(items, RUN_COLUMNS, now.as_json, errors=_errors_of(answers))
    for at in answers:
        for words in at.found.words() if at.found is not None else ():
            say(f"{at.where}: {words}")
        _say_errors(at.where, at.why)
    done = [at for at in answers if at.why is None]
    left = [at.where for at in answers if at.code in {_UNKNOWN, PARTIAL}]
    again = f"; run the same command again for {named(left, ', ')}" if left else ""
    say(f"ran {len(done)} of {len(answers)}{again}")
    _end(answers)


def _run(options: RunOptions, evidence: Path | None, now: Session, plan: NamedPlan) -> RunResult:
    def report(step: str, what: str, reason: str) -> None:
        say(f"{plan.where}: {line(step, what, reason)}")

    folder = evidence_folder(plan.plan, evidence and evidence / plan.plan)
    return carried_out(now, plan.mirror, plan.plan, options, folder, report)


def _run_item(at: MirrorAnswer[RunResult], plan: NamedPlan) -> dict[str, Any]:
    if at.found is None:
        return at.item({"plan_hash": plan.plan, "status": None, "result": at.result("")})
    return at.item(at.found.item() | {"result": at.result(at.found.outcome.record.status)})
