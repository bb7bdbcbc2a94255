"""What machines read stays as it is, however the code is arranged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import golden

WANTED: dict[str, Any] = json.loads(golden.FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return dict(json.loads(golden.text()))


def test_the_story_has_the_same_documents(found: dict[str, Any]) -> None:
    assert list(found) == list(WANTED)


@pytest.mark.parametrize("name", WANTED)
def test_a_document_is_word_for_word_what_it_was(found: dict[str, Any], name: str) -> None:
    """If it has to change: `python -m tests.golden`, and the changelog."""
    assert found[name] == WANTED[name]
