"""The position of a mirror, written back to its source after the fact, so that tools show its lag (KIP-656).

The position that counts is at the destination, in the transaction of its records. If that one is lost, this one says
how far the copy had come, some seconds before at most.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tanist.domain.errors import Stopped, TanistError
from tanist.domain.fake_group import shown, shown_group
from tanist.kafka.wire.groups import commit_plainly
from tanist.ports.positions import CommittedPosition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tanist.domain.names import TopicPartition
    from tanist.fetcher.engines.transactions.partition import TransactionPartition
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.wire.router import Router

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 1.0
"""The copy waits so long at most for a source that does not answer."""
AFTER_FAILURE_SECONDS: Final = 60.0


class WriteBack:
    """Owned by the fetcher thread."""

    def __init__(self, source: Router, tools: FetcherThreadTools) -> None:
        self._source = source
        self._clock = tools.clock
        self._group = shown_group(tools.spec.mirror)
        self._written: dict[TopicPartition, int] = {}
        self._next_at = float("-inf")
        self._failed = ""

    def write(self, partitions: Iterable[TransactionPartition]) -> None:
        """Commit at the source what has moved. That it cannot be done is logged, and hinders nothing."""
        now = self._clock.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + EVERY_SECONDS
        moved: dict[TopicPartition, CommittedPosition] = {
            each.there: CommittedPosition(each.committed.position, shown(each.committed, each.topic_id))
            for each in partitions
            if each.committed is not None and each.committed.count
            if self._written.get(each.there) != each.committed.position
        }
        if not moved:
            return
        try:
            failed = commit_plainly(self._source, self._group, moved, self._clock.deadline(ANSWER_SECONDS))
        except Stopped:
            raise
        except TanistError as why:
            failed = why
        if failed is None:
            self._written |= {at: each.offset for at, each in moved.items()}
            self._failed = ""
            return
        self._next_at = now + AFTER_FAILURE_SECONDS
        if failed.name != self._failed:
            self._failed = failed.name
            log.warning(
                "the position of the mirror is not written back to the source",
                extra={"error": failed.name, "reason": failed.reason},
            )
