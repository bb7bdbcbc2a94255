"""Two clusters and groups that read from them."""

from __future__ import annotations

import pytest


@pytest.fixture
def group_name(topic_name: str) -> str:
    """A group that nobody else has, with characters that are dangerous in a path."""
    return f"team/a b%2F ü·{topic_name}"
