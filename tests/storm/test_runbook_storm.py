"""What the storm of the runbook promises of itself: it says what happened, and takes no silence for an answer."""

from __future__ import annotations

import json
from io import StringIO
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from rich.console import Console

from tanist.kafka.wire.clock import SystemClock
from tanist_testkit.screen import Screen
from tests.kafka.failover.conftest import Answer
from tests.storm import mishaps, operators, runbook
from tests.storm.judging import FOREIGN_WRITE, PUT_UP_SECONDS, Judge
from tests.storm.mishaps import BEFORE_DELETION, Verb, Way
from tests.storm.operators import Operator, Plan, Scene, Story, Tally
from tests.storm.traffic import Acknowledged

if TYPE_CHECKING:
    from pathlib import Path

SEED = 7


@pytest.mark.parametrize("verb", [*BEFORE_DELETION, Verb.DELETE])
@pytest.mark.parametrize("authorizer", [True, False])
def test_what_sleeps_until_the_next_mirror_has_the_name_is_frozen_or_killed_at_a_request(
    verb: Verb, authorizer: bool
) -> None:
    """Whoever only waited for an answer would keep its lock fresh, and no mirror could be deleted."""
    dice = Random(SEED)
    for _ in range(50):
        drawn = mishaps.mishap(dice, verb, authorizer=authorizer, certain=True, sleeps=True)
        assert drawn is not None
        assert drawn.sleeps
        assert drawn.way in {Way.FROZEN, Way.ORPHANED}


def test_a_storm_that_breaks_shows_what_was_counted_and_what_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raised, and nothing of what had been seen until then was printed."""

    def breaking(outcome: runbook.Outcome, *_: Any) -> NoReturn:
        outcome.tally.add("commands", "pause", 3)
        raise SystemError("no brokers")

    monkeypatch.setattr(runbook, "_legs", breaking)
    outcome = runbook.run(Screen(Console(file=StringIO()), SystemClock()), seconds=1, seed=SEED, directory=tmp_path)
    shown = StringIO()
    outcome.show(Console(file=shown, width=200))
    assert not outcome.ok
    assert "| command: pause | 3 |" in shown.getvalue()
    assert "no brokers" in shown.getvalue()


def test_a_storm_in_which_nothing_happened_proves_nothing_and_says_so() -> None:
    shown = StringIO()
    outcome = runbook.Outcome(SEED)
    outcome.show(Console(file=shown, width=200))
    assert not outcome.ok
    assert "proves nothing: no failovers DONE" in shown.getvalue()


def test_a_question_without_an_answer_is_no_empty_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `mirrors describe` that failed was a mirror without topics, and nothing was compared."""
    given = [
        Answer(3, '{"items":[],"errors":["SOURCE_DOWN"]}', ""),
        None,
        Answer(0, '{"items":[{"a":1}],"errors":[]}', ""),
    ]
    asking = Operator.__new__(Operator)
    monkeypatch.setattr(asking, "command", lambda *_: given.pop(0))
    assert asking.question("mirrors", "describe") == [{"a": 1}]
    monkeypatch.setattr(operators, "QUESTION_SECONDS", 0.0)
    monkeypatch.setattr(asking, "command", lambda *_: None)
    with pytest.raises(TimeoutError, match="mirrors describe"):
        asking.question("mirrors", "describe")


class Told(Operator):
    """One who asks, and is told what a test says."""

    def __init__(self, scene: Scene, observed: str) -> None:
        self._scene, self.observed = scene, observed

    def question(self, *_: str) -> list[dict[str, Any]]:
        verdict = "PASS" if self.observed.startswith("0 ") else "FAIL"
        return [{"checks": [{"name": "left_behind", "verdict": verdict, "observed": self.observed}]}]


@pytest.mark.parametrize(
    ("since", "observed", "wrong"),
    [
        (101.0, "1 offsets only at the old source", []),
        (101.0, "0 offsets only at the old source", ["status says"]),
        (100.0 + PUT_UP_SECONDS + 1, "1 offsets only at the old source", ["acknowledged records lost", "two writable"]),
        (90.0, "1 offsets only at the old source", ["acknowledged records lost", "two writable"]),
    ],
    ids=["named by status", "named by nobody", "after the fence should be there again", "before the lift"],
)
def test_only_what_a_late_lift_lets_in_and_status_names_is_excused(
    since: float, observed: str, wrong: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storm called it two writable sides, which nobody can prevent from outside the brokers."""
    absent: Any = None
    scene = Scene(
        story=Story(), pair=absent, proxy=absent, tally=Tally(), mirror="m", topics=("t",), extra="x", home=tmp_path
    )
    scene.story.late_lifts.append(100.0)
    judge = Judge(scene, Told(scene, observed))
    judge.done = {"abc": Plan("abc", ("t",), "planned", 0)}
    monkeypatch.setattr(Judge, "read", lambda *_: {(0, 0): b"kept", (0, 1): b"west"})
    source = [Acknowledged("t", 0, 0, b"kept", 50.0), Acknowledged("t", 0, 1, b"late", since)]
    found = [*judge._of_promoted("t", source, [Acknowledged("t", 0, 1, b"west", 60.0)]), *judge._unnamed()]
    assert [part in text for part, text in zip(wrong, found, strict=True)] == [True] * len(wrong)


@pytest.mark.parametrize(
    ("mode", "owed", "observed", "wrong"),
    [
        ("unplanned", ["t"], "1 offsets only at the old source", []),
        ("unplanned", ["t"], "0 offsets only at the old source", ["status says"]),
        ("unplanned", [], "1 offsets only at the old source", ["acknowledged records lost", "two writable"]),
        ("planned", ["t"], "1 offsets only at the old source", ["acknowledged records lost", "two writable"]),
    ],
    ids=["named by status", "named by nobody", "the fence was in force", "a planned failover waits for its fence"],
)
def test_what_a_source_takes_is_excused_only_where_an_unplanned_run_says_that_its_fence_is_owed(
    mode: str, owed: list[str], observed: str, wrong: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network kept the fence back for ten seconds, and the run said so; the storm called it two writable sides."""
    absent: Any = None
    scene = Scene(
        story=Story(), pair=absent, proxy=absent, tally=Tally(), mirror="m", topics=("t",), extra="x", home=tmp_path
    )
    book = tmp_path / "op1" / "evidence" / "abc"
    book.mkdir(parents=True)
    (book / "evidence.json").write_text(json.dumps({"events": [{"step": "movers", "detail": {"fences_owed": owed}}]}))
    judge = Judge(scene, Told(scene, observed))
    judge.done = {"abc": Plan("abc", ("t",), mode, 0)}
    monkeypatch.setattr(Judge, "read", lambda *_: {(0, 0): b"kept", (0, 1): b"west"})
    source = [Acknowledged("t", 0, 0, b"kept", 50.0), Acknowledged("t", 0, 1, b"late", 70.0)]
    found = [*judge._of_promoted("t", source, [Acknowledged("t", 0, 1, b"west", 60.0)]), *judge._unnamed()]
    assert [part in text for part, text in zip(wrong, found, strict=True)] == [True] * len(wrong)


@pytest.mark.parametrize(
    ("copied", "markers", "unlike"),
    [([b"a", b"b"], 1, 0), ([b"a", b"x"], 1, 1), ([b"a", b"b"], 0, 2), ([b"a", b"b", b"c", b"d", b"e"], 1, 1)],
    ids=["the first of the source", "another record", "no marker was late", "more than the source has"],
)
def test_a_partition_that_a_late_barrier_stopped_has_the_first_records_of_the_source(
    copied: list[bytes], markers: int, unlike: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker of a deleted mirror landed in the topic that was created again; the partition stopped by name."""
    absent: Any = None
    scene = Scene(
        story=Story(), pair=absent, proxy=absent, tally=Tally(), mirror="m", topics=("t",), extra="x", home=tmp_path
    )
    scene.story.late_markers = markers
    judge = Judge(scene, absent)
    monkeypatch.setattr(Judge, "rows", lambda _: [{"topic": "t", "partition": 0, "error": FOREIGN_WRITE}])
    here = {(0, offset): value for offset, value in enumerate([b"a", b"b", b"c", b"d"])} | {(1, 0): b"same"}
    there = {(0, offset): value for offset, value in enumerate(copied)} | {(1, 0): b"same"}
    assert judge._unlike("t", here, there) == unlike
