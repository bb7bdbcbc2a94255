"""The file of `tanist state export`: one record of a state topic a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import NoStateTopic, Refused
from tanist.domain.names import EpochMs
from tanist.domain.problems import refuse
from tanist.domain.records import STATE_TOPIC
from tanist.domain.saved_state import FORMAT, VERSION, SavedState, StateFileInvalid
from tanist.usecases import snapshot
from tanist.usecases.mirror import identify
from tanist.wiring import line_file
from tanist.wiring.line_file import LineFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tanist.domain.state_record import StateRecord
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.wiring.registry import ClusterRegistry

_KIND: Final = LineFormat(
    name=FORMAT,
    version=VERSION,
    head={"cluster": str, "cluster_id": str, "exported_at": int},
    title="export of a state",
    invalid=StateFileInvalid,
)


class StateUnreadable(Refused):
    name = "STATE_UNREADABLE"
    operator_action = "use the version of Tanist that has written it; nothing was exported"


def save(registry: ClusterRegistry, destination: Cluster, context: CommandContext) -> SavedState:
    """What the state topics of a cluster hold now. `__mirror_state` is read last, and refers to nothing newer.

    Raises:
        NoStateTopic. StateUnreadable: a record was written by a newer version, so a copy of it would not be complete.
    """
    from tanist.kafka.adapters.cluster import PARTITIONS  # noqa: PLC0415

    (cluster_id,) = identify((destination,), context)
    if not snapshot.exists(destination, STATE_TOPIC, context.by):
        raise NoStateTopic(f"{destination.name!r} has no topic {STATE_TOPIC}")
    cluster, records = registry.open(destination.name), {}
    for topic in sorted(PARTITIONS, key=lambda name: name == STATE_TOPIC):
        if not snapshot.exists(destination, topic, context.by):
            continue
        with cluster.open_store(topic, None, context.by) as store:
            view, problems = store.catch_up(context.by), store.problems()
        if problems:
            refuse([StateUnreadable(f"the record {each.key} of topic {topic}: {each.why}") for each in problems])
        records[topic] = tuple(view[key] for key in sorted(view) if view[key].policy.saved)
    return SavedState(cluster=destination.name, cluster_id=cluster_id, exported_at=context.clock.now(), records=records)


def lines(state: SavedState) -> Iterator[str]:
    """The file, line by line. Nothing in it is secret: a mirror names connections, and hosts resolve them."""
    head = {"cluster": state.cluster, "cluster_id": state.cluster_id, "exported_at": state.exported_at}
    return line_file.lines(_KIND, head, _items(state))


def _items(state: SavedState) -> Iterator[dict[str, Any]]:
    from tanist.kafka.protocol.stored import encode  # noqa: PLC0415

    for topic in sorted(state.records):
        for record in state.records[topic]:
            key, value = encode(record)
            yield {"topic": topic, "key": key.decode(), "value": json.loads(value or b"null")}


def write(state: SavedState, file: Path) -> None:
    """The whole file or, if that fails, what was there before.

    Raises:
        FileNotWritten.
    """
    line_file.write(lines(state), file)


def read(file: Path) -> SavedState:
    """What was exported to `file`.

    Raises:
        StateFileInvalid: it cannot be read, is of a newer version, or is not complete.
    """
    head, items = line_file.read(_KIND, file)
    records: dict[str, list[StateRecord]] = {}
    for topic, record in _records(file, items):
        records.setdefault(topic, []).append(record)
    return SavedState(
        cluster=head["cluster"],
        cluster_id=head["cluster_id"],
        exported_at=EpochMs(head["exported_at"]),
        records={topic: tuple(each) for topic, each in records.items()},
    )


def _records(file: Path, items: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[tuple[str, StateRecord]]:
    from tanist.kafka.adapters.cluster import PARTITIONS  # noqa: PLC0415
    from tanist.kafka.protocol.stored import Unreadable, decode  # noqa: PLC0415

    for number, found in items:
        if found.get("topic") not in PARTITIONS or not isinstance(found.get("key"), str):
            raise StateFileInvalid(f"{file}, line {number}: it names no state topic, or no key")
        record = decode(found["key"].encode(), json.dumps(found.get("value")).encode())
        if isinstance(record, Unreadable):
            raise StateFileInvalid(f"{file}, line {number}: the record {record.key}: {record.why}")
        yield found["topic"], record
