"""The parts of `make storm` run everything, each thing once, and only a whole set of one commit makes a table."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tanist.kafka.wire.clock import SystemClock
from tests.kafka.fetcher.rig import until
from tests.storm import parts, table
from tests.storm.parts import STORMS, Part, Share, costs, divided, known_seconds, outcomes
from tests.storm.results import ROOT, Figures, LongTest, PartRun, Result, StormRun, read_part
from tests.storm.table import Incomplete, page, whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TESTS: Final = tuple(LongTest(name=f"tests/a/test_{n}.py::test", result=Result.PASSED, seconds=n) for n in range(6))
RUN: Final = StormRun(
    name="storm",
    seed=7,
    asked_seconds=720,
    seconds=801.4,
    result=Result.PASSED,
    figures=Figures(faults=3, records=4000),
)
EVERYTHING: Final = (*(each.name for each in TESTS), RUN.name)


def ran(part: int, tests: tuple[LongTest, ...], *storms: StormRun) -> PartRun:
    return PartRun(
        commit="c0ffee",
        dirty=False,
        part=part,
        of=2,
        everything=EVERYTHING,
        tests=tests,
        storms=storms,
        seconds=60.0,
        ended=True,
    )


FIRST: Final = ran(1, TESTS[:2], RUN)
SECOND: Final = ran(2, TESTS[2:])


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_disjoint_and_complete_and_take_about_the_same_time(seed: int) -> None:
    dice = Random(seed)
    wanted = {f"test_{n}": dice.uniform(1, 300) for n in range(dice.randrange(60))}
    for count in (1, 2, 3, 5):
        found = divided(wanted, count)
        assert sorted(name for part in found for name in part) == sorted(wanted)
        took = [sum(wanted[name] for name in part) for part in found]
        assert max(took) - min(took) <= max(wanted.values(), default=0)
        assert divided(dict(reversed(wanted.items())), count) == found


def test_tests_of_a_file_that_was_never_measured_count_as_average_ones() -> None:
    found = costs({"known": 2, "long": 1, "new": 3}, {"known": 30.0, "long": 60.0, "gone": 90.0})
    assert found["new"] == 3 * found["known"]
    assert found.keys() == {"known", "long", "new", *STORMS}


def test_every_measured_file_has_long_tests() -> None:
    for file in known_seconds():
        assert "mark.long" in (ROOT / file).read_text(encoding="utf-8"), file


def test_each_storm_and_each_long_test_is_in_one_part() -> None:
    ids = [f"{file}::test_{n}" for file in known_seconds() for n in range(3)]
    found = [parts.share(ids, Share(n, 3), known_seconds()) for n in (1, 2, 3)]
    assert sorted(row.name for part in found for row in part.rows) == sorted((*ids, *STORMS))


def test_a_test_that_did_not_end_has_crashed_and_one_whose_fixture_broke_has_failed() -> None:
    def phase(name: str, when: str | None, result: str = "passed") -> Mapping[str, object]:
        return {"id": name, "phase": when, "result": result, "seconds": 1.0}

    lines = [
        *({"id": name, "phase": "started"} for name in ("good", "hangs", "worker", "fixture", "skips")),
        *(phase("good", when) for when in ("setup", "call", "teardown")),
        phase("hangs", "setup"),
        phase("worker", "???", "failed"),
        *(phase("fixture", when) for when in ("setup", "call")),
        phase("fixture", "teardown", "failed"),
        *(phase("skips", "setup", "skipped"), phase("skips", "teardown")),
    ]
    found = {each.name: (each.result, each.seconds) for each in outcomes(lines)}
    assert found == {
        "good": (Result.PASSED, 3.0),
        "hangs": (Result.CRASHED, 1.0),
        "worker": (Result.CRASHED, 1.0),
        "fixture": (Result.FAILED, 3.0),
        "skips": (Result.SKIPPED, 2.0),
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of long tests; one of them fails, one takes its process along, one hangs."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\ntimeout = 1\ntimeout_method = thread\n")
    (tmp_path / "test_some.py").write_text(
        textwrap.dedent("""
            import os, pathlib, time, pytest
            pytestmark = pytest.mark.long
            def test_fails(): assert False
            def test_dies(): os._exit(1)
            def test_hangs(): time.sleep(100)
            def test_passes(): pass
            @pytest.mark.timeout(100)
            def test_waits():
                pathlib.Path("pid").write_text(str(os.getpid()))
                time.sleep(100)
        """)
    )
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'include'}")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return tmp_path


def a_part(root: Path, *names: str) -> Part:
    clock, tests = SystemClock(), tuple(LongTest(name=f"test_some.py::test_{name}") for name in names)
    return Part(replace(ran(1, tests), ended=False), clock, root, clock.deadline(50), root, root / "results")


def test_a_broken_test_does_not_keep_the_others_of_its_part_from_being_run(project: Path) -> None:
    done = a_part(project, "fails", "dies", "hangs", "passes").do()
    found = {each.name.rpartition("_")[2]: str(each.result) for each in done.tests}
    assert found == {"fails": "failed", "dies": "crashed", "hangs": "crashed", "passes": "passed"}
    assert done.ended
    assert not done.ok


def test_after_ctrl_c_nothing_runs_and_the_part_is_incomplete(project: Path) -> None:
    code = (
        "import sys, pathlib; from tests.storm.test_parts import a_part\n"
        "done = a_part(pathlib.Path(sys.argv[1]), 'passes', 'waits').do(); sys.exit(7 if not done.ended else 0)"
    )
    with subprocess.Popen((sys.executable, "-c", code, str(project)), cwd=project) as asked:
        file = project / "pid"
        until(lambda: file.exists() and file.read_text() != "", 40)
        asked.send_signal(signal.SIGINT)
        assert asked.wait(40) == 7
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def test_a_part_that_was_interrupted_goes_on_where_it_ended(tmp_path: Path) -> None:
    wanted = replace(FIRST, tests=tuple(LongTest(name=each.name) for each in TESTS[:2]), seconds=0.0, ended=False)
    half = replace(FIRST, tests=(replace(TESTS[0], result=Result.FAILED), LongTest(name=TESTS[1].name)))
    assert parts.going_on(wanted, tmp_path / "none.json") == wanted
    assert parts.going_on(wanted, half.write(tmp_path)) == replace(half, ended=False), "what failed is not tried again"
    assert parts.going_on(wanted, FIRST.write(tmp_path)) == wanted, "a whole one is run again"
    assert parts.going_on(wanted, replace(half, commit="deca1").write(tmp_path)) == wanted
    assert parts.going_on(replace(wanted, dirty=True), replace(half, dirty=True).write(tmp_path)).tests == wanted.tests


def test_a_part_that_goes_on_runs_what_is_left_and_keeps_the_rest(project: Path) -> None:
    asked = a_part(project, "fails", "passes")
    failed = replace(asked.run.tests[1], result=Result.FAILED, seconds=3.0)
    asked.run = replace(asked.run, tests=(asked.run.tests[0], failed), seconds=100.0)
    done = asked.do()
    assert [str(each.result) for each in done.tests] == ["failed", "failed"]
    assert done.tests[1] == failed
    assert done.seconds > 100


def test_a_part_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_part(FIRST.write(tmp_path)) == FIRST


def test_a_table_has_every_test_and_storm() -> None:
    found = page(whole((SECOND, FIRST)))
    assert "all was well" in found
    assert "| storm: 720 s of faults, seed 7 | passed | 801 | 3 | 4,000 | 0 |" in found
    for each in TESTS:
        assert f"| `{each.name.removeprefix('tests/')}` | passed | {each.seconds:.0f} | | | |" in found


def test_what_failed_is_in_the_table() -> None:
    broken = replace(FIRST, tests=(replace(TESTS[0], result=Result.CRASHED), TESTS[1]))
    assert not broken.ok
    assert "**1 of 7 failed**" in page(whole((broken, SECOND)))


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ((), "no part has been run"),
        ((FIRST, replace(SECOND, commit="deca1")), "several commits"),
        ((FIRST,), "not run yet: `make storm PART=2/2`"),
        ((FIRST, replace(SECOND, ended=False)), "interrupted: `make storm PART=2/2`"),
        ((FIRST, replace(SECOND, dirty=True)), "files of no commit"),
        ((FIRST, replace(SECOND, everything=EVERYTHING[1:])), "divides other tests"),
        ((FIRST, replace(SECOND, tests=TESTS[1:])), "overlap"),
        ((FIRST, replace(SECOND, tests=TESTS[3:])), "leave something out"),
    ],
    ids=["nothing", "commits", "missing", "interrupted", "dirty", "another division", "twice", "never"],
)
def test_what_is_not_one_whole_makes_no_table(runs: tuple[PartRun, ...], why: str) -> None:
    with pytest.raises(Incomplete, match=why.replace("(", r"\(")):
        whole(runs)


def test_nothing_is_written_of_an_incomplete_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table, "PAGE", tmp_path / "storm.md")
    monkeypatch.setattr("sys.argv", ["table", str(FIRST.write(tmp_path))])
    assert table.main() == 1
    assert "not run yet" in capsys.readouterr().err
    assert not (tmp_path / "storm.md").exists()
