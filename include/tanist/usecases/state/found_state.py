"""What a rebuild finds of a mirror whose state was lost, in its logs and in its positions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tanist.domain.failback.pending import undecided_warning
from tanist.domain.problems import refuse
from tanist.domain.promotions import replaced
from tanist.domain.states import DesiredState
from tanist.usecases.mirrors.observe import read_promotions
from tanist.usecases.state.restore import nowhere, silently

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.lineage import TopicLineage
    from tanist.domain.log_writers import LogWriters, UsedIds
    from tanist.domain.mapped_runs import OffsetRangesWritten
    from tanist.domain.names import EpochMs, MirrorPartition
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.logs import LogInspection, LogPairs, LogPrefixes
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirrors.adopting import Adoption
    from tanist.usecases.mirrors.take import TopicPlan
    from tanist.usecases.snapshot import SourceSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildTools:
    """What a rebuild uses besides the clusters. `say`: progress. `checkpoint` is called between the steps."""

    prefixes: LogPrefixes
    inspection: LogInspection
    paired: LogPairs
    say: Callable[[str], None] = silently
    checkpoint: Callable[[str], None] = nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundState:
    """What was found. `epochs`: the promotion epoch of each topic; `left_out`: topics not taken, and why.

    `ids`, `logs`: of a mirror with identical offsets. `pieces`: of the map of one with mapped offsets; `unknown`: what
    is not known of one. `lineage`: of all promotions of the mirror; `undecided`: those that may have left a tail.
    `exists`: it is registered already.
    """

    spec: MirrorSpec
    view: StateView
    exists: bool = False
    plans: tuple[TopicPlan, ...] = ()
    epochs: Mapping[str, int] = field(default_factory=dict)
    ids: UsedIds | None = None
    logs: Mapping[MirrorPartition, LogWriters] = field(default_factory=dict)
    pieces: tuple[OffsetRangesWritten, ...] = ()
    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    lineage: tuple[TopicLineage, ...] = ()
    undecided: tuple[TopicLineage, ...] = ()

    def warnings(self) -> tuple[str, ...]:
        """What a person should know of what is not rebuilt, or not known."""
        tails = (undecided_warning(each, self.spec.destination) for each in self.undecided)
        return (*self.left_out, *self.unknown, *tails)

    def topics(self, now: EpochMs) -> tuple[TopicDesired, ...]:
        """As they are registered: nothing is copied until a person says so."""
        found = (plan.desired(self.spec, self.epochs[plan.name], now) for plan in self.plans)
        return tuple(replace(topic, desired=DesiredState.PAUSED, restored=True) for topic in found)


def absent(topic: str, destination: str) -> str:
    """Why a topic of the source is left out."""
    return f"{topic} is not on {destination!r}: add it with `tanist mirrors add`"


def epochs(
    spec: MirrorSpec,
    source: SourceSnapshot,
    view: StateView,
    adoption: Adoption,
    names: Sequence[str],
    context: CommandContext,
) -> dict[str, int]:
    """The promotion epoch of each topic: as the source counts, if it was the last to take over.

    Raises:
        SourceReplaced, or several: another cluster took over from the source, as far as is known.
    """
    reported = read_promotions(source, context.by)
    counts = {name: max(reported.promotions(spec.mirror, name), view.promotions(spec.mirror, name)) for name in names}
    behind = [
        replaced(spec.mirror, name, count, 0)
        for name, count in counts.items()
        if count and not _is_primary(adoption, name, spec.source_cluster_id)
    ]
    if behind:
        refuse(behind)
    return counts


def _is_primary(adoption: Adoption, topic: str, cluster_id: str) -> bool:
    last = adoption.lineage.get(topic)
    return last is not None and last.new_cluster_id == cluster_id
