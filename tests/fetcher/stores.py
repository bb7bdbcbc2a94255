"""State stores for tests: one in memory, one in a file that several processes share."""

from __future__ import annotations

import base64
import fcntl
import json
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING

from tanist.domain.records import NOTHING_YET, fold
from tanist.protocol.stored import Unreadable, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tanist.domain.records import StateRecord, StateView
    from tanist.ports.clock import Deadline


class MemoryStore:
    """For the lanes of one process."""

    def __init__(self) -> None:
        self._view: StateView = NOTHING_YET
        self._lock = threading.Lock()

    def view(self) -> StateView:
        return self._view

    def ended(self) -> None:
        return None

    def catch_up(self, by: Deadline) -> StateView:
        return self._view

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        with self._lock:
            self._view = fold(self._view, records)
            return self._view

    def follow(self, by: Deadline | None) -> Iterator[StateRecord]:
        yield from self._view.values()

    def close(self) -> None:
        pass


class FileStore:
    """An append-only file, one record a line; whoever opens the same path shares it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._view: StateView = MappingProxyType({})

    def view(self) -> StateView:
        return self._view

    def ended(self) -> None:
        return None

    def catch_up(self, by: Deadline) -> StateView:
        with self._lock, self._path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            file.seek(0)
            self._view = fold(NOTHING_YET, _records(file.read()))
        return self._view

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        lines = []
        for record in records:
            key, value = encode(record)
            lines.append(json.dumps([base64.b64encode(part or b"").decode() for part in (key, value)]))
        with self._lock, self._path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write("".join(line + "\n" for line in lines).encode())
        return self.catch_up(by)

    def follow(self, by: Deadline | None) -> Iterator[StateRecord]:
        yield from self._view.values()

    def close(self) -> None:
        pass


def _records(lines: bytes) -> list[StateRecord]:
    found = []
    for line in lines.splitlines():
        key, value = (base64.b64decode(part) for part in json.loads(line))
        record = decode(key, value or None)
        assert not isinstance(record, Unreadable), record
        found.append(record)
    return found
