"""What follows the source, and the changes that it needs. Create and change, never delete.

A kind of what follows decides its `Share` of each topic (`tanist.domain.synced`); shares make the decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.compaction import Holes
from tanist.domain.errors import TanistError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.acl_entries import Denial
    from tanist.domain.fences import FencedTopic
    from tanist.domain.records import MirrorSpec, TopicDesired
    from tanist.domain.state_view import StateView

PAUSED: Final = "it is paused; `tanist mirrors resume` also resumes the sync"


MIRROR_WIDE: Final = ""
"""The name that stands for the whole mirror where others are of its topics: none of them is called that."""


class Kind(StrEnum):
    """`acl`: for writing to a topic. `access`: for reading topics, for groups and for transactional ids."""

    TOPIC, PARTITIONS, CONFIG, ACL, ACCESS = "topic", "partitions", "config", "acl", "access"


class Change(StrEnum):
    """`remember`: what a failover sets changes. `deny`, `allow`: WRITE on the mirror topic, by name.

    `delete`: only of ACLs, and only by an approved plan.
    """

    ADD, CREATE, GROW, SET, RESET, DELETE = "add", "create", "grow", "set", "reset", "delete"
    REMEMBER, DENY, ALLOW, NOTHING = "remember", "deny", "allow", "none"


class Outcome(StrEnum):
    """Of one row. SKIPPED: intentionally different. CONFLICT: needs an operator. UNKNOWN: could not be read."""

    DIFFERS, CHANGED, SKIPPED = "DIFFERS", "CHANGED", "SKIPPED"
    CONFLICT, FAILED, UNKNOWN = "CONFLICT", "FAILED", "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRow:
    """One difference. `source` and `destination`: the values; None: there is none."""

    topic: str
    kind: Kind
    name: str
    change: Change
    source: str | None = None
    destination: str | None = None
    verdict: Outcome = Outcome.DIFFERS
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic on one cluster. `own`: configs set on it; `effective`: configs in effect, including defaults."""

    topic_id: str
    partitions: int
    replication_factor: int
    own: Mapping[str, str]
    effective: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnBoth:
    """A topic at the source, and its copy; None: the mirror topic certainly does not exist."""

    source: TopicMetadata
    copy: TopicMetadata | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A topic to create at the destination."""

    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one kind has to change about one topic.

    `change`: what is done at the destination; None: nothing. `recorded`: fields of the topic's record that change
    with it. `rows` describe the same for people.
    """

    rows: tuple[MetadataRow, ...] = ()
    change: Any = None
    recorded: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The changes of one topic: `changes` at the destination, by kind, then of its record: `recorded`, by kind.

    `rows` describe the same for people. `before`: its record; None: it is not in the mirror. `wanted`: its record once
    all is done. `denial`: other writers.
    """

    topic: str
    rows: tuple[MetadataRow, ...] = ()
    changes: Mapping[Kind, Any] = field(default_factory=dict)
    recorded: Mapping[Kind, Mapping[str, Any]] = field(default_factory=dict)
    before: TopicDesired | None = None
    wanted: TopicDesired | None = None
    denial: Denial | None = None

    @property
    def differs(self) -> bool:
        """Whether anything is changed that people see."""
        return any(row.verdict is Outcome.DIFFERS for row in self.rows)

    @property
    def due(self) -> bool:
        return self.differs or self.unrecorded

    @property
    def unrecorded(self) -> bool:
        """Whether it is not on record yet which configs follow the source, or were set on the mirror topic alone."""
        old, new = self.before, self.wanted
        if old is None or new is None:
            return False
        return (old.synced_configs, old.drifted_configs) != (new.synced_configs, new.drifted_configs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRules:
    """Inputs shared by all topics of a mirror. `known`: configs that the destination supports; None: unknown."""

    known: frozenset[str] | None
    replication_factor: int | None
    fences: Mapping[str, FencedTopic]
    holes: Holes = Holes.REFUSE
    is_mapped: bool = False  # as `MirrorSpec.is_mapped`
    mapped: frozenset[str] = frozenset()
    """Topics with ranges in the offset map, which describes the existing log, not a re-created one."""
    excluded: tuple[str, ...] = ()
    """As `MirrorSpec.config_exclude`."""
    reset: bool = False
    """Configs that are set on a mirror topic alone are removed, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MayFollow:
    """What may follow the source now: `topics` of the mirror, by name. `view`: its record."""

    spec: MirrorSpec
    view: StateView
    topics: Mapping[str, TopicDesired]
    rules: MetadataRules


def left(topic: str, verdict: Outcome, reason: str) -> Decision:
    """The decision to change nothing about `topic`, with the reason."""
    row = MetadataRow(topic=topic, kind=Kind.TOPIC, name=topic, change=Change.NOTHING, verdict=verdict, reason=reason)
    return Decision(topic=topic, rows=(row,))


def blocked(
    topic: TopicDesired,
    source: TopicMetadata | TanistError | None,
    copy: TopicMetadata | TanistError | None,
    rules: MetadataRules,
) -> Decision | None:
    """Why nothing of `topic` may follow the source; None: it may. A topic None certainly does not exist there."""
    for seen in (source, copy):
        if isinstance(seen, TanistError):
            return left(topic.topic, Outcome.UNKNOWN, str(seen))
    if source is None:
        gone = "the topic no longer exists at the source; the mirror topic is left unchanged"
        return left(topic.topic, Outcome.CONFLICT, gone)
    if topic.source_topic_id and isinstance(source, TopicMetadata) and source.topic_id != topic.source_topic_id:
        another = "the topic was deleted and re-created at the source: it is not the log that is being copied"
        return left(topic.topic, Outcome.CONFLICT, another)
    if copy is None and topic.topic in rules.mapped:
        lost = "the mirror topic and its offset map are gone: copy the topic again from its start (docs/mirroring.md)"
        return left(topic.topic, Outcome.CONFLICT, lost)
    return None


def decided(topic: TopicDesired, shares: Mapping[Kind, Share]) -> Decision:
    """The decision about a topic of the mirror from the share of each kind. A topic that is created is one row."""
    whole = shares[Kind.TOPIC].rows
    recorded = {kind: share.recorded for kind, share in shares.items() if share.recorded}
    return Decision(
        topic=topic.topic,
        rows=whole or tuple(row for share in shares.values() for row in share.rows),
        changes={kind: share.change for kind, share in shares.items() if share.change is not None},
        recorded=recorded,
        before=topic,
        wanted=replace(topic, **{name: value for each in recorded.values() for name, value in each.items()}),
    )


def mirror_wide(shares: Mapping[Kind, Share]) -> Decision:
    """The decision about what belongs to no topic."""
    return Decision(
        topic=MIRROR_WIDE,
        rows=tuple(row for share in shares.values() for row in share.rows),
        changes={kind: share.change for kind, share in shares.items() if share.change is not None},
    )
