"""A reversal that comes too late: the old source has taken over again since its plan was made.

It cannot be completed, nor may it put anything back: the old source is a live primary, and must not be fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import named
from tanist.domain.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Collection

    from tanist.domain.failback.reversal import Reversal
    from tanist.domain.names import MirrorName
    from tanist.domain.state_view import StateView


class ReversalOutdated(Refused):
    name = "REVERSAL_OUTDATED"
    operator_action = (
        "`tanist mirrors reverse NAME --withdraw --reason TEXT` ends this reversal without changing the old source; "
        "nothing was changed"
    )


def promoted_since(reversal: Reversal, mirror: MirrorName, mirror_id: str, views: Collection[StateView]) -> str:
    """The topics of `reversal` that were promoted after its plan was made, in words; empty: none.

    `views`: of the state topics of both clusters, as a promotion is counted on both.
    """
    later = []
    for topic in reversal.topics:
        found = (view.promotion(mirror, topic.topic) for view in views)
        count = max((each.count for each in found if each is not None and each.mirror_id == mirror_id), default=0)
        if count > topic.promotion_epoch:
            later.append(f"{topic.topic} (promotion {count}, planned at {topic.promotion_epoch})")
    return named(later)
