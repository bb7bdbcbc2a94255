"""The dependencies of a fetcher thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.state_view import NOTHING_YET
from tanist.fetcher.totals import ThreadTotals

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.fetcher.claims import Claims
    from tanist.fetcher.throttle import Throttle
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.state import StateStore


def _nothing(_by: Deadline) -> StateView:
    return NOTHING_YET


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherThreadTools:
    """The dependencies of a fetcher thread, usable from that thread."""

    spec: MirrorSpec
    source: Endpoint
    destination: Endpoint
    maps: StateStore
    claims: Claims
    clock: Clock
    client_id: str
    throttle: Throttle
    remembered_ms: int
    """`producer.id.expiration.ms` of the destination, counted from the timestamp of the last batch."""
    state: Callable[[Deadline], StateView] = field(default=_nothing)
    """Reads the destination's state topic again."""
    source_state: Callable[[Deadline], StateView] = field(default=_nothing)
    """Reads the source's state topic again; called only if it exists."""
    losses: StateStore | None = None
    """The destination's state topic, for `LostOffsets`; None: losses are not recorded."""
    totals: ThreadTotals = field(default_factory=ThreadTotals)
    """Where its connections count."""

    def throttled(self, milliseconds: int) -> None:
        """The destination reads no append of the mirror for so long."""
        self.throttle.mute(self.spec.mirror, milliseconds / 1000)
