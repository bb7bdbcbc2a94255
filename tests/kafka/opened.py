"""Counts what a command in this process opens to clusters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tanist.kafka.adapters import tail
from tanist.kafka.wire.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Everything that is really opened from now on: connections of our own wire by address, and consumers."""
    found: Counter[str] = Counter()
    connect, consumer = Connection.open.__func__, tail.Consumer  # type: ignore[attr-defined]

    def counted(kind: type[Connection], address: Any, *rest: Any) -> Connection:
        found[str(address)] += 1
        made: Connection = connect(kind, address, *rest)
        return made

    def consuming(options: Mapping[str, Any]) -> Any:
        found["consumer"] += 1
        return consumer(dict(options))

    monkeypatch.setattr(Connection, "open", classmethod(counted))
    monkeypatch.setattr(tail, "Consumer", consuming)
    return found
