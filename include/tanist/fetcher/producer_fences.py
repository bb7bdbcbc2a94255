"""Renews producer fences of promotions before brokers forget our producer ids, and protects them from compaction.

Also of mirrors that were reversed since: a worker of the old direction must not append when it wakes.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.followed import is_followed
from tanist.domain.promotions import former_copies, still_promoted
from tanist.ports.fencing import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tanist.domain.names import MirrorName, MirrorPartition
    from tanist.domain.promotions import FormerCopy
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.domain.writer_identity import MarkingWriter
    from tanist.ports.clock import Clock
    from tanist.ports.fencing import ProducerFencing
    from tanist.ports.logs import ClusterSeen, Replicas

log = logging.getLogger(__name__)

SEAL_AGAIN_SECONDS: Final = 900.0
"""Far below a quarter of the default `producer.id.expiration.ms` (a day)."""
KEEP_SECONDS: Final = 15.0
"""A topic may become compacted at any time; log cleaners are slow as well."""
REST_SECONDS: Final = 5.0
"""A log that has not grown for this time is taken to be idle, so that its last record can be repeated."""
_ANSWER_SECONDS: Final = 8.0
"""How long the destination has to answer."""


def _has_markers(spec: MirrorSpec) -> bool:
    """Whether the producer fences of a mirror are markers that brokers forget.

    Those of mapped offsets are not renewed: workers read from the state that their topics have left the mirror.
    """
    return not is_followed(spec) and not spec.is_mapped


class ProducerFences:
    """Owned by one thread. Each worker renews the partitions that it owns (`ours`)."""

    def __init__(
        self,
        fencing: ProducerFencing,
        replicas: Replicas,
        ours: Callable[[MirrorName, MirrorPartition], bool],
        clock: Clock,
    ) -> None:
        self._fencing, self._replicas, self._ours, self._clock = fencing, replicas, ours, clock
        self._sealed_at = self._kept_at = float("-inf")
        self._renewed: frozenset[tuple[MirrorName, MirrorPartition]] = frozenset()

    def renew(self, view: StateView) -> None:
        """Renew fences that have expired; those in force are not written again.

        Those of partitions that this worker has got since the last time are renewed at once.
        """
        now, owned = self._clock.monotonic(), self._owned(view)
        if now - self._sealed_at >= SEAL_AGAIN_SECONDS or owned - self._renewed:
            self._sealed_at, self._renewed = now, owned
            self._each(view, self._fence_producers)
        if now - self._kept_at >= KEEP_SECONDS:
            self._kept_at = now
            self._each(view, self._keep)

    def _owned(self, view: StateView) -> frozenset[tuple[MirrorName, MirrorPartition]]:
        ours = filter(_has_markers, view.mirrors())
        taken = ((s.mirror, at) for s in ours for t in view.removed(s.mirror) for at in t.all_partitions())
        former = ((each.mirror, at) for each in former_copies(view) for at in each.partitions)
        return frozenset((mirror, at) for mirror, at in (*taken, *former) if self._ours(mirror, at))

    def _each(
        self,
        view: StateView,
        do: Callable[[Mapping[MirrorPartition, MarkingWriter]], list[str]],
    ) -> None:
        for spec in filter(_has_markers, view.mirrors()):
            if view.removed(spec.mirror):
                self._one(spec.mirror, partial(self._taken, view, spec), do)
        former = tuple(former_copies(view))
        for mirror in sorted({each.mirror for each in former}):
            self._one(mirror, partial(self._former, [each for each in former if each.mirror == mirror]), do)

    def _one(
        self,
        mirror: MirrorName,
        find: Callable[[], Mapping[MirrorPartition, MarkingWriter]],
        do: Callable[[Mapping[MirrorPartition, MarkingWriter]], list[str]],
    ) -> None:
        try:
            taken = find()
            failed = do(taken) if taken else []
        except Stopped:
            raise
        except TanistError as why:
            failed = [why.reason]
        if failed:
            log.warning("barriers could not be proved", extra={"mirror": mirror, "reason": failed[0]})

    def _taken(self, view: StateView, spec: MirrorSpec) -> dict[MirrorPartition, MarkingWriter]:
        """Raises TanistError, so that nothing is written, if it is unknown whether a topic was re-created."""
        seen = self._described([topic.topic for topic in view.removed(spec.mirror)])
        return {
            at: spec.writer
            for topic in still_promoted(view, spec.mirror, seen.topic_ids)
            for at in topic.all_partitions()
            if self._ours(spec.mirror, at) and topic.topic in seen.partitions
        }

    def _former(self, copies: Sequence[FormerCopy]) -> dict[MirrorPartition, MarkingWriter]:
        """Of a mirror that copies from here now: a worker of its old direction must not append when it wakes.

        Raises TanistError as `_taken`.
        """
        ids = self._described([each.topic for each in copies]).topic_ids
        return {
            at: each.writer
            for each in copies
            if each.topic in ids and each.topic_id in {"", ids[each.topic]}
            for at in each.partitions
            if self._ours(each.mirror, at)
        }

    def _described(self, topics: Sequence[str]) -> ClusterSeen:
        """Of `topics` those that exist: markers meant for one that was deleted would land in the next of its name."""
        seen = self._replicas.cluster(topics, self._clock.deadline(_ANSWER_SECONDS))
        there = {name: found for name, found in seen.partitions.items() if not isinstance(found, TanistError)}
        return replace(seen, partitions=there)

    def _fence_producers(self, taken: Mapping[MirrorPartition, MarkingWriter]) -> list[str]:
        answers = self._fencing.fence_producers(taken, self._clock.deadline(_ANSWER_SECONDS))
        return [f"{at}: {why}" for at, why in answers.items() if isinstance(why, TanistError)]

    def _keep(self, taken: Mapping[MirrorPartition, MarkingWriter]) -> list[str]:
        """With an authorizer this fails, because the mirror is denied WRITE; `tanist status` states what to do."""
        by = self._clock.deadline(_ANSWER_SECONDS)
        policies = self._fencing.compacted({at.topic for at in taken}, by)
        compacted = {at: writers for at, writers in taken.items() if policies[at.topic] is True}
        answers = self._fencing.keep(compacted, by, rest=REST_SECONDS) if compacted else {}
        bare = [f"{at}: compaction erases it, and its log does not rest" for at, k in answers.items() if k is Kept.BARE]
        return [*(f"{at}: {why}" for at, why in answers.items() if isinstance(why, TanistError)), *bare]
