"""Several strategies of translation for one mirror: who is asked what, and whose answer counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.copier import Copier
from tanist.domain.errors import CouldNotTell, Misconfigured
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition, SourceOffset
from tanist.domain.translation import (
    Commit,
    Conservative,
    Exact,
    InputKind,
    Inputs,
    Proof,
    Rules,
    Translator,
    Tried,
    Unknown,
    Withheld,
    best,
    decide,
)
from tanist.domain.translators.choice import StrategyChoice, preferred
from tanist.ports.positions import ProofResult
from tanist.usecases.groups import strategies
from tanist.usecases.groups.gather import Chosen, Freshest, Gathered, SourceAnswer
from tests.builders import a_mirror

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.translation import Translation
    from tanist.ports.positions import Pair
    from tanist.usecases.groups.strategies import Answer, Filled, Reading

AT, BROKEN = MirrorPartition("orders", 0), MirrorPartition("orders", 1)


def strategy(name: str, **answers: Translation) -> Translator:
    """Answers as told for positions p0, p1, ...; elsewhere it knows nothing."""
    return Translator(
        name=name,
        basis=name,
        needs=frozenset({InputKind.OFFSET_MAP}),
        translate=lambda position, _: answers.get(f"p{position}", Unknown(f"{name} does not reach {position}")),
        explain=lambda position, _: f"{name}: at {position}",
    )


def exact(offset: int) -> Exact:
    return Exact(DestinationOffset(offset))


def bound(offset: int) -> Conservative:
    return Conservative(DestinationOffset(offset), "a bound")


def gathered(*positions: int) -> Gathered:
    """One group for each position of the first partition, and one of a partition that cannot be read."""
    here = {f"g{n}": {AT: Freshest(SourceOffset(n), None, direct=True)} for n in positions}
    there = {"other": {BROKEN: Freshest(SourceOffset(1), None, direct=True)}}
    return Gathered(
        spec=a_mirror(),
        partitions=frozenset({AT, BROKEN}),
        preparing=frozenset(),
        positions=here | there,
        kinds={},
        copies={AT: Span(DestinationOffset(0), DestinationOffset(100)), BROKEN: CouldNotTell("no leader")},
        source_ends={},
        followed=None,
        source_answer=SourceAnswer(),
        now=EpochMs(0),
    )


class Asked:
    """What was read for whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *known: Translator) -> None:
        self.wanted: list[set[int]] = []
        self.compared: list[tuple[int, int]] = []
        self.proofs: dict[int, Proof] = {}
        monkeypatch.setattr(strategies, "TRANSLATORS", {each.name: each for each in known})
        monkeypatch.setattr(strategies, "candidates", lambda *_: known)
        monkeypatch.setattr(strategies, "READERS", {InputKind.OFFSET_MAP: self.read})

    def read(self, reading: Reading) -> Filled:
        self.wanted.append({int(each) for of in reading.wanted.values() for each in of})
        return {at: {} for at in reading.wanted}

    def prove(self, pairs: Sequence[Pair]) -> Mapping[Pair, ProofResult]:
        """By destination offset as told; nothing else can be compared."""
        self.compared += [(pair.source, pair.destination) for pair in pairs]
        return {pair: ProofResult(self.proofs.get(pair.destination, Proof.NONE), "as told") for pair in pairs}

    def answers(self, seen: Gathered, chosen: Chosen | None = None) -> dict[int, Answer]:
        nothing = cast("Any", None)
        found = strategies.answered(nothing, seen, nothing, chosen or Chosen(), nothing, self.prove)
        return {int(position): answer for (at, position), answer in found.items() if at == AT}


def test_the_next_strategy_is_asked_only_where_the_one_before_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, strategy("first", p1=exact(10), p2=bound(12)), strategy("second", p2=bound(15)))
    found = asked.answers(gathered(1, 2, 3))
    assert asked.wanted == [{1, 2, 3}, {2, 3}]
    assert [each.best.translator.name for each in (found[1], found[2])] == ["first", "second"]
    assert [len(each.tried) for each in found.values()] == [1, 2, 2]


def test_an_explanation_asks_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, strategy("first", p1=exact(10)), strategy("second", p1=bound(7)))
    found = asked.answers(gathered(1), Chosen(every=True))
    assert [each.translation for each in found[1].tried] == [exact(10), bound(7)]
    assert found[1].best.translation == exact(10)


def test_a_partition_that_cannot_be_read_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, strategy("first", p1=exact(10)))
    found = strategies.answered(
        cast("Any", None), gathered(), cast("Any", None), Chosen(), cast("Any", None), asked.prove
    )
    assert asked.wanted == []
    (answer,) = found.values()
    assert isinstance(answer.best.translation, Unknown)
    assert "no leader" in answer.best.translation.why


def by_syncs(offset: int) -> Translator:
    """As that of MirrorMaker 2: it needs a proof."""
    evidence = (SourceOffset(0), DestinationOffset(offset - 1))
    answer = Conservative(DestinationOffset(offset), "behind a sync", evidence=evidence)
    return replace(strategy("syncs", p1=answer), unproved="not compared", blames_itself=True)


def one(monkeypatch: pytest.MonkeyPatch, proofs: dict[int, Proof], *known: Translator) -> Tried:
    asked = Asked(monkeypatch, *known)
    asked.proofs = proofs
    return asked.answers(gathered(1))[1].best


def test_a_mismatch_of_one_strategy_leaves_the_answers_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the winner was compared: its mismatch withheld the position, though another answer was safe."""
    found = one(monkeypatch, {60: Proof.MISMATCH}, strategy("read", p1=bound(41)), by_syncs(61))
    assert (found.translator.name, found.translation, found.proof) == ("read", bound(41), Proof.NONE)


def test_an_answer_that_needs_a_proof_and_has_none_is_taken_only_if_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = one(monkeypatch, {}, by_syncs(61), strategy("read", p1=bound(41)))
    assert found.translation == bound(41)
    alone = one(monkeypatch, {}, by_syncs(61))
    assert (alone.translator.name, alone.trusted) == ("syncs", False)
    decision = decide(alone.translation, None, alone.proof, Rules(), "offset-syncs", alone.trusted)
    assert isinstance(decision, Withheld)
    assert "--unproved" in decision.why
    allowed = decide(alone.translation, None, alone.proof, Rules(unproved=True), "offset-syncs", alone.trusted)
    assert allowed == Commit(DestinationOffset(61))


def test_an_unproved_answer_at_the_end_of_the_copy_is_not_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the copy is final only if the answer is trusted: this one may skip records."""
    found = one(monkeypatch, {}, by_syncs(100), strategy("read", p1=bound(41)))
    assert (found.translator.name, found.translation) == ("read", bound(41))


def test_an_answer_that_is_proved_counts_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found = one(monkeypatch, {60: Proof.MATCH}, strategy("read", p1=bound(41)), by_syncs(61))
    assert (found.translator.name, found.trusted) == ("syncs", True)


def test_a_mismatch_of_an_answer_that_rests_on_both_logs_doubts_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = one(monkeypatch, {44: Proof.MISMATCH, 60: Proof.MATCH}, strategy("read", p1=exact(44)), by_syncs(61))
    assert (found.translator.name, found.proof) == ("read", Proof.MISMATCH)


def test_what_is_known_for_sure_is_asked_of_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The very record, and the end of the copy: to ask on would read records for nothing in every pass."""
    very = Conservative(DestinationOffset(44), "grown since", evidence=(SourceOffset(1), DestinationOffset(44)))
    for answer in (very, bound(100)):
        asked = Asked(monkeypatch, strategy("read", p1=answer), strategy("other", p1=bound(7)))
        asked.proofs = {44: Proof.MATCH}
        assert asked.answers(gathered(1))[1].best.translation == answer
        assert asked.wanted == [{1}]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([exact(5)], exact(5)),
        ([bound(9), exact(5)], exact(5)),
        ([bound(3), bound(4)], bound(4)),
        ([Unknown("gone"), bound(0)], bound(0)),
        ([Unknown("gone")], Unknown("gone")),
        ([Unknown("gone"), Unknown("late")], Unknown("s0: gone; s1: late")),
    ],
)
def test_exact_counts_first_and_then_the_highest_bound(answers: list[Translation], expected: Translation) -> None:
    tried = [Tried(strategy(f"s{n}"), each) for n, each in enumerate(answers)]
    assert best(tried).translation == expected


def test_what_is_missing_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Inputs(copy=Span(DestinationOffset(0), DestinationOffset(9)))
    missing = replace(read, missing={InputKind.OFFSET_MAP: "no such topic"})
    assert strategy("s", p1=exact(5)).answer(SourceOffset(1), read) == exact(5)
    assert strategy("s", p1=exact(5)).answer(SourceOffset(1), missing) == Unknown("no such topic")


def test_strategies_are_chosen_by_topic() -> None:
    choices = [StrategyChoice.parse(text) for text in ("timestamp=logs-.*", "mm2=orders")]
    assert preferred("logs-1", choices, ("map",)) == ("timestamp",)
    assert preferred("orders", choices, ("map",)) == ("mm2",)
    assert preferred("payments", choices, ("map", "mm2")) == ("map", "mm2")


@pytest.mark.parametrize("text", ["mm3", "mm2=(", "=orders", ""])
def test_a_strategy_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(Misconfigured):
        StrategyChoice.parse(text)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (None, None)),
        ({"rename": ("identity", "mm2-default:primary")}, ("primary", None)),
        ({"mm2_aliases": ("primary", "backup")}, ("primary", "backup")),
    ],
)
def test_mirrormakers_topics_are_named_by_its_aliases(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], expected: tuple[str | None, str | None]
) -> None:
    asked: list[Any] = []

    def read(*given: Any, ask_source: bool, checkpoints: bool) -> dict[MirrorPartition, Any]:
        asked.append(given[3])
        return {} if ask_source and not checkpoints else {AT: None}

    monkeypatch.setattr(strategies, "read_mm2", read)
    seen = replace(gathered(1), spec=a_mirror(copied_by=Copier.MM2, **fields))
    nothing = cast("Any", None)
    strategies.answered(nothing, seen, nothing, Chosen(strategy="mm2"), nothing, nothing)
    assert [(each.source_alias, each.destination_alias) for each in asked] == [expected]


def test_s0_6_a_request_by_timestamps_has_the_time_limit_of_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def read(*given: Any) -> dict[MirrorPartition, Any]:
        asked.append(given[4].poll_timeout_ms)
        return {}

    monkeypatch.setattr(strategies, "read_times", read)
    nothing = cast("Any", None)
    for limit in (0, 250):
        seen = replace(gathered(1), spec=a_mirror(copied_by=Copier.OTHER, poll_timeout_ms=limit))
        strategies.answered(nothing, seen, nothing, Chosen(strategy="timestamp"), nothing, nothing)
    assert asked == [1000, 250]


def test_a_source_that_is_known_to_be_silent_is_not_asked_for_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass would wait for it once more."""
    monkeypatch.setattr(strategies, "read_times", lambda *_: pytest.fail("it was asked"))
    seen = replace(
        gathered(1),
        spec=a_mirror(copied_by=Copier.OTHER),
        source_answer=SourceAnswer(down=CouldNotTell("east is gone")),
    )
    nothing = cast("Any", None)
    found = strategies.answered(nothing, seen, nothing, Chosen(strategy="timestamp"), nothing, nothing)
    assert "east is gone" in str(found[AT, SourceOffset(1)].best.translation.why)
