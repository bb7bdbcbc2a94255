"""The promotion epoch of an added topic. If only the source has recorded a promotion, an operator decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.problems import refuse
from tanist.domain.promotions import replaced
from tanist.domain.records import STATE_TOPIC, PromotionEpoch
from tanist.usecases import rights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.usecases.snapshot import ClusterSnapshot


def read_promotions(source: ClusterSnapshot, by: Deadline) -> StateView:
    """The promotions that are recorded at a source.

    Raises:
        AuthorizationFailed: we lack the permission to read it. Otherwise the source's error.
    """
    try:
        return source.state(STATE_TOPIC, by)
    except TanistError as error:
        raise rights.named(error, source.cluster, f"READ on Topic {STATE_TOPIC}") from error


def promotion_epochs_on_add(
    source: ClusterSnapshot,
    view: StateView,
    mirror: MirrorName,
    names: Sequence[str],
    by: Deadline,
    *,
    acknowledged: bool,
) -> Mapping[str, int]:
    """The promotion epoch of each topic to add. `acknowledged`: also topics in which the source was replaced.

    Raises:
        SourceReplaced, or several: another cluster took over from it. AuthorizationFailed: we lack READ.
    """
    if not names:
        return {}
    reported = read_promotions(source, by)
    both = {name: (reported.promotions(mirror, name), view.promotions(mirror, name)) for name in names}
    higher = [replaced(mirror, name, there, here) for name, (there, here) in both.items() if there > here]
    if higher and not acknowledged:
        refuse(higher)
    return {name: max(counts) for name, counts in both.items()}


def raised_promotions(view: StateView, spec: MirrorSpec, entered: Mapping[str, int]) -> tuple[PromotionEpoch, ...]:
    """Promotion epochs of the source that the destination has to record as well."""
    return tuple(
        PromotionEpoch(mirror=spec.mirror, mirror_id=spec.mirror_id, topic=name, count=count)
        for name, count in entered.items()
        if count > view.promotions(spec.mirror, name)
    )
