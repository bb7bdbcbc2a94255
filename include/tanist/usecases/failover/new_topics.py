"""Topics of the source that a failover would leave behind, because the mirror does not know of them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.growth import new_topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.topics import Topics


def new_topics_of(spec: MirrorSpec, view: StateView, topics: Topics, by: Deadline) -> tuple[str, ...]:
    """What `metadata sync` would take in from the source's `topics`: new topics that no other mirror has. One request.

    Raises:
        CouldNotTell, BrokerError: the source does not answer.
    """
    if not spec.include:
        return ()
    others = view.of_other_mirrors(spec.mirror)
    return tuple(name for name in new_topics(spec, topics.names(by), view) if name not in others)


def besides(mirror: MirrorName, wanted: Sequence[TopicDesired], view: StateView) -> tuple[str, ...]:
    """The topics that are in `mirror` now, besides `wanted`."""
    asked = {each.topic for each in wanted}
    return tuple(each.topic for each in view.mirrored(mirror) if each.topic not in asked)
