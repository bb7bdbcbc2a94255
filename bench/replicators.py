"""What copies a topic in a benchmark, and how it is started."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bench import mm2_run, tanist_run
from bench.pair import DESTINATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.load import Load
    from bench.pair import Pair
    from tanist_testkit.sandbox.processes import Process


@dataclass(frozen=True, slots=True)
class Replicator:
    """`copy_of`: what it calls the copy of a topic. `markers`: the copy has those of transactions, too."""

    name: str
    start: Callable[[Pair, Load], Process]
    copy_of: Callable[[str], str]
    markers: bool = False


IDENTICAL: Final = Replicator(tanist_run.NAME, tanist_run.start, tanist_run.copy_of)
MAPPED: Final = Replicator(
    "tanist mapped",
    partial(tanist_run.start, options=("--offsets", "mapped")),
    tanist_run.copy_of,
    markers=True,
)
MM2: Final = Replicator(mm2_run.NAME, mm2_run.start, mm2_run.copy_of)
MM2_EXACTLY_ONCE: Final = Replicator(
    "MM2 exactly once",
    partial(
        mm2_run.start,
        more=MappingProxyType(
            {
                f"{DESTINATION}.exactly.once.source.support": "enabled",
                "dedicated.mode.enable.internal.rest": "true",  # Connect's workers tell each other to end transactions
                "listeners": "http://127.0.0.1:0",
            }
        ),
    ),
    mm2_run.copy_of,
    markers=True,
)
"""With the default `transaction.boundary`: one transaction for each poll of a task."""
