"""The record of the last commit of translated positions of a mirror."""

from __future__ import annotations

from dataclasses import dataclass, field

from tanist.domain.names import EpochMs, MirrorName  # noqa: TC001  # the codec reads the annotations
from tanist.domain.state_record import MirrorRecord, RecordPolicy, stored, stored_since


@stored("synced", "mirror", policy=RecordPolicy(saved=False))
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSynced(MirrorRecord):
    """When the positions of all groups of a mirror were last translated and committed.

    `positions`: how many there were; `withheld`: those of them that were not committed, with a reason each.
    `renewed_at`: when all were committed last, also those that had not moved. `rewound`: groups that were set back at
    the source, and of which a person decides whether they follow.
    """

    mirror: MirrorName
    positions: int
    withheld: int
    at: EpochMs
    renewed_at: EpochMs
    mirror_id: str = ""
    rewound: tuple[str, ...] = field(default=(), metadata=stored_since(1))
