"""Topics that have records already, as `--adopt` takes them, or because they were detached: compared before that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from tanist.domain.adoption import CandidateLog, MirrorTopicPromoted
from tanist.domain.compaction import is_compacted
from tanist.domain.detached import detached_here
from tanist.domain.errors import TanistError
from tanist.domain.lineage import reserved_ranges
from tanist.domain.names import MirrorPartition
from tanist.domain.problems import about, refuse
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.usecases.mirrors.observe import read_promotions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.adoption import AdoptableLog
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.logs import LogPrefixes
    from tanist.usecases.mirrors.observe import DestinationTopic
    from tanist.usecases.mirrors.take import TopicPlan
    from tanist.usecases.snapshot import SourceSnapshot


@dataclass(frozen=True, slots=True)
class Adoption:
    """How the topics of one command are adopted. `lineage`: of each topic the last promotion that either side knows.

    `promotions`: all that either side knows, of any mirror; `pair`: the ids of both clusters. `detached`: topics that
    were detached here, as they were before that.
    """

    prefixes: LogPrefixes
    destination_id: str
    lineage: Mapping[str, TopicLineage]
    promotions: Sequence[TopicLineage]
    pair: tuple[str, str]
    detached: Mapping[str, TopicDesired] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: MirrorSpec, view: StateView, source: SourceSnapshot, prefixes: LogPrefixes, by: Deadline) -> Self:
        """Of a mirror, before it has topics or later. Raises what the source raises when its state is read."""
        there = read_promotions(source, by)
        known = (*view.lineage(spec.mirror), *there.lineage(spec.mirror))
        last = {each.topic: each for each in sorted(known, key=lambda each: each.promotion_epoch)}
        every, pair = (*view.lineage(None), *there.lineage(None)), (spec.source_cluster_id, spec.destination_cluster_id)
        apart = {name: each.kept for name, each in detached_here(view, spec).items()}
        return cls(prefixes, spec.destination_cluster_id, last, every, pair, apart)

    def adopt(
        self, plans: Sequence[TopicPlan], existing: Mapping[str, DestinationTopic], by: Deadline
    ) -> dict[str, TopicPlan]:
        """`plans` of topics that have records, with the offsets where their copying begins.

        Raises:
            MirrorTopicPromoted, NotAPrefix, TailAtDestination, or several: a topic is not adopted.
            CouldNotTell: its logs are not known.
        """
        problems: list[TanistError] = [
            about(plan.name, why) for plan in plans if (why := self._elsewhere(plan, existing[plan.name])) is not None
        ]
        if problems:
            refuse(problems)
        found = self.compare(plans, by)
        problems = [about(name, each) for name, logs in found.items() for each in logs if isinstance(each, TanistError)]
        if problems:
            refuse(problems)
        return {plan.name: replace(plan, copy_starts=_ends(found[plan.name])) for plan in plans}

    def compare(self, plans: Sequence[TopicPlan], by: Deadline) -> dict[str, tuple[AdoptableLog | TanistError, ...]]:
        """What the logs of each topic show, by partition."""
        wanted = {
            at: CandidateLog(
                is_compacted(plan.source.effective.get(CLEANUP_POLICY, "")),
                reserved_ranges(self.promotions, at, self.pair),
                history=self.detached[plan.name].copy_start(at.partition) if plan.name in self.detached else 0,
            )
            for plan in plans
            for at in (MirrorPartition(plan.name, n) for n in range(plan.source.partitions))
        }
        found = self.prefixes.adoptable(wanted, by)
        return {
            plan.name: tuple(found[MirrorPartition(plan.name, n)] for n in range(plan.source.partitions))
            for plan in plans
        }

    def _elsewhere(self, plan: TopicPlan, existing: DestinationTopic) -> TanistError | None:
        """Why the topic belongs to no mirror in this direction; None: nothing says so."""
        if (entry := self._took_over(plan, existing)) is not None:
            return MirrorTopicPromoted(
                f"{plan.name!r}: this cluster took over from the source at promotion {entry.promotion_epoch}"
            )
        return None

    def _took_over(self, plan: TopicPlan, existing: DestinationTopic) -> TopicLineage | None:
        """The promotion by which this very topic became the primary; None: there is none, or it was reversed since."""
        last = self.lineage.get(plan.name)
        if last is None or last.new_cluster_id != self.destination_id:
            return None
        return last if last.topic_id in {"", existing.facts.topic_id} else None


def _ends(logs: Sequence[AdoptableLog | TanistError]) -> tuple[int, ...]:
    return tuple(each.end for each in logs if not isinstance(each, TanistError))
