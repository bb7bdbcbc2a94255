"""The file of `tanist groups snapshot`: one topic or group a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from tanist.domain.names import MOST_OFFSETS, EpochMs, TopicPartition
from tanist.domain.selection import EVERYTHING, pattern_problems
from tanist.ports.positions import CommittedPosition
from tanist.usecases.groups.snapshots import FORMAT, VERSION, GroupSnapshot, SavedGroup, SnapshotInvalid
from tanist.wiring import line_file
from tanist.wiring.line_file import LineFormat

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping
    from pathlib import Path

_KIND: Final = LineFormat(
    name=FORMAT,
    version=VERSION,
    head={"cluster": str, "cluster_id": str, "taken_at_ms": int, "silent": list},
    title="snapshot of groups",
    invalid=SnapshotInvalid,
)
_CHOSEN: Final = "chosen"
"""In the header of a snapshot of some groups: the expressions by which they were chosen."""
_MOST_PARTITIONS: Final = 2**31
_TOPIC: Final[Mapping[str, type]] = {"topic": str, "topic_id": str}
_GROUP: Final[Mapping[str, type]] = {"group": str, "kind": str, "positions": list, "unread": list, "error": str}
_AT: Final[Mapping[str, type]] = {"topic": str, "partition": int}
_POSITION: Final[Mapping[str, type]] = {**_AT, "offset": int, "metadata": str}
_UNREAD: Final[Mapping[str, type]] = {**_AT, "reason": str}


def write(snapshot: GroupSnapshot, file: Path, *, overwrite: bool) -> None:
    """The whole file or nothing. Metadata that consumers have committed is in it.

    Raises:
        FileNotWritten. FileExists: there is one, and `overwrite` is False.
    """
    head = {
        "cluster": snapshot.cluster,
        "cluster_id": snapshot.cluster_id,
        "taken_at_ms": snapshot.taken_at,
        "silent": snapshot.silent,
    } | ({} if snapshot.chosen == EVERYTHING else {_CHOSEN: snapshot.chosen})
    line_file.write(line_file.lines(_KIND, head, _items(snapshot)), file, overwrite=overwrite)


def _items(snapshot: GroupSnapshot) -> Iterator[dict[str, Any]]:
    for topic, topic_id in sorted(snapshot.topic_ids.items()):
        yield {"topic": topic, "topic_id": topic_id}
    for group in snapshot.groups:
        yield {
            "group": group.group,
            "kind": group.kind,
            "positions": [
                {**at._asdict(), "offset": each.offset, "metadata": each.metadata}
                for at, each in sorted(group.positions.items())
            ],
            "unread": [{**at._asdict(), "reason": why} for at, why in sorted(group.unread.items())],
            "error": group.error,
        }


def read(file: Path) -> GroupSnapshot:
    """What was written to `file`.

    Raises:
        SnapshotInvalid: it cannot be read, is of a newer version, is not complete, or has a field that this version
        does not know, or a group or a position twice.
    """
    head, items = line_file.read(_KIND, file)
    ids: dict[str, str] = {}
    groups: dict[str, SavedGroup] = {}
    chosen = head.pop(_CHOSEN, [*EVERYTHING])
    texts = [*head["silent"], *chosen] if type(chosen) is list else [chosen, None]
    if (
        head.keys() != {"format", "version", *_KIND.head}
        or not all(type(each) is str for each in texts)
        or pattern_problems(chosen)
    ):
        raise SnapshotInvalid(f"{file}, line 1: not the header of version {VERSION}")
    for number, item in items:
        line = _Line(f"{file}, line {number}")
        if "topic" in item:
            line.has(item, _TOPIC)
            line.new(item["topic"], ids, f"topic {item['topic']!r}")
            ids[item["topic"]] = item["topic_id"]
        else:
            line.has(item, _GROUP)
            line.new(item["group"], groups, f"group {item['group']!r}")
            groups[item["group"]] = line.group(item)
    return GroupSnapshot(
        cluster=head["cluster"],
        cluster_id=head["cluster_id"],
        taken_at=EpochMs(head["taken_at_ms"]),
        groups=tuple(groups.values()),
        topic_ids=ids,
        silent=tuple(head["silent"]),
        chosen=tuple(chosen),
    )


class _Line:
    """A line of a file, which is named in errors."""

    def __init__(self, where: str) -> None:
        self._where = where

    def group(self, item: Mapping[str, Any]) -> SavedGroup:
        positions: dict[TopicPartition, CommittedPosition] = {}
        unread: dict[TopicPartition, str] = {}
        for each in item["positions"]:
            at = self._at(each, _POSITION, positions)
            if not 0 <= each["offset"] <= MOST_OFFSETS:
                self._refuse(f"{each['offset']} is not a valid offset of {at}")
            positions[at] = CommittedPosition(each["offset"], each["metadata"])
        for each in item["unread"]:
            unread[self._at(each, _UNREAD, positions.keys() | unread.keys())] = each["reason"]
        return SavedGroup(
            group=item["group"], kind=item["kind"], positions=positions, unread=unread, error=item["error"]
        )

    def has(self, item: Any, fields: Mapping[str, type]) -> None:
        """Refuse an item that has other fields, or values of other types."""
        if not isinstance(item, dict):
            self._refuse(f"{item!r} is not an object with {', '.join(fields)}")
        if other := sorted(item.keys() - fields.keys()):
            self._refuse(f"unknown field {other[0]!r}")
        if wrong := [name for name, kind in fields.items() if type(item.get(name)) is not kind]:
            self._refuse(f"{wrong[0]!r} is missing, or has a value of another type")

    def new(self, item: object, before: Container[Any], what: str) -> None:
        """Refuse what was there before."""
        if item in before:
            self._refuse(f"{what} is there twice")

    def _at(self, item: Any, fields: Mapping[str, type], before: Container[TopicPartition]) -> TopicPartition:
        self.has(item, fields)
        at = TopicPartition(item["topic"], item["partition"])
        if not 0 <= at.partition < _MOST_PARTITIONS:
            self._refuse(f"{at.partition} is not a valid partition of topic {at.topic!r}")
        self.new(at, before, f"a position of {at}")
        return at

    def _refuse(self, why: str) -> NoReturn:
        raise SnapshotInvalid(f"{self._where}: {why}")
