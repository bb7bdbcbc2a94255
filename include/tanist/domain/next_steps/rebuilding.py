"""The command that registers a mirror again whose state was lost, and the ones to type where it is refused."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.filled import exactly
from tanist.domain.log_writers import SeveralMirrorProducers
from tanist.domain.problems import each

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilding:
    """A rebuild of `mirror`, with the clusters by name. `include`, `exclude`: regular expressions of its topics."""

    mirror: str
    source: str
    destination: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The whole command line."""
        where = ("--destination", self.destination, "--source", self.source, "--mirror", self.mirror)
        topics = [word for regex in self.include for word in ("--topic", regex)]
        topics += [word for regex in self.exclude for word in ("--exclude", regex)]
        return shlex.join(("tanist", "state", "rebuild", *where, *topics, *self.options))


def instead(refusal: TanistError, refused: Rebuilding) -> tuple[str, ...]:
    """The commands that go on where a rebuild is refused; empty: none is known.

    Of several producers one command each, as nothing but a person knows which of them the mirror was. Of topics that
    no mirror copies any more, one command without them, if there are others.
    """
    if isinstance(refusal, SeveralMirrorProducers):
        return tuple(
            replace(refused, include=tuple(map(exactly, topics)), exclude=()).command
            for topics in refusal.topics.values()
        )
    topics = {one.topic for one in each(refusal)}
    if not topics or "" in topics:
        return ()
    alone = frozenset(map(exactly, topics))  # what selects no other topic
    left = tuple(regex for regex in refused.include if regex not in alone)
    without = (*refused.exclude, *map(exactly, sorted(topics)))
    return (replace(refused, include=left, exclude=without).command,) if left else ()
