"""The route of a failover, one row a step: what it is called, what is true afterwards, and what makes it so.

`tanist failover run`, the command line and the DAG's tasks read this table; there is no other list of steps. A new step
is a row here, a postcondition in the domain and a module in `steps`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tanist.domain.failover import invariants as after
from tanist.domain.failover.facts import Facts
from tanist.domain.failover.plan import Intent, past_return
from tanist.usecases.failover.step import StepContext, Undoing
from tanist.usecases.failover.steps import (
    configs,
    drain,
    fence,
    fence_producers,
    groups,
    lock_mirror,
    notify_source,
    opening,
    record_promotion,
)
from tanist.usecases.runs.runner import Done, RunRow, RunTable

Step: TypeAlias = RunRow[StepContext, Undoing, Done, Intent, Facts]

ROUTE: Final[RunTable[StepContext, Undoing, Done, Intent, Facts]] = RunTable(
    "a failover",
    (
        RunRow("hold", "the mirror is locked: metadata and offset syncs wait", lock_mirror.do, holds=after.locked),
        RunRow(
            "fence",
            "producers are blocked at the source, or the source fence is pending",
            fence.do,
            fence.undo,
            after.fenced,
        ),
        RunRow("drain", "every record the source can still deliver is copied", drain.do, holds=after.drained),
        RunRow(
            "groups",
            "committed offsets of consumer groups are translated and committed",
            groups.do,
            holds=after.translated,
        ),
        RunRow(
            "seal",
            "the mirror's producers are fenced for good (the point of no return)",
            fence_producers.do,
            holds=after.producers_fenced,
        ),
        RunRow(
            "generation",
            "the promotion is recorded and the topics have left the mirror",
            record_promotion.do,
            holds=after.promoted,
        ),
        RunRow("configs", "topic configurations match the source", configs.do, holds=after.configured),
        RunRow(
            "canary", "every topic accepted a test transaction, which was aborted", opening.probe, holds=after.probed
        ),
        RunRow("open", "producers may write at the destination, the mirror may not", opening.do, holds=after.opened),
        RunRow(
            "movers",
            "the old source is notified and remaining producers are listed",
            notify_source.do,
            holds=after.notified,
        ),
    ),
    no_return="seal",
    is_past=lambda _, facts: past_return(facts),
)
STEP_IDS: Final = ROUTE.ids
GROUPS: Final = ROUTE.row("groups")
"""Until the point of no return every call does it again: consumers of the source are not fenced."""
