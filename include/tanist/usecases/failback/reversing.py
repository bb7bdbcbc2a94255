"""What each row of a reversal is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from tanist.domain.errors import Interrupted, TanistError
from tanist.domain.failback.reversal import Reversal
from tanist.domain.records import STATE_TOPIC
from tanist.usecases.failback.reversal import mirror_logins, topic_plans
from tanist.usecases.rights import named
from tanist.usecases.runs.runner import RowRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tanist.domain.moves import MirrorMove, TopicBefore
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.usecases.lock import LockedMirror
    from tanist.usecases.mirror import ReturnedMirror
    from tanist.usecases.mirrors.take import TopicPlan
    from tanist.usecases.runs.runner import Reporting


@dataclass(slots=True)
class Reversing:
    """One attempt, under the lock of the mirror at its old destination. `checkpoint`: tests stop it there.

    `move`: as it is stored. `rows`: does the rows, and reports them. `warnings`: for the person, at the end.
    """

    clusters: ReturnedMirror
    command: CommandContext
    lock: LockedMirror
    checkpoint: Callable[[str], None]
    move: MirrorMove
    rows: RowRunner
    warnings: list[str] = field(default_factory=list)
    spec: MirrorSpec = field(init=False)
    """As the mirror is before it moves."""
    old: Cluster = field(init=False)
    """The old source, the destination from now on."""
    primary: Cluster = field(init=False)
    """The new primary, the source from now on."""
    reversal: Reversal = field(init=False)
    names: tuple[str, ...] = field(init=False)
    """The returning topics, in the order of the plan."""
    returning: frozenset[str] = field(init=False)
    """The same."""
    _mirrors: frozenset[str] | None = None

    def __post_init__(self) -> None:
        self.spec, self.old, self.primary = self.clusters.spec, self.clusters.source, self.clusters.destination
        self.reversal = Reversal.read(self.move.plan_json)
        self.names = tuple(each.topic for each in self.reversal.topics)
        self.returning = frozenset(self.names)

    @classmethod
    def of(
        cls,
        move: MirrorMove,
        clusters: ReturnedMirror,
        lock: LockedMirror,
        command: CommandContext,
        *,
        checkpoint: Callable[[str], None],
        to: Reporting,
    ) -> Self:
        """A new attempt at `move`. Its evidence is continued, or begins here with the plan and its approval."""
        head = {"run": "reversal", "source": clusters.spec.destination, "destination": clusters.spec.source}
        return cls(clusters, command, lock, checkpoint, move, RowRunner.of(move, to, command.clock, head))

    def there(self) -> StateView:
        """What the state topic of the old source says now."""
        return self.old.state(STATE_TOPIC, self.command.by)

    def mirrors(self) -> frozenset[str]:
        """The principals of the mirror, which are never denied, as they were when this was first asked."""
        if self._mirrors is None:
            self._mirrors = mirror_logins(self.clusters, self.lock.view(), self.there())
        return self._mirrors

    def before(self) -> Mapping[str, TopicBefore]:
        """What the topics were at the old source before anything was changed."""
        return self.lock.view().before_reversal(self.spec.mirror)

    def topic_plans(self, names: Collection[str]) -> tuple[TopicPlan, ...]:
        """How topics are configured at the old source while they are mirrored, as both clusters are now."""
        return topic_plans(self.clusters, self.there(), list(names), self.command)

    def must(self, answers: Mapping[str, TanistError | None], right: str) -> None:
        """Raises Interrupted if a topic could not be changed."""
        failed = {name: named(why, self.old, right) for name, why in answers.items() if why is not None}
        if failed:
            name, why = next(iter(failed.items()))
            raise Interrupted(
                f"{len(failed)} topic(s) could not be changed at {self.old.name!r}; {name}: {why}"
            ) from why
