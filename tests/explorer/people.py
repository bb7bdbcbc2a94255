"""Operators: each deed is a command of the product, as its CLI and the steps of its DAG call it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.names import MirrorPartition
from tanist.usecases.approvals import ApprovalTerms
from tests.explorer import pointed
from tests.explorer.place import DR, TOPICS, Book, Place
from tests.explorer.product import (
    ROUTE,
    STATE_TOPIC,
    Chosen,
    CommandContext,
    FailoverRun,
    MetadataRequest,
    MirrorRequest,
    Mode,
    Selection,
    SyncRequest,
    TanistError,
    Timeouts,
    Tools,
    abort,
    administer,
    create,
    desire,
    fences,
    metadata_sync,
    planning,
    running,
    snapshot,
    sync_locked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.explorer.product import MirrorSpec, OpenMirror, StateView
    from tests.explorer.story import Deed

COMMAND_SECONDS: Final = 120.0
PATIENCE: Final = Timeouts(proof=2.0, drain=60.0, budget=5.0)
EVERYTHING: Final = ".*"
AGAIN_SECONDS: Final = 12.0
TRIES: Final = 4
NOTHING_LEFT: Final = frozenset({
    "NOTHING_FAILED_OVER", "MIRROR_REVERSED", "NOTHING_TO_DECIDE", "NO_UNFINISHED_REVERSAL", "NO_OPEN_TRANSACTIONS",
    "NO_ACLS_TO_DELETE",
})  # fmt: skip
"""Somebody else has done it."""


@dataclass
class Operator:
    """`did`: outcomes of runs that this operator was told, with the spec of the mirror then."""

    place: Place
    name: str
    judge: Callable[[Any], None]
    _hash: str = field(default="")

    def does(self, deed: str, *args: Any) -> None:
        """One command; that it is refused is a fine answer."""
        say = self.place.stage.say
        say(f"begins: {deed} {' '.join(map(str, args))}".rstrip())
        try:
            reported = getattr(self, deed)(*args)
        except TanistError as refused:
            say(f"{deed}: {refused.name}: {refused.reason[:140]}")
        else:
            say(f"{deed}: ok{f' ({reported})' if reported else ''}")

    def all_of(self, deeds: Iterable[Deed]) -> Callable[[], None]:
        """One after the other."""

        def act() -> None:
            for deed in deeds:
                self.does(deed.name, *deed.args)

        return act

    def insists(self, deed: str, *args: Any) -> str:
        """The same again for a while: somebody may hold the lock, or a fence may be owed yet."""
        for _ in range(TRIES):
            try:
                return str(getattr(self, deed)(*args) or "")
            except TanistError as why:
                if why.name in NOTHING_LEFT:
                    return why.name
                self.place.stage.say(f"{deed}: {why.name}: {why.reason[:140]}")
                self.place.clock.wait(AGAIN_SECONDS)
        return str(getattr(self, deed)(*args) or "")

    def follows(self, name: str) -> None:
        """Wait until that person has left, or is frozen for good."""
        while not self.place.stage.is_out(name):
            self.place.clock.wait(1.0)

    # ── failovers ─────────────────────────────────────────────────────────────────────────────────────────────────

    def failover(self, mode: Mode, include: str) -> str:
        """Plan, approve, run."""
        self._approved(mode, include)
        return self._run(self._hash)

    def approves(self, mode: Mode, include: str) -> str:
        """Plan and approve; `go_on` runs it."""
        self._approved(mode, include)
        return self._hash

    def steps(self, mode: Mode, include: str) -> str:
        """Plan, approve, and each step by itself: what the tasks of the DAG call."""
        self._approved(mode, include)
        status = ""
        for step in ROUTE:
            status = self._run(self._hash, until=step.id)
        return status

    def one_step(self, mode: Mode, include: str, step: str) -> str:
        self._hash = self._plan(mode, include)
        return self._run(self._hash, until=step)

    def go_on(self) -> str:
        """Run what is unfinished to its end."""
        found = self._unfinished()
        return self._run(found.plan if found else self._hash)

    def abort(self) -> str:
        run = self._command()
        done = abort.abort(self._clusters(run), self._tools(""), run, "enough")
        return f"{done.record.plan} is {done.record.status}"

    def lift(self, of_promoted: bool) -> str:
        run = self._command()
        if of_promoted:
            self.place.excused |= {topic for topic in TOPICS if self.place.view().promoted(DR, topic)}
        return ", ".join(
            str(each.topic)
            for each in fences.lift(self._clusters(run), run, of_promoted=of_promoted, topics=Selection((".*",)))
        )

    # ── the mirror ────────────────────────────────────────────────────────────────────────────────────────────────

    def pause(self, topic: str) -> None:
        desire.set_desired(DR, Selection((topic,)), desire.paused, self._west(), self._command())

    def resume(self, topic: str) -> None:
        desire.set_desired(DR, Selection((topic,)), desire.resumed, self._west(), self._command())

    def alter(self) -> None:
        fill = 1_000 + round(self.place.stage.now)
        administer.alter(DR, administer.Alteration(max_start_fill=fill), self._west(), self._command())

    def add(self, topic: str) -> None:
        desire.add(
            DR,
            Selection((topic,)),
            self._west(),
            lambda _: self._east(),
            self._command(),
            desire.Accepted(promoted=True),
        )

    def delete(self, abandon: str = "") -> str:
        reported = administer.delete(DR, self._west(), self._command(), abandon=abandon)
        self.place.abandoned |= {each.topic for each in reported.abandoned}
        return f"{len(reported.abandoned)} abandoned"

    def create(self) -> None:
        request = MirrorRequest(mirror=DR, include=tuple(TOPICS), promoted=True)
        create(request, self._east(), self._west(), self._command())

    def recreate(self) -> None:
        """The mirror is deleted, its copies with it, and made again under its name."""
        self.does("delete", "a new life")
        if self.place.spec() is None:
            self.place.wipe_destination()
            self.place.source_returns()
            for topic in sorted(self.place.abandoned):
                self.place.fence_lifted_by_hand(topic)
            self.does("create")
            self.place.clock.wait(8)

    def sync_metadata(self) -> None:
        metadata_sync(MetadataRequest(mirror=DR), self._west(), lambda _: self._east(), self._command())

    def sync_groups(self) -> str:
        run = self._command()
        synced = sync_locked(self._clusters(run), SyncRequest(chosen=Chosen(), prove_seconds=2.0), run)
        return f"{sum(row.committed for row in synced.rows)} committed"

    def rest(self, seconds: float) -> None:
        self.place.clock.wait(seconds)

    # ── a console ─────────────────────────────────────────────────────────────────────────────────────────────────

    def source_dies(self) -> None:
        self.place.source_dies()

    def source_returns(self) -> None:
        self.place.source_returns()

    def lifts_by_hand(self, topic: str) -> None:
        self.place.fence_lifted_by_hand(topic)

    def truncates(self, topic: str) -> None:
        at = next(at for at in self.place.west.ends if at.topic == topic)
        self.place.truncate(MirrorPartition(*at), 3)

    def produces(self, topic: str) -> None:
        for at in [at for at in self.place.east.ends if at.topic == topic]:
            if self.place.source_takes(topic):
                self.place.east.grow(at, 40)

    def adds_partitions(self, topic: str) -> None:
        east = self.place.east
        if not east.dead:
            facts = east.topics[topic]
            east.side().topics.grow(topic, facts.partitions + 1, self.place.clock.deadline(9))

    # ── how ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _command(self) -> CommandContext:
        gone = self.place.stage.is_gone
        return CommandContext(
            clock=self.place.clock,
            by=self.place.clock.deadline(COMMAND_SECONDS),
            holder=self.name,
            is_process_dead=gone,
        )

    def _west(self) -> Any:
        return pointed.side(self.place, self.place.west)

    def _east(self) -> Any:
        return pointed.side(self.place, self.place.east)

    def _spec(self, context: CommandContext) -> MirrorSpec:
        west = self._west()
        return snapshot.spec_of(west.state(STATE_TOPIC, context.by), DR, west.name)

    def _clusters(self, context: CommandContext) -> OpenMirror:
        return pointed.clusters(self.place, self._spec(context), self.name)

    def _tools(self, plan: str) -> Tools:
        sink = self.place.books.setdefault(plan, Book())
        return Tools(patience=PATIENCE, sink=sink, runner=self.name, is_process_dead=self.place.stage.is_gone)

    def _plan(self, mode: Mode, include: str) -> str:
        run = self._command()
        made = planning.plan(planning.FailoverRequest(mode=mode, include=(include,)), self._clusters(run), run)
        return str(made.plan.hash)

    def _approved(self, mode: Mode, include: str) -> None:
        self._hash = self._plan(mode, include)
        run = self._command()
        asked = planning.FailoverRequest(mode=mode, include=(include,))
        planning.approve(self._hash, asked, self._clusters(run), run, terms=ApprovalTerms.of("drill", 3600.0))

    def _run(self, plan: str, until: str | None = None) -> str:
        run = self._command()
        clusters = self._clusters(run)
        outcome = running.run(plan, clusters, self._tools(plan), run, until=until, although_it_answers=True)
        self.judge(outcome.record)
        return f"{plan} is {outcome.record.status}{f' until {until}' if until else ''}"

    def _unfinished(self) -> FailoverRun | None:
        view: StateView = self._west().state(STATE_TOPIC, self._command().by)
        return view.unfinished(DR)
