"""Keeps the records of an old source until its tails are done: retention and cleaning are held, and put back after.

Retention deletes from the first second after the old source has returned, and a compacted topic is cleaned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.failover.plan import is_another_topic
from tanist.domain.state_record import Tombstone
from tanist.domain.tails import hold_changes, hold_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.usecases.lock import LockedMirror, Rehearsal
    from tanist.usecases.mirror import ReturnedMirror


def hold(clusters: ReturnedMirror, topics: Sequence[str], locked: LockedMirror | Rehearsal) -> dict[str, TanistError]:
    """Hold retention and cleaning of `topics` at the old source; returns the topics where that failed.

    What they had is stored before anything is set, so a command that was killed in between is simply run again.
    """
    command, held = locked.command, locked.view().retention_held(clusters.spec.mirror)
    if command.dry_run:
        return {}
    described, desired = clusters.source.topics.describe(list(topics), command.by), locked.view().topic
    failed = {topic: facts for topic, facts in described.items() if isinstance(facts, TanistError)}
    found = {
        topic: facts
        for topic, facts in described.items()
        if not isinstance(facts, TanistError)
        and not ((of := desired(clusters.spec.mirror, topic)) and is_another_topic(facts.topic_id, of.source_topic_id))
    }
    spec, now = clusters.spec, command.clock.now()
    new = [
        hold_of(spec.mirror, spec.mirror_id, topic, facts.configs, facts.topic_id, now)
        for topic, facts in sorted(found.items())
        if topic not in held or held[topic].topic_id != facts.topic_id
    ]
    if new:
        locked.append(new)
    for topic, facts in found.items():
        if not (changes := hold_changes(facts.configs)):
            continue
        locked.confirm()
        if error := clusters.source.topics.alter_configs(topic, changes, command.by):
            failed[topic] = error
    return failed


def release(
    clusters: ReturnedMirror, topics: Iterable[str], locked: LockedMirror | Rehearsal
) -> dict[str, TanistError]:
    """Put back what `topics` had before they were held; returns the topics where that failed: they stay held."""
    command, held = locked.command, locked.view().retention_held(clusters.spec.mirror)
    wanted = [held[topic] for topic in topics if topic in held]
    if not wanted or command.dry_run:
        return {}
    described = clusters.source.topics.describe([each.topic for each in wanted], command.by)
    failed: dict[str, TanistError] = {}
    for each in wanted:
        facts = described[each.topic]
        if isinstance(facts, TanistError):
            failed[each.topic] = facts
            continue
        locked.confirm()
        error = None
        if facts.topic_id == each.topic_id:
            error = clusters.source.topics.alter_configs(each.topic, dict(each.before), command.by)
        if error is not None:
            failed[each.topic] = error
        else:
            locked.append([Tombstone(each.key)])
    return failed
