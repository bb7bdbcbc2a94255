"""Source and destination of a mirror, as group commands query them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.ports.cluster import Cluster
    from tanist.ports.positions import Positions, Proofs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContacts:
    """The ports of a source that is configured on this host; the source may be down."""

    cluster: Cluster
    positions: Positions
    proofs: Proofs


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContacts:
    """`source` is an error if the source cannot be queried at all."""

    destination: Cluster
    positions: Positions
    source: SourceContacts | TanistError
