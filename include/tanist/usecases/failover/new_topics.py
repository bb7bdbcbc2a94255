"""Topics of the source that a failover would leave behind, because the mirror does not know of them yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.growth import new_topics
from tanist.domain.states import DesiredState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.topics import Topics


def new_topics_of(
    spec: MirrorSpec, view: StateView, wanted: Sequence[TopicDesired], topics: Topics, by: Deadline
) -> tuple[str, ...]:
    """What `metadata sync` would take in from the source's `topics`: new topics that no other mirror has. One request.

    None, and no request, where `wanted` leaves topics in the mirror: who fails over a part of it leaves the rest on
    purpose. Nor where it has no topic left: what a source that was replaced has since is no loss of this failover.

    Raises:
        CouldNotTell, BrokerError: the source does not answer.
    """
    inside = {each.topic for each in view.topics(spec.mirror) if each.desired is not DesiredState.REMOVED}
    if not (spec.include and wanted) or inside - {each.topic for each in wanted}:
        return ()
    others = view.of_other_mirrors(spec.mirror)
    return tuple(name for name in new_topics(spec, topics.names(by), view) if name not in others)
