"""Which mirrors have a way back. One with mapped offsets has none yet: that is refused here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode
from tanist.domain.errors import Misconfigured, Refused

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.domain.records import MirrorSpec, TopicDesired


class NoWayBack(Refused):
    """Both logs would have to agree on what an offset names, and the offsets of such a copy are its own."""

    name = "NO_WAY_BACK"
    operator_action = (
        "create a new mirror in the other direction, from the cluster that has taken over and under other names "
        "(`tanist mirrors create` with --offsets mapped --rename 'back.{topic}'); nothing was changed"
    )


def no_way_back(spec: MirrorSpec) -> NoWayBack | None:
    """Why the old source of a mirror is not surveyed, and the mirror not reversed; None: both can be."""
    if not spec.is_mapped:
        return None
    return NoWayBack(
        f"mirror {spec.mirror!r} has mapped offsets, so no record of {spec.source!r} is found by its offset at "
        f"{spec.destination!r}: its old source is not surveyed, and it is not reversed"
    )


def must_have_way_back(spec: MirrorSpec) -> None:
    """Raises NoWayBack."""
    if (why := no_way_back(spec)) is not None:
        raise why


def must_be_reversible(
    spec: MirrorSpec, mode: Mode, wanted: Collection[TopicDesired], known: Collection[TopicDesired]
) -> None:
    """Whether a failover of the topics `wanted` may end with a reversal. `known`: those that are in the mirror.

    Raises:
        NoWayBack. Misconfigured: it is not a planned failover of all of them.
    """
    must_have_way_back(spec)
    if mode is not Mode.PLANNED:
        raise Misconfigured(
            "--reverse is for planned failovers: after an unplanned one `tanist failback survey` comes first"
        )
    if left := sorted({each.topic for each in known} - {each.topic for each in wanted}):
        raise Misconfigured(
            f"--reverse needs all topics of the mirror, which has one direction: {', '.join(left[:5])} would stay"
        )
