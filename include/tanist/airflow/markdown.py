"""Markdown for users of Airflow: in the gate and in the logs of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tanist.domain.failover.forecast import forecast_words, silence_words
from tanist.domain.failover.reserve import reserve_words
from tanist.domain.records import RunStatus
from tanist.usecases.failback.deciding import decision_item
from tanist.usecases.failover.items import plan_item
from tanist.usecases.items import limitation_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.failover.health import Status
    from tanist.domain.records import FailoverRun
    from tanist.usecases.failback.deciding import PlannedDecision
    from tanist.usecases.failback.reversal import PlannedReversal
    from tanist.usecases.failover.planning import Planned

_MOST_NAMED = 50


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; cells are escaped."""
    lines = [columns, ["---"] * len(columns), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plan_page(planned: Planned) -> str:
    """The plan for an approver: hash, steps, limitations and forecast."""
    item = plan_item(planned)
    parts = [
        _what(item),
        _forecast(planned),
        _limitations(item["limitations"]),
        table(
            ("step", "postcondition", ""),
            ((step["id"], step["title"], "done" if step["done"] else "") for step in item["steps"]),
        ),
    ]
    if item["failed"]:
        parts.append("**Failed partitions**\n\n" + table(("partition", "error"), item["failed"].items()))
    if by_partition := item["forecast"]["by_partition"]:
        worst = sorted(by_partition.items(), key=lambda each: -each[1])[:_MOST_NAMED]
        parts.append("**Offsets at risk**\n\n" + table(("partition", "offsets"), worst))
    return "\n\n".join(parts)


def reversal_page(planned: PlannedReversal) -> str:
    """The plan of a reversal for an approver: hash, topics and limitations."""
    made = planned.plan
    rows = [
        (each.topic, len(each.free_from), each.promotion_epoch, each.markers, ", ".join(each.denied))
        for each in made.topics
    ]
    found = [{"blocks": False, "usual": False, "name": each.name, "detail": each.detail} for each in made.limitations]
    what = (
        f"Plan `{made.hash}`: mirror `{made.mirror}` is reversed; {len(made.topics)} topic(s) are copied back, only "
        "what was written since their failover."
    )
    columns = ("topic", "partitions", "promotions", "gap markers", "principals that are denied WRITE")
    return "\n\n".join((what, _limitations(found), table(columns, rows)))


def decision_page(planned: PlannedDecision) -> str:
    """What becomes of rescued records, for an approver: hash, and records by partition and class."""
    item = decision_item(planned)
    what = f"Plan `{item['plan_hash']}`: mirror `{item['mirror']}`, records that only its old source has: {planned}."
    kept = "No record is deleted anywhere: what is not replayed stays in quarantine."
    columns = ("topic", "partition", "records", *(f"{each}: {action}" for each, action in item["actions"].items()))
    rows = (
        (row["topic"], row["partition"], row["records"], *(row[each] for each in item["actions"]))
        for row in item["tails"][:_MOST_NAMED]
    )
    return "\n\n".join((what, kept, table(columns, rows)))


def adopted_page(record: FailoverRun) -> str:
    """Why the gate does not ask: the run, or the reversal after it, is unfinished and approved already."""
    if record.status is RunStatus.DONE:
        return (
            f"Plan `{record.plan}` of mirror `{record.mirror}` is done, the reversal after it is not. Both were "
            f"approved by {record.approver} (approval `{record.approval}`). No new approval is needed: this run "
            "completes it."
        )
    way = "It is past the point of no return and can only be completed." if record.no_return else ""
    return (
        f"Plan `{record.plan}` of mirror `{record.mirror}` is unfinished, approved by {record.approver} "
        f"(approval `{record.approval}`). No new approval is needed: this run resumes it. {way}"
    ).strip()


def status_page(status: Status) -> str:
    """Whether a failover could start now, and why not."""
    rows = ((c.name, c.verdict, c.observed, c.limit, c.reason) for c in status.checks)
    head = f"Mirror `{status.mirror}`: planned failover {status.planned}, unplanned failover {status.unplanned}."
    against = (
        f"**{str(mode).capitalize()}:** {_limitations([limitation_item(each) for each in found])}"
        for mode, found in status.limitations.items()
    )
    return "\n\n".join((head, *against, table(("check", "verdict", "observed", "limit", "reason"), rows)))


def _what(item: Mapping[str, Any]) -> str:
    topics = item["topics"]
    named = ", ".join(f"`{topic}`" for topic in topics[:_MOST_NAMED])
    more = f" and {len(topics) - _MOST_NAMED} more" if len(topics) > _MOST_NAMED else ""
    count = f"{len(topics)} topic(s), {item['partitions']} partition(s)"
    return f"Plan `{item['plan_hash']}`: {item['mode']} failover of mirror `{item['mirror']}`, {count}: {named}{more}."


def _forecast(planned: Planned) -> str:
    tolerated = planned.plan.intent.loss_tolerance
    reserved = f" **Reserve:** {reserve_words(planned.reserve)}." if planned.reserve.partitions else ""
    cost = planned.forecast
    said = f"**Forecast:** {forecast_words(cost)}; {tolerated} tolerated. **{planned.word}**.{reserved}"
    silence = "" if planned.plan.intent.dead_since is not None else silence_words(cost, "`source_dead_since`")
    return f"{said} {silence[0].upper()}{silence[1:]}." if silence else said


def _limitations(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return "There are no limitations."
    rows = (("BLOCKED" if r["blocks"] else "usual" if r["usual"] else "accept", r["name"], r["detail"]) for r in found)
    return "**By approving you accept:**\n\n" + table(("", "limitation", "detail"), rows)


def _cell(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
