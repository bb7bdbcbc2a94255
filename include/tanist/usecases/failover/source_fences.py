"""What the source says of source fences: of those on record, and of those that nobody has recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.fences import FencedTopic, FenceKind, may_stand, unrecorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.usecases.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFences:
    """`stands`: by topic, whether the recorded fence stands, or why that is unknown. `unrecorded`: by topic.

    `near`: topics whose fence is, or would be, `max.message.bytes`.
    """

    stands: Mapping[str, bool | TanistError] = field(default_factory=dict)
    unrecorded: Mapping[str, FencedTopic] = field(default_factory=dict)
    near: frozenset[str] = frozenset()

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


def look(
    source: ClusterSnapshot,
    held: Sequence[FencedTopic],
    topics: Iterable[str],
    by: Deadline,
    kinds_of: Sequence[FencedTopic] = (),
) -> SourceFences:
    """`held`: the fences on record that are to be looked at. `topics`: of which there is no record.

    `kinds_of`: fences on record of which it matters, too, whether they are near ones, or would be.

    Raises:
        TanistError: the source does not answer, or does not show its ACLs.
    """
    before = [each.before for each in held if each.before]
    others = sorted(topics)
    stands = source.fence_status(before, by) if before else {}
    kept = {each.topic: each.before for each in kinds_of if may_stand(each) and each.before}
    asked = sorted({*others, *(each.topic for each in kinds_of)} - kept.keys())
    answers = source.unfenced(asked, by) if asked else {}
    found = {topic: each for topic, each in answers.items() if not isinstance(each, TanistError)}
    stray = [unrecorded(found[topic]) for topic in others if topic in found]
    near = (topic for topic, each in (found | kept).items() if each.kind is FenceKind.TINY_MESSAGES)
    return SourceFences(
        stands=stands, unrecorded={each.topic: each for each in stray if each is not None}, near=frozenset(near)
    )
