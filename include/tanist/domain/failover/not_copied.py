"""What the source has, or the mirror has taken in since, that a failover would leave behind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tanist.domain.checks import named
from tanist.domain.failover.plan import Limitation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.failover.facts import Facts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import TopicPartition


def not_copied(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """What the source has more is left behind by name, or not at all; a plan counts what there was when it was made."""
    sync = f"add them with `tanist metadata sync {intent.mirror} --destination {facts.destination}`"
    if behind := intent.without_copy:
        why = f"the source has partitions that are not mirrored and are left behind: {_counted(behind)}; {sync}"
        yield Limitation("PARTITIONS_WITHOUT_COPY", why)
    if facts.source.new_topics:
        topics = named(facts.source.new_topics, ", ")
        why = f"topics of the source match the mirror's filters but are not mirrored: {topics}; {sync}"
        yield Limitation("TOPICS_WITHOUT_COPY", why, about=facts.source.new_topics)
    reported = {*intent.partitions, *behind}
    seen = [*(each.partition for each in facts.partitions), *(each.partition for each in facts.source.uncopied)]
    whys = []
    if since := sorted(at for at in seen if at.topic in intent.names and at not in reported):
        whys.append(f"new: {_counted(since)}; {sync}")
    if intent.whole and facts.besides:
        whys.append(f"new in the mirror, but not in this plan of all its topics: {named(facts.besides, ', ')}")
    if whys:
        yield Limitation("GROWN_SINCE_PLANNED", f"{'; '.join(whys)}, then plan again", blocks=True)


def _counted(partitions: Iterable[TopicPartition]) -> str:
    return named((f"{count} of {topic}" for topic, count in Counter(at.topic for at in partitions).items()), ", ")
