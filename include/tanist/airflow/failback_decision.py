"""What becomes of records that only an old source has: the gate that asks, and the task that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from tanist.airflow import connections
from tanist.airflow.failback import RESCUE_SECONDS, FailbackParams, switch_done
from tanist.airflow.failback_gates import LegGate
from tanist.airflow.gate import NotAnswered, approved_item, must_not_be_cleared, terms_of
from tanist.airflow.markdown import decision_page
from tanist.airflow.tasks import NAMED, TASK_SECONDS, at_work, busy_or_retriable, never, say_step
from tanist.domain.approval.entries import Approval
from tanist.domain.errors import Refused
from tanist.domain.failback.pending import rescued_tails
from tanist.domain.records import STATE_TOPIC
from tanist.domain.selection import EVERY_TOPIC
from tanist.usecases.approvals import approve, earlier_answer
from tanist.usecases.failback.deciding import DECISIONS, plan_decision, unfinished_decision
from tanist.usecases.failback.replay import ReplayTools, replay_item
from tanist.usecases.failback.replay import replay as replay_tails
from tanist.usecases.runs.runner import Reporting
from tanist.wiring.failover import Folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from tanist.airflow.failback import ReversalLeg
    from tanist.airflow.tasks import FailoverTask
    from tanist.usecases.mirror import ReturnedMirror


class DecisionGate(LegGate):
    """Shows what would become of rescued records, and writes the approval of that once an approver answers Approve.

    It does not ask where no record waits for a decision, where a decision was begun, or if TAIL_UNDECIDED is accepted.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.subject = "Replay what only the old source of {{ params.mirror }} has?"

    def asks(self, context: Context) -> tuple[ReversalLeg, str]:
        """As that of `LegGate`."""
        params = FailbackParams.of(context)
        return params.back, params.decision

    def execute(self, context: Context) -> Any:
        """Ask with the plan in the question. Raises as that of `PlanGate`."""
        if (done := switch_done(context)) is not None:
            return done
        params = FailbackParams.of(context)
        with at_work(again=never) as task:
            if (left := self._left_alone(params, task)) is not None:
                return left
            must_not_be_cleared(context)
        if (approval := self.approved_before(context)) is not None:
            return approved_item(approval)
        with at_work(RESCUE_SECONDS, again=never) as task:
            if (clusters := params.to_decide(task)) is None:
                return {"asked": False}
            found = plan_decision(clusters, EVERY_TOPIC, params.actions, task.context)
        return self.ask(context, decision_page(found), {"plan": found.plan.hash})

    def _left_alone(self, params: FailbackParams, task: FailoverTask) -> dict[str, Any] | None:
        """What the gate returns that does not ask; None: it asks."""
        if (clusters := params.to_decide(task)) is None:
            return {"asked": False}
        view, mirror = clusters.destination.state(STATE_TOPIC, task.context.by), clusters.spec.mirror
        if (held := unfinished_decision(view, mirror, EVERY_TOPIC)) is not None:
            return {"plan": held.plan, "asked": False}
        return None if rescued_tails(view, mirror) else {"asked": False}

    def first_shown(self, context: Context, plan: str) -> Mapping[str, Any]:
        """As that of `PlanGate`: the rescued records make the plan again, however many have expired since."""
        params = FailbackParams.of(context)
        with at_work(RESCUE_SECONDS, again=never) as task:
            try:
                plan_decision(self._mirror(params, task), EVERY_TOPIC, params.actions, task.context, plan)
            except Refused as why:
                raise NotAnswered(f"the first answer was lost, and {why.reason}") from why
        return {"plan": plan}

    def _mirror(self, params: FailbackParams, task: FailoverTask) -> ReturnedMirror:
        if (clusters := params.to_decide(task)) is None:
            raise NotAnswered("the mirror was reversed since the question was asked")
        return clusters

    def execute_complete(self, context: Context, event: dict[str, Any], shown: dict[str, Any] | None = None) -> Any:
        """Write the approval with the name of the user who answered. Raises as that of `PlanGate`."""
        who, params = self.approver(context, event, shown), FailbackParams.of(context)
        home, plan = params.back.home, str((shown or {}).get("plan", ""))
        with at_work(RESCUE_SECONDS, again=never) as task:
            made = plan_decision(self._mirror(params, task), EVERY_TOPIC, params.actions, task.context, plan).plan
        with at_work(TASK_SECONDS, {home: f"{home}_approver"}, again=never) as task:
            clusters, terms = self._mirror(params, task), terms_of(context, who)
            approval = approve(DECISIONS, plan, made, terms, clusters, task.context, request=params.decision)
        return self.stored(approval)


def replay() -> dict[str, Any]:
    """Carry out what an approver has said about rescued records; nothing where there was nothing to say.

    A retry continues where a killed attempt has stopped. With access rules it uses the connection `<primary>_replay`,
    if there is one: a failover denies the mirror's login WRITE on its topics. Raises as `replay` of the use cases.
    """
    params = FailbackParams.of(get_current_context())
    home = params.back.home
    with at_work(RESCUE_SECONDS, again=busy_or_retriable) as task:
        plan = None if (clusters := params.to_decide(task)) is None else _decided(params, clusters, task)
        logins = {home: f"{home}_replay"} if plan and connections.exists(f"{home}_replay") else {}
    if plan is None:
        return {"mirror": params.mirror, "plan": None}
    with at_work(RESCUE_SECONDS, logins, again=busy_or_retriable) as task:
        if (clusters := params.to_decide(task)) is None:
            return {"mirror": params.mirror, "plan": None}
        folder = Folder(connections.evidence() / f"rescue-{params.mirror}")
        folder.check()
        tools = ReplayTools(
            manifest=lambda manifest: folder.write_manifest(manifest, f"replay-{plan}.json"),
            report=lambda at, seen: say_step(str(at), f"{seen.replayed} replayed, {seen.dropped} dropped"),
            waiting=lambda at, why: say_step(str(at), "waits", f"{why.name}: {why.reason}"),
            to=Reporting(listener=say_step),
        )
        done = replay_tails(plan, clusters, tools, task.context, params.decision)
    for topic, why in sorted(done.not_released.items()):
        say_step(
            "replay", f"warning: {topic} is still held at the old source, `tanist failback survey` puts it back: {why}"
        )
    item = replay_item(done)
    return item | {"evidence": str(folder.path), "tails": item["tails"][:NAMED]}


def _decided(params: FailbackParams, clusters: ReturnedMirror, task: FailoverTask) -> str | None:
    """The plan to carry out: one that was begun, else the one that an approver of this run has approved."""
    view, mirror = clusters.destination.state(STATE_TOPIC, task.context.by), clusters.spec.mirror
    if (held := unfinished_decision(view, mirror, EVERY_TOPIC)) is not None:
        return held.plan
    answer = earlier_answer(clusters.destination, mirror, params.decision, task.context, 0)
    return answer.plan if isinstance(answer, Approval) else None
