"""May a topic still be copied? Both state topics are read anew before every recovery."""

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
    """Owned by the lane's thread."""

    def __init__(self, source: Router, tools: FetcherThreadTools) -> None:
        self._source, self._tools = source, tools

    def look(self, by: Deadline) -> Callable[[str], PartitionBroken | None]:
        """What stands against each topic.

        Raises:
            TanistError: a cluster does not answer, or we may not read its state topic: nothing is copied then.
        """
        reported, view = self._source_state(by), self._tools.state(by)
        return lambda topic: copy_blocked_reason(view, reported, self._tools.spec.mirror, topic)

    def _source_state(self, by: Deadline) -> StateView:
        """Most sources have no state topic: asking whether there is one costs a request."""
        self._source.refresh([STATE_TOPIC], by)
        error = self._source.topics()[STATE_TOPIC].error
        if isinstance(error, UnknownTopicOrPartition):
            return NOTHING_YET
        if error is not None:
            raise error
        return self._tools.source_state(by)
