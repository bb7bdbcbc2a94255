"""What a lane is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tanist.domain.endpoint import Endpoint
    from tanist.domain.records import MirrorSpec
    from tanist.fetcher.claims import Claims
    from tanist.ports.clock import Clock, Deadline
    from tanist.ports.state import StateStore


def _nothing(_by: Deadline) -> Callable[[str], bool]:
    return lambda _topic: False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTools:
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
    promoted: Callable[[Deadline], Callable[[str], bool]] = field(default=_nothing)
    """Reads the state topic anew: which topics have left the mirror, so that nobody may copy into them any more."""
