"""`tanist groups list`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tanist.usecases.groups.gather import gather

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.names import MirrorPartition
    from tanist.ports.positions import GroupFacts
    from tanist.usecases.command import CommandContext
    from tanist.usecases.groups.gather import Chosen, Freshest, Gathered
    from tanist.usecases.mirror import OpenMirror


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """One group of a mirror. States, `lag` and ages are None if unknown.

    `age_ms`: the age of the known positions. `lag`: offsets of the source that it has not consumed yet.
    `at_home`: failed-over topics, whose offsets are no longer followed.
    """

    group: str
    kind: str
    state: str | None
    members: int | None
    destination_state: str | None
    topics: tuple[str, ...]
    at_home: tuple[str, ...]
    partitions: int
    lag: int | None
    age_ms: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsListed:
    lines: tuple[GroupLine, ...]
    seen: Gathered


def list_groups(mirror: OpenMirror, chosen: Chosen, context: CommandContext) -> GroupsListed:
    """The groups that have a position in the mirror; as they were stored if the source does not answer.

    Raises:
        what the destination answers if it cannot be read.
    """
    seen = gather(mirror, chosen, context)
    there = mirror.destination.positions(mirror.spec.mirror).groups(context.by)
    lines = tuple(_line(seen, group, seen.positions.get(group, {}), there) for group in seen.names)
    return GroupsListed(lines=lines, seen=seen)


def _line(
    seen: Gathered, group: str, positions: Mapping[MirrorPartition, Freshest], there: Mapping[str, GroupFacts]
) -> GroupLine:
    facts = seen.source_answer.groups.get(group)
    ages = [seen.age_ms(each) for each in positions.values()]
    known = [age for age in ages if age is not None]
    return GroupLine(
        group=group,
        kind=seen.kinds.get(group, "classic"),
        state=facts.state if facts else None,
        members=facts.members if facts else None,
        destination_state=there[group].state if group in there else None,
        topics=tuple(sorted({at.topic for at in positions})),
        at_home=tuple(sorted({at.topic for at in seen.at_home.get(group, ())})),
        partitions=len(positions),
        lag=_lag(seen, positions),
        age_ms=max(known) if known and len(known) == len(ages) else None,
        reason="; ".join(_reasons(seen, group)),
    )


def _reasons(seen: Gathered, group: str) -> Iterator[str]:
    if error := seen.source_answer.errors.get(group):
        yield f"{error.name}: {error.reason}"
    if taken := sorted({at.topic for at in seen.at_home.get(group, ())}):
        yield f"owned by {seen.spec.destination} since the failover of {', '.join(taken)}"


def _lag(seen: Gathered, positions: Mapping[MirrorPartition, Freshest]) -> int | None:
    if not positions or not positions.keys() <= seen.source_ends.keys():
        return None
    return sum(max(0, seen.source_ends[at].high_watermark - each.offset) for at, each in positions.items())
