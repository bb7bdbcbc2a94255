"""What is known of a mirror when somebody asks what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.answers import attempt
from tanist.domain.approval.choosing import choose, time_objections
from tanist.domain.approval.entries import approvals
from tanist.domain.checks import Mode, Verdict
from tanist.domain.deletion import SourceTopicDeleted
from tanist.domain.errors import TanistError
from tanist.domain.failover.kept_plans import kept_plan
from tanist.domain.failover.limitations import BEYOND_TOLERANCE
from tanist.domain.failover.objections import news
from tanist.domain.failover.plan import ApprovedPlan
from tanist.domain.names import EpochMs
from tanist.domain.states import DesiredState, MirrorState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.approval.entries import Entry
    from tanist.domain.circle import MirrorPlace, PendingReversal
    from tanist.domain.detached_record import TopicDetached
    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.health import Status
    from tanist.domain.failover.plan import Intent
    from tanist.domain.lag import PartitionRow
    from tanist.domain.limitation import Limitation
    from tanist.domain.records import FailoverRun
    from tanist.domain.state_view import StateView
    from tanist.domain.tails import PendingTail, TailFinding


_NEVER: Final = EpochMs(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPlan:
    """The plan of a failover that is kept, has not been run, and covers what is so now. `at`: when it was made."""

    plan: str
    intent: Intent
    at: EpochMs
    approved: bool

    @property
    def mode(self) -> Mode:
        return self.intent.mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Abortable:
    """Transactions that are open at the old source. `plan`: of the abort; `approved`: nobody has to approve it."""

    plan: str
    approved: bool
    producers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """What the old source says to a way back now; asked only where it is next.

    `plan`: the hash of the plan of the reversal; empty: there is none, and `problem` says why. `approved`: nobody has
    to approve it. `recreated`: topics that cannot return as they are, and are copied again by it. `limitations`: of it.
    `survey_again`: the survey on record does not fit any more. `open`: transactions that keep a survey from being
    final.
    """

    plan: str = ""
    approved: bool = False
    recreated: tuple[str, ...] = ()
    limitations: tuple[Limitation, ...] = ()
    problem: str = ""
    survey_again: bool = False
    open: Abortable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSituation:
    """One mirror, as its destination has it. `destination`: the name by which commands reach that.

    `source_answers`: or a part of it. `source_gone`: it was asked, and is silent; not one that is not configured here.
    `rows`: of mirrored partitions. `waiting`: the newest plan first. `at_work`: a process works at the unfinished
    failover. `void`: the approval of that failover does not permit any more what is left of it. `pending_fences`:
    source fences are left to a fetcher, which sets or lifts them. `decided`: the hash of an approved decision about
    tails that is to be carried out; empty: there is none. `detached`: topics. `way_back`: None: nobody has asked the
    old source. `four_eyes`: no command approves what it runs. `rewound`: groups that were set back at the source, of
    which a person decides. `now`: ms since 1970.
    """

    place: MirrorPlace
    destination: str
    status: Status
    source_answers: bool
    source_gone: bool = False
    rows: tuple[PartitionRow, ...] = ()
    waiting: tuple[WaitingPlan, ...] = ()
    at_work: bool = False
    void: bool = False
    pending_fences: bool = False
    reversal: PendingReversal | None = None
    tails: tuple[PendingTail, ...] = ()
    findings: tuple[TailFinding, ...] = ()
    decided: str = ""
    detached: tuple[TopicDetached, ...] = ()
    way_back: WayBack | None = None
    four_eyes: bool = False
    rewound: tuple[str, ...] = ()
    now: EpochMs = _NEVER

    @property
    def source_name(self) -> str:
        return self.place.spec.source if self.place.spec is not None else "the source"

    @property
    def failing(self) -> frozenset[str]:
        """The names of the checks that do not pass."""
        return frozenset(each.name for each in self.status.checks if each.verdict is not Verdict.PASS)

    @property
    def reported_ms(self) -> int | None:
        """How long ago a worker has reported itself; None: no worker is on record."""
        return next((each.age_ms for each in self.status.checks if each.name == "workers"), None)

    @property
    def source_is_down(self) -> bool:
        """Whether a planned failover is impossible because the source, or a part of it, does not answer.

        Not while a leader moves, which passes.
        """
        found = (each for each in self.status.limitations[Mode.PLANNED] if each.name == "SOURCE_DOWN")
        return any(not each.momentary for each in found)

    def limited(self, mode: Mode) -> tuple[Limitation, ...]:
        """What an approver would have to accept, or cannot."""
        return tuple(each for each in self.status.limitations[mode] if not each.usual)

    def paused(self) -> tuple[str, ...]:
        """The topics that a person has paused, or that a restoration has left so, by name."""
        found = (each for each in self.rows if each.desired is DesiredState.PAUSED)
        return tuple(sorted({each.partition.topic for each in found}))

    def failed(self) -> dict[str, tuple[str, str]]:
        """Of the topics with a FAILED partition: the name of the error of the first one, and its reason."""
        found: dict[str, tuple[str, str]] = {}
        for row in self.rows:
            seen = row.observed
            if row.state is MirrorState.FAILED and seen is not None and not row.resume_requested:
                found.setdefault(row.partition.topic, (seen.error or "", seen.reason))
        return found

    def deleted_at_source(self) -> tuple[str, ...]:
        """The topics of which a worker has found that the source has them no more, by name."""
        gone = (row for row in self.rows if row.observed is not None and row.observed.error == SourceTopicDeleted.name)
        return tuple(sorted({row.partition.topic for row in gone}))


def waiting_plans(
    view: StateView, place: MirrorPlace, facts: Facts, entries: Sequence[Entry], route: tuple[str, ...]
) -> Iterator[WaitingPlan]:
    """The kept plans that cover `facts` and have not been run, the newest first.

    `entries`: of the approvers' topic. `route`: the step ids of this version.
    """
    if (spec := place.spec) is None:
        return
    runs = view.failovers(spec.mirror)
    for each in sorted(view.kept_plans(spec.mirror), key=lambda each: -each.at):
        kept = kept_plan(view, spec, each.plan, facts.now)
        words = None if kept is None else _read(kept.plan_json)
        if words is None or words.steps != route or news(words, facts):
            continue
        if words.intent.destination_cluster_id != spec.destination_cluster_id:
            continue
        found = attempt(lambda plan=each.plan: choose(entries, runs, spec.mirror, plan))  # type: ignore[misc]
        stands = not isinstance(found, TanistError) and not time_objections(found, facts.now, None)
        if not stands and any(run.plan == each.plan for run in runs):
            continue  # it has been run
        yield WaitingPlan(plan=each.plan, intent=words.intent, at=each.at, approved=stands)


def _read(words: str) -> ApprovedPlan | None:
    try:
        return ApprovedPlan.read(words)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def is_void(run: FailoverRun, entries: Sequence[Entry], facts: Facts, *, source_gone: bool) -> bool:
    """Whether the approval of an unfinished run permits no further step; where it cannot be read: False.

    More that is at risk than is tolerated is approved by another plan only. Behind the point of no return nobody asks
    for the approval any more.
    """
    if run.no_return:
        return False
    words, own = _read(run.plan_json), next((each for each in approvals(entries) if each.id == run.approval), None)
    needs_source = words is not None and words.intent.mode is Mode.PLANNED
    beyond = words is not None and any(each.name == BEYOND_TOLERANCE for each in news(words, facts))
    late = own is not None and bool(time_objections(own, facts.now, None))
    return (needs_source and source_gone) or beyond or late
