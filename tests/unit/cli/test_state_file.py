"""The file of `tanist state export`: what was written is read back whole, and anything else is refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import EpochMs
from tanist.domain.records import OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.saved_state import SavedState, StateFileInvalid
from tanist.wiring import state_file
from tanist.wiring.line_file import FileNotWritten
from tests.unit.kafka.protocol.test_stored import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVERYTHING = tuple(record for record, _, _ in GOLDEN)
STATE = SavedState(
    cluster="west",
    cluster_id="W",
    exported_at=EpochMs(7),
    records={OFFSETS_TOPIC: EVERYTHING[:2], STATE_TOPIC: EVERYTHING},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "state.jsonl"
    state_file.write(STATE, file)
    return file


def test_records_of_every_kind_are_read_back_as_they_were(file: Path) -> None:
    assert state_file.read(file) == STATE
    assert file.stat().st_mode & 0o077 == 0
    assert [each.name for each in file.parent.iterdir()] == [file.name]


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "is empty": lambda _: [],
    "no export of a state": lambda lines: ['{"format":"other"}', *lines[1:]],
    "has version 2": lambda lines: [json.dumps(json.loads(lines[0]) | {"version": 2}), *lines[1:]],
    "lacks one of": lambda lines: ['{"format":"tanist-state","version":1}', *lines[1:]],
    "line 1: not JSON": lambda lines: ["{", *lines[1:]],
    "is not complete": lambda lines: lines[:-1],
    "was altered": lambda lines: [*lines[:3], lines[3].replace("east", "west"), *lines[4:]],
}


@pytest.mark.parametrize("reason", CHANGES)
def test_a_file_that_is_not_what_was_exported_is_refused(file: Path, reason: str) -> None:
    lines = CHANGES[reason](file.read_text().splitlines())
    file.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(StateFileInvalid, match=reason):
        state_file.read(file)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("absent", "binary"):
        with pytest.raises(StateFileInvalid, match=name):
            state_file.read(tmp_path / name)
    with pytest.raises(FileNotWritten, match="absent"):
        state_file.write(STATE, tmp_path / "absent" / "file")
