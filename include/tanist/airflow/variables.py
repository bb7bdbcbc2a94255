"""What this deployment is told about Tanist: environment variables, else Airflow Variables of the same name."""

from __future__ import annotations

import os
from typing import Final

from airflow.sdk import Variable

DESTINATIONS: Final = "TANIST_DESTINATIONS"
"""The ids of the connections to the clusters that hold mirrors, with commas between them."""


def words(name: str) -> tuple[str, ...]:
    """The comma-separated words of `name`, each once, in the order given; none if nobody has set it."""
    text = os.environ.get(name) or Variable.get(name, default="") or ""
    return tuple(dict.fromkeys(word for part in str(text).split(",") if (word := part.strip())))


def destinations() -> tuple[str, ...]:
    """The clusters that hold mirrors: one fetcher runs for each."""
    return words(DESTINATIONS)
