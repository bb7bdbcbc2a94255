"""A state topic in memory, or in a file: bytes in, bytes out, so that what cannot be stored fails here too."""

from __future__ import annotations

import base64
import fcntl
import json
from typing import TYPE_CHECKING, TypeAlias

from tanist.domain.errors import OperatorFenced
from tanist.domain.state_view import NOTHING_YET, fold
from tanist.kafka.protocol.stored import Unreadable, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tests.fakes.cluster import MemoryCluster

    Entry: TypeAlias = tuple[bytes, bytes | None]
    StateLog: TypeAlias = "list[Entry] | FileLog"

WORKER = "worker"


class FileLog:
    """What is in a state topic, one entry a line of a file: for workers that are processes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __len__(self) -> int:
        return len(self[0:])

    def __getitem__(self, part: slice) -> list[Entry]:
        with self._path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            file.seek(0)
            lines = file.readlines()[part]
        parts = [[base64.b64decode(each) for each in json.loads(line)] for line in lines]
        return [(key, value or None) for key, value in parts]

    def extend(self, entries: Iterable[Entry]) -> None:
        lines = [json.dumps([base64.b64encode(part or b"").decode() for part in entry]) + "\n" for entry in entries]
        with self._path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write("".join(lines).encode())


class MemoryStateStore:
    """The port `StateStore`. Each has read only as far as it has caught up; what it reads was folded once for all."""

    def __init__(self, cluster: MemoryCluster, topic: str, writer: str | None = None) -> None:
        self._cluster, self._topic, self._writer = cluster, topic, writer
        self._view: StateView = NOTHING_YET
        with cluster.lock:
            self._epoch = cluster.operators.get(writer or "", 0) + 1
            if self._is_operator():
                cluster.operators[str(writer)] = self._epoch
            self._read()

    def view(self) -> StateView:
        return self._view

    def ended(self) -> None:
        return None

    def catch_up(self, by: Deadline) -> StateView:
        with self._cluster.lock:
            self._cluster.answer()
            return self._read()

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        if self._writer is None:
            raise TypeError("opened for reading")
        with self._cluster.lock:
            self._cluster.answer()
            if self._is_operator():
                if self._cluster.operators[self._writer] != self._epoch:
                    raise OperatorFenced(self._writer)
                self._cluster.committed[self._topic] = self._cluster.clock.now()
                if keys := [record.key for record in records if not record.key.startswith("lock/")]:
                    self._cluster.calls.append(f"append {', '.join(keys)}")
            self._cluster.states[self._topic].extend(encode(record) for record in records)
            return self._read()

    def follow(self, by: Deadline | None) -> Iterator[StateRecord]:
        yield from _decoded(self._cluster.states[self._topic][0:])

    def close(self) -> None:
        pass

    def _is_operator(self) -> bool:
        return self._writer not in {None, WORKER}

    def _read(self) -> StateView:
        position, view = self._cluster.folded.get(self._topic, (0, NOTHING_YET))
        if new := self._cluster.states[self._topic][position:]:
            view = fold(view, _decoded(new))
            self._cluster.folded[self._topic] = (position + len(new), view)
        self._view = view
        return view


def _decoded(entries: Sequence[Entry]) -> list[StateRecord]:
    read = [decode(key, value) for key, value in entries]
    return [record for record in read if not isinstance(record, Unreadable)]
