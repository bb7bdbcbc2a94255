"""What an approver sees, and what is left to do: the route, its hash, and the point of no return."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NewType

from tanist.domain.checks import Mode
from tanist.domain.errors import Misconfigured
from tanist.domain.failover.facts import fence_settled, is_locked
from tanist.domain.names import MirrorName, TopicPartition
from tanist.domain.selection import EVERYTHING
from tanist.domain.states import MirrorState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tanist.domain.failover.facts import Facts
    from tanist.domain.records import FailoverRun

PlanHash = NewType("PlanHash", str)
VERSION: Final = 1
NOT_SHUT_OUT: Final = "MIRROR_CANNOT_BE_SHUT_OUT"
"""The mirror's login keeps WRITE on what takes over; its producer ids are behind the barrier all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIntent:
    """A topic that takes over. `promotion_epoch` is the one it has while it is still a copy."""

    topic: str
    partitions: int
    promotion_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What the approver wants. Unlike the facts it does not move while the runbook runs.

    `without_drain`: partitions that were not being copied when it was planned, so nobody waits for them.
    `without_copy`: partitions that the source had by then and the mirror did not know of, so they stay behind.
    `loss_tolerance`: offsets of the source that may be lost, all partitions.
    `groups`: whose positions are translated, by regular expressions for names: a new group makes no other plan.
    """

    mirror: MirrorName
    mode: Mode
    source_cluster_id: str
    destination_cluster_id: str
    topics: tuple[TopicIntent, ...]
    mirror_id: str = ""
    without_drain: tuple[TopicPartition, ...] = ()
    without_copy: tuple[TopicPartition, ...] = ()
    loss_tolerance: int = 0
    groups: tuple[str, ...] = EVERYTHING

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.topic for each in self.topics)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(each.topic, n) for each in self.topics for n in range(each.partitions))


@dataclass(frozen=True, slots=True, order=True)
class Limitation:
    """A reason against. The name is what an approver accepts; the detail is what they read.

    `blocks`: nobody can accept it. `unknown`: it blocks because it could not be found out, not because it is known.
    `usual`: every failover of its kind has it, or it is bound by a number, so it leaves the verdict GO.
    `about`: what it names, one by one, where an approver accepts no more than that; empty: the name alone.
    """

    name: str
    detail: str = field(compare=False)
    blocks: bool = field(default=False, compare=False)
    unknown: bool = field(default=False, compare=False)
    usual: bool = field(default=False, compare=False)
    about: tuple[str, ...] = field(default=(), compare=False)


# ── the route ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Step:
    """A postcondition with a name. It is done when the world says so, not when a task once succeeded."""

    id: str
    title: str
    holds: Callable[[Intent, Facts], bool] = field(compare=False, repr=False)


def _fenced(intent: Intent, facts: Facts) -> bool:
    seen = list(facts.of(intent.names))
    return len(seen) == len(intent.names) and all(fence_settled(each, intent.mode) for each in seen)


def _drained(intent: Intent, facts: Facts) -> bool:
    if intent.mode is Mode.UNPLANNED:
        return facts.marked("drain")
    waited_for = frozenset(intent.partitions) - frozenset(intent.without_drain)
    return waited_for <= {each.partition for each in facts.partitions if each.drained}


def _producers_fenced(intent: Intent, facts: Facts) -> bool:
    """And where the topic is compacted its barrier was kept from the cleaner: only a mark tells that this was tried."""
    ours = {each.partition: each for each in facts.partitions}
    return facts.marked("kept") and all(at in ours and ours[at].producer_fenced is True for at in intent.partitions)


def _counted(intent: Intent, facts: Facts) -> bool:
    """Removed, counted and stopped: the fence that outlives the barrier."""
    wanted = {each.topic: each.promotion_epoch for each in intent.topics}
    seen = {each.topic for each in facts.of(wanted) if each.removed and each.promotion_epoch > wanted[each.topic]}
    stopped = {each.partition for each in facts.partitions if each.state is MirrorState.STOPPED}
    return seen == set(wanted) and stopped >= set(intent.partitions)


def _restored(intent: Intent, facts: Facts) -> bool:
    return sum(seen.configs_restored is True for seen in facts.of(intent.names)) == len(intent.names)


def _open(intent: Intent, facts: Facts) -> bool:
    """For producers; and the mirror is shut out, where there are rights, or it was accepted that it cannot be."""
    seen = list(facts.of(intent.names))
    shut = facts.destination_authorizer is False or all(each.shut_out is True for each in seen)
    accepted = facts.marked("open") and has_accepted(facts.run, NOT_SHUT_OUT)
    return sum(each.writable is True for each in seen) == len(intent.names) and (shut or accepted)


HOLD = Step("hold", "the mirror is locked: metadata and offset syncs wait", lambda _, facts: is_locked(facts))
FENCE = Step("fence", "producers are blocked at the source, or the source fence is pending", _fenced)
DRAIN = Step("drain", "every record the source can still deliver is copied", _drained)
GROUPS = Step(
    "groups",
    "committed offsets of consumer groups are translated and committed",
    lambda _, facts: facts.marked("groups"),
)
SEAL = Step("seal", "the mirror's producers are fenced for good (the point of no return)", _producers_fenced)
GENERATION = Step("generation", "the promotion is recorded and the topics have left the mirror", _counted)
CONFIGS = Step("configs", "topic configurations match the source", _restored)
OPEN = Step("open", "producers may write at the destination, the mirror may not", _open)
CANARY = Step(
    "canary", "every topic accepted a test transaction, which was aborted", lambda _, facts: facts.marked("canary")
)
MOVERS = Step(
    "movers", "the old source is notified and remaining producers are listed", lambda _, facts: facts.marked("movers")
)

ROUTE: Final = (HOLD, FENCE, DRAIN, GROUPS, SEAL, GENERATION, CONFIGS, CANARY, OPEN, MOVERS)
ROUTES: Final[Mapping[Mode, tuple[Step, ...]]] = MappingProxyType(dict.fromkeys(Mode, ROUTE))


# ── the plan ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole runbook, done steps included: progress must not change what was approved."""

    intent: Intent
    steps: tuple[Step, ...]
    limitations: tuple[Limitation, ...]

    @property
    def canonical_plan(self) -> str:
        """Intent, route and the names of all limitations, as canonical JSON: what an approval binds."""
        names = sorted({each.name for each in self.limitations})
        words = {"v": VERSION, "intent": _plain(self.intent), "steps": _ids(self.steps), "limitations": names}
        about = {each.name: sorted(each.about) for each in self.limitations if each.about}
        return canonical(words | {"about": about} if about else words)

    @property
    def hash(self) -> PlanHash:
        return hash_of(self.canonical_plan)


def canonical(value: object) -> str:
    """JSON with one spelling only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def hash_of(shown: str) -> PlanHash:
    return PlanHash(hashlib.sha256(shown.encode()).hexdigest()[:16])


def _ids(steps: Iterable[Step]) -> list[str]:
    return [step.id for step in steps]


def _plain(intent: Intent) -> dict[str, Any]:
    return {
        "mirror": intent.mirror,
        "mirror_id": intent.mirror_id,
        "mode": intent.mode,
        "clusters": [intent.source_cluster_id, intent.destination_cluster_id],
        "topics": [[each.topic, each.partitions, each.promotion_epoch] for each in intent.topics],
        "without_drain": [[at.topic, at.partition] for at in intent.without_drain],
        "without_copy": [[at.topic, at.partition] for at in intent.without_copy],
        "loss_tolerance": intent.loss_tolerance,
        "groups": list(intent.groups),
    }


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """A plan as it was shown: read back from the words that were hashed."""

    intent: Intent
    steps: tuple[str, ...]
    limitations: frozenset[str]
    about: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """What was named by a limitation, where no more than that was accepted."""

    def accepts(self, limitation: Limitation) -> bool:
        """Whether the approver has accepted it: its name, and everything that it names."""
        if limitation.name not in self.limitations:
            return False
        return limitation.name not in self.about or self.about[limitation.name] >= set(limitation.about)

    @classmethod
    def read(cls, shown: str) -> ApprovedPlan:
        """Raises ValueError, KeyError or TypeError where these are not the words of a plan."""
        found = json.loads(shown)
        stored = found["intent"]
        source, destination = stored["clusters"]
        intent = Intent(
            mirror=MirrorName(stored["mirror"]),
            mirror_id=stored.get("mirror_id", ""),  # an older plan has none
            mode=Mode(stored["mode"]),
            source_cluster_id=source,
            destination_cluster_id=destination,
            topics=tuple(TopicIntent(topic=t, partitions=n, promotion_epoch=g) for t, n, g in stored["topics"]),
            without_drain=tuple(TopicPartition(t, n) for t, n in stored["without_drain"]),
            without_copy=tuple(TopicPartition(t, n) for t, n in stored.get("without_copy", ())),  # nor this
            loss_tolerance=stored["loss_tolerance"],
            groups=tuple(stored.get("groups", EVERYTHING)),  # an older plan has none: it meant all
        )
        about = {name: frozenset(named) for name, named in found.get("about", {}).items()}
        return cls(intent, tuple(found["steps"]), frozenset(found["limitations"]), about)


def plan_of(run: FailoverRun) -> ApprovedPlan | None:
    """What `run` was approved for; None: this version cannot read it."""
    try:
        return ApprovedPlan.read(run.plan_json)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def has_accepted(run: FailoverRun | None, limitation: str) -> bool:
    """Whether that limitation is among those on which `run` was approved."""
    plan = plan_of(run) if run is not None else None
    return plan is not None and limitation in plan.limitations


def past_return(facts: Facts) -> bool:
    """Whether this plan's own run was about to fence the first producer: from here on forward is the only safe way.

    Never because a partition is fenced: that may be another run's work, and this one has fenced no source yet. Nor once
    the run has ended: another run of the plan begins before its point of no return.
    """
    return facts.run is not None and is_locked(facts) and facts.run.no_return


def remaining(intent: Intent, facts: Facts, until: str | None = None) -> tuple[Step, ...]:
    """What is left to do, up to and including the step `until`. Pure, so a run killed anywhere just asks again.

    Raises:
        Misconfigured: the route has no such step.
    """
    steps, asked = ROUTES[intent.mode], asked_for(intent, until)
    if past_return(facts):
        steps = (HOLD, *steps[steps.index(SEAL) :])
    return tuple(step for step in steps if step in asked and not step.holds(intent, facts))


def asked_for(intent: Intent, until: str | None) -> tuple[Step, ...]:
    """The route up to and including the step `until`; None: all of it.

    Raises:
        Misconfigured: the route has no such step.
    """
    steps = ROUTES[intent.mode]
    ids = _ids(steps)
    if until is None:
        return steps
    if until not in ids:
        raise Misconfigured(f"a failover has no step {until!r}: {', '.join(ids)}")
    return steps[: ids.index(until) + 1]
