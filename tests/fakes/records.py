"""A cluster in memory whose records can be told from each other, on both sides of a mirror."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tanist.domain.acl_entries import ANYBODY
from tests.fakes.failover import GuardedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist.domain.names import MirrorPartition
    from tanist.ports.topics import NewTopic


@dataclass(frozen=True, slots=True)
class Written:
    """A record. `number` is its identity, whatever log or offset it is copied to. `time`: ms since 1970.

    `origin`: its offset at the old source, in quarantine and where it was replayed; -1: it was written there.
    """

    number: int
    key: bytes | None
    time: int
    origin: int = -1

    @property
    def rest(self) -> bytes:
        """What stands for key, value and headers."""
        return b"%d:%s" % (self.number, b"" if self.key is None else self.key)


@dataclass
class RecordedCluster(GuardedCluster):
    """`records`: by partition, what is at an offset that is no marker, in their order.

    Without an ACL that allows it, nobody may write. A topic that is created again has another id. `deleted`: how often
    topics were.
    """

    records: defaultdict[MirrorPartition, dict[int, Written]] = field(default_factory=lambda: defaultdict(dict))
    deleted: int = 0

    def keep(self, at: MirrorPartition, record: Written, producer: int = -1) -> int:
        """The offset that the record gets."""
        offset = self.ends[at][2]
        self.grow(at, 1, producer)
        self.records[at][offset] = record
        return offset

    def log(self, at: MirrorPartition, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, Written]]:
        """Offsets and records from `begin` up to `end`, as far as they are committed and not deleted."""
        start, stable, _ = self.ends[at]
        begin, end = max(begin, start), stable if end is None else min(end, stable)
        return ((offset, record) for offset, record in self.records[at].items() if begin <= offset < end)

    def expire(self, at: MirrorPartition) -> None:
        """Retention deletes everything that is there."""
        _, stable, high = self.ends[at]
        self.ends[at] = (high, stable, high)
        self.records.pop(at, None)

    def put(self, new: NewTopic) -> None:
        super().put(new)
        if self.deleted:
            facts = self.topics[new.name]
            self.topics[new.name] = replace(facts, topic_id=f"{facts.topic_id}-{self.deleted}")

    def drop(self, topic: str) -> None:
        super().drop(topic)
        self.deleted += 1
        for at in [each for each in self.records if each.topic == topic]:
            del self.records[at]

    def may_write(self, topic: str, user: str) -> bool:
        if not super().may_write(topic, user):
            return False
        rules: list[Any] = [*self.rules.get(topic, ()), *(rule for at, rule in self.given if at == topic)]
        named = {ANYBODY, f"User:{user}"}
        return not self.authorizer or any(each.allowed and each.principal in named for each in rules)
