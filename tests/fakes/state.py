"""A state topic in memory: bytes in, bytes out, so that what cannot be stored fails here too."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from tanist.domain.errors import OperatorFenced, Unreachable
from tanist.domain.records import NOTHING_YET, fold
from tanist.protocol.stored import Unreadable, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.records import StateRecord, StateView
    from tanist.ports.clock import Deadline

WORKER = "worker"


@dataclass
class MemoryTopic:
    """The log that stores share. `dead`: its cluster does not answer."""

    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    operators: dict[str, int] = field(default_factory=dict)
    dead: bool = False
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryStateStore:
    """The port `StateStore`. Each has read only as far as it has caught up."""

    def __init__(self, topic: MemoryTopic, writer: str | None = None) -> None:
        self._topic, self._writer = topic, writer
        self._view: StateView = NOTHING_YET
        self._position = 0
        with topic.lock:
            self._epoch = topic.operators.get(writer or "", 0) + 1
            if writer and writer != WORKER:
                topic.operators[writer] = self._epoch
            self._read()

    def view(self) -> StateView:
        return self._view

    def ended(self) -> None:
        return None

    def catch_up(self, by: Deadline) -> StateView:
        with self._topic.lock:
            self._answer()
            return self._read()

    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        if self._writer is None:
            raise TypeError("opened for reading")
        with self._topic.lock:
            self._answer()
            if self._writer != WORKER and self._topic.operators[self._writer] != self._epoch:
                raise OperatorFenced(self._writer)
            self._topic.log += [encode(record) for record in records]
            return self._read()

    def follow(self, by: Deadline | None) -> Iterator[StateRecord]:
        yield from self._decoded(0)

    def close(self) -> None:
        pass

    def _answer(self) -> None:
        if self._topic.dead:
            raise Unreachable("memory: connection refused")

    def _decoded(self, start: int) -> list[StateRecord]:
        read = [decode(key, value) for key, value in self._topic.log[start:]]
        return [record for record in read if not isinstance(record, Unreadable)]

    def _read(self) -> StateView:
        new = self._decoded(self._position)
        self._position = len(self._topic.log)
        if new:
            self._view = MappingProxyType(dict(fold(self._view, new)))
        return self._view
