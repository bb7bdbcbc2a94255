"""Appends in flight when answers are bad and leaders move. No brokers: their answers are played."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.copying import Append
from tanist.domain.errors import ConnectionLost
from tanist.domain.names import BrokerId, MirrorName, TopicPartition
from tanist.fetcher.appending import DEPTH, Appending
from tanist.fetcher.assignment import Assigned
from tanist.fetcher.copy import PartitionCopy, Phase
from tanist.protocol.batch import walk
from tanist.wire.clock import SystemClock
from tests.protocol.batches import encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.protocol.frames import ProduceBatch

CLOCK = SystemClock()
OUT_OF_ORDER = 45
RECORDS = 2


class Answers:
    """A connection that answers each post with the next of `codes`; None breaks it."""

    def __init__(self, codes: Sequence[int | None]) -> None:
        self.codes = deque(codes)
        self.connection = SimpleNamespace(lost=False)
        self.posts: deque[int] = deque()
        self.offset = 0

    @property
    def in_flight(self) -> int:
        return len(self.posts)

    def post(self, batches: Sequence[ProduceBatch], _by: object) -> None:
        self.posts.append(len(batches))

    def collect(self, _by: object) -> Any:
        asked, code = self.posts.popleft(), self.codes.popleft()
        if code is None:
            raise ConnectionLost("played")
        base, self.offset = self.offset, self.offset + RECORDS
        return SimpleNamespace(partitions=[SimpleNamespace(base_offset=base, error_code=code, message="")] * asked)


class Routes:
    """Who leads, as a test says."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, BrokerId] = {}
        self.dropped: list[BrokerId] = []

    def leader(self, of: TopicPartition) -> BrokerId:
        return self.leaders[of]

    def drop(self, broker: BrokerId) -> None:
        self.dropped.append(broker)

    def refresh(self, *_: object) -> None:
        pass


@pytest.fixture
def routes() -> Routes:
    return Routes()


@pytest.fixture
def appending(routes: Routes) -> Appending:
    tools = SimpleNamespace(claims=None, clock=CLOCK, remembered_ms=86_400_000)
    return Appending(cast("Any", routes), cast("Any", None), cast("Any", tools))


def connect(appending: Appending, broker: int, codes: Sequence[int | None]) -> Answers:
    answers = Answers(codes)
    appending._connections[BrokerId(broker)] = cast("Any", answers)
    return answers


def copy_of(partition: int, batches: int) -> PartitionCopy:
    spec = SimpleNamespace(mirror=MirrorName("m"), data_id=1, filler_id=2, start_id=3)
    copy = PartitionCopy(Assigned(cast("Any", spec), TopicPartition("t", partition), 0, 1))
    copy.phase, copy.alone, copy.map_unchecked = Phase.COPY, False, False
    copy.steps = deque(step for number in range(batches) for step in steps(number * RECORDS))
    return copy


def steps(offset: int) -> list[Append[Any, memoryview]]:
    batch = encode_batch([b"a", b"b"], base_offset=offset, timestamp_ms=CLOCK.now())
    return [Append(header, payload) for header, payload in walk(memoryview(batch))]


def never() -> bool:
    return False


def test_a_refusal_that_is_heard_while_room_is_made_does_not_end_the_lane(routes: Routes, appending: Appending) -> None:
    """It takes the steps of its partition away, which was about to be asked for the next one."""
    copy = copy_of(0, DEPTH + 2)
    routes.leaders[copy.partition] = BrokerId(1)
    connect(appending, 1, [0, OUT_OF_ORDER, *[OUT_OF_ORDER] * DEPTH])
    appending.append([copy], never)
    assert (copy.phase, len(copy.steps), len(copy.in_flight)) == (Phase.RECOVER, 0, 0)
    assert copy.landed_end == RECORDS


def test_a_lost_connection_gives_up_its_own_batches_only(routes: Routes, appending: Appending) -> None:
    """What went to the next leader is still in flight: recovery waits for its answer, which finds its place."""
    copy = copy_of(0, 2)
    first, second = connect(appending, 1, [None]), connect(appending, 2, [OUT_OF_ORDER])
    routes.leaders[copy.partition] = BrokerId(1)
    assert appending._send([copy])
    routes.leaders[copy.partition] = BrokerId(2)
    assert appending._send([copy])
    assert (first.in_flight, second.in_flight, len(copy.in_flight)) == (1, 1, 2)
    appending._collect()
    assert (copy.phase, len(copy.in_flight), routes.dropped) == (Phase.RECOVER, 1, [1])
    appending._collect()
    assert not copy.in_flight
