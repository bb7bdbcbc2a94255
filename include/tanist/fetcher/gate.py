"""Whether a topic may still be copied: reads both state topics again before every recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicOrPartition
from tanist.domain.promotions import copy_blocked_reason
from tanist.domain.records import STATE_TOPIC
from tanist.domain.state_view import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.errors import PartitionBroken
    from tanist.domain.state_view import StateView
    from tanist.fetcher.tools import FetcherThreadTools
    from tanist.kafka.wire.router import Router
    from tanist.ports.clock import Deadline


class Gate:
    """Owned by the fetcher thread."""

    def __init__(self, source: Router, tools: FetcherThreadTools) -> None:
        self._source, self._tools = source, tools

    def look(self, by: Deadline) -> Callable[[str], PartitionBroken | None]:
        """Why each topic must not be copied.

        Raises:
            TanistError: a cluster does not answer, or we lack READ on its state topic; then nothing is copied.
        """
        reported, view = self._source_state(by), self._tools.state(by)
        return lambda topic: copy_blocked_reason(view, reported, self._tools.spec.mirror, topic)

    def _source_state(self, by: Deadline) -> StateView:
        """The source's view; most sources have no state topic, which one request shows."""
        self._source.refresh([STATE_TOPIC], by)
        error = self._source.topics()[STATE_TOPIC].error
        if isinstance(error, UnknownTopicOrPartition):
            return NOTHING_YET
        if error is not None:
            raise error
        return self._tools.source_state(by)
