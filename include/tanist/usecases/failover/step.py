"""What the action of a step is given, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tanist.domain.errors import CouldNotTell, TanistError, TimedOut
from tanist.domain.failover.plan import of_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import ApprovedPlan, Intent
    from tanist.domain.records import TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failover.context import FailoverContext, Timeouts
    from tanist.usecases.failover.session import RunSession

_K = TypeVar("_K")
_V = TypeVar("_V")


class NotYet(CouldNotTell):
    name = "NOT_YET"
    operator_action = "none: it is retried until the deadline of the run"


def must_all(answers: Mapping[_K, _V | TanistError | None], what: str) -> None:
    """Raises NotYet, or where only the time was too short TimedOut, if any of `answers` is an error. `what` failed."""
    failed = {item: answer for item, answer in answers.items() if isinstance(answer, TanistError)}
    if failed:
        kind = TimedOut if all(isinstance(error, TimedOut) for error in failed.values()) else NotYet
        some = "; ".join(f"{item}: {error}" for item, error in list(failed.items())[:3])
        raise kind(f"{len(failed)} {what}: {some}")


@dataclass(frozen=True, slots=True)
class Done:
    """What a step has to show for itself. `waited`: seconds that only waited for a proof.

    `facts`: of the look with which the step ended; None: it did not end with one.
    """

    detail: Mapping[str, Any]
    waited: float = 0.0
    facts: Facts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """Made anew for each attempt of a step. What it changes of its run goes through `session`.

    `facts`: of the last look before. `look`: looks at both clusters again. `checkpoint`: as in `Tools`.
    """

    approved: ApprovedPlan
    clusters: FailoverContext
    command: CommandContext
    patience: Timeouts
    facts: Facts
    session: RunSession
    look: Callable[[], Facts]
    checkpoint: Callable[[str], None]

    @property
    def intent(self) -> Intent:
        return self.approved.intent

    def taking_over(self) -> tuple[TopicDesired, ...]:
        """As `wanted`, without the topics that were re-created at the destination since the point of no return."""
        return wanted_topics(self.session.view(), of_copies(self.intent, self.facts))

    def wanted(self) -> tuple[TopicDesired, ...]:
        """The topics of this run as the state topic has them, removed ones too."""
        return wanted_topics(self.session.view(), self.intent)


def wanted_topics(view: StateView, intent: Intent) -> tuple[TopicDesired, ...]:
    """The topics that `intent` names, as far as there are such."""
    names = frozenset(intent.names)
    return tuple(topic for topic in view.topics(intent.mirror) if topic.topic in names)
