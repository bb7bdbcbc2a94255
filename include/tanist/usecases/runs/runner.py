"""How something that was approved is run: by a table of rows, each of them reported as it is done.

What can be put back is put back by the same table, backwards. A run tells its evidence, and whoever watches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar, TypeVarTuple

from tanist.domain.approval.words import canonical
from tanist.domain.errors import Misconfigured, TanistError, TimedOut
from tanist.domain.failover.evidence import Evidence, as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tanist.domain.approval.entries import Approval
    from tanist.domain.failover.facts import Facts
    from tanist.ports.clock import Clock

C = TypeVar("C")
U = TypeVar("U")
D = TypeVar("D")
Seen = TypeVarTuple("Seen")


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RunRow(Generic[C, U, D, *Seen]):
    """`title`: what is true once the row is done. `act` makes it so, and can be done again after a kill.

    `undo` puts back what `act` has changed, all or a part of it; None: that cannot be put back, or need not be.
    `holds`: the postcondition, a pure function of what is seen; None: `act` looks for itself at what is left to do.

    `C` and `U`: what `act` and `undo` are given. `D`: what `act` returns. `Seen`: what `holds` is given.
    """

    id: str
    title: str
    act: Callable[[C], D] = field(compare=False, repr=False)
    undo: Callable[[U], None] | None = field(default=None, compare=False, repr=False)
    holds: Callable[[*Seen], bool] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RunTable(Generic[C, U, D, *Seen]):
    """`name`: of what is run, with its article. `no_return`: id of the row that passes the point of no return.

    `is_past`: whether that point is passed, by what is seen; None: whoever runs the table finds out.

    Raises:
        ValueError: two rows have one id, no row has that of `no_return`, or this row or one behind it can be undone.
    """

    name: str
    rows: tuple[RunRow[C, U, D, *Seen], ...]
    no_return: str
    is_past: Callable[[*Seen], bool] | None = None

    def __post_init__(self) -> None:
        if len({*self.ids}) < len(self.rows):
            raise ValueError(f"{self.name} has several rows of one id: {', '.join(self.ids)}")
        if back := [row.id for row in self._from_no_return() if row.undo is not None]:
            raise ValueError(f"{self.name} cannot undo {', '.join(back)} behind its point of no return")

    def __iter__(self) -> Iterator[RunRow[C, U, D, *Seen]]:
        return iter(self.rows)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(row.id for row in self.rows)

    def row(self, row_id: str) -> RunRow[C, U, D, *Seen]:
        """Raises ValueError: there is none of this id."""
        return self.rows[self.ids.index(row_id)]

    def _from_no_return(self) -> tuple[RunRow[C, U, D, *Seen], ...]:
        return self.rows[self.ids.index(self.no_return) :]

    def up_to(self, until: str | None) -> tuple[RunRow[C, U, D, *Seen], ...]:
        """The rows up to and including `until`; None: all of them.

        Raises:
            Misconfigured: there is no such row.
        """
        if until is None:
            return self.rows
        if until not in self.ids:
            raise Misconfigured(f"{self.name} has no step {until!r}: {', '.join(self.ids)}")
        return self.rows[: self.ids.index(until) + 1]

    def remaining(self, *seen: *Seen, until: str | None = None) -> tuple[RunRow[C, U, D, *Seen], ...]:
        """The rows that are left to do, up to and including `until`. Pure, so a run killed anywhere just asks again.

        Behind the point of no return forward is the only safe way: what lies before it is not looked at any more.

        Raises:
            Misconfigured: there is no row `until`.
        """
        rows = self._from_no_return() if self.is_past is not None and self.is_past(*seen) else self.rows
        wanted = self.up_to(until)
        return tuple(row for row in rows if row in wanted and (row.holds is None or not row.holds(*seen)))

    def left(self, *seen: *Seen) -> tuple[str, ...]:
        """The ids of all rows that are left to do."""
        return tuple(row.id for row in self.remaining(*seen))

    def put_back(self, context: U) -> None:
        """Undo the last row first, whether it has been done or not."""
        for row in reversed(self.rows):
            if row.undo is not None:
                row.undo(context)


# ── the journal ───────────────────────────────────────────────────────────────────────────────────────────────────


class Sink(Protocol):
    def flush(self, evidence: Evidence) -> None:
        """Write all of it, atomically."""
        ...

    def before(self) -> Evidence | None:
        """What an earlier run of the same plan has left; None: nothing."""
        ...


class NoSink:
    """For runs whose evidence nobody keeps."""

    def flush(self, evidence: Evidence) -> None: ...

    def before(self) -> Evidence | None:
        return None


def _kept_by_nobody(_plan: str) -> Sink:
    return NoSink()


BEGINS: Final = "begins"
DONE: Final = "done"
NOT_YET: Final = "not yet"
STOPPED: Final = "stopped"
UNDONE: Final = "undone"


def report_to_nobody(_step: str, _what: str, _reason: str) -> None:
    """For runs that nobody watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporting:
    """Where a run reports. `sink_of`: keeps the evidence of the plan with that hash.

    `listener`: hears of each step what becomes of it, and why, where there is a reason.
    """

    sink_of: Callable[[str], Sink] = field(default=_kept_by_nobody)
    listener: Callable[[str, str, str], None] = field(default=report_to_nobody)


UNREPORTED: Final = Reporting()


@dataclass(slots=True, kw_only=True)
class Journal:
    """Events are added to `evidence` and flushed at once; people hear what they have not heard yet."""

    sink: Sink
    listener: Callable[[str, str, str], None]
    clock: Clock
    evidence: Evidence
    _heard: dict[str, tuple[str, str]] = field(default_factory=dict)
    _hindrance: tuple[str, str] = ("", "")

    def report(self, step: str, what: str, detail: Mapping[str, Any], *, seconds: float = 0, waited: float = 0) -> None:
        """Add an event to the evidence, and flush it. `seconds`: it took; `waited`: of these, for a proof alone."""
        self.evidence = self.evidence.adding(self.clock.now(), step, what, detail, seconds=seconds, waited=waited)
        self.sink.flush(self.evidence)
        heard, reason = self._heard.get(step), str(detail.get("reason", ""))
        if (what, reason) == heard or (what == BEGINS and heard is not None and heard[0] == NOT_YET):
            return
        self._heard[step] = what, reason
        self.listener(step, what, reason)

    def hindered_by(self, step: str, why: TanistError) -> None:
        """`step` is not done, and will be tried again: what is in its way is kept, rather than that time was short."""
        self.report(step, NOT_YET, {"reason": str(why)})
        if not isinstance(why, TimedOut) or not self.hindrance(step):
            self._hindrance = step, str(why)

    def hindrance(self, step: str) -> str:
        """What was in the way of `step` when it was tried last; empty: nothing, or it was not tried."""
        tried, why = self._hindrance
        return why if tried == step else ""


def add_event(sink: Sink, clock: Clock, step: str, what: str, detail: Mapping[str, Any]) -> None:
    """Add an event to the evidence of a run that has ended; nothing, if it is not there or says so already."""
    found = sink.before()
    if found is None:
        return
    last = next((each for each in reversed(found.events) if each.step == step), None)
    if last is None or last.what != DONE:
        sink.flush(found.adding(clock.now(), step, what, detail))


class Recorded(Protocol):
    """A run as it is on record. `plan_json`: the plan, word for word."""

    @property
    def mirror(self) -> str: ...
    @property
    def plan(self) -> str: ...
    @property
    def plan_json(self) -> str: ...
    @property
    def approval(self) -> str: ...
    @property
    def approver(self) -> str: ...


class Unrecorded(NamedTuple):
    """A run that leaves no record but its approval, because it may be run again at any time."""

    mirror: str
    plan: str
    plan_json: str
    approval: str
    approver: str

    @classmethod
    def of(cls, approval: Approval) -> Self:
        return cls(approval.mirror, approval.plan, approval.plan_json, approval.id, approval.approver)


def open_evidence(sink: Sink, record: Recorded, head: Mapping[str, Any]) -> Evidence:
    """What an earlier process of this run has left, or a new book that begins with `head` and the run's approval.

    A run of the same plan on an earlier approval, which was aborted, is another run: its book is kept whole in the head
    of ours, as `earlier`, because ours takes its place.
    """
    found = sink.before()
    if found is not None and found.approval == record.approval:
        return found
    approval = {"id": record.approval, "by": record.approver}
    new = {"mirror": record.mirror, "plan_hash": record.plan, "approval": approval, **head, "plan": record.plan_json}
    return Evidence(head=canonical(new if found is None else new | {"earlier": json.loads(as_json(found))}))


# ── the rows ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Done:
    """What a row has to show for itself. `waited`: seconds that only waited for a proof.

    `facts`: of the look with which the row ended; None: it did not end with one.
    """

    detail: Mapping[str, Any]
    waited: float = 0.0
    facts: Facts | None = None


NOTHING_MORE: Final[Mapping[str, Any]] = {}


def at_no_point(_point: str) -> None:
    """The checkpoint of runs that no test stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRunner:
    """One call of a run. `checkpoint` is told every point where a crash would be inconvenient."""

    journal: Journal
    clock: Clock
    checkpoint: Callable[[str], None] = field(default=at_no_point)

    @classmethod
    def of(cls, record: Recorded, to: Reporting, clock: Clock, head: Mapping[str, Any] = NOTHING_MORE) -> Self:
        """Of a run on record. Its evidence is continued, or begins here with `head`, the plan and its approval."""
        sink = to.sink_of(record.plan)
        evidence = open_evidence(sink, record, head)
        sink.flush(evidence)
        return cls(journal=Journal(sink=sink, listener=to.listener, clock=clock, evidence=evidence), clock=clock)

    def attempt(self, row: RunRow[C, U, D, *Seen], context: C) -> D:
        """Do a row; what it returns. Raises what it raises: the caller says what becomes of it."""
        self.journal.report(row.id, BEGINS, {})
        self.checkpoint(f"before:{row.id}")
        began = self.clock.monotonic()
        done = row.act(context)
        seconds = self.clock.monotonic() - began
        self.checkpoint(f"after:{row.id}")
        detail, waited = (done.detail, done.waited) if isinstance(done, Done) else ({}, 0.0)
        self.journal.report(row.id, DONE, detail, seconds=seconds, waited=waited)
        return done

    def do(
        self, table: RunTable[C, U, D, *Seen], context: C, *, after: str | None = None, until: str | None = None
    ) -> None:
        """The rows behind `after`, up to and including `until`, in order; None: from the first, to the last.

        Raises what a row raises.
        """
        done = () if after is None else table.up_to(after)
        for row in table.up_to(until)[len(done) :]:
            try:
                self.attempt(row, context)
            except TanistError as why:
                self.journal.report(row.id, STOPPED, {"reason": str(why)})
                raise
