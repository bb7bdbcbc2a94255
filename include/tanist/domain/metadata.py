"""How mirror topics differ from the source's topics. Create and change, never delete.

Partitions are only ever added. Configs that are set on the source's topic are set on the mirror topic, and removed
if the source has none, except those that KIP-1279 excludes and those that are deferred (`topic_configs`): the source's
value of a deferred config is stored and set by a failover. A source fence is not a setting to copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tanist.domain.acl_entries import said
from tanist.domain.compaction import Holes
from tanist.domain.errors import AuthorizationFailed, TanistError
from tanist.domain.fences import SMALLEST_MESSAGE_BYTES, FencedTopic, FenceKind, FenceStatus
from tanist.domain.topic_configs import MAX_MESSAGE_BYTES, WHILE_MIRRORING, plan_configs, why_never_copied

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.acl_entries import AclEntry, Denial
    from tanist.domain.records import TopicDesired
    from tanist.domain.topic_configs import TopicConfigs

EXCLUDED: Final = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
    "mirror.name",
)
"""KIP-1279's default of `mirror.topic.properties.exclude`."""
PAUSED: Final = "it is paused; `tanist mirrors resume` also resumes the sync"
_EXCLUDED: Final = re.compile("|".join(map(re.escape, EXCLUDED)))
_HELD: Final = frozenset({*WHILE_MIRRORING, MAX_MESSAGE_BYTES})


class Kind(StrEnum):
    TOPIC, PARTITIONS, CONFIG, ACL = "topic", "partitions", "config", "acl"


class Change(StrEnum):
    """`remember`: what a failover sets changes. `deny`, `allow`: WRITE on the mirror topic, by name."""

    ADD, CREATE, GROW, SET, RESET = "add", "create", "grow", "set", "reset"
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
    write_rules: tuple[AclEntry, ...] | TanistError | None = None
    """Of the source only. None: a source fence hides who may write otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A topic to create at the destination."""

    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The changes of one topic: `create` it, `grow` it to that many partitions, alter `configs`, then record `wanted`.

    `rows` describe the same for people. `before`: its record; None: it is not in the mirror. `denial`: other writers.
    """

    topic: str
    rows: tuple[MetadataRow, ...] = ()
    create: Copy | None = None
    grow: int | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)
    before: TopicDesired | None = None
    wanted: TopicDesired | None = None
    denial: Denial | None = None

    @property
    def due(self) -> bool:
        return any(row.verdict is Outcome.DIFFERS for row in self.rows)


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


def left(topic: str, verdict: Outcome, reason: str) -> Decision:
    """The decision to change nothing about `topic`, with the reason."""
    row = MetadataRow(topic=topic, kind=Kind.TOPIC, name=topic, change=Change.NOTHING, verdict=verdict, reason=reason)
    return Decision(topic=topic, rows=(row,))


def decide(
    topic: TopicDesired,
    source: TopicMetadata | TanistError | None,
    copy: TopicMetadata | TanistError | None,
    rules: MetadataRules,
) -> Decision:
    """The changes that `topic` of a mirror needs. None: the topic certainly does not exist on that cluster."""
    for side in (source, copy):
        if isinstance(side, TanistError):
            return left(topic.topic, Outcome.UNKNOWN, str(side))
    assert not isinstance(source, TanistError)  # noqa: S101  # said above
    assert not isinstance(copy, TanistError)  # noqa: S101
    if source is None:
        gone = "the topic no longer exists at the source; the mirror topic is left unchanged"
        return left(topic.topic, Outcome.CONFLICT, gone)
    if topic.source_topic_id and source.topic_id != topic.source_topic_id:
        another = "the topic was deleted and re-created at the source: it is not the log that is being copied"
        return left(topic.topic, Outcome.CONFLICT, another)
    fenced = is_fenced(rules.fences.get(topic.topic), source.effective)
    meant = _unfenced(source, topic) if fenced else source
    if copy is None:
        return _create(topic, meant, rules)
    return _compare(topic, meant, copy, rules, fenced=fenced)


def is_fenced(fence: FencedTopic | None, effective: Mapping[str, str]) -> bool:
    """Whether the source's max.message.bytes is, or may be, a source fence, recorded or not."""
    recorded = fence is not None and fence.status is not FenceStatus.LIFTED
    if recorded and fence is not None and (fence.before is None or fence.before.kind is FenceKind.TINY_MESSAGES):
        return True
    return int(effective.get(MAX_MESSAGE_BYTES, SMALLEST_MESSAGE_BYTES + 1)) <= SMALLEST_MESSAGE_BYTES


def _unfenced(source: TopicMetadata, topic: TopicDesired) -> TopicMetadata:
    """`source` with the limit that was last stored."""
    before = dict(topic.deferred_configs).get(MAX_MESSAGE_BYTES)
    others = {name: value for name, value in source.effective.items() if name != MAX_MESSAGE_BYTES}
    own = {name: value for name, value in source.own.items() if name != MAX_MESSAGE_BYTES}
    return replace(source, own=own, effective=others if before is None else others | {MAX_MESSAGE_BYTES: before})


# ── the copy is missing ───────────────────────────────────────────────────────────────────────────────────────────


def _create(topic: TopicDesired, source: TopicMetadata, rules: MetadataRules) -> Decision:
    if topic.topic in rules.mapped:
        return left(
            topic.topic,
            Outcome.CONFLICT,
            "the mirror topic and its offset map are gone: copy the topic again from its start (docs/mirroring.md)",
        )
    planned = _planned(source, rules, rules.replication_factor)
    row = MetadataRow(
        topic=topic.topic,
        kind=Kind.TOPIC,
        name=topic.topic,
        change=Change.CREATE,
        source=f"{source.partitions} partition(s)",
        reason="the mirror topic does not exist; it is created and copied from the source",
    )
    return Decision(
        topic=topic.topic,
        rows=(row,),
        create=Copy(partitions=source.partitions, replication_factor=rules.replication_factor, configs=planned.now),
        before=topic,
        wanted=replace(
            topic,
            partitions=source.partitions,
            deferred_configs=planned.deferred,
            deferred_acls=_rules_held(topic, source),
        ),
    )


def _planned(source: TopicMetadata, rules: MetadataRules, replication_factor: int | None) -> TopicConfigs:
    known, factor, holes, mapped = rules.known, replication_factor, rules.holes, rules.is_mapped
    return plan_configs(
        source.own, source.effective, known=known, replication_factor=factor, holes=holes, mapped=mapped
    )


# ── both are there ────────────────────────────────────────────────────────────────────────────────────────────────


def _compare(
    topic: TopicDesired, source: TopicMetadata, copy: TopicMetadata, rules: MetadataRules, *, fenced: bool
) -> Decision:
    planned = _planned(source, rules, copy.replication_factor)
    changes = _changes(planned, source, copy)
    held = _remembered(topic, planned)
    partitions = source.partitions if copy.partitions <= source.partitions else topic.partitions
    rows = [
        *_partition_rows(topic, source, copy),
        *_config_rows(topic, source, copy, changes),
        *_deferred_rows(topic, held),
        *_rule_rows(topic, source, rules),
        *_skipped_rows(topic, source, copy, planned),
    ]
    if fenced:
        rows.append(_config_row(topic, MAX_MESSAGE_BYTES, Change.NOTHING, verdict=Outcome.SKIPPED, reason=_FENCE))
    return Decision(
        topic=topic.topic,
        rows=tuple(rows),
        grow=source.partitions if copy.partitions < source.partitions else None,
        configs=changes,
        before=topic,
        wanted=replace(topic, partitions=partitions, deferred_configs=held, deferred_acls=_rules_held(topic, source)),
    )


_FENCE: Final = "the source is fenced: the value is the source fence, not a setting"
_CLOSED: Final = "WRITE is denied to everybody at the source, as by a source fence: the ACLs are not taken from there"


def _partition_rows(topic: TopicDesired, source: TopicMetadata, copy: TopicMetadata) -> Iterator[MetadataRow]:
    def row(change: Change, verdict: Outcome, reason: str) -> MetadataRow:
        return MetadataRow(
            topic=topic.topic,
            kind=Kind.PARTITIONS,
            name=topic.topic,
            change=change,
            source=str(source.partitions),
            destination=str(copy.partitions),
            verdict=verdict,
            reason=reason,
        )

    if copy.partitions > source.partitions:
        yield row(Change.NOTHING, Outcome.CONFLICT, "the mirror topic has more; partitions cannot be removed")
    elif copy.partitions < source.partitions:
        yield row(Change.GROW, Outcome.DIFFERS, "partitions were added at the source")
    elif topic.partitions < source.partitions:
        yield row(Change.GROW, Outcome.DIFFERS, f"only {topic.partitions} of them are mirrored yet")


def _changes(planned: TopicConfigs, source: TopicMetadata, copy: TopicMetadata) -> dict[str, str | None]:
    """Configs of the mirror topic to set; None removes one."""
    wanted: dict[str, str | None] = {
        name: value
        for name, value in planned.now.items()
        if name in _HELD or not _EXCLUDED.fullmatch(name)
        if copy.own.get(name) != value
    }
    if _takes_as_much(copy, planned.now.get(MAX_MESSAGE_BYTES)):
        wanted.pop(MAX_MESSAGE_BYTES, None)
    surplus = copy.own.keys() - planned.now.keys() - source.own.keys() - _HELD
    return wanted | {
        name: None for name in sorted(surplus) if not _EXCLUDED.fullmatch(name) and why_never_copied(name) is None
    }


def _takes_as_much(copy: TopicMetadata, limit: str | None) -> bool:
    """The limit is only raised while mirroring: larger records of the past may still have to be copied."""
    return limit is not None and int(copy.effective.get(MAX_MESSAGE_BYTES, "0")) >= int(limit)


def _config_rows(
    topic: TopicDesired, source: TopicMetadata, copy: TopicMetadata, changes: Mapping[str, str | None]
) -> Iterator[MetadataRow]:
    for name, value in sorted(changes.items()):
        yield _config_row(
            topic,
            name,
            Change.RESET if value is None else Change.SET,
            source=source.own.get(name) or (source.effective.get(name) if name in _HELD else None),
            destination=copy.own.get(name),
            reason=_why_set(name, value, source.effective.get(name)),
        )


def _why_set(name: str, value: str | None, at_source: str | None) -> str:
    if value is None:
        return "not set at the source"
    if name == MAX_MESSAGE_BYTES:
        return "the mirror topic must accept every batch that the source accepts"
    return f"kept at {value} while the topic is mirrored" if name in _HELD and value != at_source else ""


def _remembered(topic: TopicDesired, planned: TopicConfigs) -> tuple[tuple[str, str], ...]:
    """The configs that a failover sets. Values that could not be read stay as stored."""
    new = {name: value for name, value in planned.deferred if name in _HELD or not _EXCLUDED.fullmatch(name)}
    return tuple(sorted((dict(topic.deferred_configs) | new).items()))


def _deferred_rows(topic: TopicDesired, held: tuple[tuple[str, str], ...]) -> Iterator[MetadataRow]:
    before = dict(topic.deferred_configs)
    for name, value in held:
        if before.get(name) != value:
            yield _config_row(
                topic,
                name,
                Change.REMEMBER,
                source=value,
                destination=before.get(name),
                reason="deferred while the topic is mirrored; applied by a failover",
            )


def _rules_held(topic: TopicDesired, source: TopicMetadata) -> tuple[AclEntry, ...]:
    """The ACLs for writing that a failover creates. ACLs that could not be read stay as stored."""
    return source.write_rules if isinstance(source.write_rules, tuple) else topic.deferred_acls


def _rule_rows(topic: TopicDesired, source: TopicMetadata, rules: MetadataRules) -> Iterator[MetadataRow]:
    def row(change: Change, verdict: Outcome, now: str | None, reason: str) -> MetadataRow:
        return MetadataRow(
            topic=topic.topic,
            kind=Kind.ACL,
            name=f"{topic.topic}:WRITE",
            change=change,
            source=now,
            destination=said(topic.deferred_acls),
            verdict=verdict,
            reason=reason,
        )

    held = _rules_held(topic, source)
    if source.write_rules is None:
        yield row(Change.NOTHING, Outcome.SKIPPED, None, _CLOSED)
    elif isinstance(source.write_rules, TanistError):
        optional = rules.is_mapped and isinstance(source.write_rules, AuthorizationFailed)
        yield row(Change.NOTHING, Outcome.SKIPPED if optional else Outcome.UNKNOWN, None, str(source.write_rules))
    elif held != topic.deferred_acls:
        yield row(
            Change.REMEMBER, Outcome.DIFFERS, said(held), "deferred while the topic is mirrored; granted by a failover"
        )


def _skipped_rows(
    topic: TopicDesired, source: TopicMetadata, copy: TopicMetadata, planned: TopicConfigs
) -> Iterator[MetadataRow]:
    dropped = dict(planned.dropped)
    for name in sorted((source.own.keys() | copy.own.keys()) - _HELD):
        why = "each cluster keeps its own value (KIP-1279)" if _EXCLUDED.fullmatch(name) else dropped.get(name)
        here, there = copy.own.get(name), source.own.get(name)
        if why and here != there:
            skipped = Outcome.SKIPPED
            yield _config_row(topic, name, Change.NOTHING, source=there, destination=here, verdict=skipped, reason=why)


def _config_row(  # noqa: PLR0913  # the columns of a row, named
    topic: TopicDesired,
    name: str,
    change: Change,
    *,
    source: str | None = None,
    destination: str | None = None,
    verdict: Outcome = Outcome.DIFFERS,
    reason: str,
) -> MetadataRow:
    return MetadataRow(
        topic=topic.topic,
        kind=Kind.CONFIG,
        name=f"{topic.topic}:{name}",
        change=change,
        source=source,
        destination=destination,
        verdict=verdict,
        reason=reason,
    )
