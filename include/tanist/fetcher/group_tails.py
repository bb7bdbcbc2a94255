"""Which worker follows the groups of a mirror: the owner of one fixed state partition, so exactly one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tanist.domain.names import TopicPartition
from tanist.domain.state_partitions import state_partition_of
from tanist.fetcher.group_tail import GroupTail, TailTools
from tanist.fetcher.rounds import RoundThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.claims import Claims
    from tanist.ports.clock import Clock
    from tanist.ports.state import StateStore

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.5
RESTART_SECONDS: Final = 1.0
STOP_SECONDS: Final = 5.0
_OF_GROUPS: Final = TopicPartition("__groups", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailsTools:
    """Dependencies that all tails share."""

    worker: str
    resolve: Callable[[str], Endpoint]
    state: StateStore
    groups: StateStore
    claims: Claims
    clock: Clock
    state_partitions: int


class GroupTails(RoundThread):
    """Starts, restarts and stops the tails of mirrors whose state partition we own. `stop`, then join."""

    def __init__(self, tools: TailsTools) -> None:
        super().__init__("group-tails")
        self._tools = tools
        self._tails: dict[MirrorName, GroupTail] = {}
        self._not_before: dict[MirrorName, float] = {}

    def _round(self) -> None:
        if not self._stopping.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        mine = {spec.mirror: spec for spec in self._tools.state.view().mirrors() if self._holds(spec)}
        for mirror, tail in list(self._tails.items()):
            if not tail.is_alive():
                log.error("tail of group positions ended, restarting", extra={"why": repr(tail.died)})
                self._not_before[mirror] = self._tools.clock.monotonic() + RESTART_SECONDS
                del self._tails[mirror]
            elif mirror not in mine:
                tail.stop()  # buried by the next look
        for mirror in mine.keys() - self._tails.keys():
            if self._tools.clock.monotonic() >= self._not_before.get(mirror, 0.0):
                self._tails[mirror] = self._start(mine[mirror])

    def _holds(self, spec: MirrorSpec) -> bool:
        return self._tools.claims.holds(state_partition_of(spec.mirror, _OF_GROUPS, self._tools.state_partitions))

    def _start(self, spec: MirrorSpec) -> GroupTail:
        tools = self._tools
        tail = GroupTail(
            TailTools(
                spec=spec,
                worker=tools.worker,
                resolve=lambda: tools.resolve(spec.source),
                state=tools.state,
                groups=tools.groups,
                ours=lambda: self._holds(spec),
                clock=tools.clock,
            )
        )
        tail.start()
        return tail

    def _close(self) -> None:
        by = self._tools.clock.deadline(STOP_SECONDS)
        for tail in self._tails.values():
            tail.stop()
        for tail in self._tails.values():
            tail.join(by.left(self._tools.clock.monotonic()))
