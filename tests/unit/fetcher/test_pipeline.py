"""Appends in flight when answers are bad and leaders move. No brokers: their answers are played."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.appending import DEPTH, Pipeline
from tanist.domain.broker_errors import OutOfOrderSequence
from tanist.domain.copying import Append
from tanist.domain.errors import ConnectionLost
from tanist.domain.gap_markers import MarkerEpoch
from tanist.domain.names import SAME_NAMES, BrokerId, DestinationOffset, MirrorName, MirrorPartition, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.recovery import ResumePoint
from tanist.fetcher.assignment import Assigned
from tanist.fetcher.engines.batches.appending import Appending
from tanist.fetcher.engines.batches.partition import BatchPartition
from tanist.fetcher.throttle import Throttle
from tanist.kafka.protocol.batch import walk
from tanist.kafka.wire.clock import SystemClock
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.kafka.protocol.frames import ProduceBatch

CLOCK = SystemClock()
OUT_OF_ORDER = 45
RECORDS = 2


class Answers:
    """A connection that answers each post with the next of `codes`; None breaks it. Without any it is silent."""

    early = False

    def __init__(self, codes: Sequence[int | None], throttle_ms: int = 0) -> None:
        self.codes = deque(codes)
        self.throttle_ms = throttle_ms
        self.connection = SimpleNamespace(lost=False, closed=True)
        self.posts: deque[int] = deque()
        self.offset = 0

    @property
    def in_flight(self) -> int:
        return len(self.posts)

    @property
    def readable(self) -> bool:
        return bool(self.posts and self.codes)

    def post(self, batches: Sequence[ProduceBatch], _by: object) -> None:
        self.posts.append(len(batches))

    def collect(self, _by: object) -> Any:
        asked, code = self.posts.popleft(), self.codes.popleft()
        if code is None:
            raise ConnectionLost("played")
        base, self.offset = self.offset, self.offset + RECORDS
        answers = [SimpleNamespace(base_offset=base, error_code=code, message="")] * asked
        return SimpleNamespace(partitions=answers, throttle_ms=self.throttle_ms)


class Routes:
    """Who leads, as a test says."""

    def __init__(self) -> None:
        self.leaders: dict[MirrorPartition, BrokerId] = {}
        self.dropped: list[BrokerId] = []

    def leader(self, of: MirrorPartition) -> BrokerId:
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
    spec = SimpleNamespace(mirror=MirrorName("m"))
    tools = SimpleNamespace(claims=None, clock=CLOCK, remembered_ms=86_400_000, spec=spec, throttle=Throttle(CLOCK))
    return Appending(cast("Any", routes), cast("Any", None), cast("Any", tools))


def connect(appending: Appending, broker: int, codes: Sequence[int | None], throttle_ms: int = 0) -> Answers:
    answers = Answers(codes, throttle_ms)
    appending._connections[BrokerId(broker)] = cast("Any", answers)
    return answers


def copying(partition: int, batches: int) -> BatchPartition:
    """A partition in the middle of copying, with so many batches to append."""
    spec = SimpleNamespace(mirror=MirrorName("m"), data_id=1, filler_id=2, start_id=3, names=SAME_NAMES)
    found = BatchPartition(Assigned(cast("Any", spec), MirrorPartition("t", partition), 0, 1), MarkerEpoch(1))
    found.pipeline = Pipeline.resume(ResumePoint(SourceOffset(0), DestinationOffset(0), 0), OffsetMap())
    found.pipeline.acknowledged = True
    found.pipeline.take(step for number in range(batches) for step in steps(number * RECORDS))
    return found


def steps(offset: int) -> list[Append[Any, memoryview]]:
    batch = encode_batch([b"a", b"b"], base_offset=offset, timestamp_ms=CLOCK.now())
    return [Append(header, payload) for header, payload in walk(memoryview(batch))]


def never() -> bool:
    return False


def test_a_refusal_that_is_heard_while_room_is_made_does_not_end_the_lane(routes: Routes, appending: Appending) -> None:
    """It takes the steps of its partition away, which was about to be asked for the next one."""
    copied = copying(0, DEPTH + 2)
    routes.leaders[copied.at] = BrokerId(1)
    connect(appending, 1, [0, OUT_OF_ORDER, *[OUT_OF_ORDER] * DEPTH])
    appending.append([copied], never)
    assert copied.halted
    assert isinstance(copied.halted.why, OutOfOrderSequence)
    assert copied.quiet
    assert copied.pipeline.landed_end == RECORDS


def test_a_lost_connection_gives_up_its_own_batches_only(routes: Routes, appending: Appending) -> None:
    """What went to the next leader is still in flight: recovery waits for its answer, which finds its place."""
    copied = copying(0, 2)
    first, second = connect(appending, 1, [None]), connect(appending, 2, [OUT_OF_ORDER])
    routes.leaders[copied.at] = BrokerId(1)
    assert appending._send([copied])
    routes.leaders[copied.at] = BrokerId(2)
    assert appending._send([copied])
    assert (first.in_flight, second.in_flight, len(copied.pipeline.in_flight)) == (1, 1, 2)
    appending._take(BrokerId(1))
    assert copied.halted
    assert (len(copied.pipeline.in_flight), routes.dropped) == (1, [1])
    appending._take(BrokerId(2))
    assert not copied.in_flight


def on_both(routes: Routes) -> tuple[BatchPartition, BatchPartition]:
    """Two partitions, led by brokers 1 and 2, whose batches lie in one buffer."""
    buffer = bytearray()
    found = (copying(0, 0), copying(1, 0))
    for number, each in enumerate(found, 1):
        routes.leaders[each.at] = BrokerId(number)
    for number in range(DEPTH + 2):
        buffer += encode_batch([b"a", b"b"], base_offset=number * RECORDS, timestamp_ms=CLOCK.now())
    for each in found:
        each.pipeline.take(Append(header, payload) for header, payload in walk(memoryview(buffer)))
    return found


def test_a_broker_that_does_not_answer_holds_up_no_partition_of_another(routes: Routes, appending: Appending) -> None:
    """S3.8: all of a thread waited for it. What was read for it is kept out of the buffer, and nothing more is read."""
    slow, other = on_both(routes)
    mute = connect(appending, 1, [])
    connect(appending, 2, [0] * (DEPTH + 2))
    appending.append([slow, other], lambda: True)
    assert (other.pipeline.landed_end, other.quiet) == ((DEPTH + 2) * RECORDS, True)
    assert (mute.in_flight, len(slow.pipeline.steps)) == (DEPTH, 2)
    assert all(
        isinstance(each, Append) and memoryview(each.payload.obj).nbytes == len(each.payload)
        for each in slow.pipeline.steps
    )
    assert (appending.waits(slow), appending.waits(other)) == (True, False)
    mute.codes.extend([0] * (DEPTH + 2))
    appending.append([slow, other], never)
    assert (slow.pipeline.landed_end, slow.quiet, appending.waits(slow)) == ((DEPTH + 2) * RECORDS, True, False)


def test_a_broker_that_throttles_gets_nothing_for_that_time_and_the_others_go_on(
    routes: Routes, appending: Appending
) -> None:
    """S3.13, KIP-219: it reads no request before; whoever sent one all the same waited for its answer."""
    throttled, other = on_both(routes)
    answers = connect(appending, 1, [0] * (DEPTH + 2), throttle_ms=60_000)
    connect(appending, 2, [0] * (DEPTH + 2))
    appending.append([throttled, other], never)
    assert (other.pipeline.landed_end, other.quiet) == ((DEPTH + 2) * RECORDS, True)
    assert (answers.in_flight, appending.waits(throttled)) == (0, True)
    assert throttled.pipeline.steps
    assert throttled.halted is None
    appending._muted[BrokerId(1)] = CLOCK.monotonic()
    assert not appending.waits(throttled)
