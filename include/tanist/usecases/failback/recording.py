"""`tanist failback survey`: holds what the old source has, compares it, and puts the tails on record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tanist.domain.errors import TanistError
from tanist.domain.failback.survey import stage_of, tail_on_record
from tanist.domain.failover.plan import is_another_topic
from tanist.domain.selection import EVERY_TOPIC
from tanist.domain.state_record import Tombstone
from tanist.domain.tails import TailStage, TopicTails, hold_changes, hold_of
from tanist.usecases.failback.survey import failed_over, survey, topics_only_there
from tanist.usecases.lock import changing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.failback.survey import PartitionSurvey
    from tanist.domain.lineage import TopicLineage
    from tanist.domain.selection import Selection
    from tanist.domain.state_view import StateView
    from tanist.usecases.command import CommandContext
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
    if wanted := {topic: changes for topic, facts in found.items() if (changes := hold_changes(facts.configs))}:
        locked.confirm()
        answers = clusters.source.topics.alter_configs(wanted, command.by)
        failed |= {topic: error for topic, error in answers.items() if error}
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
    changes: dict[str, dict[str, str | None]] = {}
    for each in wanted:
        facts = described[each.topic]
        if isinstance(facts, TanistError):
            failed[each.topic] = facts
        elif facts.topic_id == each.topic_id:
            changes[each.topic] = dict(each.before)
    locked.confirm()
    answers = clusters.source.topics.alter_configs(changes, command.by)
    failed |= {topic: error for topic, error in answers.items() if error}
    locked.append([Tombstone(each.key) for each in wanted if each.topic not in failed])
    return failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """`not_held`: topics whose retention could not be held, or not be put back, and why.

    `without_copy`: see `topics_only_there`; looked for if all topics are surveyed.
    """

    found: tuple[PartitionSurvey, ...]
    recorded: tuple[TopicTails, ...]
    not_held: Mapping[str, TanistError]
    without_copy: tuple[str, ...] = ()


def survey_and_record(clusters: ReturnedMirror, topics: Selection, command: CommandContext) -> Surveyed:
    """Survey the topics, and record the tails of those whose old source cannot get more records.

    Raises:
        As `survey`. MirrorLocked: another operation of this mirror is at work.
    """

    def check(view: StateView) -> object:
        return failed_over(view, clusters.spec.mirror, topics)

    with changing(
        clusters.destination, clusters.spec.mirror, "failback survey", command, check, patient=True
    ) as locked:
        found = surveyed(clusters, topics, locked)
    return found if topics != EVERY_TOPIC else replace(found, without_copy=topics_only_there(clusters, command))


def surveyed(clusters: ReturnedMirror, topics: Selection, locked: LockedMirror | Rehearsal) -> Surveyed:
    """As `survey_and_record`, under the lock of the caller."""
    view, mirror = locked.view(), clusters.spec.mirror
    promoted = {entry.topic: entry for _, entry in failed_over(view, mirror, topics)}
    held = {(each.topic, each.promotion_epoch): each for each in view.tails(mirror)}
    open_topics = [
        topic
        for topic, entry in promoted.items()
        if (tails := held.get((topic, entry.promotion_epoch))) is None or tails.stage is not TailStage.DONE
    ]
    failed = hold(clusters, open_topics, locked)
    found = survey(clusters, topics, locked.command)
    known = known_tails(clusters, found, view, locked.command)
    if changed := [each for each in known if each != held.get((each.topic, each.promotion_epoch))]:
        locked.append(changed)
    done = [each.topic for each in known if each.stage is TailStage.DONE]
    failed |= release(clusters, done, locked)
    return Surveyed(found=found, recorded=tuple(known), not_held=failed)


def known_tails(
    clusters: ReturnedMirror, found: Sequence[PartitionSurvey], view: StateView, command: CommandContext
) -> tuple[TopicTails, ...]:
    """What is to be on record of the surveyed topics; none of a topic whose old source may still get records."""
    mirror = clusters.spec.mirror
    held = {(each.topic, each.promotion_epoch): each for each in view.tails(mirror)}
    last = {each.topic: each for each in view.lineage(mirror)}
    known = []
    for topic in dict.fromkeys(each.partition.topic for each in found):
        entry, partitions = last[topic], [each for each in found if each.partition.topic == topic]
        now = _tails(clusters, entry, partitions, held.get((topic, entry.promotion_epoch)), command)
        if now is not None:
            known.append(now)
    return tuple(known)


def _tails(
    clusters: ReturnedMirror,
    entry: TopicLineage,
    found: Sequence[PartitionSurvey],
    before: TopicTails | None,
    command: CommandContext,
) -> TopicTails | None:
    """What is to be on record of a topic; None: the old source may still get records, or is not known."""
    if not found or not all(each.can_be_recorded for each in found):
        return before
    tails = tuple(tail_on_record(each) for each in found)
    if before is not None and (tails == before.tails or before.stage is TailStage.DECIDED):
        return before  # what has come while a decision is carried out is found by the survey after it
    now = command.clock.now()
    if before is not None:
        return replace(before, tails=tails, stage=stage_of(tails, before.stage), at=now)
    return TopicTails(
        mirror=clusters.spec.mirror,
        mirror_id=clusters.spec.mirror_id,
        topic=entry.topic,
        promotion_epoch=entry.promotion_epoch,
        cluster_id=entry.old_cluster_id,
        tails=tails,
        stage=stage_of(tails, TailStage.SURVEYED),
        at=now,
    )
