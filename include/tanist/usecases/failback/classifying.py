"""Which keys of a divergent tail the new primary has written since, up to the present."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.failback.decision import classify
from tanist.domain.holes import is_compacted
from tanist.domain.topic_configs import CLEANUP_POLICY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.failback.decision import TailClass
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.ports.clock import Deadline
    from tanist.ports.tails import KeyWritten, Replays, RescuedRecord, TailCopy
    from tanist.ports.topics import TopicFacts
    from tanist.usecases.command import CommandContext
    from tanist.usecases.failback.survey import ReturnContext


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Of the topic at the new primary. `retention_ms`: None: unlimited. `compacted`: it keeps the last of each key."""

    compacted: bool
    retention_ms: int | None
    max_message_bytes: int


def rules_of(facts: TopicFacts | TanistError) -> TopicRules:
    """The configs in effect that decide about rescued records. Raises the error if there are none."""
    if isinstance(facts, TanistError):
        raise facts
    policy = facts.effective.get(CLEANUP_POLICY, "delete")
    retention = int(facts.effective.get("retention.ms", "-1"))
    deletes = "delete" in policy.split(",") and retention >= 0
    limit = int(facts.effective.get("max.message.bytes", "1048588"))
    return TopicRules(is_compacted(policy), retention if deletes else None, limit)


@dataclass(slots=True, kw_only=True)
class KeyWatch:
    """The last record of each key of a tail at the new primary, read up to `seen`.

    `last_offsets`: of each key the last offset in the tail. `own_from`: where the new primary's own records begin.
    `without`: producer ids of the mirror and of replays, whose records are not the new primary's.
    """

    replays: Replays
    copy: TailCopy
    rules: TopicRules
    last_offsets: dict[bytes, int]
    own_from: int
    without: frozenset[int]
    seen: int
    last: dict[bytes, KeyWritten] = field(default_factory=dict)

    @property
    def partition(self) -> TopicPartition:
        return self.copy.source

    def look(self, by: Deadline) -> None:
        """Read what was written since the last time."""
        end = self.replays.end(self.partition, by)
        if end <= self.seen or not self.last_offsets:
            return
        span = (self.seen, end)
        for key, found in self.replays.last_of_keys(
            self.partition, span, self.last_offsets, self.own_from, self.without, by
        ).items():
            before = self.last.get(key)
            self.last[key] = found._replace(own=found.own or (before is not None and before.own))
        self.seen = end

    def is_newer(self, key: bytes | None) -> bool:
        """Whether the new primary has a newer record of a key."""
        found = None if key is None else self.last.get(key)
        return found is not None and found.own

    def classify(self, record: RescuedRecord, now: EpochMs) -> TailClass:
        """The class of a record, as far as was read."""
        newer = {record.key} if record.key is not None and self.is_newer(record.key) else set()
        return classify(record.key, record.time, newer, self.rules.retention_ms, now)


def watch_keys(
    clusters: ReturnContext,
    copy: TailCopy,
    entry: TopicLineage,
    rules: TopicRules,
    replayers: frozenset[int],
    by: Deadline,
) -> KeyWatch:
    """What the new primary has of the keys of a tail now. `replayers`: producer ids of replays."""
    last_offsets = {each.key: each.offset for each in clusters.replays.rescued(copy, by) if each.key is not None}
    own_from = entry.reserve_ends[copy.source.partition]
    ids = clusters.spec.producer_ids
    watch = KeyWatch(
        replays=clusters.replays,
        copy=copy,
        rules=rules,
        last_offsets=last_offsets,
        own_from=own_from,
        without=frozenset({ids.data, ids.marker, ids.start}) | replayers,
        seen=0 if rules.compacted else own_from,
    )
    watch.look(by)
    return watch


def records_from(watch: KeyWatch, offset: int, command: CommandContext) -> Iterator[RescuedRecord]:
    """The rescued records from an offset of the old source on."""
    return (each for each in watch.replays.rescued(watch.copy, command.by) if each.offset >= offset)
