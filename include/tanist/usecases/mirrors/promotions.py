"""A topic is taken in at the generation that both sides know of; where the source knows of more, a person decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.problems import refuse
from tanist.domain.promotions import replaced
from tanist.domain.records import STATE_TOPIC, PromotionEpoch
from tanist.usecases import rights, state_topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.names import MirrorName
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster


def read_promotions(source: Cluster, by: Deadline) -> StateView:
    """What a source was told of promotions.

    Raises:
        AuthorizationFailed: we may not read it. What the source answers otherwise.
    """
    try:
        return state_topics.read(source, STATE_TOPIC, by)
    except TanistError as error:
        raise rights.named(error, source, f"READ on Topic {STATE_TOPIC}") from error


def promotion_epochs_on_add(
    source: Cluster, view: StateView, mirror: MirrorName, names: Sequence[str], by: Deadline, *, acknowledged: bool
) -> Mapping[str, int]:
    """The generation at which each topic is taken in. `acknowledged`: also topics that the source was replaced in.

    Raises:
        SourceReplaced, or several: copying from it would resume its old life. AuthorizationFailed: we may not read it.
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
    """What the destination has to count, too."""
    return tuple(
        PromotionEpoch(mirror=spec.mirror, mirror_id=spec.mirror_id, topic=name, count=count)
        for name, count in entered.items()
        if count > view.promotions(spec.mirror, name)
    )
