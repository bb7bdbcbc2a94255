"""Which topics of a saved mirror were failed over after the export, as their logs and their source show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.problems import refuse
from tanist.domain.saved_state import PromotedSince, StateOutdated, led_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.errors import TanistError
    from tanist.domain.names import TopicPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView


def promoted_since(
    spec: MirrorSpec, before: StateView, at_source: StateView, fenced: Mapping[TopicPartition, str]
) -> dict[str, PromotedSince]:
    """The topics that were failed over since the export, by name.

    `before`: the saved state; `fenced`: the partitions with a producer fence, and what shows it.

    Raises:
        StateOutdated, or several: the source took over again since, so the saved state has two roles swapped.
    """
    found: dict[str, PromotedSince] = {}
    outdated: list[TanistError] = []
    for topic in before.mirrored(spec.mirror):
        counted = at_source.promotions(spec.mirror, topic.topic)
        here = max(before.promotions(spec.mirror, topic.topic), topic.promotion_epoch)
        why = next((fenced[at] for at in topic.all_partitions() if at in fenced), None)
        if (last := led_elsewhere(at_source, spec, topic.topic, here)) is not None:
            outdated.append(
                StateOutdated(
                    f"{topic.topic!r} of mirror {spec.mirror!r}: cluster {last.new_cluster_id} took over at promotion "
                    f"{last.promotion_epoch}, the export knows of {here}: it is the primary, not the old source"
                )
            )
        elif counted > here:
            found[topic.topic] = PromotedSince(counted, f"{spec.source!r} knows of promotion {counted}")
        elif why is not None:
            found[topic.topic] = PromotedSince(here + 1, why)
    if outdated:
        refuse(outdated)
    return found


def reported(
    spec: MirrorSpec, before: StateView, at_source: StateView, promoted: Mapping[str, PromotedSince]
) -> Iterator[StateRecord]:
    """What the source has recorded of promotions since the export."""
    for topic, since in promoted.items():
        counted = at_source.promotion(spec.mirror, topic)
        if counted is not None and counted.mirror_id == spec.mirror_id and counted.count == since.promotion_epoch:
            yield counted
    entries = (each for each in at_source.lineage(spec.mirror) if each.mirror_id == spec.mirror_id)
    yield from (each for each in entries if each.key not in before)
