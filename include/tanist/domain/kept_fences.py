"""Source fences of topics that a reversal has left behind: they stay in force at the old source.

Source fences are those of a mirror's source. A reversal makes that cluster the destination, and the topics that did not
return have left the mirror; but their new primary is the other cluster, so nobody may write to them at the old source.
The fences move with the mirror's state, with the id of their cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.fences import FenceStatus, not_lifted
from tanist.domain.moves import KeptFences, opposite
from tanist.domain.records import Fences

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tanist.domain.fences import FencedTopic
    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceGroup:
    """The source fences of a mirror at one of its clusters.

    `spec`: of the mirror in the direction in which that cluster is its source. `kept`: of topics that were left behind.
    """

    spec: MirrorSpec
    topics: tuple[FencedTopic, ...]
    kept: bool = False

    def again(self, view: StateView) -> FenceGroup:
        """The same group as it is in `view`."""
        return replace(self, topics=_kept_at(view, self.spec) if self.kept else view.source_fences(self.spec.mirror))

    def watched(self, view: StateView) -> tuple[FencedTopic, ...]:
        """Those whose record and cluster must agree: not a topic that has been added to the mirror again."""
        return tuple(each for each in self.topics if not self.kept or view.topic(self.spec.mirror, each.topic) is None)

    def must_stand(self, view: StateView, topic: str) -> bool:
        """Whether producers could write to both clusters without the fence of `topic`."""
        if self.kept:
            return view.topic(self.spec.mirror, topic) is None
        return view.promoted(self.spec.mirror, self.copy_of(topic))

    def copy_of(self, topic: str) -> str:
        """The copy of a topic that has a fence. What is kept of a reversal has the same name on both sides."""
        return topic if self.kept else self.spec.names.mirrored_topic(topic)

    def updated(self, entries: Iterable[FencedTopic], at: EpochMs) -> Fences | KeptFences | None:
        """The record with `entries`; None: nothing changes."""
        found = fences_with(self.topics, entries, self.spec, at)
        if found is None or not self.kept:
            return found
        spec = self.spec
        return KeptFences(
            mirror=spec.mirror, mirror_id=spec.mirror_id, cluster_id=spec.source_cluster_id, topics=found.topics, at=at
        )


def fence_groups(view: StateView, spec: MirrorSpec) -> Iterator[FenceGroup]:
    """All source fences of a mirror: those of its source, then the kept ones of either cluster."""
    yield FenceGroup(spec=spec, topics=view.source_fences(spec.mirror))
    for record in view.kept_fences(spec.mirror):
        there = opposite(spec) if record.cluster_id == spec.destination_cluster_id else spec
        yield FenceGroup(spec=there, topics=_still_kept(view, record), kept=True)


def kept_after(view: StateView, spec: MirrorSpec, returning: Collection[str], at: EpochMs) -> tuple[KeptFences, ...]:
    """What a reversal keeps of the fences of a mirror. `spec`: before it; `returning`: topics whose fences it lifts."""
    kept = {
        record.cluster_id: {
            each.topic: each for each in not_lifted(_still_kept(view, record)) if each.topic not in returning
        }
        for record in view.kept_fences(spec.mirror)
    }
    left = (each for each in not_lifted(view.source_fences(spec.mirror)) if each.topic not in returning)
    kept[spec.source_cluster_id] = kept.get(spec.source_cluster_id, {}) | {each.topic: each for each in left}
    return tuple(
        KeptFences(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            cluster_id=cluster_id,
            topics=tuple(topics[name] for name in sorted(topics)),
            at=at,
        )
        for cluster_id, topics in sorted(kept.items())
        if topics
    )


def what_stays(fence: FencedTopic | None) -> str:
    """What becomes of the source fence of a topic that stays behind, for people; empty: it has none."""
    if fence is None or not not_lifted([fence]):
        return ""
    if fence.status is FenceStatus.PENDING:
        return "its source fence is pending: a fetcher sets it at the old source as soon as it can"
    return "it stays fenced at the old source"


def _kept_at(view: StateView, spec: MirrorSpec) -> tuple[FencedTopic, ...]:
    records = {each.cluster_id: _still_kept(view, each) for each in view.kept_fences(spec.mirror)}
    return records.get(spec.source_cluster_id, ())


def _still_kept(view: StateView, record: KeptFences) -> tuple[FencedTopic, ...]:
    """Without topics that were failed over to that cluster since they were left behind: it is their primary now."""
    primary = {entry.topic: entry.new_cluster_id for entry in view.lineage(record.mirror)}
    return tuple(each for each in record.topics if primary.get(each.topic) != record.cluster_id)


def fences_with(
    held: Iterable[FencedTopic], topics: Iterable[FencedTopic], spec: MirrorSpec, at: EpochMs
) -> Fences | None:
    """The mirror's source fences (`held`) updated with `topics`; None: nothing changes."""
    before = {each.topic: each for each in held}
    merged = before | {each.topic: each for each in topics}
    if merged == before:
        return None
    return Fences(
        mirror=spec.mirror, mirror_id=spec.mirror_id, topics=tuple(merged[name] for name in sorted(merged)), at=at
    )
