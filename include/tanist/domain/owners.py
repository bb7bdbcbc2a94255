"""Which mirror each topic of a destination belongs to, whoever copies it: a topic has one replicator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tanist.domain.copier import Copier
from tanist.domain.detached import detached_from
from tanist.domain.followed import followed_by

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView


@dataclass(frozen=True, slots=True)
class Owner:
    """A mirror that has a topic, and who copies the records of the mirror."""

    mirror: MirrorName
    copier: Copier

    def __str__(self) -> str:
        return f"mirror {self.mirror!r}" if self.copier is Copier.TANIST else self.in_full

    @property
    def in_full(self) -> str:
        """Its name, and who copies, in a sentence."""
        return f"mirror {self.mirror!r}, which {self.copier.in_words} copies"


@dataclass(frozen=True, slots=True)
class Owners:
    """The mirrors of a destination besides one.

    `on_record`: topics that Tanist copies, or has detached. `specs`: mirrors that somebody else copies, whose topics
    are on no record: their filters and names tell them.
    """

    on_record: Mapping[str, MirrorName]
    specs: tuple[MirrorSpec, ...]

    @classmethod
    def besides(cls, view: StateView, mirror: MirrorName) -> Self:
        """All mirrors but `mirror`."""
        on_record = detached_from(view, mirror) | view.of_other_mirrors(mirror)
        return cls(on_record, tuple(each for each in view.mirrors() if each.mirror != mirror))

    @classmethod
    def every(cls, view: StateView, mirror: MirrorName) -> Self:
        """All mirrors. Topics that `mirror` has detached are free, as it may have them again."""
        on_record = detached_from(view, mirror) | {topic.topic: topic.mirror for topic in view.mirrored()}
        return cls(on_record, view.mirrors())

    def of(self, topic: str) -> Owner | None:
        """The mirror that has `topic`, a name at the destination; None: it is free."""
        if topic in self.on_record:
            return Owner(self.on_record[topic], Copier.TANIST)
        spec = followed_by(self.specs, topic)
        return None if spec is None else Owner(spec.mirror, spec.copied_by)
