"""`tanist mirrors wait`: like kubectl wait, for a state or for lag 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import named
from tanist.domain.detached import detached_topics
from tanist.domain.errors import Misconfigured, Refused
from tanist.domain.followed import copied_here
from tanist.domain.records import STATE_TOPIC
from tanist.domain.states import MirrorState
from tanist.usecases.command import CommandContext
from tanist.usecases.mirrors.describe import must_match, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.usecases.mirrors.describe import Describer

_POLL_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 10.0
"""Each observation has a deadline of its own, so that the end of the wait is not reported as a dead cluster."""
_MOST_NAMED: Final = 10
_NOT_BEGUN: Final = frozenset({MirrorState.UNKNOWN, MirrorState.PREPARING})


class GoalNotReached(Refused):
    name = "WAIT_TIMED_OUT"
    operator_action = "see `tanist mirrors describe`, or allow more time with --timeout"


class WaitedInVain(Refused):
    name = "PARTITION_FAILED"
    operator_action = "see `tanist mirrors describe` for the reason: FAILED partitions need an operator"


class NothingToWaitFor(Refused):
    name = "NOTHING_TO_WAIT_FOR"
    operator_action = "see `tanist failover status` and `tanist mirrors list` for what has become of the mirror"


@dataclass(frozen=True, slots=True)
class Goal:
    """A state that every partition should have, or (None) no lag in any partition whose copying has begun."""

    state: MirrorState | None

    @classmethod
    def parse(cls, text: str) -> Goal:
        """`state=MIRRORING` or `lag=0`.

        Raises:
            Misconfigured: it is neither.
        """
        kind, _, value = text.partition("=")
        if (kind, value) == ("lag", "0"):
            return cls(None)
        if kind == "state" and value.upper() in MirrorState.__members__:
            return cls(MirrorState(value.upper()))
        states = ", ".join(MirrorState)
        raise Misconfigured(f"--for {text!r} is neither lag=0 nor state=STATE with one of {states}")

    def holds(self, row: PartitionRow) -> bool:
        """Whether `row` has reached the goal.

        A lag that is unknown, or known only from the past, is not 0. Nor is a lag of 0 reached while the partition is
        PREPARING: no worker has compared both logs yet, and a failover would be refused.
        """
        if self.state:
            return row.state is self.state
        return row.state not in _NOT_BEGUN and row.lag == 0 and row.source_error is None

    def missing(self, rows: Iterable[PartitionRow]) -> tuple[PartitionRow, ...]:
        """Rows that have not reached the goal."""
        return tuple(row for row in rows if not self.holds(row))

    def hopeless(self, rows: Iterable[PartitionRow]) -> tuple[PartitionRow, ...]:
        """Rows that cannot reach the goal without an operator."""
        failed = [row for row in rows if row.state is MirrorState.FAILED and not row.resume_requested]
        return () if self.state is MirrorState.FAILED else tuple(failed)


def describe(row: PartitionRow) -> str:
    """Why `row` has not reached the goal, in a few words."""
    lag = "unknown" if row.lag is None else row.lag
    why = row.source_error or row.destination_error or reason(row.observed)
    return f"{row.partition} is {row.state}, lag {lag} ({why})"


def _few(rows: tuple[PartitionRow, ...]) -> str:
    more = f"; and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    return "; ".join(describe(row) for row in rows[:_MOST_NAMED]) + more


def _copies_nothing(spec: MirrorSpec, view: StateView) -> str:
    """Where the mirror is now, and what has become of its topics."""
    left = [each.topic for each in view.removed(spec.mirror)]
    gone = f": it has failed over {named(left, ', ')}" if left else ""
    apart = [each.topic for each in detached_topics(view, spec.mirror)]
    gone += f"; detached from it: {named(apart, ', ')}" if apart else ""
    move = view.moving(spec.mirror)
    moving = f"; its reversal to {move.destination!r} is {move.status}" if move is not None else ""
    return f"mirror {spec.mirror!r} of {spec.destination!r} copies no topic from {spec.source!r}{gone}{moving}"


def wait_for(
    mirror: MirrorName,
    goal: Goal,
    describer: Describer,
    context: CommandContext,
    progress: Callable[[int, int, str], None] = lambda _there, _of, _why: None,
) -> tuple[PartitionRow, ...]:
    """Wait until every partition of `mirror` has reached `goal`; calls `progress` with (reached, all, why not yet).

    Raises:
        NotYet: the timeout has passed. WaitedInVain: immediately, if a partition is FAILED.
            TopicNotInMirror: an expression matches no topic of the mirror. NothingToWaitFor: the mirror copies none.
        CopiedByAnother: nobody knows what it is to wait for.
    """
    clock = context.clock
    while True:
        (described,) = describer.describe(mirror, CommandContext(clock=clock, by=clock.deadline(_LOOK_SECONDS)))
        copied_here(described.spec)
        if not described.topics:
            view = describer.destination.state(STATE_TOPIC, context.by)
            raise NothingToWaitFor(_copies_nothing(described.spec, view))
        must_match(describer.selection, [described])
        if hopeless := goal.hopeless(described.rows):
            raise WaitedInVain(_few(hopeless))
        missing = goal.missing(described.rows)
        progress(len(described.rows) - len(missing), len(described.rows), _few(missing))
        if not missing:
            return described.rows
        if context.by.left(clock.monotonic()) <= _POLL_SECONDS:
            raise GoalNotReached(
                f"timed out: {len(missing)} of {len(described.rows)} partitions are not there yet: {_few(missing)}"
            )
        clock.wait(_POLL_SECONDS)
