"""Several strategies of translation for one mirror: who is asked what, and whose answer counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.copier import Copier
from tanist.domain.errors import CouldNotTell, Misconfigured
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition, SourceOffset
from tanist.domain.translation import Conservative, Exact, InputKind, Inputs, Translator, Tried, Unknown, best
from tanist.domain.translators.choice import StrategyChoice, preferred
from tanist.usecases.groups import strategies
from tanist.usecases.groups.gather import Chosen, Freshest, Gathered, SourceAnswer
from tests.builders import a_mirror

if TYPE_CHECKING:
    from tanist.domain.translation import Translation
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
        monkeypatch.setattr(strategies, "TRANSLATORS", {each.name: each for each in known})
        monkeypatch.setattr(strategies, "candidates", lambda *_: known)
        monkeypatch.setattr(strategies, "READERS", {InputKind.OFFSET_MAP: self.read})

    def read(self, reading: Reading) -> Filled:
        self.wanted.append({int(each) for of in reading.wanted.values() for each in of})
        return {at: {} for at in reading.wanted}

    def answers(self, seen: Gathered, chosen: Chosen | None = None) -> dict[int, Answer]:
        nothing = cast("Any", None)
        found = strategies.answered(nothing, seen, nothing, chosen or Chosen(), nothing)
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
    found = strategies.answered(cast("Any", None), gathered(), cast("Any", None), Chosen(), cast("Any", None))
    assert asked.wanted == []
    (answer,) = found.values()
    assert isinstance(answer.best.translation, Unknown)
    assert "no leader" in answer.best.translation.why


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

    def read(*given: Any, ask_source: bool) -> dict[MirrorPartition, Any]:
        asked.append(given[3])
        return {} if ask_source else {AT: None}

    monkeypatch.setattr(strategies, "read_mm2", read)
    seen = replace(gathered(1), spec=a_mirror(copied_by=Copier.MM2, **fields))
    nothing = cast("Any", None)
    strategies.answered(nothing, seen, nothing, Chosen(strategy="mm2"), nothing)
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
        strategies.answered(nothing, seen, nothing, Chosen(strategy="timestamp"), nothing)
    assert asked == [1000, 250]
