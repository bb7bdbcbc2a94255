"""The stored ends of the sources: what each said last of a partition and when, and since when it is silent. Pure.

Only an answer of the source is a look. While it is silent nothing moves, neither a time nor a rate, whichever worker
owns the partition: one that was started after the source died keeps what the worker before it has stored. What a source
at rest repeats is confirmed, not written again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.broker_errors import LeaderNotAvailable
from tanist.domain.errors import ConnectionLost, TimedOut, Unreachable
from tanist.domain.names import EpochMs
from tanist.domain.source_ends import EndsConfirmed, SourceEnd, SourceEnds
from tanist.fetcher.assignment import NO_NEWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tanist.domain.errors import TanistError
    from tanist.domain.names import MirrorName, SourceOffset, SourcePartition
    from tanist.domain.state_view import StateView
    from tanist.fetcher.assignment import PartitionKey, Report
    from tanist.fetcher.planning import Owned

ENDS_AGE_MS: Final = 10_000
"""Ends that do not move are recorded this often while the source answers, so that their times stay recent."""
RATE_HALVED_SECONDS: Final = 30.0
LEAST_RATE: Final = 0.001
"""Offsets per second: less than four an hour."""
SHORTEST_SECONDS: Final = 1.0
"""Growth between two answers that are closer counts as that of a second: one batch must not look like a flood."""
_SILENCE: Final = (Unreachable, TimedOut, ConnectionLost, LeaderNotAvailable)


class Contact(NamedTuple):
    """What the source's metadata say about a partition that is being copied.

    `led_at`: when it was last asked and named a leader. `silent_since`: when it first did not answer, or named none,
    since then; None: it does.
    """

    led_at: EpochMs | None = None
    silent_since: EpochMs | None = None


def is_silence(why: TanistError) -> bool:
    """Whether a request was in vain. A source that refuses one, for example for want of an ACL, is alive."""
    return isinstance(why, _SILENCE)


def source_ends(
    mine: Iterable[Owned],
    reports: Mapping[PartitionKey, Report],
    contacts: Mapping[PartitionKey, Contact],
    stored: StateView,
    seen: Mapping[str, SourceEnds],
    reported: Mapping[PartitionKey, Report],
) -> dict[str, SourceEnds]:
    """The last known ends of the sources, by mirror and state partition, by their key.

    `contacts`: of the partitions that are asked; the others (PAUSED, FAILED, STOPPED) stay as they were, and those of
    their state partition are not confirmed. `stored`: what was recorded, by whichever worker. `seen`: what this
    function returned before, and `reported` what it was made of.
    """
    chunks: defaultdict[tuple[MirrorName, str, int], list[Owned]] = defaultdict(list)
    for each in mine:
        chunks[each.spec.mirror, each.spec.mirror_id, each.state_partition].append(each)
    found: dict[str, SourceEnds] = {}
    for (mirror, mirror_id, number), partitions in chunks.items():
        chunk = SourceEnds(mirror=mirror, mirror_id=mirror_id, chunk=number, ends=(), at=EpochMs(0))
        before = seen.get(chunk.key)
        of_it = before if before is not None and before.mirror_id == mirror_id else None
        if of_it is not None and (again := _confirmed(of_it, partitions, reports, contacts)) is not None:
            found[chunk.key] = again
            continue
        held = _later(of_it, stored.source_chunk(mirror, number))
        known = (
            _end(at, reports.get(each.key, NO_NEWS), contacts.get(each.key), held.get(at), reported.get(each.key))
            for each in partitions
            for at in (each.at_source,)
        )
        ends = tuple(sorted((end for end in known if end is not None), key=lambda end: end.partition))
        if ends:
            found[chunk.key] = replace(chunk, ends=ends, at=min(map(chunk.seen, ends)))
    return found


def _confirmed(
    before: SourceEnds,
    partitions: Sequence[Owned],
    reports: Mapping[PartitionKey, Report],
    contacts: Mapping[PartitionKey, Contact],
) -> SourceEnds | None:
    """`before` with later times, if the source has answered the same about each of `partitions`; None: it has not."""
    ends = {end.partition: end for end in before.ends}
    if len(ends) != len(partitions):
        return None
    seen, caught_up = list[EpochMs](), list[tuple[EpochMs, EpochMs]]()
    for each in partitions:
        end, report, contact = ends.get(each.at_source), reports.get(each.key), contacts.get(each.key)
        if end is None or report is None or contact is None or not _is_same(end, report, contact):
            return None
        seen.append(report.observed_at or EpochMs(0))
        if report.caught_up_at is not None and end.caught_up_at is not None:
            caught_up.append((report.caught_up_at, end.caught_up_at))
    if min(seen) < before.at or _are_apart(seen):
        return None
    if any(now < then for now, then in caught_up) or _are_apart([now for now, _ in caught_up]):
        return None
    return replace(before, at=min(seen), caught_up_at=min((now for now, _ in caught_up), default=None))


def _are_apart(times: Sequence[EpochMs]) -> bool:
    """Whether the first is too old to stand for all."""
    return bool(times) and max(times) - min(times) >= ENDS_AGE_MS


def _is_same(end: SourceEnd, report: Report, contact: Contact) -> bool:
    """Whether the source has answered, and nothing but times would differ. A rate that fades differs."""
    return (
        report.observed_at is not None
        and report.source_high_watermark == end.high_watermark
        and report.source_last_stable == end.last_stable
        and report.source_log_start == end.log_start
        and report.source_log_end == end.log_end
        and report.position == end.copied_until
        and report.record_until == end.record_until
        and report.record_epoch == end.record_epoch
        and report.uncopied_at == end.uncopied_at
        and (report.caught_up_at is None) == (end.caught_up_at is None)
        and not end.rate
        and report.silent_since is end.silent_since is contact.silent_since is None
    )


def _later(*known: SourceEnds | None) -> dict[SourcePartition, SourceEnd]:
    """Each partition as it was last seen, by this worker or by the one whose record is stored; `at` is set in all."""
    found: dict[SourcePartition, SourceEnd] = {}
    for chunk in filter(None, known):
        for end in chunk.ends:
            before = found.get(end.partition)
            if before is None or (before.at or 0) < chunk.seen(end):
                found[end.partition] = chunk.current(end)
    return found


def _end(
    at: SourcePartition, report: Report, contact: Contact | None, held: SourceEnd | None, before: Report | None
) -> SourceEnd | None:
    """What is known of a partition now; None: the source has never answered about it."""
    last = _answer(at, report, held, before) or held
    if last is None or contact is None:
        return last
    silent_since = _silent_since(last, held, report, contact)
    return last if silent_since == last.silent_since else replace(last, silent_since=silent_since)


def _answer(at: SourcePartition, report: Report, held: SourceEnd | None, before: Report | None) -> SourceEnd | None:
    """The last answer to this worker; None: it has not had one."""
    high, stable, seen = report.source_high_watermark, report.source_last_stable, report.observed_at
    if high is None or stable is None or seen is None:
        return None
    return SourceEnd(
        at,
        high,
        stable,
        rate=0.0 if held is None else _rate(high, seen, held, _unchanged_at(held, before)),
        log_start=report.source_log_start,
        caught_up_at=report.caught_up_at,
        copied_until=report.position,
        record_until=report.record_until,
        record_epoch=report.record_epoch,
        log_end=report.source_log_end,
        at=seen,
        uncopied_at=report.uncopied_at,
        record_bytes=_record_bytes(report, held),
    )


def _record_bytes(report: Report, held: SourceEnd | None) -> float | None:
    if report.records:
        return round(report.bytes / report.records, 1)
    return None if held is None else held.record_bytes


def _unchanged_at(held: SourceEnd, before: Report | None) -> int:
    """When the source last answered what `held` has, ms.

    Ends that are confirmed all have the time of the answer that is the oldest: growth in a second would count as growth
    in ten.
    """
    known = held.at or 0
    if before is None or before.source_high_watermark != held.high_watermark:
        return known
    return max(known, before.observed_at or 0)


def _rate(high: SourceOffset, seen: EpochMs, held: SourceEnd, since: int) -> float:
    """Growth since the answer before, at `since`, in offsets per second.

    The highest rate counts, halved after each `RATE_HALVED_SECONDS`, so that a forecast is not too optimistic. Without
    a new answer it stays. One below `LEAST_RATE` is none: the source would never be at rest.
    """
    seconds = (seen - since) / 1000
    if seconds <= 0:
        return held.rate
    grown = max(0, high - held.high_watermark) / max(seconds, SHORTEST_SECONDS)
    if not grown and not held.rate:
        return 0.0
    fading: float = 0.5 ** (seconds / RATE_HALVED_SECONDS)
    faded = held.rate * fading
    return max(round(grown, 3), round(faded, 6) if faded >= LEAST_RATE else 0.0)


def _silent_since(last: SourceEnd, held: SourceEnd | None, report: Report, contact: Contact) -> EpochMs | None:
    """The first request in vain since the last answer that no sign of life has followed."""
    at = last.at or 0
    vain = [each for each in (report.silent_since, contact.silent_since) if each is not None]
    if last is held:  # the clock of the worker before may be ahead of ours
        vain = [EpochMs(max(each, at)) for each in vain]
    if held is not None and held.silent_since is not None and held.at == last.at:
        vain.append(held.silent_since)
    return min((each for each in vain if each >= max(at, contact.led_at or 0)), default=None)


def ends_record(new: SourceEnds, written: SourceEnds | None, now: EpochMs) -> SourceEnds | EndsConfirmed | None:
    """What has to be recorded of `new`; None: nothing. `written`: what is on record, confirmed as it was last."""
    if written is not None and new.written_at and new.written_at == written.written_at:
        return _confirmation(new) if new.at - written.at >= ENDS_AGE_MS else None
    if not _is_news(new, written):
        return None
    return replace(new, ends=tuple(map(new.current, new.ends)), caught_up_at=None, written_at=now)


def _confirmation(of: SourceEnds) -> EndsConfirmed:
    return EndsConfirmed(
        mirror=of.mirror,
        mirror_id=of.mirror_id,
        chunk=of.chunk,
        of=of.written_at,
        at=of.at,
        caught_up_at=of.caught_up_at,
    )


def _is_news(new: SourceEnds, written: SourceEnds | None) -> bool:
    """Whether ends must be recorded: they moved, the source fell silent or answers again, or a recorded time is old."""
    if written is None or [each.partition for each in new.ends] != [each.partition for each in written.ends]:
        return True
    return any(
        _places(end) != _places(old)
        or end.silent_since != old.silent_since
        or new.seen(end) - written.seen(old) >= ENDS_AGE_MS
        for end, old in zip(new.ends, written.ends, strict=True)
    )


def _places(end: SourceEnd) -> tuple[int, int, int | None, int]:
    """A true end that is no larger than the high watermark is older, and no news."""
    true_end = end.high_watermark if end.log_end is None else max(end.log_end, end.high_watermark)
    return end.high_watermark, end.last_stable, end.log_start, true_end
