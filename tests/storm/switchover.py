"""The commands of one way round the circle, in the order of the runbook, each until it has done its work."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.storm.persistence import AnotherPlan, Persistence, Stuck

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from tanist.ports.clock import Deadline

MIRROR: Final = "circle"
TOLERATED: Final = 1_000_000
"""Offsets that an unplanned failover may lose: what of them holds a record is rescued."""
DECISION: Final = ("--replay", "safe", "--drop", "conflict", "--drop", "unordered", "--drop", "expired")
QUICK: Final = ("--fence-proof", "1s", "--drain", "60s", "--budget", "2s", "--timeout", "100s", "--although-it-answers")
_LIMIT: Final = ("--timeout", "100s")
_SURVEYED: Final = frozenset({0, 1, 3})
_REFUSED_TOO: Final = frozenset({0, 1, 3})
_UNFINISHED_TOO: Final = frozenset({0, 4})
_PAUSE_SECONDS: Final = 1.0


@dataclass(slots=True)
class Switchover:
    """From `old` to `new`, names of clusters, and the way back of what only `old` has."""

    operator: Persistence
    old: str
    new: str
    evidence: Path
    by: Deadline
    may_be_reused: frozenset[str] = frozenset()
    """Partitions whose offsets may name two records, as the failover said."""

    @property
    def _at(self) -> tuple[str, str]:
        """Where the state of the mirror is until it is reversed."""
        return ("--destination", self.new)

    def planned(self) -> None:
        """Under its producers."""
        self._fail_over("--mode", "planned")

    def unplanned(self) -> None:
        """`old` is dead."""
        self._fail_over("--mode", "unplanned", "--max-loss", str(TOLERATED))

    def _fail_over(self, *how: str) -> None:
        blocked = ""
        while True:
            try:
                plan = self._running() or self._approved(*how)
                if plan and self._run(plan):
                    return
            except AnotherPlan as why:
                blocked = str(why)
                self.operator.once("failover", "abort", MIRROR, *self._at, "--reason", "another plan")
            self._pause(f"nothing can be failed over: {blocked}")

    def _running(self) -> str:
        """The plan of the run that is not finished."""
        found = self.operator.ask("failover", "status", MIRROR, *self._at, accepted=_UNFINISHED_TOO)
        return next((str(run["plan_hash"]) for run in found if run["status"] == "RUNNING"), "")

    def _approved(self, *how: str) -> str:
        """Empty: there is no plan that can be run yet."""
        found = self.operator.ask("failover", "plan", MIRROR, *self._at, *how, accepted=_REFUSED_TOO)
        if not found or any(each["blocks"] for each in found[0]["limitations"]):
            blocking = [each for plan in found for each in plan["limitations"] if each["blocks"]]
            self.operator.tell(f"not yet: {blocking}")
            return ""
        plan = str(found[0]["plan_hash"])
        approval = ("failover", "approve", MIRROR, plan, *self._at, *how, "--reason", "storm")
        return plan if self.operator.once(*approval).code == 0 else ""

    def _run(self, plan: str) -> bool:
        kept = ("--evidence", str(self.evidence / plan))
        (record,) = self.operator.do("failover", "run", MIRROR, *self._at, "--plan", plan, *QUICK, *kept)
        self.may_be_reused = frozenset((*record["may_be_reused"], *record["reserve_estimated"]))
        return bool(record["status"] == "DONE")

    # ── the old source has returned ───────────────────────────────────────────────────────────────────────────────

    def surveyed(self) -> list[dict[str, Any]]:
        """Returns when the old source can get no more records."""
        while True:
            found = self.operator.ask("failback", "survey", "--no-rescue", MIRROR, *self._at, accepted=_SURVEYED)
            if found and all(each["final"] for each in found):
                return found
            open_ones = [
                f"{each['topic']}-{each['partition']}: {each['reason']}" for each in found if not each["final"]
            ]
            self._pause(f"the survey is not final: {open_ones[:2]}")

    def rescued(self) -> list[dict[str, Any]]:
        """The partitions, as they are in quarantine."""
        return self.operator.do("failback", "rescue", MIRROR, *self._at, *self._manifest, *_LIMIT)

    def replayed(self, rescued: Sequence[Mapping[str, Any]]) -> int:
        """So many records were appended again."""
        if not any(each["rescued"] for each in rescued):
            return 0
        while True:
            try:
                (plan,) = self.operator.ask("failback", "decide", MIRROR, *self._at, *DECISION, *_LIMIT)
                wanted = ("failback", "approve", MIRROR, plan["plan_hash"], *self._at, *DECISION, *_LIMIT)
                self.operator.ask(*wanted, "--reason", "storm")
                replay = ("failback", "replay", MIRROR, *self._at, "--plan", plan["plan_hash"], *self._manifest)
                (done,) = self.operator.do(*replay, *_LIMIT)
                return sum(each["replayed"] for each in done["tails"])
            except AnotherPlan as why:
                self._pause(f"nothing can be replayed: {why}")

    @property
    def _manifest(self) -> tuple[str, str]:
        return ("--evidence", str(self.evidence / f"rescue-from-{self.old}-{id(self)}"))

    def reverse(self, again: Collection[str]) -> None:
        """Afterwards the mirror's state is at the old source. `again`: the topics that are copied again."""
        recreated = ("--recreate", "|".join(sorted(again))) if again else ()
        command = ("mirrors", "reverse", MIRROR, *self._at, *recreated)
        while True:
            try:
                (plan,) = self.operator.ask(*command, "--dry-run")
                self.operator.ask(*command, "--approve", plan["plan_hash"], "--reason", "storm")
                self.operator.do(*command)
            except AnotherPlan as why:
                self._pause(f"the mirror cannot be reversed: {why}")
            else:
                return

    def wait(self, goal: str, by: Deadline) -> None:
        """For the reversed mirror."""
        self.by = by
        at = ("--destination", self.old)
        while self.operator.once("mirrors", "wait", MIRROR, *at, "--for", goal, "--timeout", "200s").code:
            self._pause(f"{goal} is not reached")

    def _pause(self, late: str) -> None:
        """Raises Stuck when it is too late."""
        if not self.by.left(time.monotonic()):
            raise Stuck(late)
        time.sleep(_PAUSE_SECONDS)  # noqa: TID251
