"""Reasons of limitations: undecided tails, what was not copied, old fences, access, damage of the state topics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import MOST_NAMED, Check, Mode, Verdict, named, worst
from tanist.domain.errors import TanistError
from tanist.domain.failover.commands import accept_undecided_command, add_command, others_command, remove_command
from tanist.domain.failover.facts import is_locked
from tanist.domain.fences import FenceStatus, fence_command, is_stray
from tanist.domain.limitation import Limitation
from tanist.domain.tails import FindingKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tanist.domain.failover.facts import Facts, ObservedTopic, PartitionFacts
    from tanist.domain.failover.plan import Intent
    from tanist.domain.names import TopicPartition
    from tanist.domain.readers import Readers


DETACHED: Final = "TOPICS_DETACHED"


def of_undecided(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """A planned failover is refused until somebody accepts it by name; an unplanned one names it."""
    if found := [each for each in facts.undecided if each.topic in intent.names]:
        yield Limitation(
            str(FindingKind.UNDECIDED),
            "the mirror was reversed while nobody had decided about records that only its old source had, and no "
            f"command rescues them any more: {named(found)}; read them in that cluster's log if they are needed, then "
            f"`{accept_undecided_command(intent.mirror, facts.destination)}`",
            blocks=intent.mode is Mode.PLANNED,
            about=tuple(sorted({each.topic for each in found})),
        )


def of_mapped(facts: Facts) -> Iterator[Limitation]:
    """What identical offsets give, and these copies cannot: said once, whatever comes next."""
    if facts.is_mapped:
        why = (
            "the offsets of the copies are their own, so after this failover the mirror has no way back and is not "
            "reversed, records that only the old source has are not recovered, and no offset is reserved; committed "
            "offsets of groups are translated exactly"
        )
        yield Limitation("OFFSETS_MAPPED", why, usual=True)


NOT_FENCED: Final = "SOURCE_NOT_FENCED"
NOT_GRANTED: Final = "WRITERS_NOT_GRANTED"


def of_left_to_people(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """What failovers of this mirror are set to leave out, so that no login needs ALTER on a cluster."""
    if not intent.topics:
        return
    if not facts.fences_source:
        waits = "the run waits until no partition has taken a record for a while, and stops if that does not happen; "
        why = (
            "producers of the source are not blocked: stop them yourself before the run; "
            f"{waits if intent.mode is Mode.PLANNED else ''}what they write afterwards is not copied"
        )
        yield Limitation(NOT_FENCED, why)
    if facts.destination_authorizer and not facts.grants_writers:
        why = (
            "who may write at the destination is neither looked at nor changed: grant WRITE to the producers yourself; "
            "the mirror's login keeps its own, and only its producers are fenced for good"
        )
        yield Limitation(NOT_GRANTED, why)


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
    names, whys = frozenset(intent.names), []
    if since := sorted(at for at in seen if at.topic in names and at not in reported):
        whys.append(f"new: {_counted(since)}; {sync}")
    if intent.whole and facts.besides:
        whys.append(f"new in the mirror, but not in this plan of all its topics: {named(facts.besides, ', ')}")
    if whys:
        yield Limitation("GROWN_SINCE_PLANNED", f"{'; '.join(whys)}, then plan again", blocks=True)


def of_detached(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """A failover of all topics leaves detached ones out, by name; one that was detached since it was planned stops it.

    Who fails over a part leaves the rest on purpose.
    """
    if since := sorted({*intent.names} & {*facts.detached}):
        why = f"detached since the plan was made, plan again: {named(since, ', ')}"
        yield Limitation(DETACHED, why, blocks=True, about=tuple(since))
    elif intent.whole and facts.detached:
        add = add_command(intent, facts.detached[:MOST_NAMED], facts.destination)
        why = (
            "detached topics are left out: nothing is copied to them, they stay closed to writers, and their producers "
            f"stay at the source: {named(facts.detached, ', ')}; `{add}` takes them in again"
        )
        yield Limitation(DETACHED, why, about=facts.detached)


def _counted(partitions: Iterable[TopicPartition]) -> str:
    return named((f"{count} of {topic}" for topic, count in Counter(at.topic for at in partitions).items()), ", ")


def of_old_fences(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """Source fences that no unfinished failover has set: they block producers of a source that is in use.

    An unplanned failover needs its source to be fenced, whoever has done it: that is no reason against one.
    """
    # an unfinished run needs its fence: RUN_UNFINISHED reports it
    if intent.mode is Mode.UNPLANNED or is_locked(facts) or facts.others_running:
        return
    standing = [
        (each.source_fence.topic, each.source_fence.status)
        for each in facts.of(intent.names)
        if each.source_fence and _stands(each)
    ]
    left = {topic: f"{topic} ({status})" for topic, status in standing if status is not FenceStatus.UNRECORDED}
    strange = [topic for topic, status in standing if status is FenceStatus.UNRECORDED]
    lift = partial(fence_command, "lift", intent.mirror, facts.destination)
    why = (
        *((f"left by an earlier failover: {named(left.values())}; lift it with `{lift([*left])}`",) if left else ()),
        *((f"not on record: {named(strange)}; lift it with `{lift(strange, '--unrecorded')}`",) if strange else ()),
    )
    if why:
        yield Limitation("SOURCE_FENCED", "; ".join(why))


def _stands(seen: ObservedTopic) -> bool:
    """Whether a source fence of ours is in force, or recorded as such; False for one that was there before ours."""
    fence = seen.source_fence
    if fence is None:
        return False
    return fence.status is not FenceStatus.LIFTED or bool(fence.reason) or is_stray(fence, stands=seen.fence_stands)


LOCKED_OUT: Final = "WRITERS_LOCKED_OUT"
CHANGED: Final = "SOURCE_ACLS_CHANGED"


def of_access(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """Nobody is denied by a failover silently: an approver accepts each principal by name.

    Nothing where people grant WRITE: what a plan says must not depend on whether its login is shown ACLs.
    """
    if not facts.grants_writers:
        return
    seen = list(facts.of(intent.names))
    if shut := [f"{each.topic}: {who}" for each in seen for who in each.locked_out]:
        how = "allow them to write there (remove a DENY of the destination), or accept that they stop"
        why = f"may write at the source and could not at the destination: {named(shut, ', ')}; {how}"
        yield Limitation(LOCKED_OUT, why, about=tuple(sorted(shut)))
    changed = [f"{each.topic}: {what}" for each in seen for what in each.acls_changed]
    if changed and intent.mode is Mode.PLANNED:  # a source that answers again voids no unplanned failover by it
        how = f"`tanist metadata sync {intent.mirror} --destination {facts.destination}` takes it over"
        why = f"who may write at the source has changed since it was stored: {named(changed, ', ')}; {how}"
        yield Limitation(CHANGED, why, about=tuple(sorted(changed)))


def access_check(found: Mapping[str, Sequence[str]] | TanistError, readers: Readers, alter: str) -> Check:
    """Whether the producers of the old source may write to each failed-over topic, and who reads there may read here.

    `found`: by topic, who may not write. `readers`: who may not read. `alter`: the command that lets ACLs follow.
    """
    written = _writers_check(found)
    if not readers:
        return written
    lacking = named(readers.lacking)
    why = f"{lacking}; {alter} lets their ACLs follow, or allow them by hand" if lacking else readers.unknown
    verdict = Verdict.FAIL if readers.lacking else Verdict.UNKNOWN if readers.unknown else Verdict.PASS
    many = f"{len(readers.lacking)} reader(s) of the source may not read at the destination, as far as ACLs show"
    return replace(
        written,
        verdict=worst((written.verdict, verdict)),
        observed=f"{written.observed}; {many if not readers.unknown else 'who may read is not known'}",
        limit=f"{written.limit}, and all who read at the source (super users, roles and IAM are not visible)",
        reason="; ".join(filter(None, (written.reason, why))),
    )


def _writers_check(found: Mapping[str, Sequence[str]] | TanistError) -> Check:
    limit = "all who could write at the old source"
    if isinstance(found, TanistError):
        observed = "the destination does not report its ACLs"
        return Check(name="access", verdict=Verdict.UNKNOWN, observed=observed, limit=limit, reason=str(found))
    shut = [f"{topic}: {who}" for topic, principals in sorted(found.items()) for who in principals]
    why = "; allow them to write (`kafka-acls.sh`; a DENY has to be removed), unless that is meant" if shut else ""
    return Check(
        name="access",
        verdict=Verdict.FAIL if shut else Verdict.PASS,
        observed=f"{len(shut)} producer(s) of the old source may not write to failed-over topics",
        limit=limit,
        age_ms=0,
        reason=named(shut, ", ") + why,
    )


def damage(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """A planned failover waits until it is mended. In an unplanned one an approver accepts it by name.

    Whether it could be mended would depend on whether the source answers, and a source that answers voids nothing.
    """
    planned = intent.mode is Mode.PLANNED
    ours = frozenset(intent.partitions)
    seen = tuple(facts.of(intent.names))
    if short := [each for each in facts.partitions if each.partition in ours and each.missing_at_start]:
        what = named(f"{e.partition} begins at {e.start}: {e.missing_at_start} offsets are missing" for e in short)
        again = _copied_again(intent, facts, (each.partition.topic for each in short))
        why = f"records that the source still has are missing from the start of the mirror topic: {what}; {again}"
        yield Limitation(
            "COPY_TRUNCATED",
            why,
            blocks=planned,
            about=tuple(f"{e.partition} begins at {e.start}" for e in short),
        )
    yield from _of_strangers(intent, facts)
    yield from _of_truncated_sources(intent, facts)
    yield from _of_deleted_sources(intent, facts)
    if more := [each for each in seen if _has_more(each)]:
        what = named(f"{each.topic} has {each.partitions} instead of {each.mirrored}" for each in more)
        why = (
            f"partitions were added at the destination: {what}; {_copied_again(intent, facts, (e.topic for e in more))}"
        )
        yield Limitation("COPY_HAS_MORE_PARTITIONS", why, blocks=planned)
    if other := [each for each in seen if each.recreated]:
        again = _copied_again(intent, facts, (each.topic for each in other))
        why = f"{named(each.recreated for each in other)}; {again}"
        yield Limitation("TOPIC_RECREATED", why, blocks=planned)
    if altered := [f"{each.topic}: {', '.join(each.altered)}" for each in seen if each.altered]:
        why = (
            f"altered configurations may delete records of the mirror topic, or change new ones: {named(altered)}; "
            f"`tanist metadata sync {intent.mirror} --destination {facts.destination}` corrects them, "
            f"`tanist validate {intent.mirror} --destination {facts.destination}` compares records"
        )
        yield Limitation("COPY_CONFIGS_ALTERED", why, blocks=planned)
    if facts.grants_writers:
        yield from _of_other_writers(seen)


def _of_other_writers(seen: Sequence[ObservedTopic]) -> Iterator[Limitation]:
    """Who is accepted is named one by one; where nobody can be named it is news to whoever accepted names."""
    unreported = [each.topic for each in seen if each.others is None]
    writers = [f"{each.topic}: {', '.join(each.others)}" for each in seen if each.others]
    about = tuple(f"{each.topic}: {other}" for each in seen for other in each.others or ())
    whys = []
    if unreported:
        whys.append(f"cannot determine which other principals may write to the mirror topic: {named(unreported)}")
    if writers:
        whys.append(f"principals other than the mirror may write to the mirror topic: {named(writers)}")
    if whys:
        unknown = tuple(f"{topic}: unknown" for topic in unreported)
        yield Limitation(OTHERS, "; ".join(whys), about=(*about, *unknown), momentary=bool(unreported))


def _of_strangers(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """Both ends agree, and the copy lacks as many records of the source as it has of somebody else."""
    ours = frozenset(intent.partitions)
    if strange := [each.partition for each in facts.partitions if each.partition in ours and each.foreign]:
        again = _copied_again(intent, facts, (at.topic for at in strange))
        why = f"the last records were not written by the mirror: {named(strange, ', ')}; {again}"
        blocks = intent.mode is Mode.PLANNED
        yield Limitation("COPY_HAS_FOREIGN_RECORDS", why, blocks=blocks, about=tuple(map(str, strange)))
    there = (each for each in facts.partitions if each.partition in ours and each.end is not None)
    if unreported := [each.partition for each in there if each.foreign is None]:
        why = f"cannot determine which producer wrote the last records: {named(unreported, ', ')}"
        planned, about = intent.mode is Mode.PLANNED, tuple(map(str, unreported))
        yield Limitation("COPY_WRITER_UNKNOWN", why, blocks=planned, unknown=planned, about=about, momentary=True)


def _of_truncated_sources(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """The judge sees it at once, a worker reports it after a while: the plan is the same."""
    ours = frozenset(intent.partitions)
    if lost := [each for each in facts.partitions if each.partition in ours and each.source_truncated]:
        why = "the source lost records that were copied, so which cluster is right must be decided"
        yield Limitation("SOURCE_TRUNCATED", f"{why}: {named(map(_truncated, lost), ', ')}")


def _of_deleted_sources(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """No planned failover can drain them. The topics that the source still has can be planned without them."""
    ours = frozenset(intent.partitions)
    if gone := {e.partition.topic for e in facts.partitions if e.partition in ours and e.source_deleted}:
        topics = named(sorted(gone), ", ")
        others = f"plan the other topics with `{others_command(intent, gone, facts.destination)}`, and "
        rest = "" if gone == set(intent.names) else others
        way = f"{rest}take it out with `{remove_command(intent, gone, facts.destination)}`"
        why = f"deleted at the source, so the mirror topic is the only copy: {topics}; {way}"
        blocks = intent.mode is Mode.PLANNED
        yield Limitation("SOURCE_TOPIC_DELETED", why, blocks=blocks, about=tuple(sorted(gone)))


def _truncated(each: PartitionFacts) -> str:
    if each.live is None or not each.longer:
        return f"{each.partition} (reported by a worker)"
    return f"{each.partition} ends at {each.live.end}, copied up to {each.copied}"


OTHERS = "OTHERS_MAY_WRITE"


def _copied_again(intent: Intent, facts: Facts, topics: Iterable[str]) -> str:
    """How copies of `topics` are made anew, with commands that can be typed: of the first ones if there are many."""
    first = sorted({*topics})[:MOST_NAMED]
    remove, add = (command(intent, first, facts.destination) for command in (remove_command, add_command))
    return f"copy the topic again: `{remove} --keep-copy`, delete it, `{add}` (docs/mirroring.md)"


def _has_more(seen: ObservedTopic) -> bool:
    return seen.partitions is not None and seen.mirrored is not None and seen.partitions > seen.mirrored
