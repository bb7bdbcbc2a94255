"""Who reaches the source: this host, the workers, or nobody. An unplanned failover is for the last case."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Mode
from tanist.domain.errors import Refused
from tanist.domain.failover.commands import plan_command
from tanist.domain.failover.facts import SourceState, is_locked
from tanist.domain.failover.source_look import iso_time
from tanist.usecases.mirrors.describe import last_known

if TYPE_CHECKING:
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import EpochMs
    from tanist.domain.state_view import StateView
    from tanist.usecases.failover.observe import Observer

_RECENT_MS: Final = 5_000
_WORKERS_WRITE_SECONDS: Final = 2.0
"""Workers store what they see every second, and at once that the source does not answer any more."""


class SourceAnswers(Refused):
    """Said once, before a run begins. A run that has begun counts, records and continues."""

    name = "SOURCE_ANSWERS"
    operator_action = (
        "drain it instead, by a planned failover of the same topics (in Airflow mode: planned); or run the same "
        "command with --although-it-answers (in Airflow the same name); nothing was changed"
    )


class SourceSeenByWorkers(Refused):
    name = "SOURCE_SEEN_BY_WORKERS"
    operator_action = (
        "check the connection of this host to the source; to fail over all the same, give `--max-loss N`, because the "
        "loss moves as long as workers copy; nothing was changed"
    )


def must_not_answer(intent: Intent, facts: Facts, destination: str) -> None:
    """An unplanned failover loses what a planned one would drain. `destination`: its name.

    Raises:
        SourceAnswers: every partition of the source answers, and no run has begun.
    """
    if intent.mode is Mode.UNPLANNED and facts.source.state is SourceState.ALIVE and not is_locked(facts):
        planned = plan_command(replace(intent, mode=Mode.PLANNED, dead_since=None), destination)
        raise SourceAnswers(
            f"the source of mirror {intent.mirror!r} answers for all partitions of the plan; drained, none is lost: "
            f"{planned}"
        )


def must_not_be_seen_by_workers(intent: Intent, facts: Facts, observer: Observer, before: StateView) -> None:
    """Where workers see the source and we do not, the number of lost offsets moves, so somebody has to say it.

    `before`: the state as it was read before the source was asked. Waits for what workers store next, where they have
    seen it lately.

    Raises:
        SourceSeenByWorkers.
    """
    if (
        intent.mode is not Mode.UNPLANNED
        or facts.source.state is not SourceState.SILENT
        or facts.source.another_cluster
    ):
        return
    seen = _seen(before, intent)
    if seen is None or facts.now - seen > _RECENT_MS:
        return
    observer.context.clock.wait(_WORKERS_WRITE_SECONDS)
    now = _seen(observer.view(), intent)
    if now is not None and now > seen:
        raise SourceSeenByWorkers(
            f"workers reached the source at {iso_time(now)}, this host does not: {facts.source.reason}"
        )


def _seen(view: StateView, intent: Intent) -> EpochMs | None:
    """When the source answered a worker that still reaches it; None: none does."""
    ours = frozenset(intent.partitions)
    ends = last_known(view, intent.mirror).items()
    return max((end.at for at, end in ends if at in ours and end.silent_since is None), default=None)
