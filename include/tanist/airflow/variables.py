"""Settings of Tanist in this deployment: environment variables, otherwise Airflow Variables of the same name.

Users who can edit Airflow Variables can change settings there; the environment takes precedence.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from airflow.sdk import Variable

from tanist.domain.errors import Misconfigured

DESTINATIONS: Final = "TANIST_DESTINATIONS"
"""The connection ids of the destination clusters, separated by commas."""
APPROVERS: Final = "TANIST_APPROVERS"
"""The ids of the Airflow users who may approve a failover, separated by commas."""
FOUR_EYES: Final = "TANIST_FOUR_EYES"
"""Whether a user cannot approve their own request: on (the default) or off."""
EVIDENCE: Final = "TANIST_EVIDENCE"
"""The folder for evidence of failovers, shared by all workers."""

_SWITCH: Final = {"on": True, "off": False}


def text(name: str) -> str:
    """The value of `name`; empty: not set."""
    return str(os.environ.get(name) or Variable.get(name, default="") or "").strip()


def words(name: str) -> tuple[str, ...]:
    """The comma-separated words of `name` without duplicates, in their order; none if it is not set."""
    return tuple(dict.fromkeys(word for part in text(name).split(",") if (word := part.strip())))


def destinations() -> tuple[str, ...]:
    """The destination clusters: one fetcher runs for each."""
    return words(DESTINATIONS)


def approvers() -> tuple[str, ...]:
    """The users who may approve a failover. Raises Misconfigured if there are none."""
    if not (found := words(APPROVERS)):
        raise Misconfigured(
            f"no approver is configured: list the users in {APPROVERS} (environment or Airflow Variable)"
        )
    return found


def four_eyes() -> bool:
    """Whether a user cannot approve their own request. Raises Misconfigured if it is neither on nor off."""
    found = text(FOUR_EYES) or "on"
    if found not in _SWITCH:
        raise Misconfigured(f"{FOUR_EYES} is {found!r}: it must be on or off")
    return _SWITCH[found]


def evidence() -> Path:
    """The folder for evidence; `evidence` in Airflow's home by default."""
    return Path(text(EVIDENCE) or Path(os.environ.get("AIRFLOW_HOME", "~/airflow"), "evidence")).expanduser()
