"""`tanist status`: read-only. It gathers the facts; `domain.readiness` judges them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.readiness import Facts, status
from tanist.domain.records import (
    GROUPS_TOPIC,
    OFFSETS_TOPIC,
    STATE_TOPIC,
    FailoverRun,
    GroupsFollowed,
    WorkerAlive,
)
from tanist.domain.states import Wish
from tanist.usecases import sides
from tanist.usecases.groups.listing import followed_check

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.checks import Check
    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import MirrorName
    from tanist.domain.readiness import Status
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.usecases.mirrors.describe import Describer
    from tanist.usecases.sides import Run, Side


def workers(view: StateView) -> tuple[WorkerAlive, ...]:
    """All workers that have ever written a heartbeat, by name."""
    return view.workers()


def state_topic_problem(destination: Side, run: Run) -> str | None:
    """Why the state topics cannot be trusted; None: they can."""
    try:
        for topic in (STATE_TOPIC, OFFSETS_TOPIC):
            destination.open_store(topic, None, run.by).close()
    except TanistError as error:
        return error.reason
    return None


def missing_map(destination: Side, run: Run) -> str | None:
    """The state topics were read to get here, so they are sane; but the one of the maps may be missing altogether."""
    return None if sides.exists(destination, OFFSETS_TOPIC, run.by) else f"{OFFSETS_TOPIC} does not exist"


def _followed(describer: Describer, spec: MirrorSpec, run: Run) -> GroupsFollowed | None:
    return describer.view(GROUPS_TOPIC, run.by).groups_followed(spec)


def _nothing_more(_spec: MirrorSpec, _view: StateView) -> tuple[Check, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One look at a mirror: the verdicts, and what they were made of. `runs`: its failovers, the latest last."""

    spec: MirrorSpec
    status: Status
    rows: tuple[PartitionRow, ...]
    workers: tuple[WorkerAlive, ...]
    runs: tuple[FailoverRun, ...]


def observe(
    describer: Describer,
    mirror: MirrorName | None,
    run: Run,
    more: Callable[[MirrorSpec, StateView], tuple[Check, ...]] = _nothing_more,
) -> tuple[Seen, ...]:
    """One mirror, or all of a destination. `more`: what others have to say of each.

    Raises:
        UnknownMirror, UnsafeStateTopic, and what the destination answers if it cannot be read.
    """
    described = describer.describe(mirror, run)
    problem = missing_map(describer.destination, run)
    view = describer.view(STATE_TOPIC, run.by)
    alive = workers(view)
    return tuple(
        Seen(
            spec=each.spec,
            status=status(
                Facts(
                    mirror=each.spec.mirror,
                    rows=each.rows,
                    left=tuple(t.topic for t in view.topics(each.spec.mirror) if t.wish is Wish.REMOVED),
                    workers=alive,
                    source_error=str(each.source_down) if each.source_down else None,
                    growth=each.growth,
                    state_topic_problem=problem,
                    now=run.clock.now(),
                    more=(
                        followed_check(_followed(describer, each.spec, run), run.clock.now()),
                        *more(each.spec, view),
                    ),
                )
            ),
            rows=each.rows,
            workers=alive,
            runs=tuple(sorted(view.failovers(each.spec.mirror), key=lambda run: run.started_at)),
        )
        for each in described
    )
