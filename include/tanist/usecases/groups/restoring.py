"""What becomes of each committed offset when a snapshot of groups is restored. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tanist.domain.broker_errors import UnknownTopicOrPartition, UnstableOffsetCommit
from tanist.domain.commit_marks import OUR_MARK
from tanist.domain.errors import TanistError
from tanist.domain.fake_group import is_fake
from tanist.domain.names import MirrorPartition
from tanist.domain.translation import GroupThere, Rules, objection
from tanist.ports.positions import CommitChange, CommittedPosition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tanist.domain.log_ends import LogEnds
    from tanist.domain.names import TopicPartition
    from tanist.ports.positions import CommittedOf, GroupListing
    from tanist.usecases.groups.snapshots import GroupSnapshot, SavedGroup

_ANY: Rules = Rules(existing=True, backwards=True)
"""What a snapshot is restored for: groups that exist, to where they were before."""
_NOT_READ = "it could not be read when the snapshot was taken"
_IN_USE = "Tanist has committed for it, and others have, too"


class PositionChange(StrEnum):
    """What restoring does to a committed offset. `METADATA`: the offset is the same, what is stored with it is not.

    `CREATED`: nothing is committed now. `KEPT`: the snapshot has none, so it stays. `WITHHELD`: it is not restored.
    `NEW`: of a whole group that the snapshot has not, and for which Tanist has committed: it stays.
    """

    BACKWARDS, FORWARDS, CREATED = "backwards", "forwards", "created"
    METADATA, SAME, KEPT, WITHHELD = "metadata", "same", "kept", "withheld"
    NEW = "new"


RESTORES = frozenset(
    {PositionChange.BACKWARDS, PositionChange.FORWARDS, PositionChange.CREATED, PositionChange.METADATA}
)
"""The changes that are commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredPosition:
    """One committed offset: in the snapshot, and now. `partition`: None if it is about the whole group.

    `restored`: committed by this command. `error`: why a commit that was sent failed.
    """

    group: str
    partition: MirrorPartition | None
    saved: CommittedPosition | None
    present: CommittedPosition | None
    change: PositionChange
    why: str = ""
    restored: bool = False
    error: TanistError | None = None

    @property
    def is_left_over(self) -> bool:
        """Whether the snapshot has it and the cluster, after this command, may not."""
        return self.change is PositionChange.WITHHELD or self.error is not None

    @property
    def is_of_a_mirror(self) -> bool:
        """Whether Tanist has committed it, so that the next translation of its mirror commits over it."""
        return self.saved is not None and self.saved.metadata.startswith(OUR_MARK)

    @property
    def reason(self) -> str:
        return f"commit failed: {self.error.name}: {self.error.reason}" if self.error is not None else self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsNow:
    """What the cluster says of the groups and topics of a snapshot. `ends`: of every partition that it has.

    `absent`: what is committed for groups that the snapshot has not. `bootstrap`: of the cluster.
    """

    listing: GroupListing
    committed: Mapping[str, CommittedOf | TanistError]
    ends: Mapping[MirrorPartition, LogEnds | TanistError]
    topic_ids: Mapping[str, str]
    absent: Mapping[str, CommittedOf | TanistError] = field(default_factory=dict)
    bootstrap: str = ""


def partitions_of(snapshot: GroupSnapshot) -> tuple[MirrorPartition, ...]:
    """The partitions with a committed offset in it, sorted."""
    return tuple(sorted({MirrorPartition(*at) for each in snapshot.groups for at in each.positions}))


def planned(snapshot: GroupSnapshot, now: GroupsNow) -> tuple[RestoredPosition, ...]:
    """Every committed offset of the groups of `snapshot`, with what restoring it does.

    Of other groups a row for each for which Tanist has committed: a restore deletes nothing, so they stay.
    """
    rows = [row for each in snapshot.groups for row in _of_group(each, snapshot, now)]
    return (*rows, *(row for name in sorted(now.absent) for row in _of_absent(name, snapshot, now)))


def to_commit(rows: Iterable[RestoredPosition]) -> dict[str, dict[MirrorPartition, CommitChange]]:
    """The commits, by group, each only if the offset is still the one of its row. What consumers stored is kept."""
    wanted: dict[str, dict[MirrorPartition, CommitChange]] = {}
    for row in rows:
        if row.change in RESTORES and row.partition is not None and row.saved is not None:
            wanted.setdefault(row.group, {})[row.partition] = CommitChange(row.present, row.saved)
    return wanted


def _of_group(saved: SavedGroup, snapshot: GroupSnapshot, now: GroupsNow) -> Iterator[RestoredPosition]:
    there = now.committed.get(saved.group, {})
    present = {} if isinstance(there, TanistError) else there
    if saved.error:
        yield _withheld(saved, None, f"{_NOT_READ}: {saved.error}")
        return
    for at, reason in sorted(saved.unread.items()):
        yield _withheld(saved, at, f"{_NOT_READ}: {reason}")
    refused = _objection(saved, now)
    for at, position in sorted(saved.positions.items()):
        yield _of_saved(saved.group, MirrorPartition(*at), position, present.get(at), refused, (snapshot, now))
    for at, found in sorted(present.items(), key=lambda item: item[0]):
        if at not in saved.positions and at not in saved.unread:
            yield RestoredPosition(
                group=saved.group,
                partition=MirrorPartition(*at),
                saved=None,
                present=None if isinstance(found, TanistError) else found,
                change=PositionChange.KEPT,
                why="committed since the snapshot was taken: left as it is",
            )


def _of_absent(group: str, snapshot: GroupSnapshot, now: GroupsNow) -> Iterator[RestoredPosition]:
    """The row of a group that `snapshot` has not; none if no committed offset of it is ours."""
    answer = now.absent[group]
    row = RestoredPosition(group=group, partition=None, saved=None, present=None, change=PositionChange.NEW)
    if isinstance(answer, TanistError):
        unknown = f"whether Tanist has committed for it is unknown: {answer.name}: {answer.reason}"
        yield replace(row, why=f"not in the snapshot: left as it is; {unknown}")
        return
    ours = [isinstance(each, CommittedPosition) and each.metadata.startswith(OUR_MARK) for each in answer.values()]
    if any(ours):
        yield replace(row, why=f"{_since(snapshot)}: left as it is; {_way_out(group, now) if all(ours) else _IN_USE}")


def _since(snapshot: GroupSnapshot) -> str:
    """A snapshot that was taken while brokers were silent lacks groups that were there."""
    missed = ", or on a broker that was silent when it was taken" if snapshot.silent else ""
    return f"created since the snapshot{missed}"


def _way_out(group: str, now: GroupsNow) -> str:
    command = ("kafka-consumer-groups.sh", "--bootstrap-server", now.bootstrap, "--delete", "--group", group)
    return f"all its offsets are those that Tanist committed; `{shlex.join(command)}` of Apache Kafka deletes it"


def _of_saved(
    group: str,
    at: MirrorPartition,
    saved: CommittedPosition,
    present: CommittedPosition | TanistError | None,
    refused: str | None,
    between: tuple[GroupSnapshot, GroupsNow],
) -> RestoredPosition:
    row = RestoredPosition(group=group, partition=at, saved=saved, present=None, change=PositionChange.WITHHELD)
    if isinstance(present, TanistError):
        return replace(row, why=f"the offset that is committed now is unknown: {present.name}: {present.reason}")
    change = _change(saved, present)
    why = "" if change is PositionChange.SAME else refused or _outside(at, saved, *between)
    return replace(row, present=present, change=PositionChange.WITHHELD if why else change, why=why)


def _withheld(saved: SavedGroup, at: TopicPartition | None, why: str) -> RestoredPosition:
    """Of an offset that is not in the snapshot, which says why."""
    where = None if at is None else MirrorPartition(*at)
    return RestoredPosition(
        group=saved.group, partition=where, saved=None, present=None, change=PositionChange.WITHHELD, why=why
    )


def _change(saved: CommittedPosition, present: CommittedPosition | None) -> PositionChange:
    if present is None:
        return PositionChange.CREATED
    if saved.offset == present.offset:
        return PositionChange.SAME if saved == present else PositionChange.METADATA
    return PositionChange.BACKWARDS if saved.offset < present.offset else PositionChange.FORWARDS


def _objection(saved: SavedGroup, now: GroupsNow) -> str | None:
    """Why nothing may be committed for a group; None: it may. One that is gone is created by its commits."""
    if is_fake(saved.group):
        return "it holds the positions of a mirror itself, which only the mirror commits"
    answer = now.committed.get(saved.group, {})
    if isinstance(answer, TanistError):
        return f"the offsets that are committed now are unknown: {answer.name}: {answer.reason}"
    facts = now.listing.groups.get(saved.group)
    if facts is not None:
        return objection(GroupThere(kind=facts.kind, state=facts.state, members=facts.members, synced=True), _ANY)
    if now.listing.silent:
        return f"whether it has members is unknown: not all brokers list their groups ({now.listing.silent[0].reason})"
    return None


def _outside(at: MirrorPartition, saved: CommittedPosition, snapshot: GroupSnapshot, now: GroupsNow) -> str:
    """Why an offset is none of the log that is there now; empty: it is in it, or at its end."""
    ends = now.ends.get(at)
    if made_again := _made_again(at, snapshot, now):
        return made_again
    if ends is None or isinstance(ends, UnknownTopicOrPartition):
        return f"{at} does not exist any more"
    if isinstance(ends, TanistError):
        return f"where the log of {at} begins and ends is unknown: {ends.name}: {ends.reason}"
    if saved.offset < ends.start:
        return f"the records at {saved.offset} were deleted: the log begins at {ends.start}"
    if saved.offset > ends.high_watermark:
        return f"{saved.offset} is behind the end of the log, {ends.high_watermark}"
    return ""


def _made_again(at: MirrorPartition, snapshot: GroupSnapshot, now: GroupsNow) -> str:
    """Why the topic is or may be another one of the same name; empty: it is not, or it is not there, or has no id."""
    before, there = snapshot.topic_ids.get(at.topic), now.topic_ids.get(at.topic)
    if before is None or before == there or (there is None and isinstance(now.ends.get(at), UnknownTopicOrPartition)):
        return ""
    if there is None:
        return f"whether topic {at.topic!r} was created again since is unknown: the cluster does not tell its id"
    return f"topic {at.topic!r} was deleted and created again since: its offsets are those of other records"


def has_pending(now: GroupsNow) -> bool:
    """Whether a transaction is about to change a committed offset: a restore that was killed may have left it."""
    answers = (each for each in now.committed.values() if not isinstance(each, TanistError))
    return any(isinstance(found, UnstableOffsetCommit) for each in answers for found in each.values())
