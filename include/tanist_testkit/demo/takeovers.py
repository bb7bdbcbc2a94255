"""The second act: a planned failover, one that is aborted, and one because the source is dead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import TimedOut
from tanist_testkit.demo.context import ABORTED, FLOWS, MOVING, PLANNED, SEED, STAYING, STORM, DemoContext
from tanist_testkit.demo.members import Member, ReadRecord
from tanist_testkit.demo.outcomes import AbortedRun, Moved, UnplannedResult, absent_from, unplanned_result
from tanist_testkit.demo.runbooks import WEST, Typed, Wanted
from tanist_testkit.verify import clients
from tanist_testkit.verify.reading import LogExtent, bounds, read
from tanist_testkit.verify.traces import Place, total
from tanist_testkit.verify.writing import Load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist_testkit.demo.runbooks import Runbook
    from tanist_testkit.verify.flows import Flow
    from tanist_testkit.verify.traces import Traces

GROUP: Final = "shipping"
READ_BY_GROUP: Final = ("orders", "clicks", "payments")
AT_LEAST: Final = 500
"""Records that producers write before, and again after, each takeover."""
BEFORE_THE_KILL: Final = 8000
TOLERATED: Final = 3 * sum(flow.rate for flow in FLOWS)
"""Offsets that the operator of the unplanned failover is ready to lose: what producers write in three seconds."""
DEAD_CALL_SECONDS: Final = 5.0
SETTLE_SECONDS: Final = 1.5
"""What has not moved for so long after the kill is taken to stand still."""


@dataclass(slots=True)
class Takeovers(DemoContext):
    """Its chapters, in order. The one that is aborted is run by hand, whatever the runbook."""

    runbook: Runbook

    # ── planned ───────────────────────────────────────────────────────────────────────────────────────────────────

    def planned(self) -> Moved:
        with self.screen.step(f"A planned failover of mirror {PLANNED}, under the hands of its producers") as step:
            load = self._writing(self.source, [MOVING], 1)
            plan = self._planned(PLANNED, "planned")
            self.runbook.take_over(_wanted(plan, "east is to be rebuilt", fence_proof=3))
            load.stop(self.soon())
            acknowledged = load.traces()
            absent = absent_from(self._read([MOVING.topic]), acknowledged)
            moved = Moved(
                plan=plan,
                acknowledged=total(acknowledged),
                absent=absent,
                refused=load.refused,
                afterwards=self._written_at_copy([MOVING], 2),
            )
            step.detail = f"{absent} of {moved.acknowledged:,} acknowledged records absent, {load.refused:,} refused"
            return moved

    # ── aborted ───────────────────────────────────────────────────────────────────────────────────────────────────

    def aborted(self) -> AbortedRun:
        with self.screen.step(f"A failover of mirror {ABORTED} is aborted while its fence stands") as step:
            by_hand = Typed(self.screen, self.clock, self.environment, self.tanist)
            before = clients.settings_of(self.source, STAYING.topic)
            rules = clients.rules_of(self.source, STAYING.topic)
            load = self._writing(self.source, [STAYING], 3)
            wanted = _wanted(self._planned(ABORTED, "planned"), "a rehearsal", fence_proof=60)
            by_hand.approve(wanted)
            with by_hand.begun(wanted) as running:
                self._until_refused(load)
                self.tanist.run("failover", "abort", ABORTED, *WEST, "--evidence", str(by_hand.evidence(wanted)))
                self.screen.note(f"the run ended with {running.end()[0]}")
            refused, at_abort = load.refused, load.acknowledged
            load.until(AT_LEAST, self.soon())
            load.stop(self.soon())
            fences = self.tanist.items("fence", "show", ABORTED, *WEST)
            self.tanist.run("mirrors", "wait", ABORTED, "--for", "lag=0", "--timeout", "60s")
            acknowledged = load.traces()
            undone = AbortedRun(
                before=before,
                after=clients.settings_of(self.source, STAYING.topic),
                rules_before=rules,
                rules_after=clients.rules_of(self.source, STAYING.topic),
                refused=refused,
                afterwards=load.acknowledged - at_abort,
                absent=absent_from(self._read([STAYING.topic]), acknowledged),
                acknowledged=total(acknowledged),
                fences=[str(each["status"]) for each in fences],
            )
            step.detail = f"{refused:,} records refused, then {undone.afterwards:,} more taken by the source"
            return undone

    def _until_refused(self, load: Load) -> None:
        by = self.soon()
        while not load.refused and by.left(self.clock.monotonic()):
            self.clock.wait(0.1)

    # ── unplanned ─────────────────────────────────────────────────────────────────────────────────────────────────

    def unplanned(self) -> UnplannedResult:
        topics = [flow.topic for flow in FLOWS]
        with self.screen.step("The source is killed with kill -9, in mid-flight") as step:
            begins = self._ends(topics)
            member, load = self._at_work(begins)
            pids = " ".join(str(broker.pid) for broker in self.environment.source.brokers)
            self.environment.source.kill()
            load.abandon()
            member.stop()
            self.screen.event(f"kill -9 {pids} and their controller: all of east")
            step.detail = f"{load.acknowledged:,} records were acknowledged, group {GROUP!r} had read {member.read:,}"
            self._until_settled(topics)
        with self.screen.step(f"An unplanned failover of mirror {STORM}") as step:
            begun = self.clock.monotonic()
            plan = self._planned(STORM, "unplanned", "--max-loss", str(TOLERATED))
            positions = self.tanist.items("groups", "translate", STORM, *WEST, "--group", GROUP)
            self.runbook.take_over(_wanted(plan, "east is dead", max_loss=TOLERATED))
            step.detail = f"done {self.clock.monotonic() - begun:.0f} s after somebody asked what it would cost"
        with self.screen.step("Producers and consumers go on at the destination; the loss is counted") as step:
            first, afterwards = self._go_on(begins)
            load.stop(self.soon())
            acknowledged, copy = load.traces(), self._read(topics, begins)
            moved = Moved(
                plan=plan,
                acknowledged=total(acknowledged),
                absent=absent_from(copy, acknowledged),
                refused=load.refused,
                afterwards=afterwards,
            )
            step.detail = f"{moved.absent:,} of {moved.acknowledged:,} acknowledged records are absent"
            return self._report(unplanned_result(moved, positions, member.reached, first, acknowledged, copy))

    def _report(self, seen: UnplannedResult) -> UnplannedResult:
        for place, at in sorted(seen.safe.items()):
            first = seen.first[place].offset if place in seen.first else "nothing"
            self.screen.note(f"{GROUP} {place}: read up to {seen.reached[place]}, safe was {at}, went on with {first}")
        self.screen.note(f"{dict(seen.precision)} positions, {seen.again:,} offsets lie between what was read and safe")
        return seen

    def _at_work(self, begins: Mapping[Place, LogExtent]) -> tuple[Member, Load]:
        """Producers and a consumer group in full flight at the source."""
        member = Member(GROUP, self.source, READ_BY_GROUP, self.clock, anew=True)
        member.start()
        member.ready(self.soon())
        load = Load(self.source, FLOWS, self.clock, SEED + 4, call_seconds=DEAD_CALL_SECONDS)
        load.start()
        load.until(BEFORE_THE_KILL, self.soon())
        places = _read_by_group(begins)
        member.until(places, self.soon())
        self._until_known(places)
        return member, load

    def _until_known(self, places: Sequence[Place]) -> None:
        """Returns when west knows where the group stands on each: a commit of the last moment dies with east.

        Raises:
            TimedOut: with those of which it knows nothing.
        """
        by, wanted = self.soon(), {f"group/{STORM}/{GROUP}/{place.topic}/{place.partition}" for place in places}
        while missing := wanted - {item["key"] for item in self._recorded(f"group/{STORM}/{GROUP}/")}:
            if not by.left(self.clock.monotonic()):
                raise TimedOut(f"west knows no position of {', '.join(sorted(missing))}")
            self.clock.wait(0.5)

    def _until_settled(self, topics: Sequence[str]) -> None:
        """Returns when the copy stands still, and what west knows of east: else the plan that is shown is soon another.

        Raises:
            TimedOut: something still moves.
        """
        by = self.soon()
        before: object = None
        while (now := (self._ends(topics), self._recorded(f"ends/{STORM}/"))) != before:
            if not by.left(self.clock.monotonic()):
                raise TimedOut("the copy still moves, though its source is dead")
            before = now
            self.clock.wait(SETTLE_SECONDS)

    def _recorded(self, key: str) -> list[dict[str, Any]]:
        return self.tanist.items("state", "dump", *WEST, "--key", key)

    def _go_on(self, begins: Mapping[Place, LogExtent]) -> tuple[Mapping[Place, ReadRecord], int]:
        """What the group is served first at the destination, and how many records its producers write there."""
        member = Member(GROUP, self.destination, READ_BY_GROUP, self.clock)
        member.start()
        load = self._writing(self.destination, FLOWS, 5)
        member.until(_read_by_group(begins), self.soon())  # while they write: the slowest may not have begun
        load.stop(self.soon())
        member.stop()
        return dict(member.first), load.acknowledged

    # ── what they share ───────────────────────────────────────────────────────────────────────────────────────────

    def _writing(self, bootstrap: str, flows: Sequence[Flow], number: int) -> Load:
        load = Load(bootstrap, flows, self.clock, SEED + number)
        load.start()
        load.until(AT_LEAST, self.soon())
        return load

    def _written_at_copy(self, flows: Sequence[Flow], number: int) -> int:
        load = self._writing(self.destination, flows, number)
        load.stop(self.soon())
        return load.acknowledged

    def _planned(self, mirror: str, mode: str, *more: str) -> dict[str, Any]:
        """A plan that was shown."""
        (plan,) = self.tanist.items("failover", "plan", mirror, *WEST, "--mode", mode, *more)
        cost = plan["forecast"]
        self.screen.note(f"plan {plan['plan_hash']}: {', '.join(step['id'] for step in plan['steps'])}")
        for each in plan["limitations"]:
            self.screen.note(f"accept {each['name']}: {each['detail']}")
        seen, most = f"as seen {cost['age_ms']} ms ago", f"an estimated {cost['estimate']} by now"
        self.screen.note(f"forecast: {cost['offsets_at_risk']} offsets at risk, {seen}, {most}")
        return plan

    def _ends(self, topics: Sequence[str]) -> dict[Place, LogExtent]:
        """Where the copy ends now: as empty logs from there on."""
        logs = self._logs(topics)
        return {place: LogExtent(log.end, log.end) for place, log in logs.items()}

    def _logs(self, topics: Sequence[str]) -> dict[Place, LogExtent]:
        by = self.soon()
        return bounds(self.destination, clients.places(self.destination, topics, by, self.clock), by, self.clock)

    def _read(self, topics: Sequence[str], begins: Mapping[Place, LogExtent] | None = None) -> Traces:
        """The copy from `begins` on, as an ordinary reader sees it."""
        logs = self._logs(topics)
        wanted = {
            place: LogExtent(begins[place].start if begins else log.start, log.end) for place, log in logs.items()
        }
        return read(self.destination, wanted, committed=True, by=self.soon(), clock=self.clock)


def _wanted(plan: Mapping[str, Any], reason: str, **more: int) -> Wanted:
    return Wanted(mirror=plan["mirror"], plan=plan["plan_hash"], mode=plan["mode"], reason=reason, **more)


def _read_by_group(places: Mapping[Place, LogExtent]) -> list[Place]:
    return [place for place in places if place.topic in READ_BY_GROUP]
