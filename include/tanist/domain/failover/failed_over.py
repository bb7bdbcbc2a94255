"""What is said of topics that a failover has taken out of their mirror already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import named
from tanist.domain.errors import TopicNotInMirror
from tanist.domain.failover.plan import plan_of
from tanist.domain.names import iso_time
from tanist.domain.records import RunStatus
from tanist.domain.selection import Selection

if TYPE_CHECKING:
    from tanist.domain.records import FailoverRun, MirrorSpec
    from tanist.domain.state_view import StateView


class TopicsFailedOver(TopicNotInMirror):
    operator_action = (
        "they are ordinary topics of the destination now, and `tanist next` says what comes next; `tanist mirrors add` "
        "mirrors one again from its source; nothing was changed"
    )


def must_be_inside(view: StateView, spec: MirrorSpec, topics: Selection) -> None:
    """Refuse a selection of topics that the mirror `spec` has no more. What never was in it is not looked at.

    Raises:
        TopicsFailedOver: when each of them was failed over, and by which plan.
    """
    inside = [each.topic for each in view.mirrored(spec.mirror)]
    missing = Selection(topics.include).idle(inside)
    names = [each.topic for each in view.removed(spec.mirror)]
    if not missing or Selection(missing).idle(names):
        return
    left = Selection(missing, topics.exclude).of(names)
    runs = {name: _run_of(view, spec, name) for name in left}
    whats = named(f"{name} ({_when(run)})" for name, run in runs.items())
    raise TopicsFailedOver(f"mirror {spec.mirror!r} has failed over {whats}")


def _run_of(view: StateView, spec: MirrorSpec, topic: str) -> FailoverRun | None:
    """The failover that was done last of this topic; None: none is on record."""
    done = [run for run in view.failovers(spec.mirror) if run.status is RunStatus.DONE]
    found = [run for run in done if (plan := plan_of(run)) is not None and topic in plan.intent.names]
    return max(found, key=lambda run: run.at, default=None)


def _when(run: FailoverRun | None) -> str:
    return f"plan {run.plan}, {iso_time(run.at)}" if run is not None else "no run is on record"
