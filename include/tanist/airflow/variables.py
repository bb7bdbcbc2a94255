"""What this deployment is told about Tanist: environment variables, else Airflow Variables of the same name.

Who may edit Airflow Variables may change what is only said there: what must stand is said in the environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from airflow.sdk import Variable

from tanist.domain.errors import Misconfigured

DESTINATIONS: Final = "TANIST_DESTINATIONS"
"""The ids of the connections to the clusters that hold mirrors, with commas between them."""
APPROVERS: Final = "TANIST_APPROVERS"
"""The ids of the Airflow users who may approve a failover, with commas between them."""
FOUR_EYES: Final = "TANIST_FOUR_EYES"
"""Whether nobody may approve what they have asked for themselves: on (the default) or off."""
EVIDENCE: Final = "TANIST_EVIDENCE"
"""The folder that evidence of failovers goes to: one that all workers share."""

_SWITCH: Final = {"on": True, "off": False}


def text(name: str) -> str:
    """What was said of `name`; empty: nothing."""
    return str(os.environ.get(name) or Variable.get(name, default="") or "").strip()


def words(name: str) -> tuple[str, ...]:
    """The comma-separated words of `name`, each once, in the order given; none if nobody has set it."""
    return tuple(dict.fromkeys(word for part in text(name).split(",") if (word := part.strip())))


def destinations() -> tuple[str, ...]:
    """The clusters that hold mirrors: one fetcher runs for each."""
    return words(DESTINATIONS)


def approvers() -> tuple[str, ...]:
    """Who may approve a failover. Raises Misconfigured where that is nobody: it never means anybody."""
    if not (found := words(APPROVERS)):
        raise Misconfigured(
            f"no approver is configured: list the users in {APPROVERS} (environment or Airflow Variable)"
        )
    return found


def four_eyes() -> bool:
    """Whether who asks for a failover may not approve it. Raises Misconfigured where it is neither on nor off."""
    found = text(FOUR_EYES) or "on"
    if found not in _SWITCH:
        raise Misconfigured(f"{FOUR_EYES} is {found!r}: it must be on or off")
    return _SWITCH[found]


def evidence() -> Path:
    """Where evidence goes: `evidence` in Airflow's home, where nothing was said."""
    return Path(text(EVIDENCE) or Path(os.environ.get("AIRFLOW_HOME", "~/airflow"), "evidence")).expanduser()
