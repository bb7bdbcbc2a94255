"""Cache of the committed offsets of one source, and the changes to store at the destination. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.names import EpochMs, SourceOffset
from tanist.domain.records import GroupPosition
from tanist.domain.state_record import Tombstone
from tanist.kafka.protocol.group_log import GroupSeen, LoggedCommit, Removed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tanist.domain.names import TopicPartition
    from tanist.domain.records import MirrorSpec
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.kafka.protocol.group_log import GroupEvent

_CLASSIC = "classic"


class _Held(NamedTuple):
    offset: SourceOffset
    at: EpochMs
    order: int


_NOWHERE: Final = _Held(SourceOffset(-1), EpochMs(0), -1)


class Answered(NamedTuple):
    """Kind and positions by group. `unsure`: groups and topics that are not, or not completely, known."""

    found: Mapping[str, tuple[str, Mapping[TopicPartition, SourceOffset]]]
    unsure_groups: frozenset[str] = frozenset()
    unsure_topics: frozenset[str] = frozenset()

    def denies(self, group: str, at: TopicPartition) -> bool:
        """Whether the position certainly does not exist."""
        if group in self.unsure_groups or at.topic in self.unsure_topics:
            return False
        return group not in self.found or at not in self.found[group][1]


class GroupOffsetCache:
    """The positions of all groups in all topics, so that a topic that is added later has them at once.

    `topics` are those of the mirror; only their positions are stored.
    """

    def __init__(self, spec: MirrorSpec) -> None:
        self.topics: frozenset[str] = frozenset()
        self._spec = spec
        self._positions: dict[str, dict[TopicPartition, _Held]] = {}
        self._kinds: dict[str, str] = {}
        self._changed: set[tuple[str, TopicPartition]] = set()

    @property
    def dirty(self) -> bool:
        """Whether there may be changes to store."""
        return bool(self._changed)

    def groups(self) -> int:
        """How many groups have a position in the mirror."""
        return sum(any(at.topic in self.topics for at in held) for held in self._positions.values())

    def take(self, event: GroupEvent, order: int) -> None:
        """Apply one record of the log; `order`: its offset."""
        match event:
            case LoggedCommit():
                self.put(event.group, event.partition, _Held(event.offset, event.at, order))
            case Removed():
                self.drop(event.group, event.partition)
            case GroupSeen() if self._kinds.get(event.group, _CLASSIC) != event.kind:
                self._kinds[event.group] = event.kind
                self._changed |= {(event.group, at) for at in self._positions.get(event.group, ())}
            case _:
                pass

    def put(self, group: str, at: TopicPartition, held: _Held) -> None:
        self._positions.setdefault(group, {})[at] = held
        self._changed.add((group, at))

    def drop(self, group: str, at: TopicPartition) -> None:
        held = self._positions.get(group, {})
        if held.pop(at, None) is not None:
            self._changed.add((group, at))
        if not held:
            self._positions.pop(group, None)

    def remember(self, view: StateView) -> None:
        """Start polling from the stored positions; otherwise one that is no longer visible would count as deleted."""
        for record in self._written(view):
            self._kinds[record.group] = record.kind
            held = _Held(record.offset, record.at, record.order)
            self._positions.setdefault(record.group, {})[record.partition] = held

    def record_answer(self, answer: Answered, now: EpochMs) -> None:
        """Apply the source's answer. Positions that are not in it were deleted, unless they are `unsure`."""
        for group, (kind, positions) in answer.found.items():
            self.take(GroupSeen(group, kind, None), -1)
            before = self._positions.get(group, {})
            for at, offset in positions.items():
                if at not in before or before[at].offset != offset:
                    self.put(group, at, _Held(offset, now, -1))
        for group, at in [each for each in self.known() if answer.denies(*each)]:
            self.drop(group, at)

    def known(self) -> list[tuple[str, TopicPartition]]:
        """All cached positions."""
        return [(group, at) for group, held in self._positions.items() for at in held]

    # ── what has to be written ────────────────────────────────────────────────────────────────────────────────────

    def changes(self, view: StateView) -> list[StateRecord]:
        """Of the positions changed since `written`, those that differ from `view`."""
        return [new for group, at in self._changed if at.topic in self.topics for new in self._entry(group, at, view)]

    def differences(self, view: StateView, *, whole: bool) -> list[StateRecord]:
        """All positions that differ from `view`, which another worker may have written.

        A cache that is not `whole` does not know which positions were deleted.
        """
        known = {each for each in self.known() if each[1].topic in self.topics}
        stale = {(r.group, r.partition) for r in self._written(view) if r.partition.topic in self.topics}
        return [new for each in (known | stale if whole else known) for new in self._entry(*each, view)]

    def _written(self, view: StateView) -> Iterator[GroupPosition]:
        return iter(view.group_positions(self._spec))

    def written(self) -> None:
        """Record that the changes were stored."""
        self._changed.clear()

    def _entry(self, group: str, at: TopicPartition, view: StateView) -> Iterator[StateRecord]:
        held = self._positions.get(group, {}).get(at)
        record = self._record(group, at, held) if held else None
        key = self._record(group, at, held or _NOWHERE).key
        there = view.get(key)
        if there == record or _same_position(there, record):
            return
        if record is None or (isinstance(there, GroupPosition) and 0 <= record.order < there.order):
            yield Tombstone(key)  # its log was made anew: without this the older record would not be taken
        if record is not None:
            yield record

    def _record(self, group: str, at: TopicPartition, held: _Held) -> GroupPosition:
        return GroupPosition(
            mirror=self._spec.mirror,
            mirror_id=self._spec.mirror_id,
            group=group,
            partition=at,
            offset=held.offset,
            at=held.at,
            kind=self._kinds.get(group, _CLASSIC),
            order=held.order,
        )


def _same_position(there: StateRecord | None, record: GroupPosition | None) -> bool:
    """A polled position that has not changed adds nothing to one that was read from the log."""
    return (
        isinstance(there, GroupPosition)
        and record is not None
        and record.order < 0
        and (there.offset, there.kind) == (record.offset, record.kind)
    )
