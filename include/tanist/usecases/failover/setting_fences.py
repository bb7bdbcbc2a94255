"""Source fences are set and lifted: what was there before is read and stored first, so lifting is the exact inverse."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.answers import attempt
from tanist.domain.errors import TanistError
from tanist.domain.fences import HOLDS_PRODUCERS_OFF, FencedTopic, FenceStatus, is_stray, may_stand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.fences import FenceBefore
    from tanist.domain.names import EpochMs
    from tanist.ports.clock import Deadline
    from tanist.ports.cluster import Cluster


def to_be_set(
    source: Cluster, names: Iterable[str], held: Mapping[str, FencedTopic], plan: str | None, by: Deadline
) -> dict[str, FencedTopic | TanistError]:
    """Of each topic what has to be stored before its fence is set, or why the source does not tell it.

    `held`: the fences on record. `plan`: which one needs them; None: the same as before. A fence of ours that is in
    force already is no new "before". Neither is one that was lifted and is in force again: taken for somebody else's it
    could never be lifted.
    """
    wanted = tuple(names)
    recorded = {name: held[name] for name in wanted if name in held}
    ended = [each.before for each in recorded.values() if each.before and not may_stand(each)]
    stands = source.fencing.fence_status(ended, by) if ended else {}
    ours = {
        name: each
        for name, each in recorded.items()
        if may_stand(each) or is_stray(each, stands=stands.get(name) is True)
    }
    unknown = {name: why for name, why in stands.items() if isinstance(why, TanistError)}
    new = [name for name in wanted if name not in ours and name not in unknown]
    answers = attempt(lambda: source.fencing.snapshot(new, by)) if new else {}
    entries: dict[str, FencedTopic | TanistError] = {}
    for name in wanted:
        wanted_by = held[name].wanted_by if plan is None else plan
        if name in ours:
            entries[name] = _again(ours[name], wanted_by)
            continue
        found = unknown.get(name) or (answers if isinstance(answers, TanistError) else answers[name])
        entries[name] = (
            found
            if isinstance(found, TanistError)
            else FencedTopic(topic=name, status=FenceStatus.SNAPSHOT, wanted_by=wanted_by, before=found)
        )
    return entries


def _again(old: FencedTopic, wanted_by: str) -> FencedTopic:
    """A proof counts as long as the fence has not been lifted."""
    status = old.status if old.status in HOLDS_PRODUCERS_OFF else FenceStatus.SNAPSHOT
    since = old.proved_at if status is old.status else None
    return replace(old, status=status, wanted_by=wanted_by, proved_at=since)


def applied(source: Cluster, entries: Iterable[FencedTopic], by: Deadline) -> dict[str, FencedTopic | TanistError]:
    """Set the fences of `entries`, whose settings before are stored: each entry as it is then, or why it is not set."""
    due = {each.topic: each for each in entries if each.before}
    before = [each.before for each in due.values() if each.before]
    answers = attempt(lambda: source.fencing.apply(before, by)) if before else {}
    after: dict[str, FencedTopic | TanistError] = {}
    for name, each in due.items():
        error = answers if isinstance(answers, TanistError) else answers[name]
        after[name] = replace(each, status=FenceStatus.IN_FORCE, reason="") if error is None else error
    return after


def lifted(
    source: Cluster | TanistError, entries: Iterable[FencedTopic], by: Deadline, now: EpochMs
) -> list[FencedTopic]:
    """`entries` after lifting. What was never set is owed no more; where an answer was lost it may be in force."""
    held = list(entries)
    fences = [each.before for each in held if each.before and may_stand(each)]
    answers = _lifted_at(source, fences, by) if fences else {}
    after = []
    for each in held:
        if (error := _answer(each, answers)) is None:
            after.append(replace(each, status=FenceStatus.LIFTED, reason="", proved_at=None, lift_asked_at=None))
        else:
            asked = each.lift_asked_at or now
            after.append(replace(each, status=FenceStatus.LIFT_PENDING, reason=str(error), lift_asked_at=asked))
    return after


def _lifted_at(
    source: Cluster | TanistError, fences: Sequence[FenceBefore], by: Deadline
) -> Mapping[str, TanistError | None] | TanistError:
    """By topic why its fence may still be in force. One that is not, as the source says, has nothing to lift.

    A login that may not lift a fence could not set it either.
    """
    if isinstance(source, TanistError):
        return source
    answers = attempt(lambda: source.fencing.lift(fences, by))
    if isinstance(answers, TanistError) or not any(answers.values()):
        return answers
    failed = [each for each in fences if answers.get(each.topic) is not None]
    stands = attempt(lambda: source.fencing.fence_status(failed, by))
    gone = set() if isinstance(stands, TanistError) else {topic for topic, found in stands.items() if found is False}
    return {topic: None if topic in gone else error for topic, error in answers.items()}


def _answer(each: FencedTopic, answers: Mapping[str, TanistError | None] | TanistError) -> TanistError | None:
    if not may_stand(each):
        return None
    return answers if isinstance(answers, TanistError) else answers.get(each.topic)
