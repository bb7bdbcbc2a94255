"""Both ends of a mirror, as group commands ask them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.ports.cluster import Cluster
    from tanist.ports.positions import Positions, Proofs


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContacts:
    """What asks a source that is configured here; it may be dead all the same."""

    cluster: Cluster
    positions: Positions
    proofs: Proofs


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContacts:
    """`source` is an error where nothing can even be asked."""

    destination: Cluster
    positions: Positions
    source: SourceContacts | TanistError
