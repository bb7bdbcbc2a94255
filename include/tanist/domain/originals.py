"""Topics at a destination that mirrors in the other direction copy from there: nobody is told to delete one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tanist.domain.adoption import OppositeMirror

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.state_view import StateView


@dataclass(frozen=True, slots=True)
class Originals:
    """Topics by name, with the mirror. `copied`: it would go in a circle; `taken_over`: the source is the primary."""

    copied: Mapping[str, str]
    taken_over: Mapping[str, str]

    @classmethod
    def of(cls, at_source: StateView, source_id: str, destination_id: str) -> Self:
        """What the state at the source says of the mirrors from the destination to it."""
        copied, taken_over = dict[str, str](), dict[str, str]()
        for each in at_source.mirrors():
            if (each.source_cluster_id, each.destination_cluster_id) == (destination_id, source_id):
                copied |= {topic.topic: each.mirror for topic in at_source.mirrored(each.mirror)}
                taken_over |= {topic.topic: each.mirror for topic in at_source.removed(each.mirror)}
        return cls(copied, taken_over)

    def refusal(self, topic: str, *, used: bool) -> OppositeMirror | None:
        """Why a mirror from the source is not to have `topic`; `used`: it has records at the destination.

        A topic that was failed over may come back where it was deleted, or has no record.
        """
        if topic in self.copied:
            return OppositeMirror(f"{topic!r}: mirror {self.copied[topic]!r} copies it from here")
        if used and topic in self.taken_over:
            return OppositeMirror(f"{topic!r}: mirror {self.taken_over[topic]!r} has failed it over from here")
        return None
