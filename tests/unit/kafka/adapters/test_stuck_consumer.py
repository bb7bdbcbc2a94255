"""A consumer of librdkafka may stop for ever; whoever reads with it goes on with another one."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from tanist.domain.endpoint import Address, Endpoint
from tanist.domain.errors import TimedOut
from tanist.domain.records import STATE_TOPIC, WorkerAlive
from tanist.kafka.adapters import state_reader
from tanist.kafka.adapters.state_reader import Follower
from tanist.kafka.adapters.tail import Burst
from tanist.ports.clock import Deadline
from tests.builders import a_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENDPOINT = Endpoint(name="west", bootstrap=(Address("localhost", 9),))


def alive(worker: str) -> WorkerAlive:
    return a_worker(worker)


class ScriptedTail:
    """Two partitions. The first one made reads partition 0 alone, and its `close` does not return; others read both."""

    made: list[ScriptedTail]
    hangs: threading.Event

    def __init__(self, _endpoint: Endpoint, _quiet_ms: int) -> None:
        self.made.append(self)
        self.starts: Mapping[int, int] = {}
        self.sent: set[int] = set()

    def add(self, _topic: str, starts: Mapping[int, int]) -> None:
        self.starts = dict(starts)

    def remove(self, _topic: str) -> None: ...

    def burst(self, seconds: float) -> dict[str, Burst]:
        time.sleep(min(seconds, 0.01))  # noqa: TID251 -- as a poll does
        wanted = {0} if self is self.made[0] else {0, 1}
        found = Burst()
        for n in sorted(wanted & self.starts.keys()):
            found.positions[n] = max(1, self.starts[n])
            if n not in self.sent and self.starts[n] == 0:
                found.records.append(alive(f"w{n}"))
            self.sent.add(n)
        return {STATE_TOPIC: found} if found.positions else {}

    def likely_cause(self) -> None:
        return None

    def close(self) -> None:
        if self is self.made[0]:
            self.hangs.wait(30)


@pytest.fixture
def follower(monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    monkeypatch.setattr(ScriptedTail, "made", [], raising=False)
    monkeypatch.setattr(ScriptedTail, "hangs", threading.Event(), raising=False)
    monkeypatch.setattr(state_reader, "Tail", ScriptedTail)
    monkeypatch.setattr(state_reader, "STUCK_SECONDS", 0.2)
    found = Follower(ENDPOINT, 20)
    yield found
    ScriptedTail.hangs.set()
    found.close()


def soon(seconds: float) -> Deadline:
    return Deadline(time.monotonic() + seconds)


def test_a_partition_that_is_not_read_any_more_is_read_by_another_consumer(follower: Follower) -> None:
    """Found by a storm: a worker had the state of minutes ago, and copied nothing until it was started again."""
    reader = follower.reader(STATE_TOPIC, {0: 0, 1: 0})
    with pytest.raises(TimedOut, match="partition 1 at 0 of 1"):
        reader.reach({0: 1, 1: 1}, soon(0.1))
    assert len(ScriptedTail.made) == 1, "it may only be slow"
    with pytest.raises(TimedOut):
        reader.reach({0: 1, 1: 1}, soon(0.3))
    view = reader.reach({0: 1, 1: 1}, soon(5))
    assert {each.worker for each in view.workers()} == {"w0", "w1"}
    assert len(ScriptedTail.made) == 2
    assert ScriptedTail.made[1].starts == {0: 1, 1: 0}, "it goes on where the other one has stopped"


def test_a_reader_that_keeps_up_keeps_its_consumer(follower: Follower) -> None:
    reader = follower.reader(STATE_TOPIC, {0: 0, 1: 0})
    for _ in range(5):
        reader.reach({0: 1}, soon(5))
        time.sleep(0.1)  # noqa: TID251 -- longer than a stuck consumer is waited for, all together
    assert len(ScriptedTail.made) == 1


def test_a_consumer_that_does_not_close_holds_nobody_up(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reader, "CLOSE_SECONDS", 0.1)
    follower.reader(STATE_TOPIC, {0: 0}).reach({0: 1}, soon(5))
    began = time.monotonic()
    follower.close()
    assert time.monotonic() - began < 5
