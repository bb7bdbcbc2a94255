"""What makes a log at the destination a copy of its source, and what was done to one that is none any more.

A copy may hold more than its source at the start (the source deleted records), never less than what the source still
has. Its topic has the partitions that are on record and no others, keeps every record, and is the topic that was made
for the mirror. What lies at its end was written by the mirror.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.checks import Mode, named
from tanist.domain.failover.commands import others_command, remove_command
from tanist.domain.failover.plan import Limitation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.failover.facts import Facts, ObservedTopic, PartitionFacts
    from tanist.domain.failover.plan import Intent


def damage(intent: Intent, facts: Facts) -> Iterator[Limitation]:
    """A planned failover waits until it is mended. In an unplanned one an approver accepts it by name.

    Whether it could be mended would depend on whether the source answers, and a source that answers voids nothing.
    """
    planned = intent.mode is Mode.PLANNED
    ours = frozenset(intent.partitions)
    seen = tuple(facts.of(intent.names))
    if short := [each for each in facts.partitions if each.partition in ours and each.missing_at_start]:
        what = named(f"{e.partition} begins at {e.start}: {e.missing_at_start} offsets are missing" for e in short)
        why = f"records that the source still has are missing from the start of the mirror topic: {what}; {_AGAIN}"
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
        why = f"partitions were added at the destination: {what}; {_AGAIN}"
        yield Limitation("COPY_HAS_MORE_PARTITIONS", why, blocks=planned)
    if other := [each for each in seen if each.recreated]:
        why = f"{named(each.recreated for each in other)}; {_AGAIN}"
        yield Limitation("TOPIC_RECREATED", why, blocks=planned)
    if altered := [f"{each.topic}: {', '.join(each.altered)}" for each in seen if each.altered]:
        why = (
            f"altered configurations may delete records of the mirror topic, or change new ones: {named(altered)}; "
            f"`tanist metadata sync {intent.mirror} --destination {facts.destination}` corrects them, "
            f"`tanist validate {intent.mirror} --destination {facts.destination}` compares records"
        )
        yield Limitation("COPY_CONFIGS_ALTERED", why, blocks=planned)
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
        why = f"the last records were not written by the mirror: {named(strange, ', ')}; {_AGAIN}"
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
_AGAIN = "copy it again: `tanist mirrors remove`, which fences the source, then delete and add it (docs/mirroring.md)"


def _has_more(seen: ObservedTopic) -> bool:
    return seen.partitions is not None and seen.mirrored is not None and seen.partitions > seen.mirrored
