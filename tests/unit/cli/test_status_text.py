"""`tanist status` in a terminal: the verdicts first, then what does not pass, within the width."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tanist.cli import health
from tanist.cli.options import Session
from tanist.cli.status_text import status_text
from tanist.domain.checks import Check, Mode, Verdict
from tanist.domain.circle import MirrorPlace
from tanist.domain.failover.health import Status, judged
from tanist.domain.limitation import Limitation
from tanist.domain.next_steps.situation import MirrorSituation
from tanist.usecases.items import status_item
from tanist.usecases.status.observe import MirrorStatus
from tests.builders import DR, a_mirror
from tests.unit.domain.facts_drawn import drawn, intents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

    from tests.kafka.cli.conftest import Tanist

COMMAND = re.compile(r"`(?:tanist|kafka)[^`\n]*`")
ALONE = re.compile(r" *\(?`tanist [^`]*`[);:,.]*")
"""A line with a command, and punctuation."""
USUAL = Limitation("SOURCE_NOT_DRAINED", "the source is not waited for", usual=True)
DOWN = Limitation("SOURCE_DOWN", "no broker answers at " + "broker.example.org:9092, " * 12, blocks=True, unknown=True)
CHECKS = (
    Check(name="source", verdict=Verdict.UNKNOWN, observed="does not answer", limit="answers", reason=DOWN.detail),
    Check(name="destination", verdict=Verdict.PASS, observed="3 of 3 answer"),
    Check(name="workers", verdict=Verdict.PASS, observed="1 of 1 alive"),
)
STATUS = Status(mirror=DR, limitations={Mode.PLANNED: (USUAL, DOWN), Mode.UNPLANNED: (USUAL,)}, checks=CHECKS)


def shown(status: Status = STATUS, width: int = 80, *, every: bool = False) -> list[str]:
    return status_text([status_item(status)], tuple(Mode), width, every=every).splitlines()


def test_the_verdicts_stand_above_what_does_not_pass_and_the_rest_is_counted() -> None:
    """21 passing rows of 230 columns stood above the verdict."""
    lines = shown()
    heads = [line for line in lines if not line.startswith("   ")]
    assert [head.split(":")[0].strip() for head in heads] == [
        "dr",
        "blocks  SOURCE_DOWN",
        "usual   SOURCE_NOT_DRAINED",
        "dr",
        "usual   SOURCE_NOT_DRAINED",
        "checks that do not pass",
        "UNKNOWN source",
        "2 checks pass; --all shows them",
    ]
    assert heads[0] == "dr: planned failover: UNKNOWN"
    assert heads[3] == "dr: unplanned failover: GO"
    assert max(map(len, lines)) <= 80


def test_every_check_is_listed_when_asked_for() -> None:
    text = "\n".join(shown(every=True))
    assert "PASS    destination: 3 of 3 answer" in text
    assert "PASS    workers: 1 of 1 alive" in text
    assert "--all" not in text


def wider(lines: Sequence[str], width: int) -> list[str]:
    """Those that are too wide, but for a command alone."""
    return [line for line in lines if len(line) > width and not ALONE.fullmatch(line)]


def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost() -> None:
    found = intents()
    for seed in range(300):
        status = judged(found, drawn(seed))
        assert wider(shown(status, 100, every=True), 100) == [], seed
        lines = shown(status, every=True)
        assert wider(lines, 80) == [], seed
        text = "".join("".join(lines).split())
        for limitations in status.limitations.values():
            assert all("".join(each.detail.split()) in text for each in limitations), seed


def test_no_command_is_broken_over_two_lines() -> None:
    """It could not be copied."""
    found, commands = intents(), 0
    for seed in range(300):
        status = judged(found, drawn(seed))
        lines = shown(status, every=True)
        texts = [each.detail for mode in Mode for each in status.limitations[mode]]
        for each in COMMAND.findall("\n".join(texts + [check.reason for check in status.checks])):
            assert any(each in line for line in lines), (seed, each)
            commands += 1
    assert commands > 1000


def test_the_next_command_has_a_line_of_its_own_also_behind_a_decision() -> None:
    step = {"decision": "fail over without the source", "command": "tanist failover plan dr", "why": ""}
    item = status_item(STATUS) | {"next": [step]}
    lines = status_text([item], tuple(Mode), 80, every=False).splitlines()
    assert lines[-2:] == ["fail over without the source:", "next: tanist failover plan dr"]


def test_the_command_prints_words_or_json(tanist: Tanist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tanist.toml"
    file.write_text('[clusters.west]\nbootstrap_servers = "127.0.0.1:1"\n')
    at = MirrorSituation(
        place=MirrorPlace(spec=a_mirror(include=("a.*",))), destination="west", status=STATUS, source_answers=True
    )
    seen = MirrorStatus(spec=a_mirror(), situation=at, workers=(), runs=())
    monkeypatch.setattr(Session, "destinations", lambda _session, _mirror: (object(),))
    monkeypatch.setattr(health, "look", lambda *_: (seen,))
    monkeypatch.setenv("COLUMNS", "80")
    where = ("status", "dr", "--config", str(file))
    answer = tanist(*where)
    following = ["next: tanist metadata sync dr --destination west"]
    assert (answer.code, answer.out.splitlines()) == (3, shown() + following)
    assert tanist(*where, "--mode", "unplanned").out.startswith("dr: unplanned failover: GO\n")
    assert tanist(*where, "--all").out.splitlines() == shown(every=True) + following
    (item,) = json.loads(tanist(*where, "--json", "--all").out)["items"]
    assert item.items() >= json.loads(json.dumps(status_item(STATUS))).items()
    assert [each["command"] for each in item["next"]] == ["tanist metadata sync dr --destination west"]
