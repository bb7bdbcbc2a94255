"""The report of `tanist status` about a mirror that somebody else copies: what can be said of it, and never a GO."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from tanist.domain.checks import Check, Mode, Verdict, named, worst
from tanist.domain.copier import CopiedByAnother
from tanist.domain.duties import Duty, interval_seconds
from tanist.domain.failover.followed_lag import lag_check
from tanist.domain.failover.health import Status
from tanist.domain.followed import CopyTrouble
from tanist.domain.limitation import Limitation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.failover.followed_lag import Compared
    from tanist.domain.followed import FollowedTopics
    from tanist.domain.groups_synced import GroupsSynced
    from tanist.domain.lag import PartitionRow
    from tanist.domain.names import EpochMs
    from tanist.domain.records import MirrorSpec


_SCHEDULE_SECONDS: Final = 60
"""How often the DAG runs."""
_MISSED: Final = 3
"""So many intervals without a commit are noticed."""


def followed_status(
    spec: MirrorSpec, topics: FollowedTopics, rows: Sequence[PartitionRow], compared: Compared, past: Sequence[Check]
) -> Status:
    """The status. `rows`: the partitions that have a copy. `past`: the checks of workers, groups and positions.

    A failover is refused for certain, in both modes. How the offsets of a copy relate to those of its source is known
    to whoever copies, or to who has compared both logs: the lag is known as far as a reconciliation was published, and
    elsewhere by the times of the last records.
    """
    why = (
        f"{spec.copied_by.in_words} copies the records, so Tanist cannot stop, drain or fence what writes to the copies"
    )
    limitation = Limitation(CopiedByAnother.name, why, blocks=True)
    checks = (_source(topics), _topics(topics), _destination(rows), lag_check(spec, rows, compared), *past)
    return Status(mirror=spec.mirror, limitations=dict.fromkeys(Mode, (limitation,)), checks=checks)


def positions_check(spec: MirrorSpec, synced: GroupsSynced | None, now: EpochMs) -> Check:
    """Whether positions of groups are committed at the destination again and again."""
    every_ms = 1000 * max(spec.sync_groups_seconds, _SCHEDULE_SECONDS)
    command = shlex.join(("tanist", "groups", "sync", spec.mirror, "--destination", spec.destination))
    every = interval_seconds(spec, Duty.GROUPS)
    regularly = f"workers do it every {every} s" if every else "the DAG `mirror_group_offsets` does it on schedule"
    how = f"`{command}` commits them; {regularly}"
    limit = f"committed within {_MISSED * every_ms // 1000} s"
    if synced is None:
        return Check(name="positions", verdict=Verdict.UNKNOWN, observed="never committed", limit=limit, reason=how)
    age = max(0, now - synced.at)
    late = age > _MISSED * every_ms
    return Check(
        name="positions",
        verdict=Verdict.UNKNOWN if late else Verdict.PASS,
        observed=f"{synced.positions} position(s), {synced.withheld} of them withheld",
        limit=limit,
        age_ms=age,
        reason=how if late else "",
    )


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
