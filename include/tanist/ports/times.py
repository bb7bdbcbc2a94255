"""Records by their timestamps: the port of the strategy `timestamp`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.names import EpochMs, TopicPartition
    from tanist.domain.record_times import FirstSince, ReadLimits, TimedRecord, UnreadLog
    from tanist.ports.clock import Deadline

_P = TypeVar("_P", bound="TopicPartition")


class RecordTimes(Protocol):
    """Of one cluster. Many partitions in each request; every mapping has one item for each partition given.

    Changes nothing. Needs READ on the topics. A request that is not answered within `limits.poll_timeout_ms` is
    TimedOut for its partitions alone.
    """

    def unread(
        self, positions: Mapping[_P, Collection[int]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, UnreadLog | TanistError]:
        """The record at each position or the next one, and what follows as far as `limits.unread_bytes` go.

        They are spent from the highest position downwards, so that those near the end are read to the end of the log.
        """
        ...

    def before(
        self, offsets: Mapping[_P, Collection[int]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, Mapping[int, TimedRecord | None] | TanistError]:
        """The last record below each offset that readers of committed records see; None: there is none."""
        ...

    def since(
        self, times: Mapping[_P, Collection[EpochMs]], limits: ReadLimits, by: Deadline
    ) -> Mapping[_P, Mapping[EpochMs, FirstSince | None] | TanistError]:
        """The first record of each time or later; None: the broker knows none.

        Raises:
            ValueError: a time below 0.
        """
        ...
