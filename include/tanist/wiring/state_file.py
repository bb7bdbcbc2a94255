"""The file of `tanist state export`: one JSON object a line, a header first, a line that closes it last."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tanist.domain.errors import Misconfigured, NoStateTopic, Refused
from tanist.domain.names import EpochMs
from tanist.domain.problems import refuse
from tanist.domain.records import STATE_TOPIC
from tanist.domain.saved_state import FORMAT, VERSION, SavedState, StateFileInvalid
from tanist.usecases import snapshot
from tanist.usecases.mirror import identify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tanist.domain.state_record import StateRecord
    from tanist.ports.cluster import Cluster
    from tanist.usecases.command import CommandContext
    from tanist.wiring.registry import ClusterRegistry

_PRIVATE: Final = 0o600


class StateUnreadable(Refused):
    name = "STATE_UNREADABLE"
    operator_action = "use the version of Tanist that has written it; nothing was exported"


class FileNotWritten(Misconfigured):
    name = "FILE_NOT_WRITTEN"
    operator_action = "give a file in a folder that exists and that you may write to"


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
    from tanist.kafka.protocol.stored import encode  # noqa: PLC0415

    yield json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "cluster": state.cluster,
            "cluster_id": state.cluster_id,
            "exported_at": state.exported_at,
        }
    )
    digest = hashlib.sha256()
    for topic in sorted(state.records):
        for record in state.records[topic]:
            key, value = encode(record)
            line = json.dumps({"topic": topic, "key": key.decode(), "value": json.loads(value or b"null")})
            digest.update(line.encode())
            yield line
    yield json.dumps({"records": state.count, "sha256": digest.hexdigest()})


def write(state: SavedState, file: Path) -> None:
    """The whole file or, if that fails, what was there before.

    Raises:
        FileNotWritten.
    """
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.writelines(f"{line}\n" for line in lines(state))
            new.flush()
            os.fsync(new.fileno())
        Path(name).chmod(_PRIVATE)
        Path(name).replace(file)
    except OSError as error:
        raise FileNotWritten(f"{file}: {error.strerror or error}") from error


def read(file: Path) -> SavedState:
    """What was exported to `file`.

    Raises:
        StateFileInvalid: it cannot be read, is of a newer version, or is not complete.
    """
    try:
        found = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StateFileInvalid(f"{file}: {error}") from error
    if not found:
        raise StateFileInvalid(f"{file} is empty")
    head = _object(file, 1, found[0])
    if head.get("format") != FORMAT:
        raise StateFileInvalid(f"{file} is no export of a state: its first line has no format {FORMAT!r}")
    if not isinstance(head.get("version"), int) or not 1 <= head["version"] <= VERSION:
        raise StateFileInvalid(f"{file} has version {head.get('version')}, this Tanist reads up to {VERSION}")
    if not all(isinstance(head.get(name), kind) for name, kind in _HEAD.items()):
        raise StateFileInvalid(f"{file}: its first line lacks one of {', '.join(_HEAD)}")
    body, last = found[1:-1], _object(file, len(found), found[-1])
    digest = hashlib.sha256()
    for line in body:
        digest.update(line.encode())
    if (last.get("records"), last.get("sha256")) != (len(body), digest.hexdigest()):
        raise StateFileInvalid(f"{file} is not complete, or was altered: its last line does not fit its records")
    records: dict[str, list[StateRecord]] = {}
    for topic, record in _records(file, body):
        records.setdefault(topic, []).append(record)
    return SavedState(
        cluster=head["cluster"],
        cluster_id=head["cluster_id"],
        exported_at=EpochMs(head["exported_at"]),
        records={topic: tuple(each) for topic, each in records.items()},
    )


_HEAD: Final = {"cluster": str, "cluster_id": str, "exported_at": int}


def _object(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StateFileInvalid(f"{file}, line {number}: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise StateFileInvalid(f"{file}, line {number}: not a JSON object")
    return found


def _records(file: Path, body: Iterable[str]) -> Iterator[tuple[str, StateRecord]]:
    from tanist.kafka.adapters.cluster import PARTITIONS  # noqa: PLC0415
    from tanist.kafka.protocol.stored import Unreadable, decode  # noqa: PLC0415

    for number, line in enumerate(body, 2):
        found = _object(file, number, line)
        if found.get("topic") not in PARTITIONS or not isinstance(found.get("key"), str):
            raise StateFileInvalid(f"{file}, line {number}: it names no state topic, or no key")
        record = decode(found["key"].encode(), json.dumps(found.get("value")).encode())
        if isinstance(record, Unreadable):
            raise StateFileInvalid(f"{file}, line {number}: the record {record.key}: {record.why}")
        yield found["topic"], record
