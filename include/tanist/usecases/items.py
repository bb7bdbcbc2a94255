"""The items of JSON output. The field names are a contract (docs/reference/commands.md)."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tanist.domain.checks import Check, Mode, Verdict
from tanist.domain.delivery import Delivery
from tanist.domain.duties import Duty, interval_seconds
from tanist.domain.lag_amounts import in_bytes, in_seconds
from tanist.domain.mapped_settings import interval_ms
from tanist.domain.state_record import stored_name
from tanist.domain.transaction_support import REQUESTS
from tanist.usecases.mirrors.describe import row_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.duties import DutyRun
    from tanist.domain.failover.health import Status
    from tanist.domain.followed import FollowedTopic
    from tanist.domain.lag import PartitionRow
    from tanist.domain.limitation import Limitation
    from tanist.domain.losses import LostRange
    from tanist.domain.next_steps.step import Guidance, NextStep
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.states import TransitionRow
    from tanist.usecases.mirrors.describe import Described


def spec_item(spec: MirrorSpec) -> dict[str, Any]:
    """A mirror as it is registered; ids below 0 were not allocated (a dry run)."""
    item: dict[str, Any] = {stored_name(field): getattr(spec, field.name) for field in fields(spec)}
    return item | {name: list(each) for name, each in item.items() if isinstance(each, tuple)}


def followed_item(topic: FollowedTopic) -> dict[str, Any]:
    """A topic that somebody else copies, and its copy."""
    return {
        "topic": topic.source,
        "copy": topic.copy,
        "partitions": topic.at_source,
        "copy_partitions": topic.at_destination,
        "topic_id": topic.source_topic_id,
        "copy_topic_id": topic.copy_topic_id,
        "trouble": topic.trouble,
        "why": topic.why,
    }


def topic_item(topic: TopicDesired) -> dict[str, Any]:
    """A topic and its desired state."""
    return {"mirror": topic.mirror, "topic": topic.topic, "state": topic.desired}


def row_item(row: PartitionRow) -> dict[str, Any]:
    """A partition; unknown values are None."""
    last = row.observed.last_mirrored_epoch if row.observed else -1
    epoch = last if last >= 0 else None
    return {
        "mirror": row.mirror,
        "topic": row.partition.topic,
        "source_topic": (row.at_source or row.partition).topic,
        "partition": row.partition.partition,
        "source_end_offset": row.source.high_watermark if row.source else None,
        "source_observed_ms": row.source.at if row.source else None,
        "destination_end_offset": row.destination_end,
        "lag": row.lag,
        "lag_ms": row.lag_ms,
        "lag_bytes": row.lag_bytes,
        "state": row.shown_state,
        "desired": row.desired,
        "last_mirrored_epoch": epoch,
        "lme": epoch,  # released under this name, and still read under it
        "mode": row.mode,
        "reason": row_reason(row),
        "warnings": list(row.warnings),
        "row": row.observed.row if row.observed else None,
        "error": row.observed.error if row.observed else None,
        "lost_offsets": row.lost.offsets if row.lost else 0,
        "lost": [_lost_item(each) for each in row.lost.ranges] if row.lost else [],
        "source_error": row.source_error,
        "destination_error": row.destination_error,
    }


def copying_item(described: Described) -> dict[str, Any]:
    """How a mirror copies: its offsets, its delivery, its limits, what else follows its source, and versions.

    `transaction_ms`: the interval of its transactions in ms; None: it has none. `limit`: bytes per second; None: it has
    none. The protocol versions of a cluster that does not answer are None.
    """
    spec, (source, destination) = described.spec, described.versions
    return {
        "offsets": spec.offsets,
        "transaction_ms": interval_ms(spec) if spec.is_mapped else None,
        "delivery": spec.delivery,
        "sync_metadata_seconds": interval_seconds(spec, Duty.METADATA),
        "sync_groups_seconds": spec.sync_groups_seconds,
        "workers_sync_groups": spec.workers_sync_groups,
        "config_exclude": list(spec.config_exclude),
        "group_include": list(spec.group_include),
        "group_exclude": list(spec.group_exclude),
        "on_rewind": spec.on_rewind,
        "duties": [_duty_item(each) for each in described.duties],
        "acl_rules": list(spec.acl_rules),
        "acl_principals": list(spec.acl_principals),
        "limit": spec.limit or None,
        "topic_limits": list(spec.topic_limits),
        "source_versions": source,
        "destination_versions": destination,
    }


def _duty_item(run: DutyRun) -> dict[str, Any]:
    """The last run of what workers do for a mirror again and again; `done_ms`: of the last that left nothing undone."""
    return {
        "duty": run.duty,
        "worker": run.worker,
        "at_ms": run.at,
        "done_ms": run.done_at or None,
        "failures": run.failures,
        "summary": run.summary,
        "error": run.error,
        "reason": run.reason,
    }


def offsets_line(spec: MirrorSpec) -> str:
    """For people, what is particular about the offsets of a mirror; empty: nothing."""
    if not spec.is_mapped:
        return ""
    if spec.delivery is Delivery.AT_LEAST_ONCE:
        return (
            f"mirror {spec.mirror}: mapped offsets, at least once, positions every {interval_ms(spec)} ms: what was "
            "appended in that time before a worker died is copied again"
        )
    return f"mirror {spec.mirror}: mapped offsets, a transaction every {interval_ms(spec)} ms: consumers read committed"


def acls_line(spec: MirrorSpec) -> str:
    """For people, which ACLs follow the source; empty: none."""
    if not spec.acl_rules:
        return ""
    names = f"; principals: {', '.join(spec.acl_principals)}" if spec.acl_principals else ""
    return f"mirror {spec.mirror}: ACLs that follow the source: {', '.join(spec.acl_rules)}{names}"


def versions_line(described: Described) -> str:
    """The same, for people: what is asked of the source, and what of the destination."""
    spec, (source, destination) = described.spec, described.versions
    reads = ("Fetch", "ListOffsets", "OffsetForLeaderEpoch")
    writes = REQUESTS if spec.is_mapped else ("Produce", "ListOffsets", "WriteTxnMarkers")
    return (
        f"mirror {spec.mirror}: protocol versions with {spec.source}: {_spoken(source, reads)}; "
        f"with {spec.destination}: {_spoken(destination, writes)}"
    )


def _spoken(versions: Mapping[str, int] | None, names: Iterable[str]) -> str:
    if versions is None:
        return "unknown"
    return ", ".join(f"{name} {versions[name]}" for name in names if name in versions)


def _lost_item(lost: LostRange) -> dict[str, Any]:
    """Offsets that the source deleted before they were copied; `last` is one of them."""
    return {"first": lost.start, "last": lost.until - 1, "offsets": lost.offsets, "found_ms": lost.at}


def guidance_item(found: Guidance) -> dict[str, Any]:
    """What to do next about a mirror."""
    missing = list(found.missing)
    return {"mirror": found.mirror, "destination": found.destination, "missing": missing} | following(found)


def following(found: Guidance) -> dict[str, Any]:
    """What the items of other commands say of it, beside their own."""
    return {"stage": found.stage, "next": step_items(found.steps)}


def step_items(steps: Iterable[NextStep]) -> list[dict[str, Any]]:
    """The steps as JSON; empty: nothing is to be done."""
    return [{"command": each.command, "why": each.why, "decision": each.decision} for each in steps]


ROW_COLUMNS = (
    "mirror",
    "topic",
    "partition",
    "source_offset",
    "destination_offset",
    "lag",
    "lag_age",
    "lag_size",
    "state",
    "lme",
    "mode",
    "reason",
)


def row_cells(item: dict[str, Any]) -> dict[str, Any]:
    """The same for a table, under the names of kafka-mirrors.sh."""
    age, size = item["lag_ms"], item["lag_bytes"]
    return item | {
        "source_offset": item["source_end_offset"],
        "destination_offset": item["destination_end_offset"],
        "lag_age": age and in_seconds(age),
        "lag_size": size and in_bytes(size),
    }


def check_item(check: Check) -> dict[str, Any]:
    """One check of `doctor` or `status`."""
    return {
        "name": check.name,
        "check": check.name,
        "verdict": check.verdict,
        "observed": check.observed,
        "limit": check.limit,
        "age_ms": check.age_ms,
        "reason": check.reason,
    }


def limitation_item(limitation: Limitation) -> dict[str, Any]:
    """One reason against a failover, as a plan and a status show it."""
    return {
        "name": limitation.name,
        "detail": limitation.detail,
        "blocks": limitation.blocks,
        "usual": limitation.usual,
    }


def status_item(status: Status, modes: Iterable[Mode] = tuple(Mode)) -> dict[str, Any]:
    """The verdicts of a mirror, with limitations and checks."""
    shown = tuple(modes)
    return {
        "mirror": status.mirror,
        **{str(mode): status.word(mode) for mode in shown},
        "limitations": {str(mode): [limitation_item(each) for each in status.limitations[mode]] for mode in shown},
        "checks": [check_item(check) for check in status.checks],
    }


def reasons(item: Mapping[str, Any], mode: str) -> list[Mapping[str, Any]]:
    """The limitations of `mode` in an item of a status: blocking ones first, usual ones last."""
    return sorted(item["limitations"][mode], key=lambda each: (not each["blocks"], each["usual"]))


def state_row_item(row: TransitionRow) -> dict[str, Any]:
    """One row of the state machine."""
    return {
        "row": row.number,
        "from": sorted(row.before),
        "when": row.when,
        "trigger": row.trigger,
        "to": row.after,
        "reason": row.reason,
    }


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """1 if any check failed, else 3 if any is unknown, else 0."""
    found = set(verdicts)
    return 1 if Verdict.FAIL in found else 3 if Verdict.UNKNOWN in found else 0
