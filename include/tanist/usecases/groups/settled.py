"""Positions that need no translation again: their commit at the destination says from what it was made.

What has not moved costs nothing then. The metadata of a commit that was exact, and compared, names the position at the
source, the strategy, and the topics by their ids. A topic that was created again has another id, so its positions are
translated again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.commit_marks import mark_begin
from tanist.domain.errors import TanistError
from tanist.domain.followed import is_followed
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset
from tanist.domain.translation import Commit, Exact, Present, Proof, Stays
from tanist.ports.positions import CommittedPosition, ProofResult
from tanist.usecases.groups.rows import PositionRow
from tanist.usecases.groups.strategies import candidates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.names import MirrorPartition, SourcePartition
    from tanist.domain.translation import Translator
    from tanist.ports.positions import CommittedOf
    from tanist.usecases.groups.gather import Chosen, Gathered

_ID_LETTERS = 8
"""Of each topic's id."""
THERE = Stays("it was committed before, from the same position")
_COMPARED = ProofResult(Proof.MATCH, "compared when it was committed")


def mark_of(seen: Gathered, row: PositionRow) -> str:
    """The metadata of a commit, as in 'tanist mm east@1234', with more behind it where it is settled."""
    exact = isinstance(row.translation, Exact) and row.compared.proof is Proof.MATCH
    return f"{begin_of(seen)}{row.position.offset}{_end(seen, row.partition, row.translator) if exact else ''}"


def as_committed(seen: Gathered, row: PositionRow) -> PositionRow:
    """`row`, which stays as it is if exactly this commit is there."""
    if not isinstance(row.decision, Commit) or row.present is None:
        return row
    same = (row.present.offset, row.present.metadata) == (row.decision.offset, mark_of(seen, row))
    return replace(row, decision=THERE, settled=True) if same else row


def may_be_settled(seen: Gathered, chosen: Chosen) -> bool:
    """Whether positions of `seen` need not be translated again where their commits say so."""
    asked = chosen.every or chosen.strategy or chosen.given is not None
    return is_followed(seen.spec) and not asked and seen.source_answer.down is None


def settled(seen: Gathered, committed: Mapping[str, CommittedOf | TanistError]) -> Iterator[PositionRow]:
    """The rows of positions whose commits are as good as a new translation."""
    places = _places(seen)
    begin = begin_of(seen)
    for group, positions in seen.positions.items():
        there = committed.get(group)
        if there is None or isinstance(there, TanistError):
            continue
        for at, position in positions.items():
            place, found = places.get(at), there.get(at)
            if place is None or not isinstance(found, CommittedPosition):
                continue
            translator = place.translator(f"{begin}{position.offset}", found.metadata)
            if translator is not None and place.copy.start <= found.offset <= place.copy.end:
                offset = DestinationOffset(found.offset)
                yield PositionRow(
                    group=group,
                    partition=at,
                    at_source=place.at_source,
                    position=position,
                    age_ms=seen.age_ms(position),
                    translation=Exact(offset),
                    mirror_end=place.copy,
                    translator=translator,
                    compared=_COMPARED,
                    present=Present(offset, found.metadata),
                    decision=THERE,
                    settled=True,
                )


@dataclass(frozen=True, slots=True)
class _Place:
    """What the settled positions of one partition have in common.

    `ends`: the strategies, by what stands in the metadata of their commits behind the source's offset.
    """

    at_source: SourcePartition
    copy: Span[DestinationOffset]
    ends: Mapping[str, Translator]

    def translator(self, begin: str, metadata: str) -> Translator | None:
        """The strategy of a commit with this metadata; None: it does not begin with `begin`, or is of no strategy."""
        return self.ends.get(metadata[len(begin) :]) if metadata.startswith(begin) else None


def _places(seen: Gathered) -> dict[MirrorPartition, _Place]:
    """Every partition in which anything may be settled."""
    places: dict[MirrorPartition, _Place] = {}
    ends: dict[str, Mapping[str, Translator]] = {}
    for at in {at for positions in seen.positions.values() for at in positions}:
        copy, at_source = seen.copies[at], seen.spec.names.at_source(at)
        if not isinstance(copy, Span) or at in seen.preparing or at.topic not in seen.topic_ids:
            continue
        if at.topic not in ends:
            ends[at.topic] = {_end(seen, at, each): each for each in candidates(seen.spec, at_source.topic, "")}
        places[at] = _Place(at_source, copy, ends[at.topic])
    return places


def without(seen: Gathered, rows: tuple[PositionRow, ...]) -> Gathered:
    """What is left to translate."""
    known = {(row.group, row.partition) for row in rows}
    left = {
        group: {at: each for at, each in positions.items() if (group, at) not in known}
        for group, positions in seen.positions.items()
    }
    return replace(seen, positions=left)


def begin_of(seen: Gathered) -> str:
    """What the metadata of commits of the mirror begin with."""
    return mark_begin(seen.spec.mirror, seen.spec.source)


def _end(seen: Gathered, at: MirrorPartition, translator: Translator) -> str:
    """Empty where the topics' ids are not known."""
    ids = seen.topic_ids.get(at.topic)
    return "" if ids is None else f" {translator.name} {'/'.join(each[:_ID_LETTERS] for each in ids)}"
