"""S3.8: idle partitions are fetched in a session of their own, and answers that come too late for them are void."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.appending import Pipeline
from tanist.domain.broker_errors import TopicAuthorizationFailed
from tanist.domain.errors import ConnectionLost
from tanist.domain.limits import LimitKey, LimitShare
from tanist.domain.names import BrokerId, DestinationOffset, MirrorName, SourceOffset
from tanist.domain.offset_map import OffsetMap
from tanist.domain.recovery import ResumePoint
from tanist.fetcher.engines.batches import reading as reading_module
from tanist.fetcher.engines.batches.decisions import AnswerTimes
from tanist.fetcher.engines.batches.partition import LONGEST_READ_AGAIN_SECONDS, READ_AGAIN_SECONDS
from tanist.fetcher.engines.batches.reading import RESTS_AFTER_SECONDS, SourceReading
from tanist.fetcher.throttle import Throttle
from tanist.kafka.protocol.frames import FetchAnswer, FetchedPartition
from tests.fakes.clock import JumpingClock
from tests.unit.fetcher.test_pipeline import copying
from tests.unit.kafka.protocol.batches import encode_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tanist.fetcher.engines.batches.partition import BatchPartition
    from tanist.kafka.protocol.frames import FetchPosition

DENIED = 29


class Channel:
    """The broker, as far as one session goes: `answer` is what it says next; None: not yet."""

    def __init__(self, clock: JumpingClock) -> None:
        self.clock = clock
        self.turn, self.in_flight, self.forgotten = 0, False, 0
        self.session: dict[tuple[str, int], int] = {}
        self.answer: FetchAnswer | Exception | None = None

    connection = None

    @property
    def ready(self) -> bool:
        return self.in_flight and self.answer is not None

    def post(
        self, positions: Sequence[FetchPosition], _limits: object, forgotten: Iterable[tuple[str, int]] | None = None
    ) -> None:
        if forgotten is None:
            self.session.clear()
        for key in forgotten or ():
            self.session.pop(key, None)
        self.session |= {(each.topic, each.partition): each.offset for each in positions}
        self.turn, self.in_flight = self.turn + 1, True

    def take(self) -> FetchAnswer:
        self.in_flight, answer, self.answer = False, self.answer, None
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None
        return answer

    def look(self, _: object) -> AnswerTimes:
        return AnswerTimes(self.clock.now(), self.clock.now())

    def forget(self) -> None:
        self.session, self.in_flight, self.forgotten = {}, False, self.forgotten + 1


class Source:
    dropped = 0

    def drop(self, _: object) -> None:
        self.dropped += 1


class Played:
    """A thread's reading of partitions that have been idle for long enough, round by round."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partitions: int) -> None:
        monkeypatch.setattr(reading_module, "wait_for_any", lambda *_: None)
        self.clock, self.source = JumpingClock(), Source()
        self.throttle = Throttle(self.clock)
        self.reading = SourceReading(cast("Any", self.source), BrokerId(1), self.clock, self.throttle, rests=True)
        self.busy, self.idle = Channel(self.clock), Channel(self.clock)
        self.reading._busy, self.reading._idle = cast("Any", self.busy), cast("Any", self.idle)
        self.all = [copying(number, 0) for number in range(partitions)]
        self.clock.jump(RESTS_AFTER_SECONDS + 1)

    def round(self, *given: BatchPartition) -> None:
        self.reading.post(given or self.all, hurry=False)
        self.reading.take()

    def answers(self, *fetched: FetchedPartition, **more: Any) -> None:
        """The idle session has an answer."""
        self.idle.answer = FetchAnswer(more.pop("throttle_ms", 0), list(fetched), 7, **more)

    def at_rest(self) -> list[int]:
        return [n for n, each in enumerate(self.all) if self.reading.rests(each)]


def fetched(partition: int, records: bytes | bytearray = b"", error: int = 0) -> FetchedPartition:
    return FetchedPartition("t", partition, error, 9, 9, 0, (), memoryview(records))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    """Three partitions at rest: their session has answered about each once."""
    found = Played(monkeypatch, 3)
    found.round()
    assert found.at_rest() == [], "nobody has answered about them yet"
    found.answers(*(fetched(n) for n in range(3)))
    found.round()
    assert found.at_rest() == [0, 1, 2]
    assert len(found.reading.news) == 3
    found.reading.news.clear()
    return found


def test_idle_partitions_are_in_a_session_that_busy_ones_do_not_wait_for(played: Played) -> None:
    played.round()
    assert (len(played.idle.session), played.busy.turn) == (3, 0)
    played.answers(fetched(1, encode_batch([b"a"], base_offset=0)))
    played.round()
    assert [each.at.partition for each in played.reading.news] == [1]
    assert played.at_rest() == [0, 2]
    woken = played.all[1]
    assert len(woken.pipeline.steps) == 1
    played.round(woken)
    assert list(played.busy.session) == [("t", 1)]
    assert list(played.idle.session) == [("t", 0), ("t", 2)]
    assert played.idle.in_flight


def test_one_that_is_quiet_again_is_fetched_until_it_is_in_the_session_of_idle_ones(played: Played) -> None:
    """The fetch of busy ones still has it then: what comes first makes the other void, so none is taken twice."""
    played.answers(fetched(1, encode_batch([b"a"], base_offset=0)))
    played.round()
    woken = played.all[1]
    played.round(woken)
    woken.pipeline.steps.clear()  # they have landed
    played.clock.jump(RESTS_AFTER_SECONDS + 1)
    played.round(woken)
    assert ("t", 1) not in played.idle.session
    played.answers()
    played.round(woken)
    played.round(woken)
    assert played.busy.in_flight
    assert (played.idle.session["t", 1], played.idle.in_flight) == (woken.pipeline.position, True)
    record = encode_batch([b"b"], base_offset=1)
    played.busy.answer = FetchAnswer(0, [fetched(1, record)], 7)
    played.answers(fetched(1, record))
    played.round(woken)
    assert len(woken.pipeline.steps) == 1
    played.round(woken)
    assert played.busy.session == {("t", 1): 2}


def test_a_second_record_of_one_that_wakes_does_not_wait_for_the_fetch_of_busy_ones(played: Played) -> None:
    """That fetch was on its way without it, for half a second at most."""
    busy = copying(3, 0)
    busy.news_at = played.clock.monotonic()
    played.round(busy)
    assert (played.busy.in_flight, list(played.busy.session)) == (True, [("t", 3)])
    woken = played.all[1]
    for n, value in enumerate((b"a", b"b")):
        played.answers(fetched(1, encode_batch([value], base_offset=n)))
        played.round(busy, woken)
        played.round(busy, woken)
        assert (played.idle.in_flight, played.idle.session["t", 1]) == (True, n + 1)
    assert len(woken.pipeline.steps) == 2
    played.busy.answer = FetchAnswer(0, [], 7)
    played.round(busy, woken)
    played.round(busy, woken)
    assert played.busy.session == {("t", 3): 0, ("t", 1): 2}
    played.answers()
    played.round(busy, woken)
    played.round(busy, woken)
    assert list(played.idle.session) == [("t", 0), ("t", 2)]


def test_one_that_is_quiet_before_the_broker_has_heard_of_its_leaving_holds_up_nobody(played: Played) -> None:
    """Neither of the two was waited for: the session of idle ones was not read any more, for good."""
    played.answers(fetched(1, encode_batch([b"a"], base_offset=0)))
    played.round()
    woken = played.all[1]
    woken.pipeline.steps.clear()  # it has landed
    played.clock.jump(RESTS_AFTER_SECONDS + 1)
    for _ in range(4):
        played.busy.answer = FetchAnswer(0, [], 7)
        played.answers()
        played.round(woken)
    assert (list(played.idle.session), played.at_rest()) == ([("t", 0), ("t", 2), ("t", 1)], [0, 1, 2])


def test_what_was_left_out_of_the_last_answer_is_unchanged_and_one_that_was_added_since_is_not(played: Played) -> None:
    played.round()
    played.clock.jump(5)
    played.answers()
    played.round()
    seen = played.clock.now()
    new = copying(3, 0)
    played.all.append(new)
    played.round()
    assert ("t", 3) in played.idle.session
    played.clock.jump(5)
    played.reading.settle()
    assert [each.source.observed_at for each in played.all] == [seen, seen, seen, None]
    assert played.at_rest() == [0, 1, 2]


def test_a_partition_with_an_error_leaves_the_session_and_is_asked_for_ever_more_seldom(played: Played) -> None:
    """The broker answers at once about one: every long poll of 2,000 others would spin."""
    played.answers(fetched(1, error=DENIED))
    played.round()
    denied = played.all[1]
    assert isinstance(denied.source.error, TopicAuthorizationFailed)
    assert played.at_rest() == [0, 2]
    waits = []
    for _ in range(6):
        waits.append(denied.source.read_again_at - played.clock.monotonic())
        played.round()
        assert ("t", 1) not in {**played.idle.session, **(played.busy.session if played.busy.in_flight else {})}
        played.clock.jump(waits[-1] + 0.001)
        played.round()
        assert list(played.busy.session) == [("t", 1)]
        played.busy.answer = FetchAnswer(0, [fetched(1, error=DENIED)], 7)
        played.round()
    assert (waits[0], waits[1], waits[-1]) == pytest.approx(
        (READ_AGAIN_SECONDS, 2 * READ_AGAIN_SECONDS, LONGEST_READ_AGAIN_SECONDS)
    )


def test_what_an_answer_has_cut_off_of_its_last_batch_counts_once_it_is_read_whole(played: Played) -> None:
    """S3.13: 4 MB/s of batches of 512 KiB were 2.6 MB/s, because each was counted once and a half."""
    limit = LimitKey(MirrorName("m"))
    played.throttle.share({limit: LimitShare(1_000)})
    for each in played.all:
        each.assigned = replace(each.assigned, limits=(limit,))
    played.round()
    whole = encode_batch([b"a"], base_offset=0)
    played.answers(fetched(1, bytes(whole) + bytes(encode_batch([b"b" * 900], base_offset=1))[:700]))
    played.round()
    wait = played.throttle.permit([(limit,)]).wait or 0.0
    assert wait <= len(whole) / 1_000


def test_an_answer_of_a_broker_that_throttles_is_no_look_and_nothing_is_sent_meanwhile(played: Played) -> None:
    """S3.13."""
    before = [each.source.observed_at for each in played.all]
    played.round()
    played.clock.jump(5)
    played.answers(throttle_ms=60_000, looked=False)
    played.round()
    played.reading.settle()
    assert [each.source.observed_at for each in played.all] == before
    turns = played.idle.turn
    played.clock.jump(59)
    assert not played.reading.post(played.all, hurry=False)
    assert played.idle.turn == turns
    played.clock.jump(2)
    assert played.reading.post(played.all, hurry=False)


def test_what_was_fetched_for_a_pipeline_that_has_been_replaced_is_void(played: Played) -> None:
    """Both logs were compared since: it may be of another topic, and begins elsewhere."""
    played.round()
    of = played.all[1]
    of.halt(None, 0.0)
    played.reading.leave([of])
    of.pipeline = Pipeline.resume(ResumePoint(SourceOffset(0), DestinationOffset(0), 0), OffsetMap())
    played.answers(fetched(1, encode_batch([b"a"], base_offset=0)))
    played.round(of)
    assert not of.pipeline.steps
    played.round(of)
    played.round(of)
    assert ("t", 1) in {**played.busy.session, **played.idle.session}, "it is fetched anew"


def test_a_paused_partition_takes_nothing_of_a_fetch_that_was_on_its_way(played: Played) -> None:
    """It was reported as quiet: what is appended then would come after the pause."""
    played.round()
    of = played.all[1]
    of.assign(replace(of.assigned, draining=True))
    played.answers(fetched(1, encode_batch([b"a"], base_offset=0)))
    played.round(played.all[0], played.all[2])
    assert not of.pipeline.steps


def test_a_broker_that_is_lost_halts_those_that_rest_too(played: Played) -> None:
    played.round()
    played.idle.answer = cast("Any", ConnectionLost("played"))
    played.round()
    assert all(each.halted and each.source.error for each in played.all)
    assert (played.at_rest(), len(played.reading.news), played.source.dropped) == ([], 3, 1)
    assert (played.busy.forgotten, played.idle.forgotten) == (1, 1)
