"""`tanist status` of a mirror that somebody else copies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.answers import attempt
from tanist.domain.circle import locate
from tanist.domain.errors import AnotherCluster, TanistError
from tanist.domain.failover.followed_health import followed_status, positions_check
from tanist.domain.failover.followed_lag import Compared, LastRecords, not_compared
from tanist.domain.failover.health import groups_check, workers_check
from tanist.domain.failover.periodic_health import periodic_checks, rewound_groups
from tanist.domain.followed import FollowedTopics
from tanist.domain.next_steps.situation import MirrorSituation
from tanist.domain.reconciled.published import headers
from tanist.domain.record_times import ReadLimits
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC
from tanist.usecases.mirror import same_as_pinned
from tanist.usecases.mirrors.describe import followed_rows
from tanist.usecases.mirrors.followed import followed_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import MirrorPartition, SourcePartition
    from tanist.domain.record_times import TimedRecord
    from tanist.usecases.command import CommandContext, Silence
    from tanist.usecases.snapshot import MirrorSnapshot


def followed_situation(
    both: MirrorSnapshot, destination_id: str, silence: Silence, context: CommandContext
) -> MirrorSituation:
    """What is known of it now. A source that is silent is not asked again.

    Raises:
        what the destination answers if it cannot be read.
    """
    spec, by = both.spec, context.by
    seen = replace(both, source=silence.of(spec.source) or both.source)
    elsewhere = attempt(lambda: same_as_pinned(spec, None, destination_id))
    if isinstance(elsewhere, TanistError):
        topics = FollowedTopics(topics={}, source_down=elsewhere)
    else:
        topics = followed_in(seen, context)
        _keep(topics, silence, spec.source)
    rows = followed_rows(seen, topics, topics.topics.values(), context)
    view, now = both.destination.state(STATE_TOPIC, by), context.clock.now()
    kept = both.destination.state(GROUPS_TOPIC, by).groups_followed(spec)
    published = headers(both.destination.state(OFFSETS_TOPIC, by), spec)
    apart = not_compared(topics, rows, published)
    last = _last_records(seen, [row for row in rows if row.partition in apart], context)
    compared = Compared(published=published, now=now, apart=apart, last=last)
    positions = positions_check(spec, view.groups_synced(spec.mirror), now)
    past = (workers_check(view.workers(), now), groups_check(kept, now), positions, *periodic_checks(spec, view, now))
    return MirrorSituation(
        place=locate(spec.mirror, view),
        destination=both.destination.name,
        status=followed_status(spec, topics, rows, compared, past),
        source_answers=topics.source_down is None,
        rows=rows,
        rewound=rewound_groups(view, spec.mirror),
        now=now,
    )


def _last_records(
    both: MirrorSnapshot, rows: Sequence[PartitionRow], context: CommandContext
) -> dict[MirrorPartition, LastRecords | TanistError]:
    """The last records below the ends of both logs, of the partitions whose ends are known."""
    source: dict[SourcePartition, list[int]] = {}
    copies: dict[MirrorPartition, list[int]] = {}
    for row in rows:
        if row.at_source is not None and row.source is not None and row.destination_end is not None:
            source[row.at_source] = [row.source.high_watermark]
            copies[row.partition] = [row.destination_end]
    if not copies or isinstance(both.source, TanistError):
        return {}
    limits, times = ReadLimits.within(both.spec.poll_timeout_ms), both.source.cluster.times
    there = attempt(lambda: times.before(source, limits, context.first_contact()))
    here = both.destination.cluster.times.before(copies, limits, context.by)
    return {
        at: there if isinstance(there, TanistError) else _pair(there[both.spec.names.at_source(at)], here[at])
        for at in copies
    }


def _pair(
    source: Mapping[int, TimedRecord | None] | TanistError, copy: Mapping[int, TimedRecord | None] | TanistError
) -> LastRecords | TanistError:
    if isinstance(source, TanistError):
        return source
    if isinstance(copy, TanistError):
        return copy
    (last,), (copied,) = source.values(), copy.values()
    return LastRecords(last, copied)


def _keep(topics: FollowedTopics, silence: Silence, source: str) -> None:
    down = topics.source_down
    if down is not None and not isinstance(down, AnotherCluster):
        silence.keep(source, down)
