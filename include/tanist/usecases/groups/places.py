"""The mirror partitions of positions, also those that have no copy to translate to: these are never left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from tanist.domain.followed import copies_of, is_followed
from tanist.domain.names import MirrorPartition
from tanist.usecases.mirrors.followed import followed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.followed import FollowedTopics
    from tanist.domain.log_ends import Span
    from tanist.domain.names import DestinationOffset, SourcePartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
    from tanist.usecases.mirror import OpenMirror


@dataclass(frozen=True, slots=True)
class Places:
    """`partitions`: the mirror partitions that are read. `found`: of a mirror that somebody else copies."""

    spec: MirrorSpec
    topics: frozenset[str] | None
    partitions: frozenset[MirrorPartition]
    found: FollowedTopics | None

    @classmethod
    def of(cls, mirror: OpenMirror, state: StateView, topics: frozenset[str] | None, context: CommandContext) -> Self:
        """Of a mirror; `topics`: only these copies. Raises what the destination answers if it cannot be read."""
        spec = mirror.spec
        found = followed(mirror, context) if is_followed(spec) else None
        if found is not None:
            partitions = frozenset(found.partitions())
        else:
            held = state.topics(spec.mirror) if topics else state.mirrored(spec.mirror)
            partitions = frozenset(at for topic in held for at in topic.all_partitions())
        return cls(spec, topics, frozenset(at for at in partitions if topics is None or at.topic in topics), found)

    def only(self, given: Iterable[MirrorPartition]) -> Self:
        """Those of `given` alone, which are partitions of the mirror, or have left it."""
        asked = frozenset(given)
        return replace(self, partitions=asked if self.found is None else asked & self.partitions)

    def copies(self, positions: Iterable[SourcePartition]) -> Mapping[SourcePartition, MirrorPartition]:
        """Of partitions of the source, those in the mirror and the chosen topics, with the names of their copies.

        Of a mirror that somebody else copies also those that have no copy, see `troubles`.
        """
        asked = frozenset(positions)
        lacking = {} if self.found is None else copies_of(self.spec, {there.topic for there in asked})
        found: dict[SourcePartition, MirrorPartition] = {}
        for there in asked:
            copy = self.spec.names.copy_of(there.topic)
            if copy is None:
                continue
            at = MirrorPartition(copy, there.partition)
            if at in self.partitions or (there.topic in lacking and (self.topics is None or copy in self.topics)):
                found[there] = at
        return found

    def topic_ids(self) -> dict[str, tuple[str, str]]:
        """As `Gathered` has them."""
        topics = () if self.found is None else self.found.topics.values()
        ids = {each.copy: (each.source_topic_id, each.copy_topic_id) for each in topics}
        return {copy: pair for copy, pair in ids.items() if all(pair)}

    def troubles(
        self, positions: Iterable[MirrorPartition]
    ) -> dict[MirrorPartition, TanistError | Span[DestinationOffset]]:
        """Why there is no copy of those partitions that have none; empty for a mirror that Tanist copies."""
        if self.found is None:
            return {}
        lacking = frozenset(positions) - self.partitions
        return {at: self.found.trouble(self.spec.names.at_source(at), at.topic) for at in lacking}
