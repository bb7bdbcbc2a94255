"""What the source says of source fences: of those on record, and of those that nobody has recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.fences import FencedTopic, unrecorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.usecases.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFences:
    """`stands`: by topic, whether the recorded fence stands, or why that is unknown. `unrecorded`: by topic."""

    stands: Mapping[str, bool | TanistError] = field(default_factory=dict)
    unrecorded: Mapping[str, FencedTopic] = field(default_factory=dict)

    def known(self) -> dict[str, bool]:
        """Only what the source has answered; an unrecorded fence stands."""
        answered = {topic: stands for topic, stands in self.stands.items() if isinstance(stands, bool)}
        return answered | dict.fromkeys(self.unrecorded, True)


def look_at_all(source: ClusterSnapshot, view: StateView, mirror: MirrorName, by: Deadline) -> SourceFences:
    """All fences on record of a mirror, and those of its other topics that stand.

    Raises as `look`.
    """
    held = view.source_fences(mirror)
    others = {each.topic for each in view.topics(mirror)} - {each.topic for each in held}
    return look(source, held, others, by)


def look(source: ClusterSnapshot, held: Sequence[FencedTopic], topics: Iterable[str], by: Deadline) -> SourceFences:
    """`held`: the fences on record that are to be looked at. `topics`: of which there is no record.

    Raises:
        TanistError: the source does not answer, or does not show its ACLs.
    """
    before = [each.before for each in held if each.before]
    others = sorted(topics)
    stands = source.fence_status(before, by) if before else {}
    found = source.unfenced(others, by) if others else {}
    stray = [unrecorded(each) for each in found.values() if not isinstance(each, TanistError)]
    return SourceFences(stands=stands, unrecorded={each.topic: each for each in stray if each is not None})
