"""What a lane is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tanist.domain.state_view import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.fetcher.claims import Claims
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.state import StateStore


def _nothing(_by: Deadline) -> StateView:
    return NOTHING_YET


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherThreadTools:
    """What a lane needs of the world; all of it may be used from its thread."""

    spec: MirrorSpec
    source: Endpoint
    destination: Endpoint
    maps: StateStore
    claims: Claims
    clock: Clock
    client_id: str
    remembered_ms: int
    """How long the destination's brokers remember a producer id after the timestamp of its last batch."""
    state: Callable[[Deadline], StateView] = field(default=_nothing)
    """The destination's state topic, read anew."""
    source_state: Callable[[Deadline], StateView] = field(default=_nothing)
    """The source's own state topic, read anew; only asked for where it has one."""
