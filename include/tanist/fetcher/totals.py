"""What a worker has counted since its process began; a fetcher thread that is restarted goes on counting."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from tanist.domain.latency import Latency
from tanist.kafka.wire.totals import ConnectionTotals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tanist.domain.names import MirrorName
    from tanist.fetcher.assignment import FetcherThreadKey


class SyncKind(StrEnum):
    """What of a source is followed beside its records."""

    METADATA = "metadata"
    """Topics and leaders (`MetadataRefreshError` of KIP-1279)."""
    GROUPS = "groups"
    """Committed offsets of groups (`ConsumerGroupOffsetSyncError`)."""
    CONFIGS = "configs"
    """Of topics (`TopicConfigMetadataSyncError`)."""
    ACLS = "acls"
    """`AclSyncError`."""


@dataclass(slots=True)
class CopiedTotals:
    """What was copied of one topic. Counted by one thread; any may read it."""

    records: int = 0
    bytes: int = 0
    latency: Latency = Latency()  # noqa: RUF009  # immutable

    def copied(self, records: int, size: int, ms: int) -> None:
        """So many records and bytes are acknowledged, `ms` after their time."""
        self.records += records
        self.bytes += size
        self.latency = self.latency.counted(ms, records)


@dataclass(frozen=True, slots=True)
class ThreadTotals:
    """What one fetcher thread has exchanged with both clusters, and copied. `topics`: by topic of the mirror."""

    source: ConnectionTotals = field(default_factory=ConnectionTotals)
    destination: ConnectionTotals = field(default_factory=ConnectionTotals)
    topics: dict[str, CopiedTotals] = field(default_factory=dict)

    def of_topic(self, topic: str) -> CopiedTotals:
        """Where what is copied of a topic counts. By the thread that owns them."""
        return self.topics.setdefault(topic, CopiedTotals())


class WorkerTotals:
    """Thread-safe; nothing of it ever becomes less."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: dict[FetcherThreadKey, ThreadTotals] = {}
        self._deaths: Counter[MirrorName] = Counter()
        self._sync_errors: Counter[tuple[MirrorName, SyncKind]] = Counter()

    def of_thread(self, key: FetcherThreadKey) -> ThreadTotals:
        """Where a thread with this key counts, and any later one with the same key."""
        with self._lock:
            return self._threads.setdefault(key, ThreadTotals())

    def thread_died(self, mirror: MirrorName) -> None:
        """A fetcher thread has ended by itself."""
        with self._lock:
            self._deaths[mirror] += 1

    def sync_failed(self, mirror: MirrorName, kind: SyncKind) -> None:
        """An attempt to follow the source has failed."""
        with self._lock:
            self._sync_errors[mirror, kind] += 1

    def threads(self) -> Mapping[FetcherThreadKey, ThreadTotals]:
        with self._lock:
            return dict(self._threads)

    def deaths(self) -> Mapping[MirrorName, int]:
        """How many fetcher threads of a mirror have ended by themselves."""
        with self._lock:
            return dict(self._deaths)

    def sync_errors(self) -> Mapping[tuple[MirrorName, SyncKind], int]:
        """How many attempts to follow a source have failed."""
        with self._lock:
            return dict(self._sync_errors)
