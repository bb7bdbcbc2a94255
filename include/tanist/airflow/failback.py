"""The tasks of a failback before and after its switch, which is a failover: the tasks of `tanist.airflow.failover`.

Each is a call of the use cases that the command line calls, too; a task that was done before changes nothing. Once the
switch is done, all tasks up to it do nothing: a run that is triggered again goes on with the reversal after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param, get_current_context

from tanist.airflow import connections
from tanist.airflow.params import PARAMS as FAILOVER_PARAMS
from tanist.airflow.params import Unfinished, parameters, request_of
from tanist.airflow.tasks import NAMED, at_work, busy_or_retriable, progress_lines, say_step
from tanist.airflow.validation import Validate
from tanist.domain.checks import Mode
from tanist.domain.errors import TanistError
from tanist.domain.failback.decision import DEFAULT_ACTIONS, TailAction, TailClass
from tanist.domain.failback.reversal import (
    TAIL_UNDECIDED,
    TO_ACCEPT,
    TailUndecided,
    TailWouldBeDeleted,
    without_copies,
)
from tanist.domain.failback.torn import torn_words
from tanist.domain.moves import MirrorMoved
from tanist.domain.names import mirror_name
from tanist.domain.problems import each, refuse
from tanist.domain.selection import EVERY_TOPIC
from tanist.usecases.failback import reversal
from tanist.usecases.failback.moving_state import end_arrival
from tanist.usecases.failback.recording import survey_and_record
from tanist.usecases.failback.rescue import RescueTools, tail_items
from tanist.usecases.failback.rescue import rescue as rescue_tails
from tanist.usecases.failback.reversal import ReversalRequest
from tanist.usecases.failback.reverse import by_failover, reverse_mirror, switched
from tanist.usecases.failback.survey import survey_item
from tanist.usecases.mirror import identify
from tanist.usecases.mirrors.wait import Goal, GoalNotReached, wait_for
from tanist.usecases.runs.runner import Reporting
from tanist.wiring.failover import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.sdk import Context

    from tanist.airflow.tasks import FailoverTask
    from tanist.domain.names import TopicPartition
    from tanist.domain.records import FailoverRun
    from tanist.ports.clock import Clock
    from tanist.usecases.mirror import ReturnedMirror

IN_STEP_SECONDS: Final = 3600.0
SURVEY_SECONDS: Final = 120.0
RESCUE_SECONDS: Final = 3600.0
_REPORT_SECONDS: Final = 5.0
_OF_FAILOVERS: Final = {"reverse", "although_it_answers"}
PARAMS: Final = {name: param for name, param in FAILOVER_PARAMS.items() if name not in _OF_FAILOVERS} | {
    "destination": Param(
        type="string",
        pattern=FAILOVER_PARAMS["destination"].schema["pattern"],
        title="Fail back to",
        description="The connection id of the old source, which takes over again.",
    ),
    "primary": Param(
        type="string",
        pattern=FAILOVER_PARAMS["destination"].schema["pattern"],
        title="Present primary",
        description="The connection id of the cluster that has taken over: the mirror's destination now.",
    ),
    "mode": Param(
        Mode.PLANNED.value,
        type="string",
        enum=[Mode.PLANNED.value],
        title="Mode",
        description="A failback is a planned failover of the reversed mirror.",
    ),
    "exclude": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Topics that stay behind",
        description="Regular expressions that match whole topic names; these topics are not copied back.",
    ),
    "recreate": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Topics that may be copied again",
        description="Regular expressions that match whole topic names; if they cannot return at their offsets, these "
        "topics are deleted at the old source and copied again. The plan shows what it costs.",
    ),
    "replay": Param(
        [each.value for each, action in DEFAULT_ACTIONS.items() if action is TailAction.REPLAY],
        type="array",
        items={"type": "string", "enum": [each.value for each in TailClass]},
        title="Rescued records that are replayed",
        description="Classes of records that only the old source has; they are appended to their topics, once an "
        "approver agrees. All others stay in quarantine. safe: the new primary has no newer record with the key.",
    ),
    "accept": Param(
        [],
        type="array",
        items={"type": "string", "enum": list(TO_ACCEPT)},
        title="Limitations to accept",
        description="TAIL_UNDECIDED: nobody has decided about records that only the old source has; they stay there, "
        "and a copy of them is in quarantine; no approver is asked about them. The failover after the reversal needs "
        "`tanist failback accept` then.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReversalLeg:
    """One of the two reversals of a failback. `home`: the mirror's destination before it; `to`: after it."""

    mirror: str
    home: str
    to: str
    request: ReversalRequest

    def clusters(self, task: FailoverTask) -> ReturnedMirror | None:
        """Both clusters of the mirror; None: it has been reversed already.

        Raises:
            MirrorMoved: it moved to a cluster that this run does not name.
        """
        home = task.registry.connect(self.home)
        try:
            return task.registry.open_mirror(home, mirror_name(self.mirror), task.context).returned()
        except MirrorMoved as moved:
            if moved.destination != self.to:
                raise
            return None

    def to_reverse(self, task: FailoverTask) -> ReturnedMirror | None:
        """As `clusters`; None also: an approved reversal is unfinished. The source is not asked: it may not answer."""
        clusters = self.clusters(task)
        return None if clusters is None or reversal.unfinished(clusters, task.context) is not None else clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackParams:
    """Which mirror, and to where. `back`: the reversal before the switch; `again`: the one that follows the failback.

    That one takes back every topic that has returned: the expressions of the first one match topics that stayed behind,
    or were copied again before, and what was accepted then was about the old source's tails. `actions`: what is to
    become of rescued records, `decision`: the request that the approval of it answers. `only_abort`: nothing is asked
    for but that an unfinished failover is undone.
    """

    mirror: str
    destination: str
    back: ReversalLeg
    again: ReversalLeg
    actions: Mapping[TailClass, TailAction]
    decision: str
    only_abort: bool = False

    @classmethod
    def of(cls, context: Context) -> FailbackParams:
        """The parameters of this run. Raises as `parameters`."""
        found, answers = parameters(context), request_of(context)
        mirror, primary, destination = found["mirror"], found["primary"], found["destination"]
        first = ReversalRequest(
            exclude=tuple(found["exclude"]),
            accept=tuple(found["accept"]),
            recreate=tuple(found["recreate"]),
            answers=f"{answers}/reverse",  # each gate asks for itself
        )
        return cls(
            mirror=mirror,
            destination=destination,
            back=ReversalLeg(mirror=mirror, home=primary, to=destination, request=first),
            again=ReversalLeg(
                mirror=mirror, home=destination, to=primary, request=ReversalRequest(answers=f"{answers}/reverse_again")
            ),
            actions={each: TailAction.REPLAY if each in found["replay"] else TailAction.DROP for each in TailClass},
            decision=f"{answers}/decide",
            only_abort=found["unfinished"] == Unfinished.ABORT_ONLY,
        )

    def to_decide(self, task: FailoverTask) -> ReturnedMirror | None:
        """Both clusters of the mirror; None: nobody is to decide about its tails, or it has been reversed."""
        return None if TAIL_UNDECIDED in self.back.request.accept else self.back.to_reverse(task)

    def switch(self, task: FailoverTask) -> FailoverRun | None:
        """The failover to the old source, if it is done; then at most the reversal after it is left."""
        if self.only_abort:
            return None
        (to,) = identify((task.registry.connect(self.destination),), task.context)
        clusters = self.back.clusters(task) or self.again.clusters(task)
        return None if clusters is None else switched(clusters, to, task.context)


def switch_done(context: Context) -> dict[str, Any] | None:
    """What a task of a run leaves that has nothing to do, because the switch was done before; None: it has."""
    params = FailbackParams.of(context)
    with at_work(again=busy_or_retriable) as task:
        run = params.switch(task)
    if run is None:
        return None
    print(f"the failover to {params.destination} is done (plan {run.plan})")  # noqa: T201  # the task's log
    return {"plan": run.plan, "switched": True, "asked": False}


def before_the_switch(does: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """The same task, which does nothing once the switch is done."""

    @wraps(does)
    def task(*arguments: Any) -> dict[str, Any]:
        return switch_done(get_current_context()) or does(*arguments)

    return task


class ValidateInStep(Validate):
    """Validates before the switch; does nothing after it."""

    def execute(self, context: Context) -> Any:
        """Raises as that of `Validate`."""
        return switch_done(context) or super().execute(context)


def survey() -> dict[str, Any]:
    """Hold what the old source has, compare it with the new primary, and put its tails on record.

    Fails if the mirror cannot be reversed for another reason than its tails; it is tried again while the old source may
    still get records.
    """
    params = FailbackParams.of(get_current_context())
    with at_work(SURVEY_SECONDS, again=busy_or_retriable) as task:
        if (clusters := _before_the_reversal(params, task)) is None:
            return {"mirror": params.mirror, "reversed": True}
        seen = survey_and_record(clusters, EVERY_TOPIC, task.context)
        _warn_not_held(seen.not_held)
        if seen.without_copy:
            _say(f"warning: {without_copies(seen.without_copy)}")
        for at in seen.found:
            for warning in at.warnings:
                _say(f"warning: {at.partition}: {warning}")
        _must_be_reversible(params, clusters, task)
    tails = {each.topic: each for each in seen.recorded}
    rows = [survey_item(params.mirror, at, tails.get(at.partition.topic)) for at in seen.found[:NAMED]]
    return {"mirror": params.mirror, "reversed": False, "partitions": rows}


def rescue() -> dict[str, Any]:
    """Copy what only the old source has to quarantine topics of the new primary, and check every record of it.

    A retry continues where a killed attempt has stopped. Raises as `survey`.
    """
    params = FailbackParams.of(get_current_context())
    with at_work(RESCUE_SECONDS, again=busy_or_retriable) as task:
        if (clusters := _before_the_reversal(params, task)) is None:
            return {"mirror": params.mirror, "reversed": True}
        folder = Folder(connections.evidence() / f"rescue-{params.mirror}")
        folder.check()
        tools = RescueTools(manifest=folder.write_manifest, report=Progress(task.context.clock))
        done = rescue_tails(clusters, EVERY_TOPIC, tools, task.context)
        _warn_not_held(done.not_held)
        if words := torn_words(done.torn):
            _say(f"warning: {words}; the manifest lists them")
        _must_be_reversible(params, clusters, task)
    rows = [row for tails in done.tails for row in tail_items(params.mirror, tails) if row["records"]]
    return {"mirror": params.mirror, "reversed": False, "evidence": str(folder.path), "tails": rows[:NAMED]}


def _before_the_reversal(params: FailbackParams, task: FailoverTask) -> ReturnedMirror | None:
    """Both clusters of the mirror; None: it has been reversed, or an approved reversal is unfinished."""
    if (clusters := params.back.to_reverse(task)) is None:
        _say("the mirror is reversed, or about to be: nothing is left to survey or rescue")
    return clusters


def _must_be_reversible(params: FailbackParams, clusters: ReturnedMirror, task: FailoverTask) -> None:
    """Raises what `reversal.plan` does, but for tails that nobody has decided about: the gate names those."""
    try:
        reversal.plan(params.back.request, clusters, task.context)
    except TanistError as why:
        if left := [one for one in each(why) if not isinstance(one, TailUndecided | TailWouldBeDeleted)]:
            refuse(left)


@dataclass(slots=True)
class Progress:
    """Logs how far a rescue is, at most every few seconds, and the end of each partition."""

    clock: Clock
    at: float = -_REPORT_SECONDS

    def __call__(self, partition: TopicPartition, count: int, of: int) -> None:
        now = self.clock.monotonic()
        if count >= of or now - self.at >= _REPORT_SECONDS:
            self.at = now
            _say(f"{partition}: {count} of {of} records are in quarantine")


def _warn_not_held(failed: Mapping[str, TanistError]) -> None:
    for topic, why in sorted(failed.items()):
        _say(f"warning: retention of {topic} at the old source could not be set: {why}")


def _say(what: str) -> None:
    print(what)  # noqa: T201  # the task's log


def reverse() -> dict[str, Any]:
    """Reverse the mirror, so that it copies to the old source. Raises as `reverse_mirror`."""
    params = FailbackParams.of(get_current_context())
    return _reversed(params.back, params.again)


def reverse_again() -> dict[str, Any]:
    """After the failback: reverse the mirror, so that it runs in its first direction again. Raises as `reverse`."""
    params = FailbackParams.of(get_current_context())
    return _reversed(params.again, params.back)


def _reversed(leg: ReversalLeg, opposite: ReversalLeg) -> dict[str, Any]:
    """Reverse the mirror, by the approval of its failover if that has one, else by that of the gate."""
    with at_work(again=busy_or_retriable) as task:
        if (clusters := leg.clusters(task)) is None:
            there = opposite.clusters(task)
            changed = there is not None and end_arrival(there.destination, there.spec.mirror, task.context)
            return {"mirror": leg.mirror, "changed": changed}
        base = connections.evidence()
        Folder(base).check()
        to = Reporting(sink_of=lambda plan: Folder(base / plan), listener=say_step)
        request = by_failover(leg.request, clusters, task.context) or leg.request
        done = reverse_mirror(request, clusters, task.context, to=to)
    return {
        "mirror": leg.mirror,
        "changed": done.changed,
        "plan": done.plan,
        "source": done.spec.source,
        "destination": done.spec.destination,
    }


def in_step() -> dict[str, Any]:
    """Wait until everything that was written since the failover is copied to the old source."""
    params = FailbackParams.of(get_current_context())
    with at_work(IN_STEP_SECONDS, again=_may_catch_up) as task:
        describer = task.registry.describer(task.registry.connect(params.destination))
        mirror, progress = mirror_name(params.mirror), progress_lines(task.context.clock, "partitions are in step")
        rows = wait_for(mirror, Goal(None), describer, task.context, progress)
    return {"mirror": params.mirror, "partitions": len(rows)}


def _may_catch_up(error: TanistError) -> bool:
    return error.retriable or isinstance(error, GoalNotReached)
