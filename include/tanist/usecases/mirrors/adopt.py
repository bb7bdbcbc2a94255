"""Adopting destination topics that have records: their logs are compared with the source's first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from tanist.domain.adoption import CandidateLog, MirrorTopicPromoted, OppositeMirror
from tanist.domain.errors import TanistError
from tanist.domain.holes import is_compacted
from tanist.domain.lineage import reserved_ranges
from tanist.domain.names import TopicPartition
from tanist.domain.problems import refuse
from tanist.domain.topic_configs import CLEANUP_POLICY
from tanist.usecases.mirrors.promotions import read_promotions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.adoption import AdoptableLog
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.prefixes import LogPrefixes
    from tanist.usecases.mirrors.decide import TopicPlan
    from tanist.usecases.mirrors.observe import DestinationTopic
    from tanist.usecases.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Adoption:
    """How the topics of one command are adopted. `lineage`: of each topic the last promotion that either side knows.

    `promotions`: all that either side knows, of any mirror; `pair`: the ids of both clusters.
    `opposite`: topics that mirrors from this destination to this source have, or have failed over, and what they did.
    """

    prefixes: LogPrefixes
    destination_id: str
    lineage: Mapping[str, TopicLineage]
    opposite: Mapping[str, str]
    promotions: Sequence[TopicLineage]
    pair: tuple[str, str]

    @classmethod
    def of(
        cls, spec: MirrorSpec, view: StateView, source: ClusterSnapshot, prefixes: LogPrefixes, by: Deadline
    ) -> Self:
        """Of a mirror, before it has topics or later. Raises what the source raises when its state is read."""
        there = read_promotions(source, by)
        known = (*view.lineage(spec.mirror), *there.lineage(spec.mirror))
        last = {each.topic: each for each in sorted(known, key=lambda each: each.promotion_epoch)}
        every, pair = (*view.lineage(None), *there.lineage(None)), (spec.source_cluster_id, spec.destination_cluster_id)
        return cls(prefixes, spec.destination_cluster_id, last, _opposite(there, spec), every, pair)

    def adopt(
        self, plans: Sequence[TopicPlan], existing: Mapping[str, DestinationTopic], by: Deadline
    ) -> dict[str, TopicPlan]:
        """`plans` of topics that have records, with the offsets where their copying begins.

        Raises:
            MirrorTopicPromoted, OppositeMirror, NotAPrefix, TailAtDestination, or several: a topic is not adopted.
            CouldNotTell: its logs are not known.
        """
        problems: list[TanistError] = [
            MirrorTopicPromoted(
                f"{plan.name!r}: this cluster took over from the source at promotion {entry.promotion_epoch}"
            )
            for plan in plans
            if (entry := self._took_over(plan, existing[plan.name])) is not None
        ]
        problems += [
            OppositeMirror(f"{plan.name!r}: {self.opposite[plan.name]}") for plan in plans if plan.name in self.opposite
        ]
        if problems:
            refuse(problems)
        found = self.compare(plans, by)
        problems = [each for logs in found.values() for each in logs if isinstance(each, TanistError)]
        if problems:
            refuse(problems)
        return {plan.name: replace(plan, copy_starts=_ends(found[plan.name])) for plan in plans}

    def compare(self, plans: Sequence[TopicPlan], by: Deadline) -> dict[str, tuple[AdoptableLog | TanistError, ...]]:
        """What the logs of each topic show, by partition."""
        wanted = {
            at: CandidateLog(
                is_compacted(plan.source.effective.get(CLEANUP_POLICY, "")),
                reserved_ranges(self.promotions, at, self.pair),
            )
            for plan in plans
            for at in (TopicPartition(plan.name, n) for n in range(plan.source.partitions))
        }
        found = self.prefixes.adoptable(wanted, by)
        return {
            plan.name: tuple(found[TopicPartition(plan.name, n)] for n in range(plan.source.partitions))
            for plan in plans
        }

    def _took_over(self, plan: TopicPlan, existing: DestinationTopic) -> TopicLineage | None:
        """The promotion by which this very topic became the primary; None: there is none, or it was reversed since."""
        last = self.lineage.get(plan.name)
        if last is None or last.new_cluster_id != self.destination_id:
            return None
        return last if last.topic_id in {"", existing.facts.topic_id} else None


def _opposite(at_source: StateView, spec: MirrorSpec) -> dict[str, str]:
    """Topics of mirrors in the other direction, which would go in a circle, or have taken over from the destination."""
    pair, found = (spec.destination_cluster_id, spec.source_cluster_id), dict[str, str]()
    for each in at_source.mirrors():
        if (each.source_cluster_id, each.destination_cluster_id) == pair:
            found |= {
                t.topic: f"mirror {each.mirror!r} has failed it over from here" for t in at_source.removed(each.mirror)
            }
            found |= {t.topic: f"mirror {each.mirror!r} copies it from here" for t in at_source.mirrored(each.mirror)}
    return found


def _ends(logs: Sequence[AdoptableLog | TanistError]) -> tuple[int, ...]:
    return tuple(each.end for each in logs if not isinstance(each, TanistError))
