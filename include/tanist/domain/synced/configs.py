"""Configs of a topic, as a kind that follows the source: which to set, which to remove, which to defer.

Configs that are set on the source's topic are set on the mirror topic, and removed once the source has none, except
those that the mirror excludes (KIP-1279's default) and those that are deferred (`topic_configs`): the source's value of
a deferred config is stored and set by a failover. A source fence is not a setting to copy. A config that somebody has
set on the mirror topic alone is drift: it is named, and left alone until a reset is asked for.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tanist.domain.fences import SMALLEST_MESSAGE_BYTES, FencedTopic, FenceKind, FenceStatus
from tanist.domain.metadata import Change, Kind, MetadataRow, Outcome, Share
from tanist.domain.selection import topic_pattern
from tanist.domain.topic_configs import MAX_MESSAGE_BYTES, WHILE_MIRRORING, plan_configs, why_never_copied

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.metadata import MetadataRules, OnBoth, TopicMetadata
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
_AS_KIP_1279: Final = tuple(map(re.escape, EXCLUDED))
_HELD: Final = frozenset({*WHILE_MIRRORING, MAX_MESSAGE_BYTES})
_DRIFT: Final = "drift: it is set at the destination alone; `tanist metadata sync` with --reset removes it"
_FENCE: Final = "the source is fenced: the value is the source fence, not a setting"


def decide(topic: TopicDesired, found: OnBoth, rules: MetadataRules) -> Share:
    """The configs to alter on the mirror topic (`change`; None removes one), and those to store for a failover."""
    source, copy = unfenced(topic, found.source, rules), found.copy
    if copy is None:
        created = planned_configs(source, rules, rules.replication_factor)
        names = following(created, rules.excluded)
        return Share(recorded={"deferred_configs": created.deferred, "synced_configs": names, "drifted_configs": ()})
    configs = planned_configs(source, rules, copy.replication_factor)
    drifted = _drifted(topic, configs, source, copy, rules)
    changes = _changes(configs, source, copy, rules, frozenset() if rules.reset else drifted)
    deferred = _remembered(topic, configs, rules)
    rows = [
        *_config_rows(topic, source, copy, changes),
        *_deferred_rows(topic, deferred),
        *_skipped_rows(topic, source, copy, configs, rules),
        *(_drift_row(topic, name, copy) for name in sorted(drifted) if not rules.reset),
    ]
    if _is_fenced_here(topic, found.source, rules):
        rows.append(_config_row(topic, MAX_MESSAGE_BYTES, Change.NOTHING, verdict=Outcome.SKIPPED, reason=_FENCE))
    return Share(
        rows=tuple(rows),
        change=changes or None,
        recorded={
            "deferred_configs": deferred,
            "synced_configs": following(configs, rules.excluded),
            "drifted_configs": () if rules.reset else tuple(sorted(drifted)),
        },
    )


def is_excluded(name: str, excluded: tuple[str, ...]) -> bool:
    """Whether a config does not follow the source. `excluded`: expressions; empty: those of KIP-1279."""
    return any(topic_pattern(text).fullmatch(name) for text in excluded or _AS_KIP_1279)


def following(configs: TopicConfigs, excluded: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the configs that a mirror topic has from the source, and that follow it."""
    return tuple(sorted(name for name in configs.now.keys() - _HELD if not is_excluded(name, excluded)))


def unfenced(topic: TopicDesired, source: TopicMetadata, rules: MetadataRules) -> TopicMetadata:
    """`source`; under a source fence with the limit for record sizes that was last stored."""
    if not _is_fenced_here(topic, source, rules):
        return source
    before = dict(topic.deferred_configs).get(MAX_MESSAGE_BYTES)
    others = {name: value for name, value in source.effective.items() if name != MAX_MESSAGE_BYTES}
    own = {name: value for name, value in source.own.items() if name != MAX_MESSAGE_BYTES}
    return replace(source, own=own, effective=others if before is None else others | {MAX_MESSAGE_BYTES: before})


def _is_fenced_here(topic: TopicDesired, source: TopicMetadata, rules: MetadataRules) -> bool:
    return is_fenced(rules.fences.get(topic.topic), source.effective)


def is_fenced(fence: FencedTopic | None, effective: Mapping[str, str]) -> bool:
    """Whether the source's max.message.bytes is, or may be, a source fence, recorded or not."""
    recorded = fence is not None and fence.status is not FenceStatus.LIFTED
    if recorded and fence is not None and (fence.before is None or fence.before.kind is FenceKind.TINY_MESSAGES):
        return True
    return int(effective.get(MAX_MESSAGE_BYTES, SMALLEST_MESSAGE_BYTES + 1)) <= SMALLEST_MESSAGE_BYTES


def planned_configs(source: TopicMetadata, rules: MetadataRules, replication_factor: int | None) -> TopicConfigs:
    """The configs of a mirror topic with that many replicas; None: as many as the destination's brokers give it."""
    known, factor, holes, mapped = rules.known, replication_factor, rules.holes, rules.is_mapped
    return plan_configs(
        source.own, source.effective, known=known, replication_factor=factor, holes=holes, mapped=mapped
    )


def _surplus(planned: TopicConfigs, source: TopicMetadata, copy: TopicMetadata, rules: MetadataRules) -> frozenset[str]:
    """Configs that only the mirror topic has, and that could follow."""
    found = copy.own.keys() - planned.now.keys() - source.own.keys() - _HELD
    return frozenset(name for name in found if not is_excluded(name, rules.excluded) and why_never_copied(name) is None)


def _drifted(
    topic: TopicDesired, planned: TopicConfigs, source: TopicMetadata, copy: TopicMetadata, rules: MetadataRules
) -> frozenset[str]:
    """Of those the ones that did not come from the source. Where that is not known, none of them did."""
    return _surplus(planned, source, copy, rules) - frozenset(topic.synced_configs or ())


def _changes(
    planned: TopicConfigs,
    source: TopicMetadata,
    copy: TopicMetadata,
    rules: MetadataRules,
    drifted: frozenset[str],
) -> dict[str, str | None]:
    """Configs of the mirror topic to set; None removes one, unless it is among `drifted`."""
    wanted: dict[str, str | None] = {
        name: value
        for name, value in planned.now.items()
        if name in _HELD or not is_excluded(name, rules.excluded)
        if copy.own.get(name) != value
    }
    if _takes_as_much(copy, planned.now.get(MAX_MESSAGE_BYTES)):
        wanted.pop(MAX_MESSAGE_BYTES, None)
    return wanted | dict.fromkeys(sorted(_surplus(planned, source, copy, rules) - drifted))


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


def _remembered(topic: TopicDesired, planned: TopicConfigs, rules: MetadataRules) -> tuple[tuple[str, str], ...]:
    """The configs that a failover sets. Values that could not be read stay as stored."""
    deferred = planned.deferred
    new = {name: value for name, value in deferred if name in _HELD or not is_excluded(name, rules.excluded)}
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


def _drift_row(topic: TopicDesired, name: str, copy: TopicMetadata) -> MetadataRow:
    here = copy.own[name]
    return _config_row(topic, name, Change.NOTHING, destination=here, verdict=Outcome.SKIPPED, reason=_DRIFT)


def _skipped_rows(
    topic: TopicDesired, source: TopicMetadata, copy: TopicMetadata, planned: TopicConfigs, rules: MetadataRules
) -> Iterator[MetadataRow]:
    dropped = dict(planned.dropped)
    kept = f"each cluster keeps its own value ({'--config-exclude' if rules.excluded else 'KIP-1279'})"
    for name in sorted((source.own.keys() | copy.own.keys()) - _HELD):
        why = kept if is_excluded(name, rules.excluded) else dropped.get(name)
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
