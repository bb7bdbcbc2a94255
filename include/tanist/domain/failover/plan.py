"""What an approver sees: intent, route and limitations, bound by a hash; and the point of no return."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.approval.words import canonical, hash_of
from tanist.domain.checks import Mode
from tanist.domain.failover.facts import is_locked
from tanist.domain.names import MirrorName, MirrorPartition, SourcePartition
from tanist.domain.selection import EVERYTHING, Selection
from tanist.domain.states import DesiredState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.approval.words import PlanHash
    from tanist.domain.failover.facts import Facts
    from tanist.domain.limitation import Limitation
    from tanist.domain.names import EpochMs
    from tanist.domain.records import FailoverRun, TopicDesired
    from tanist.domain.state_view import StateView


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRequest:
    """Which failover. `loss_tolerance`: offsets that may be lost; None: what is forecast now.

    `groups`: whose positions are translated, by regular expressions for whole names. `reserve`, `dead_since`: as in
    `Intent`; a planned failover has neither. `reserve` None: DEFAULT_RESERVE. `reverse`: as in `Intent`.
    """

    mode: Mode = Mode.PLANNED
    include: tuple[str, ...] = EVERYTHING
    exclude: tuple[str, ...] = ()
    loss_tolerance: int | None = None
    groups: tuple[str, ...] = EVERYTHING
    reserve: int | None = None
    dead_since: EpochMs | None = None
    reverse: bool = False

    @property
    def topics(self) -> Selection:
        """Which topics, of those that are in the mirror."""
        return Selection(self.include, self.exclude)


VERSION: Final = 1
NOT_DRAINED: Final = "SOURCE_NOT_DRAINED"
"""An unplanned failover waits for no source, whether it answers, partly, or not at all."""
_EARLIER_SOURCE: Final = frozenset({"SOURCE_ALIVE", "SOURCE_UNREACHABLE", "SOURCE_PARTLY_DOWN"})
"""What earlier versions said instead, depending on what the source answered."""
NOT_SHUT_OUT: Final = "MIRROR_CANNOT_BE_SHUT_OUT"
"""The mirror's login keeps WRITE on what takes over; its producer ids are behind the barrier all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIntent:
    """A topic that takes over. `promotion_epoch` is the one it has while it is still a copy.

    `source_id`, `copy_id`: topic ids, as a name can be used again; empty: brokers older than 2.8 do not tell them, and
    an older plan does not say.
    """

    topic: str
    partitions: int
    promotion_epoch: int = 0
    source_id: str = ""
    copy_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What the approver wants. Unlike the facts it does not move while the runbook runs.

    `without_drain`: partitions that were not being copied when it was planned, so nobody waits for them.
    `without_copy`: partitions that the source had by then and the mirror did not know of, so they stay behind.
    `loss_tolerance`: offsets of the source that may be lost, all partitions.
    `groups`: whose positions are translated, by regular expressions for names: a new group makes no other plan.
    `reserve`: offsets that each leader may spend on the reserve of an unplanned failover. `dead_since`: when the source
    accepted its last record, as the operator attests; None: not attested.
    `reverse`: once it is done the mirror is reversed, so that it copies to its old source; planned failovers only.
    `whole`: these were all topics of the mirror when it was planned, so one that comes later is missing; a plan of some
    leaves the others on purpose. None: an older plan does not say.
    """

    mirror: MirrorName
    mode: Mode
    source_cluster_id: str
    destination_cluster_id: str
    topics: tuple[TopicIntent, ...]
    mirror_id: str = ""
    without_drain: tuple[MirrorPartition, ...] = ()
    without_copy: tuple[SourcePartition, ...] = ()
    loss_tolerance: int = 0
    groups: tuple[str, ...] = EVERYTHING
    whole: bool | None = None
    reserve: int = 0
    dead_since: EpochMs | None = None
    reverse: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.topic for each in self.topics)

    @property
    def partitions(self) -> tuple[MirrorPartition, ...]:
        return _all_partitions(self.topics)


@lru_cache(maxsize=16)
def _all_partitions(topics: tuple[TopicIntent, ...]) -> tuple[MirrorPartition, ...]:
    """Each judgement asks two dozen times, of thousands of partitions."""
    return tuple(MirrorPartition(each.topic, n) for each in topics for n in range(each.partitions))


# ── the plan ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole runbook, done steps included: progress must not change what was approved. `steps`: ids of the route."""

    intent: Intent
    steps: tuple[str, ...]
    limitations: tuple[Limitation, ...]

    @property
    def canonical_plan(self) -> str:
        """Intent, route and the names of all limitations, as canonical JSON: what an approval binds."""
        names = sorted({each.name for each in self.limitations})
        words = {"v": VERSION, "intent": _plain(self.intent), "steps": list(self.steps), "limitations": names}
        about = {each.name: sorted(each.about) for each in self.limitations if each.about}
        return canonical(words | {"about": about} if about else words)

    @property
    def hash(self) -> PlanHash:
        return hash_of(self.canonical_plan)


def _plain(intent: Intent) -> dict[str, Any]:
    words = {
        "mirror": intent.mirror,
        "mirror_id": intent.mirror_id,
        "mode": intent.mode,
        "clusters": [intent.source_cluster_id, intent.destination_cluster_id],
        "topics": [[each.topic, each.partitions, each.promotion_epoch] for each in intent.topics],
        "without_drain": [[at.topic, at.partition] for at in intent.without_drain],
        "without_copy": [[at.topic, at.partition] for at in intent.without_copy],
        "loss_tolerance": intent.loss_tolerance,
        "groups": list(intent.groups),
        "whole": intent.whole,
    }
    if ids := {each.topic: [each.source_id, each.copy_id] for each in intent.topics if each.source_id or each.copy_id}:
        words |= {"topic_ids": ids}
    if intent.mode is Mode.UNPLANNED:
        words |= {"reserve": intent.reserve, "dead_since": intent.dead_since}
    return words | {"reverse": True} if intent.reverse else words


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
        ids = stored.get("topic_ids", {})  # an older plan has none
        intent = Intent(
            mirror=MirrorName(stored["mirror"]),
            mirror_id=stored.get("mirror_id", ""),  # an older plan has none
            mode=Mode(stored["mode"]),
            source_cluster_id=source,
            destination_cluster_id=destination,
            topics=tuple(_topic(t, n, g, *ids.get(t, ("", ""))) for t, n, g in stored["topics"]),
            without_drain=tuple(MirrorPartition(t, n) for t, n in stored["without_drain"]),
            without_copy=tuple(SourcePartition(t, n) for t, n in stored.get("without_copy", ())),  # nor this
            loss_tolerance=stored["loss_tolerance"],
            groups=tuple(stored.get("groups", EVERYTHING)),  # an older plan has none: it meant all
            whole=stored.get("whole"),
            reserve=stored.get("reserve", 0),  # an older plan reserves nothing
            dead_since=stored.get("dead_since"),
            reverse=stored.get("reverse", False),
        )
        about = {name: frozenset(map(str, named or ())) for name, named in dict(found.get("about") or {}).items()}
        accepted = frozenset(found["limitations"])
        if accepted & _EARLIER_SOURCE:
            accepted |= {NOT_DRAINED}
        return cls(intent, tuple(found["steps"]), accepted, about)


def _topic(topic: str, partitions: int, promotion_epoch: int, source_id: str, copy_id: str) -> TopicIntent:
    return TopicIntent(
        topic=topic, partitions=partitions, promotion_epoch=promotion_epoch, source_id=source_id, copy_id=copy_id
    )


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


def replaced_since(facts: Facts) -> frozenset[str]:
    """The topics that were deleted and re-created at the destination since the run's point of no return.

    By topic id: the new topic is not the copy that was approved.
    """
    if not past_return(facts):
        return frozenset()
    return frozenset(each.topic for each in facts.topics if is_another_topic(each.copy_id, each.sealed_id))


def lived_on(intent: Intent, view: StateView) -> tuple[str, ...]:
    """The topics of a failover that is done that have been mirrored in the same direction again since."""
    wanted = {each.topic: each for each in intent.topics}
    return tuple(
        each.topic
        for each in view.topics(intent.mirror)
        if (before := wanted.get(each.topic)) is not None
        and (each.desired is not DesiredState.REMOVED or each.promotion_epoch > before.promotion_epoch)
    )


def is_another_topic(now: str, approved: str) -> bool:
    """Whether two topic ids are those of two topics; an id that is unknown, empty, counts as the same one."""
    return bool(now and approved and now != approved)


def wanted_topics(view: StateView, intent: Intent) -> tuple[TopicDesired, ...]:
    """The topics that `intent` names, as far as there are such."""
    names = frozenset(intent.names)
    return tuple(topic for topic in view.topics(intent.mirror) if topic.topic in names)


def of_copies(intent: Intent, facts: Facts) -> Intent:
    """`intent` for the topics alone that a run may still write to: those that were approved, by id."""
    replaced = replaced_since(facts)
    return replace(intent, topics=tuple(each for each in intent.topics if each.topic not in replaced))
