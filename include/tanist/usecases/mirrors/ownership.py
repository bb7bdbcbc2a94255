"""A destination topic belongs to one mirror. A lock belongs to one mirror as well: it does not keep two apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TopicAlreadyInMirror
from tanist.domain.records import TopicDesired
from tanist.domain.state_record import Tombstone
from tanist.domain.states import DesiredState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView


def must_be_free(view: StateView, mirror: MirrorName, topics: Iterable[str]) -> None:
    """Raises TopicAlreadyInMirror where another mirror has one of `topics`."""
    wanted = frozenset(topics)
    for each in view.topics():
        if each.topic in wanted and each.mirror != mirror and each.desired is not DesiredState.REMOVED:
            raise TopicAlreadyInMirror(f"{each.topic!r} belongs to mirror {each.mirror!r} by now")


def take_in(
    append: Callable[[Sequence[StateRecord]], StateView],
    before: StateView,
    mirror: MirrorName,
    records: Sequence[StateRecord],
) -> None:
    """Write `records`, and take them back where another mirror has taken in one of their topics at the same time.

    Of two that write at once the later one withdraws, or both do; never none. `append` returns the view that contains
    what it has written.

    Raises:
        TopicAlreadyInMirror: the records are again what they were in `before`.
    """
    topics = [each.topic for each in records if isinstance(each, TopicDesired)]
    must_be_free(before, mirror, topics)
    after = append(records)
    try:
        must_be_free(after, mirror, topics)
    except TopicAlreadyInMirror:
        append([before.get(each.key) or Tombstone(each.key) for each in records])
        raise
