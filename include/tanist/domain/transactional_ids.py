"""The transactional ids of a mirror with mapped offsets: one for each partition of the state topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec

_SHORT: Final = 8  # characters of a mirror id, which is a UUID: its first group


def transactional_id_prefix(mirror: MirrorName, mirror_id: str) -> str:
    """What the transactional ids of a mirror begin with. A later mirror of its name has another one.

    It begins with `tanist-`, for which the login of mirrors has WRITE.
    """
    return f"tanist-{mirror}-{mirror_id[:_SHORT]}"


def transactional_id_of(spec: MirrorSpec, state_partition: int) -> str:
    """In whose transactions the partitions of one state partition are copied to a mirror with mapped offsets.

    Only the worker that holds the lease of that state partition may use it.
    """
    return f"{spec.transactional_id}-{state_partition}"
