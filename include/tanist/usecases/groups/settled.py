"""Positions that need no translation again: their commit at the destination says from what it was made.

What has not moved costs nothing then. The metadata of a commit that was exact, and compared, names the position at the
source, the strategy, and the topics by their ids. A topic that was created again has another id, so its positions are
translated again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.followed import is_followed
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset
from tanist.domain.translation import OUR_MARK, Exact, Proof
from tanist.ports.positions import CommittedPosition, ProofResult
from tanist.usecases.groups.rows import PositionRow
from tanist.usecases.groups.strategies import candidates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.names import MirrorPartition, SourceOffset
    from tanist.domain.translation import Translator
    from tanist.ports.positions import CommittedOf
    from tanist.usecases.groups.gather import Chosen, Gathered

_ID_LETTERS = 8
"""Of each topic's id."""


def mark_of(seen: Gathered, row: PositionRow) -> str:
    """The metadata of a commit, as in 'tanist mm east@1234', with more behind it where it is settled."""
    exact = isinstance(row.translation, Exact) and row.compared.proof is Proof.MATCH
    return _mark(seen, row.partition, row.position.offset, row.translator if exact else None)


def may_be_settled(seen: Gathered, chosen: Chosen) -> bool:
    """Whether positions of `seen` need not be translated again where their commits say so."""
    asked = chosen.every or chosen.strategy or chosen.given is not None
    return is_followed(seen.spec) and not asked and seen.source_answer.down is None


def settled(seen: Gathered, committed: Mapping[str, CommittedOf | TanistError]) -> Iterator[PositionRow]:
    """The rows of positions whose commits are as good as a new translation."""
    spec = seen.spec
    topics = {at.topic: at for positions in seen.positions.values() for at in positions}
    order = {
        copy: candidates(spec, spec.names.at_source(at).topic, "")
        for copy, at in topics.items()
        if copy in seen.topic_ids
    }
    for group, positions in seen.positions.items():
        there = committed.get(group)
        if there is None or isinstance(there, TanistError):
            continue
        for at, position in positions.items():
            found, copy = there.get(at), seen.copies[at]
            if not isinstance(found, CommittedPosition) or not isinstance(copy, Span) or at in seen.preparing:
                continue
            marks = {_mark(seen, at, position.offset, each): each for each in order.get(at.topic, ())}
            if found.metadata in marks and copy.start <= found.offset <= copy.end:
                yield PositionRow(
                    group=group,
                    partition=at,
                    at_source=spec.names.at_source(at),
                    position=position,
                    age_ms=seen.age_ms(position),
                    translation=Exact(DestinationOffset(found.offset)),
                    mirror_end=copy,
                    translator=marks[found.metadata],
                    compared=ProofResult(Proof.MATCH, "compared when it was committed"),
                    settled=True,
                )


def without(seen: Gathered, rows: tuple[PositionRow, ...]) -> Gathered:
    """What is left to translate."""
    known = {(row.group, row.partition) for row in rows}
    left = {
        group: {at: each for at, each in positions.items() if (group, at) not in known}
        for group, positions in seen.positions.items()
    }
    return replace(seen, positions=left)


def _mark(seen: Gathered, at: MirrorPartition, position: SourceOffset, translator: Translator | None) -> str:
    plain = f"{OUR_MARK}{seen.spec.mirror} {seen.spec.source}@{position}"
    ids = seen.topic_ids.get(at.topic)
    if translator is None or ids is None:
        return plain
    return f"{plain} {translator.name} {'/'.join(each[:_ID_LETTERS] for each in ids)}"
