"""The report of `tanist status` about a mirror that somebody else copies: what can be said of it, and never a GO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.domain.checks import Check, Mode, Verdict, named, worst
from tanist.domain.copier import CopiedByAnother
from tanist.domain.failover.health import Status
from tanist.domain.followed import CopyTrouble
from tanist.domain.limitation import Limitation
from tanist.domain.reconciled.published import ago

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.followed import FollowedTopic, FollowedTopics
    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import EpochMs, MirrorPartition
    from tanist.domain.reconciled.published import ReconciliationPublished
    from tanist.domain.records import MirrorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What reconciliations have `published` of the partitions of a mirror, seen at `now`."""

    published: Mapping[MirrorPartition, ReconciliationPublished]
    now: EpochMs


def followed_status(
    spec: MirrorSpec, topics: FollowedTopics, rows: Sequence[PartitionRow], compared: Compared, past: Sequence[Check]
) -> Status:
    """The status. `rows`: the partitions that have a copy. `past`: the checks of workers and groups.

    A failover is refused for certain, in both modes. How the offsets of a copy relate to those of its source is known
    to whoever copies, or to who has compared both logs: the lag is known as far as a reconciliation was published.
    """
    why = (
        f"{spec.copied_by.in_words} copies the records, so Tanist cannot stop, drain or fence what writes to the copies"
    )
    limitation = Limitation(CopiedByAnother.name, why, blocks=True)
    checks = (_source(topics), _topics(topics), _destination(rows), _lag(spec, topics, rows, compared), *past)
    return Status(mirror=spec.mirror, limitations=dict.fromkeys(Mode, (limitation,)), checks=checks)


def _source(topics: FollowedTopics) -> Check:
    down = topics.source_down
    return Check(
        name="source",
        verdict=Verdict.PASS if down is None else Verdict.UNKNOWN,
        observed="answers" if down is None else "does not answer",
        limit="answers",
        age_ms=0,
        reason="" if down is None else str(down),
    )


def _topics(topics: FollowedTopics) -> Check:
    """Every topic has a copy with as many partitions."""
    wrong = topics.troubled()
    verdicts = {Verdict.UNKNOWN if each.trouble is CopyTrouble.UNREADABLE else Verdict.FAIL for each in wrong}
    if topics.source_down is not None:
        verdicts.add(Verdict.UNKNOWN)
    elif not topics.topics:
        verdicts.add(Verdict.FAIL)
    why = [f"{each.source}: {each.why}" for each in wrong]
    none = "no topic of the source is in the mirror: see its filters with `tanist mirrors list --json`"
    return Check(
        name="topics",
        verdict=worst(verdicts or {Verdict.PASS}),
        observed=f"{len(topics.topics)} topic(s), {len(wrong)} with a copy that does not fit",
        limit="each has a copy, with as many partitions",
        age_ms=0,
        reason=named(why or ([] if topics.topics else [none])),
    )


def _destination(rows: Sequence[PartitionRow]) -> Check:
    silent = [f"{row.partition}: {row.destination_error}" for row in rows if row.destination_end is None]
    return Check(
        name="destination",
        verdict=Verdict.UNKNOWN if silent else Verdict.PASS,
        observed=f"{len(rows) - len(silent)} of {len(rows)} answer",
        limit="all partitions answer",
        age_ms=0,
        reason=named(silent),
    )


def _lag(spec: MirrorSpec, topics: FollowedTopics, rows: Sequence[PartitionRow], compared: Compared) -> Check:
    """What the copies lack at most: what had no copy when both logs were read, and what the source has since.

    The number alone fails no check. A partition of which nothing is published, or of other logs, leaves it unknown.
    """
    copies = {each.copy: each for each in topics.topics.values()}
    found = {row.partition: compared.published.get(row.partition) for row in rows}
    headers = [each for each in found.values() if each is not None]
    command = f"`tanist reconcile {spec.mirror} --publish`"
    if not headers:
        why = f"nobody has compared the logs; {command} says what the copies lack"
        return Check(name="lag", verdict=Verdict.UNKNOWN, observed="unknown", limit="known", reason=why)
    unknown, bounds = [], []
    for row in rows:
        header = found[row.partition]
        if header is None:
            unknown.append(f"{row.partition}: never compared; {command}")
        elif why := _outdated(header, copies.get(row.partition.topic), row):
            unknown.append(f"{row.partition}: {why}; {command}")
        elif row.source is None:
            unknown.append(
                f"{row.partition}: {_compared_until(header, compared.now)}; where the source ends now is unknown"
            )
        else:
            bounds.append((row.source.high_watermark - header.source_until, header, row))
    since = sum(count for count, _, _ in bounds)
    lost = sum(header.lost for _, header, _ in bounds)
    age = max(0, compared.now - min(each.read_at for each in headers))
    told = [
        f"{row.partition}: {_compared_until(header, compared.now)}; the source ends at "
        f"{header.source_until + count}: at most {count} offset(s) were not compared"
        for count, header, row in bounds
        if count
    ]
    return Check(
        name="lag",
        verdict=Verdict.UNKNOWN if unknown else Verdict.PASS,
        observed=f"by reconciliation, {ago(age)}: {lost} record(s) had no copy; at most {since} offset(s) of the "
        f"source were not compared ({len(bounds)} of {len(rows)} partition(s))",
        limit="known",
        age_ms=age,
        reason=named([*unknown, *told]),
    )


def _compared_until(header: ReconciliationPublished, now: EpochMs) -> str:
    return f"compared up to source offset {header.source_until}, {ago(max(0, now - header.read_at))}"


def _outdated(header: ReconciliationPublished, topic: FollowedTopic | None, row: PartitionRow) -> str:
    """Why what is published says nothing of the logs that are there now; empty: it does."""
    ids = ((header.source_topic_id, topic.source_topic_id), (header.topic_id, topic.copy_topic_id)) if topic else ()
    if any(then and now and then != now for then, now in ids):
        return "a topic was made again since it was compared"
    if row.source is not None and row.source.high_watermark < header.source_until:
        return f"compared up to source offset {header.source_until}, and the source ends at {row.source.high_watermark}"
    return ""
