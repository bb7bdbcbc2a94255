"""How far copies that somebody else makes are behind: by reconciliation, or by the times of the last records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tanist.domain.checks import Check, Verdict, named
from tanist.domain.errors import TanistError
from tanist.domain.names import MirrorPartition
from tanist.domain.reconciled.published import ago
from tanist.domain.record_times import TimestampType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.followed import FollowedTopic, FollowedTopics
    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import EpochMs
    from tanist.domain.reconciled.published import ReconciliationPublished
    from tanist.domain.record_times import TimedRecord
    from tanist.domain.records import MirrorSpec


class LastRecords(NamedTuple):
    """The last record of both logs that readers of committed records see; None: there is none."""

    source: TimedRecord | None
    copy: TimedRecord | None

    def behind(self) -> int | str:
        """By how much the copy's is older, in ms, 0 if it is the source's; or why that is not known.

        Producers set these times, so it is how long the copy is behind only as far as they do so in order.
        """
        if self.source is None:
            return 0
        if self.copy is None:
            return "the copy has no record yet"
        if self.source.digest == self.copy.digest:
            return 0
        if TimestampType.LOG_APPEND in (self.source.type, self.copy.type):
            return "a broker sets the timestamps of one log (message.timestamp.type=LogAppendTime)"
        return max(0, self.source.timestamp - self.copy.timestamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What reconciliations have `published` of the partitions of a mirror, seen at `now`.

    `apart`: those of which that says nothing, see `not_compared`; `last`: their last records, or why these are not
    known.
    """

    published: Mapping[MirrorPartition, ReconciliationPublished]
    now: EpochMs
    apart: Mapping[MirrorPartition, str]
    last: Mapping[MirrorPartition, LastRecords | TanistError] = field(default_factory=dict)

    def behind(self, partition: MirrorPartition) -> int | str:
        """By time, as `LastRecords.behind`."""
        last = self.last.get(partition)
        if last is None or isinstance(last, TanistError):
            return "" if last is None else last.reason
        return last.behind()


def not_compared(
    topics: FollowedTopics, rows: Sequence[PartitionRow], published: Mapping[MirrorPartition, ReconciliationPublished]
) -> dict[MirrorPartition, str]:
    """The partitions of whose logs, as they are now, what is published says nothing, each with the reason."""
    copies = {each.copy: each for each in topics.topics.values()}
    found = ((row, published.get(row.partition), copies.get(row.partition.topic)) for row in rows)
    return {row.partition: why for row, header, topic in found if (why := _outdated(header, topic, row))}


def lag_check(spec: MirrorSpec, rows: Sequence[PartitionRow], compared: Compared) -> Check:
    """What the copies lack at most: what had no copy when both logs were read, and what the source has since.

    The number alone fails no check. A partition of which nothing is published, or of other logs, is as far behind as
    its last record is older than the source's; where that is not known either, the check is UNKNOWN.
    """
    command = f"`tanist reconcile {spec.mirror} --publish`"
    unknown, bounds, timed = list[str](), list[_Bound](), dict[MirrorPartition, int]()
    for row in rows:
        if why := compared.apart.get(row.partition):
            behind = compared.behind(row.partition)
            if isinstance(behind, int):
                timed[row.partition] = behind
            else:
                unknown.append(f"{row.partition}: {'; '.join(filter(None, (why, behind, command)))}")
        elif row.source is None:
            until = _compared_until(compared.published[row.partition], compared.now)
            unknown.append(f"{row.partition}: {until}; where the source ends now is unknown")
        else:
            bounds.append(_Bound(row.partition, row.source.high_watermark, compared.published[row.partition]))
    told = [
        f"{each.partition}: {_compared_until(each.header, compared.now)}; the source ends at {each.end}: at most "
        f"{each.since} offset(s) were not compared"
        for each in bounds
        if each.since
    ]
    told += [f"{at}: the copy's last record is {ms / 1000:,.1f} s older than the source's" for at, ms in timed.items()]
    headers = [header for row in rows if (header := compared.published.get(row.partition)) is not None]
    age = max(0, compared.now - min(each.read_at for each in headers)) if headers else None
    observed = [_by_reconciliation(bounds, len(rows), age)] if age is not None else []
    if timed:
        observed.append(
            f"by time: {max(timed.values()) / 1000:,.1f} s at most ({len(timed)} of {len(rows)} partition(s))"
        )
    return Check(
        name="lag",
        verdict=Verdict.UNKNOWN if unknown or not rows else Verdict.PASS,
        observed="; ".join(observed) or "unknown",
        limit="known",
        age_ms=age if age is not None else 0 if timed else None,
        reason=named([*unknown, *told]) or ("" if rows else "no partition has a copy"),
    )


class _Bound(NamedTuple):
    """A partition that was compared. `end`: where the source ends now."""

    partition: MirrorPartition
    end: int
    header: ReconciliationPublished

    @property
    def since(self) -> int:
        return self.end - self.header.source_until


def _by_reconciliation(bounds: Sequence[_Bound], partitions: int, age_ms: int) -> str:
    lost, since = sum(each.header.lost for each in bounds), sum(each.since for each in bounds)
    return (
        f"by reconciliation, {ago(age_ms)}: {lost} record(s) had no copy; at most {since} offset(s) of the source were "
        f"not compared ({len(bounds)} of {partitions} partition(s))"
    )


def _compared_until(header: ReconciliationPublished, now: EpochMs) -> str:
    return f"compared up to source offset {header.source_until}, {ago(max(0, now - header.read_at))}"


def _outdated(header: ReconciliationPublished | None, topic: FollowedTopic | None, row: PartitionRow) -> str:
    if header is None:
        return "never compared"
    ids = ((header.source_topic_id, topic.source_topic_id), (header.topic_id, topic.copy_topic_id)) if topic else ()
    if any(then and now and then != now for then, now in ids):
        return "a topic was made again since it was compared"
    if row.source is not None and row.source.high_watermark < header.source_until:
        return f"compared up to source offset {header.source_until}, and the source ends at {row.source.high_watermark}"
    return ""
