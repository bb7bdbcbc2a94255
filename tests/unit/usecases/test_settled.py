"""Positions beside copies of others that are not translated again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.copier import Copier
from tanist.domain.errors import CouldNotTell, Unreachable
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, EpochMs, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.translation import Commit, Conservative, Exact, Proof, Rules, Stays
from tanist.domain.translators.by_mm2 import MM2
from tanist.domain.translators.by_timestamp import TIMESTAMP
from tanist.ports.positions import CommittedPosition, GroupFacts, ProofResult
from tanist.usecases.groups.gather import Chosen, Freshest, Gathered, SourceAnswer
from tanist.usecases.groups.rows import DestinationGroups, PositionRow, decided, to_commit
from tanist.usecases.groups.settled import mark_of, may_be_settled, settled, without
from tests.builders import a_mirror

if TYPE_CHECKING:
    from collections.abc import Mapping

MM = MirrorName("mm")
AT, OTHER = MirrorPartition("east.orders", 0), MirrorPartition("east.orders", 1)
SPEC = a_mirror(MM, copied_by=Copier.OTHER, rename=("mm2-default",), source="east")
IDS = {"east.orders": ("source-id-1", "copy-id-1")}


def gathered(**changes: Any) -> Gathered:
    seen = Gathered(
        spec=SPEC,
        partitions=frozenset({AT, OTHER}),
        preparing=frozenset(),
        positions={"g": {AT: Freshest(SourceOffset(7), None, direct=True)}},
        kinds={},
        copies={AT: Span(DestinationOffset(0), DestinationOffset(50)), OTHER: CouldNotTell("silent")},
        source_ends={},
        followed=None,
        source_answer=SourceAnswer(),
        now=EpochMs(5),
        topic_ids=IDS,
    )
    return replace(seen, **changes)


def row(seen: Gathered, **changes: Any) -> PositionRow:
    made = PositionRow(
        group="g",
        partition=AT,
        at_source=SPEC.names.at_source(AT),
        position=seen.positions["g"][AT],
        age_ms=0,
        translation=Exact(DestinationOffset(47)),
        mirror_end=seen.copies[AT],
        translator=TIMESTAMP,
        compared=ProofResult(Proof.MATCH, "the same record"),
    )
    return replace(made, **changes)


def committed(metadata: str, offset: int = 47) -> Mapping[str, Any]:
    return {"g": {AT: CommittedPosition(offset, metadata)}}


def test_what_was_exact_and_has_not_moved_is_not_translated_again() -> None:
    seen = gathered()
    mark = mark_of(seen, row(seen))
    assert mark == "tanist mm east@7 timestamp source-i/copy-id-"
    (known,) = settled(seen, committed(mark))
    assert (known.translation, known.translator, known.compared.proof) == (
        row(seen).translation,
        TIMESTAMP,
        Proof.MATCH,
    )
    assert without(seen, (known,)).positions == {"g": {}}
    assert mark_of(seen, known) == mark, "so that it is known after it was renewed, too"


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": {"g": {AT: Freshest(SourceOffset(8), None, direct=True)}}},
        {"topic_ids": {"east.orders": ("source-id-1", "another")}},
        {"topic_ids": {"east.orders": ("another", "copy-id-1")}},
        {"topic_ids": {}},
        {"copies": {AT: Span(DestinationOffset(0), DestinationOffset(46))}},
        {"copies": {AT: Span(DestinationOffset(48), DestinationOffset(50))}},
        {"copies": {AT: CouldNotTell("silent")}},
        {"preparing": frozenset({AT})},
        {"spec": replace(SPEC, strategies=("mm2",))},
    ],
    ids=["moved", "copy anew", "source anew", "no ids", "truncated", "deleted", "silent", "preparing", "strategy"],
)
def test_whatever_is_otherwise_since_is_translated_again(changes: Mapping[str, Any]) -> None:
    mark = mark_of(gathered(), row(gathered()))
    assert list(settled(gathered(**changes), committed(mark))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"translation": Conservative(DestinationOffset(47), "the record before")},
        {"compared": ProofResult(Proof.NONE, "not compared")},
    ],
)
def test_what_another_strategy_could_better_is_translated_again(changes: Mapping[str, Any]) -> None:
    seen = gathered()
    mark = mark_of(seen, row(seen, **changes))
    assert mark == "tanist mm east@7"
    assert list(settled(seen, committed(mark))) == []
    assert list(settled(gathered(topic_ids={}), committed(mark))) == []


def test_what_is_not_known_of_the_destination_is_translated_again() -> None:
    seen = gathered()
    assert list(settled(seen, {})) == []
    assert list(settled(seen, {"g": Unreachable("west")})) == []
    assert list(settled(seen, {"g": {AT: CouldNotTell("silent")}})) == []


def test_who_asks_one_strategy_or_all_hears_their_answers() -> None:
    assert may_be_settled(gathered(), Chosen())
    assert not may_be_settled(gathered(), Chosen(strategy=MM2.name))
    assert not may_be_settled(gathered(), Chosen(every=True))
    assert not may_be_settled(gathered(spec=a_mirror()), Chosen())
    assert not may_be_settled(gathered(source_answer=SourceAnswer(down=Unreachable("east"))), Chosen())


@pytest.mark.parametrize(("renew", "offset", "stays"), [(False, 47, True), (True, 47, False), (False, 40, False)])
def test_it_is_committed_again_only_to_be_renewed_or_where_somebody_has_moved_it(
    renew: bool, offset: int, stays: bool
) -> None:
    seen = gathered()
    mark = mark_of(seen, row(seen))
    known = tuple(settled(seen, committed(mark)))
    facts = {"g": GroupFacts(group="g", kind="classic", state="Empty", members=0)}
    there = DestinationGroups(groups=facts, committed=committed(mark, offset))
    (found,) = decided(known, there, Rules(), renew)
    assert isinstance(found.decision, Stays if stays else Commit)
    assert bool(to_commit([found], lambda _: mark)) is not stays


def test_a_group_of_which_nothing_has_moved_is_not_read_once_more() -> None:
    seen = gathered()
    known = tuple(settled(seen, committed(mark_of(seen, row(seen)))))
    (found,) = decided(known, DestinationGroups(groups={}, committed={}), Rules(), renew=False)
    assert isinstance(found.decision, Stays)
    assert found.present is not None
    assert found.present.offset == found.offset
