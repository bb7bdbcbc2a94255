"""What is on record of the promotions that a run makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tanist.domain.failover.plan import Intent
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.state_view import StateView


def of_run(view: StateView, intent: Intent) -> tuple[TopicLineage, ...]:
    """What is stored of the promotions that `intent` makes, by topic."""
    epochs = {each.topic: each.promotion_epoch + 1 for each in intent.topics}
    return tuple(each for each in view.lineage(intent.mirror) if epochs.get(each.topic) == each.promotion_epoch)
