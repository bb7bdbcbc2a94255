"""Topics at a destination that mirrors in the other direction copy from there: nobody is told to delete one of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import filterfalse
from typing import TYPE_CHECKING, Self

from tanist.domain.adoption import OppositeMapped, OppositeMirror
from tanist.domain.detached import detached_topics
from tanist.domain.followed import copies_of, is_followed, sources_of
from tanist.domain.problems import of_mirror
from tanist.domain.records import MirrorSpec
from tanist.domain.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tanist.domain.state_view import StateView


@dataclass(frozen=True, slots=True)
class Originals:
    """Topics by name, with the mirror. `copied`: it would go in a circle; `taken_over`: the source is the primary.

    `detached`: their copies are at the source, closed. `followed`: mirrors that somebody else copies; `copying`: the
    others.
    """

    copied: Mapping[str, MirrorSpec]
    detached: Mapping[str, MirrorSpec]
    taken_over: Mapping[str, MirrorSpec]
    followed: tuple[MirrorSpec, ...]
    copying: tuple[MirrorSpec, ...] = ()

    @classmethod
    def of(cls, at_source: StateView, source_id: str, destination_id: str) -> Self:
        """What the state at the source says of the mirrors from the destination to it."""
        copied, detached, taken_over = dict[str, MirrorSpec](), dict[str, MirrorSpec](), dict[str, MirrorSpec]()
        direction = (destination_id, source_id)
        specs = [e for e in at_source.mirrors() if (e.source_cluster_id, e.destination_cluster_id) == direction]
        for each in specs:
            copied |= {topic.topic: each for topic in at_source.mirrored(each.mirror)}
            apart = detached_topics(at_source, each.mirror)
            detached |= {topic.topic: each for topic in apart if topic.cluster_id == source_id}
            taken_over |= {topic.topic: each for topic in at_source.removed(each.mirror)}
        return cls(copied, detached, taken_over, *_by_copier(specs))

    def refusal(self, topic: str, *, used: bool) -> OppositeMirror | None:
        """Why a mirror from the source is not to have `topic`; `used`: it has records at the destination.

        A topic that was failed over may come back where it was deleted, or has no record.
        """
        if topic in self.copied:
            return _refusal(topic, self.copied[topic], "copies it from here")
        if topic in self.detached:
            return _refusal(topic, self.detached[topic], "has copied it from here until it was detached")
        if used and topic in self.taken_over:
            return _refusal(topic, self.taken_over[topic], "has failed it over from here")
        for each in self.followed:
            if copies_of(each, [topic]).get(topic) == topic:
                return _refusal(topic, each, f"says that {each.copied_by.in_words} copies it from here")
        return None

    def circle(self, topic: str, copy: str) -> OppositeMirror | None:
        """Why a mirror is not to copy `topic` of the source to a `copy` of another name; None: it goes in no circle.

        It does if the topic came from the destination, and if a mirror in the other direction would copy the copy back:
        one that has it, or whose expressions match it.
        """
        for held, why in ((self.copied, "copies it from here"), (self.detached, "has copied it from here")):
            if topic in held:
                return _refusal(topic, held[topic], why)
        for each in self.followed:
            if sources_of(each, [topic]):
                return _refusal(topic, each, f"says that {each.copied_by.in_words} copies it from here")
            if copy in copies_of(each, [copy]):
                return _refusal(copy, each, f"says that {each.copied_by.in_words} would copy it back")
        taken = {(spec.mirror, spec.names.source_of(back)) for back, spec in self.copied.items()}
        for each in self.copying:
            matched = Selection(each.include, each.exclude).of([copy]) and each.names.copy_of(copy) is not None
            if matched or (each.mirror, copy) in taken:
                return _refusal(copy, each, "would copy it back")
        return None


def _by_copier(specs: Iterable[MirrorSpec]) -> tuple[tuple[MirrorSpec, ...], tuple[MirrorSpec, ...]]:
    held = tuple(specs)
    return tuple(filter(is_followed, held)), tuple(filterfalse(is_followed, held))


def _refusal(topic: str, spec: MirrorSpec, why: str) -> OppositeMirror:
    kind = OppositeMapped if spec.is_mapped else OppositeMirror
    return of_mirror(kind(f"{topic!r}: mirror {spec.mirror!r} {why}"), spec.mirror, spec.destination)
