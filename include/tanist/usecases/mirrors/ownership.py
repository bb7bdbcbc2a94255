"""A destination topic belongs to one mirror. The lock of a mirror does not exclude other mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TopicAlreadyInMirror
from tanist.domain.records import TopicDesired
from tanist.domain.state_record import Tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView


def must_be_free(view: StateView, mirror: MirrorName, topics: Iterable[str]) -> None:
    """Raises TopicAlreadyInMirror where another mirror has one of `topics`."""
    others = view.of_other_mirrors(mirror)
    for topic in topics:
        if topic in others:
            raise TopicAlreadyInMirror(f"{topic!r} belongs to mirror {others[topic]!r} by now")


def take_in(
    append: Callable[[Sequence[StateRecord]], StateView],
    before: StateView,
    mirror: MirrorName,
    records: Sequence[StateRecord],
) -> None:
    """Write `records`, and undo that if another mirror has added one of their topics at the same time.

    If two mirrors write at the same time, the later one withdraws, or both do; never none. `append` returns a view that
    contains what it has written.

    Raises:
        TopicAlreadyInMirror: the records are restored to those of `before`.
    """
    topics = [each.topic for each in records if isinstance(each, TopicDesired)]
    must_be_free(before, mirror, topics)
    after = append(records)
    try:
        must_be_free(after, mirror, topics)
    except TopicAlreadyInMirror:
        append([before.get(each.key) or Tombstone(each.key) for each in records])
        raise
