"""Only an answer of the source is a look: what is stored of its ends, when, and what is never written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.broker_errors import LeaderNotAvailable, NotLeader, TopicAuthorizationFailed
from tanist.domain.errors import AuthenticationFailed, ConnectionLost, TimedOut, Unreachable
from tanist.domain.names import (
    EpochMs,
    MirrorPartition,
    SourceOffset,
    SourcePartition,
    TopicPartition,
)
from tanist.domain.source_ends import EndsConfirmed, SourceEnd, SourceEnds
from tanist.domain.state_view import StateView, fold
from tanist.fetcher.assignment import PartitionKey, Report
from tanist.fetcher.planning import Owned
from tanist.fetcher.source_ends import RATE_HALVED_SECONDS, Contact, ends_record, is_silence, source_ends
from tests.builders import DR, a_mirror, a_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

CHUNK = 7
SPEC = a_mirror()
TOPIC = a_topic(source_topic_id="", partitions=2)
FIRST, SECOND = MirrorPartition("orders", 0), MirrorPartition("orders", 1)
MINE = tuple(Owned(SPEC, TOPIC, at, CHUNK) for at in (FIRST, SECOND))
LED = Contact(EpochMs(0))
T = 1_000_000
"""When the scenes begin, ms."""


def answer(ms: int, high: int = 100, silent: int | None = None) -> Report:
    return Report(
        source_high_watermark=SourceOffset(high),
        source_last_stable=SourceOffset(high),
        observed_at=EpochMs(ms),
        silent_since=None if silent is None else EpochMs(silent),
    )


class Fetcher:
    """One worker over a state topic: it writes what is news, and counts that."""

    def __init__(self, view: StateView | None = None) -> None:
        self.view = fold(view or StateView(), [SPEC, TOPIC])
        self.writes = self.confirmations = 0
        """Of these: that confirm an earlier one."""
        self.now = 0
        self.seen: dict[str, SourceEnds] = {}
        self.reported: dict[PartitionKey, Report] = {}

    def look(
        self,
        reports: Mapping[MirrorPartition, Report],
        contact: Contact = LED,
        *,
        asked: tuple[MirrorPartition, ...] = (FIRST, SECOND),
    ) -> None:
        named = {PartitionKey(DR, at): report for at, report in reports.items()}
        contacts = {PartitionKey(DR, at): contact for at in asked}
        self.seen = source_ends(MINE, named, contacts, self.view, self.seen, self.reported)
        self.reported |= named
        self.now = max([self.now, *(report.observed_at or 0 for report in reports.values())])
        for key, new in self.seen.items():
            record = ends_record(new, self.view.source_chunk(DR, CHUNK), EpochMs(self.now))
            if record is not None:
                self.writes += 1
                self.confirmations += isinstance(record, EndsConfirmed)
                self.view = fold(self.view, [record])
            if isinstance(record, SourceEnds):
                self.seen = self.seen | {key: record}

    def __getitem__(self, at: MirrorPartition) -> SourceEnd:
        found = self.view.source_end(DR, CHUNK, SPEC.names.at_source(at))
        assert found is not None
        return found


def times(end: SourceEnd) -> tuple[int | None, int | None]:
    return end.at, end.silent_since


@pytest.fixture
def fetcher() -> Fetcher:
    """It has seen both partitions at T, growing by 10 offsets per second before."""
    made = Fetcher()
    made.look({FIRST: answer(T - 10_000, 0), SECOND: answer(T - 10_000, 0)})
    made.look({FIRST: answer(T), SECOND: answer(T)})
    assert {times(made[at]) for at in (FIRST, SECOND)} == {(T, None)}
    assert {made[at].rate for at in (FIRST, SECOND)} == {10.0}
    made.writes = 0
    return made


# ── a source that falls silent ────────────────────────────────────────────────────────────────────────────────────


def test_the_time_of_the_last_answer_is_stored_when_the_source_falls_silent_and_then_nothing_more(
    fetcher: Fetcher,
) -> None:
    fetcher.look({FIRST: answer(T + 4_000), SECOND: answer(T + 4_000)})
    assert fetcher.writes == 0, "nothing has moved, and the record is recent"
    dead = {FIRST: answer(T + 4_700, silent=T + 4_800), SECOND: answer(T + 4_650, silent=T + 4_800)}
    for _ in range(600):
        fetcher.look(dead, Contact(EpochMs(T), EpochMs(T + 5_200)))
    assert times(fetcher[FIRST]) == (T + 4_700, T + 4_800)
    assert times(fetcher[SECOND]) == (T + 4_650, T + 4_800)
    assert fetcher.writes == 1


def test_the_first_partition_that_falls_silent_does_not_make_the_other_one_old(fetcher: Fetcher) -> None:
    for second in range(1, 41):
        fetcher.look({FIRST: answer(T + 500, silent=T + 900), SECOND: answer(T + second * 1_000)})
    assert times(fetcher[FIRST]) == (T + 500, T + 900)
    assert times(fetcher[SECOND]) == (T + 31_000, None)
    record = fetcher.view.source_chunk(DR, CHUNK)
    assert record is not None
    assert record.at == T + 500, "workers of the version before read the oldest"


def test_a_source_that_answers_again_is_stored_at_once(fetcher: Fetcher) -> None:
    fetcher.look({FIRST: answer(T, silent=T + 800), SECOND: answer(T, silent=T + 800)})
    fetcher.look({FIRST: answer(T + 3_000), SECOND: answer(T, silent=T + 800)}, Contact(EpochMs(T + 700)))
    assert (times(fetcher[FIRST]), times(fetcher[SECOND])) == ((T + 3_000, None), (T, T + 800))
    assert fetcher.writes == 2


def test_an_idle_partition_is_stored_every_ten_seconds_while_the_source_answers(fetcher: Fetcher) -> None:
    for second in range(1, 61):
        fetcher.look({FIRST: answer(T + second * 1_000), SECOND: answer(T + second * 1_000)})
    assert fetcher.writes == 6
    assert times(fetcher[FIRST]) == (T + 60_000, None)


def test_a_rate_does_not_fade_while_the_source_is_silent(fetcher: Fetcher) -> None:
    for _ in range(600):
        fetcher.look({FIRST: answer(T, silent=T + 500), SECOND: answer(T, silent=T + 500)})
    assert fetcher[FIRST].rate == 10.0


def test_a_partition_without_a_leader_is_asked_in_vain(fetcher: Fetcher) -> None:
    """Its fetcher thread has let it go, and its last answer stays."""
    fetcher.look({FIRST: answer(T + 2_000), SECOND: answer(T + 2_000)})
    fetcher.look({}, Contact(EpochMs(T + 2_100), EpochMs(T + 2_600)))
    assert times(fetcher[FIRST]) == (T + 2_000, T + 2_600)


def test_a_leader_that_is_named_again_is_a_sign_of_life_but_no_look(fetcher: Fetcher) -> None:
    """Whoever is not answered by it must not take it for dead since then: others may write to it."""
    silent = {FIRST: answer(T, silent=T + 800), SECOND: answer(T, silent=T + 800)}
    fetcher.look(silent)
    assert times(fetcher[FIRST]) == (T, T + 800)
    for second in range(1, 31):
        fetcher.look(silent, Contact(EpochMs(T + 800 + second * 1_000)))
    assert times(fetcher[FIRST]) == (T, None)
    assert fetcher.writes == 2, "and it is not written each time"


def test_metadata_that_do_not_come_say_nothing_while_fetches_are_answered(fetcher: Fetcher) -> None:
    deaf = Contact(EpochMs(T), EpochMs(T + 900))
    fetcher.look({FIRST: answer(T + 1_000), SECOND: answer(T + 1_000)}, deaf)
    fetcher.look({FIRST: answer(T + 12_000), SECOND: answer(T + 12_000)}, deaf)
    assert times(fetcher[FIRST]) == (T + 12_000, None)


@pytest.mark.parametrize("why", [Unreachable("x"), TimedOut("x"), ConnectionLost("x"), LeaderNotAvailable("x")])
def test_silence_is_what_nobody_answers(why: Unreachable) -> None:
    assert is_silence(why)


@pytest.mark.parametrize("why", [TopicAuthorizationFailed("x"), AuthenticationFailed("x"), NotLeader("x")])
def test_a_source_that_refuses_is_alive(why: NotLeader) -> None:
    """It may be written to for hours: nobody may take the refusal for its death."""
    assert not is_silence(why)


# ── another worker ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_started_after_the_source_died_keeps_the_last_look_and_stores_its_first_vain_attempt(
    fetcher: Fetcher,
) -> None:
    fetcher.look({FIRST: answer(T + 11_000, 900), SECOND: answer(T + 11_000)})
    late = Fetcher(fetcher.view)
    late.look({})
    assert late.writes == 0
    for second in range(60):
        late.look({}, Contact(None, EpochMs(T + 90_000 + second)))
    assert late[FIRST] == replace(fetcher[FIRST], silent_since=EpochMs(T + 90_000))
    assert late[FIRST].rate == fetcher[FIRST].rate > 0
    assert late.writes == 1


def test_a_later_worker_does_not_replace_the_first_vain_attempt_of_the_one_before(fetcher: Fetcher) -> None:
    fetcher.look({FIRST: answer(T, silent=T + 800), SECOND: answer(T, silent=T + 800)})
    late = Fetcher(fetcher.view)
    late.look({}, Contact(None, EpochMs(T + 90_000)))
    assert times(late[FIRST]) == (T, T + 800)
    assert late.writes == 0


def test_the_first_vain_attempt_by_a_clock_that_is_behind_is_not_before_the_last_answer(fetcher: Fetcher) -> None:
    late = Fetcher(fetcher.view)
    late.look({}, Contact(None, EpochMs(T - 3_000)))
    assert times(late[FIRST]) == (T, T)


def test_of_what_was_never_seen_nothing_is_stored() -> None:
    late = Fetcher()
    late.look({FIRST: Report(silent_since=EpochMs(T))}, Contact(None, EpochMs(T)))
    assert late.writes == 0
    assert late.view.source_chunk(DR, CHUNK) is None


def test_partitions_that_are_not_copied_keep_what_was_stored(fetcher: Fetcher) -> None:
    """PAUSED or FAILED: nobody asks about them, so nothing is claimed, and nothing is lost."""
    for second in range(1, 41):
        contact = Contact(EpochMs(T + second * 1_000))
        fetcher.look({SECOND: answer(T + second * 1_000, 100 + second)}, contact, asked=(SECOND,))
    assert fetcher[FIRST] == SourceEnd(
        SourcePartition(*FIRST), SourceOffset(100), SourceOffset(100), 10.0, at=EpochMs(T)
    )
    fetcher.look({SECOND: answer(T + 41_000, silent=T + 41_500)}, Contact(None, EpochMs(T + 42_000)), asked=(SECOND,))
    assert (times(fetcher[FIRST]), times(fetcher[SECOND])) == ((T, None), (T + 41_000, T + 41_500))


def test_another_mirror_of_the_same_name_begins_without_a_look(fetcher: Fetcher) -> None:
    """The source of its name may be another cluster."""
    fetcher.view = fold(StateView(), [replace(SPEC, mirror_id="new"), replace(TOPIC, mirror_id="new")])
    mine = tuple(replace(each, spec=replace(SPEC, mirror_id="new")) for each in MINE)
    contacts = {each.key: Contact(None, EpochMs(T)) for each in mine}
    assert source_ends(mine, {}, contacts, fetcher.view, fetcher.seen, {}) == {}


# ── a worker of the version before ────────────────────────────────────────────────────────────────────────────────


def before(record: SourceEnds, *partitions: TopicPartition) -> SourceEnds:
    """As it writes it: one time for all, and only the partitions that it copies itself."""
    ends = tuple(replace(end, at=None, silent_since=None) for end in record.ends if end.partition in partitions)
    return replace(record, ends=ends)


def test_a_record_of_the_version_before_is_taken_over_with_its_one_time(fetcher: Fetcher) -> None:
    record = fetcher.view.source_chunk(DR, CHUNK)
    assert record is not None
    late = Fetcher(fold(fetcher.view, [before(record, FIRST, SECOND)]))
    late.look({}, Contact(None, EpochMs(T + 90_000)))
    assert {times(late[at]) for at in (FIRST, SECOND)} == {(T, T + 90_000)}


def test_what_a_worker_of_the_version_before_left_out_is_written_again(fetcher: Fetcher) -> None:
    record = fetcher.view.source_chunk(DR, CHUNK)
    assert record is not None
    fetcher.view = fold(fetcher.view, [before(record, SECOND)])
    fetcher.look({SECOND: answer(T + 500)}, asked=(SECOND,))
    assert (times(fetcher[FIRST]), times(fetcher[SECOND])) == ((T, None), (T + 500, None))


# ── rates ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def rate_after(high: int, seconds: float, held: float = 0.0) -> float:
    """Of a partition that ended at 100, with this rate, so long ago."""
    old = SourceEnd(SourcePartition(*FIRST), SourceOffset(100), SourceOffset(100), held)
    record = SourceEnds(mirror=DR, chunk=CHUNK, ends=(old,), at=EpochMs(T))
    worker = Fetcher(fold(StateView(), [record]))
    worker.look({FIRST: answer(T + round(seconds * 1000), high)})
    return worker[FIRST].rate


def test_what_was_never_seen_before_has_no_rate() -> None:
    """All that a log held when it was first seen did not come in a second."""
    worker = Fetcher()
    worker.look({FIRST: answer(T, 1_000_000)})
    assert worker[FIRST].rate == 0


def test_growth_is_counted_by_the_time_between_two_answers() -> None:
    assert rate_after(300, 2.0) == 100
    assert rate_after(0, 2.0) == 0, "a log that was cut did not grow"


def test_one_batch_right_after_an_answer_is_no_flood() -> None:
    assert rate_after(1_100, 0.005) == 1_000


def test_a_peak_counts_for_less_as_it_gets_older() -> None:
    """But a steady rate stays, and a slow second does not hide a fast one."""
    assert rate_after(100, RATE_HALVED_SECONDS, held=80.0) == 40
    assert 78 < rate_after(101, 1.0, held=80.0) < 80
    assert rate_after(190, 1.0, held=80.0) == 90


@pytest.mark.parametrize("every", [60, 150, 200])
def test_a_slow_and_steady_producer_is_never_said_to_be_slower_than_it_is(every: int) -> None:
    """Rounded down at each look, the rate of a record in three minutes was nothing for a part of each of them."""
    worker, rates = Fetcher(), list[float]()
    for second in range(1_200):
        now, high = T + second * 1_000, 100 + second // every
        worker.look({FIRST: answer(now, high), SECOND: answer(now)})
        [chunk] = worker.seen.values()
        rates += [end.rate for end in chunk.ends if end.partition == SPEC.names.at_source(FIRST) and second >= every]
    assert min(rates) >= 1 / every


# ── what is news ──────────────────────────────────────────────────────────────────────────────────────────────────


def ends(high: int, rate: float = 0.0, at: int = 0, log_end: int | None = None) -> SourceEnds:
    end = SourceEnd(SourcePartition(*FIRST), SourceOffset(high), SourceOffset(high), rate, at=EpochMs(at))
    end = end if log_end is None else replace(end, log_end=SourceOffset(log_end))
    return SourceEnds(mirror=DR, chunk=0, ends=(end,), at=EpochMs(at))


def is_news(new: SourceEnds, written: SourceEnds) -> bool:
    return ends_record(new, written, EpochMs(T)) is not None


def test_a_true_end_is_news_where_it_is_above_the_high_watermark() -> None:
    assert is_news(ends(100, log_end=120), ends(100, log_end=110))
    assert is_news(ends(100, log_end=120), ends(100))
    assert not is_news(ends(100, log_end=90), ends(100))


def test_a_rate_that_fades_is_no_news() -> None:
    assert not is_news(ends(100, rate=70.0, at=9_000), ends(100, rate=80.0))
    assert is_news(ends(101, rate=80.0), ends(100, rate=80.0))
    assert is_news(ends(100, rate=70.0, at=10_000), ends(100, rate=80.0))


# ── a source at rest ──────────────────────────────────────────────────────────────────────────────────────────────


def at_rest(ms: int, high: int = 100, caught_up: int | None = None) -> Report:
    """Its copy was complete then, too, unless `caught_up` says when it was last."""
    return replace(answer(ms, high), caught_up_at=EpochMs(ms if caught_up is None else caught_up))


@pytest.fixture
def resting() -> Fetcher:
    """Both partitions are written once, and nothing grows."""
    made = Fetcher()
    made.look({FIRST: at_rest(T), SECOND: at_rest(T)})
    assert (made.writes, made.confirmations) == (1, 0)
    return made


def test_what_a_source_at_rest_repeats_is_confirmed_and_not_written_again(resting: Fetcher) -> None:
    """2,000 partitions at rest took a fifth of their worker's time for writing, and reading, all of them again."""
    for second in range(1, 62):
        resting.look({FIRST: at_rest(T + second * 1_000), SECOND: at_rest(T + second * 1_000 - 300)})
    assert (resting.writes, resting.confirmations) == (7, 6)
    [chunk] = resting.view.source_ends(DR)
    assert {chunk.seen(end) for end in chunk.ends} == {T + 60_700}, "the oldest of their answers"
    assert {resting[at].at for at in (FIRST, SECOND)} == {T + 60_700}
    assert {resting[at].caught_up_at for at in (FIRST, SECOND)} == {T + 60_700}


def test_a_worker_that_takes_over_goes_on_from_what_was_confirmed_last(resting: Fetcher) -> None:
    """The source is dead by then: its last answer is the one that was confirmed."""
    resting.look({FIRST: at_rest(T + 20_000), SECOND: at_rest(T + 20_000)})
    assert resting.confirmations == 1
    other = Fetcher(resting.view)
    other.look({}, Contact(None, EpochMs(T + 25_000)))
    assert {times(other[at]) for at in (FIRST, SECOND)} == {(T + 20_000, T + 25_000)}
    assert other[FIRST].caught_up_at == T + 20_000


def test_an_end_that_moves_is_written_with_all_others_as_they_were_confirmed(resting: Fetcher) -> None:
    resting.look({FIRST: at_rest(T + 20_000), SECOND: at_rest(T + 20_000)})
    resting.look({FIRST: at_rest(T + 20_500, 101, caught_up=T + 20_000), SECOND: at_rest(T + 20_000)})
    assert (resting.writes, resting.confirmations) == (3, 1)
    assert (resting[FIRST].high_watermark, times(resting[FIRST])) == (101, (T + 20_500, None))
    assert times(resting[SECOND]) == (T + 20_000, None)


def test_a_late_confirmation_says_nothing_about_ends_that_were_written_since(resting: Fetcher) -> None:
    """A worker that was frozen, and has lost the partitions meanwhile, confirms what it has seen before."""
    late = EndsConfirmed(mirror=DR, mirror_id=SPEC.mirror_id, chunk=CHUNK, of=EpochMs(T), at=EpochMs(T + 90_000))
    assert resting.view.source_chunk(DR, CHUNK) != fold(resting.view, [late]).source_chunk(DR, CHUNK)
    resting.look({FIRST: at_rest(T + 500, 101), SECOND: at_rest(T + 500, 101)})
    resting.view = fold(resting.view, [late])
    assert times(resting[FIRST]) == (T + 500, None)


def test_a_source_that_has_grown_and_rests_again_is_confirmed_again(resting: Fetcher) -> None:
    """The rate of its growth never faded to nothing: each partition that had ever grown was written again for ever."""
    resting.look({FIRST: at_rest(T + 1_000, 1_100), SECOND: at_rest(T + 1_000)})
    assert resting[FIRST].rate == 1_000
    resting.writes = 0
    for second in range(2, 3_600):
        resting.look({FIRST: at_rest(T + second * 1_000, 1_100), SECOND: at_rest(T + second * 1_000)})
    assert resting[FIRST].rate == 0
    assert resting.writes - resting.confirmations < 70, "while the rate fades, the ends are written"
    assert resting.confirmations > 280


def test_growth_that_another_worker_has_stored_is_not_counted_from_our_own_answer(resting: Fetcher) -> None:
    """Ours is of another end: the time between the two says nothing about how fast it grew."""
    [chunk] = resting.view.source_ends(DR)
    moved = tuple(replace(end, high_watermark=SourceOffset(1_000), at=EpochMs(T - 4_000)) for end in chunk.ends)
    resting.view = fold(resting.view, [replace(chunk, ends=moved, at=EpochMs(T - 4_000))])
    resting.seen = {}
    resting.look({FIRST: at_rest(T + 1_000, 1_500), SECOND: at_rest(T + 1_000, 1_500)})
    assert resting[FIRST].rate == 100


@pytest.mark.parametrize("older_ms", [1_000, 4_900, 9_000])
def test_growth_after_a_rest_is_counted_from_the_last_answer_and_not_from_the_oldest_of_the_others(
    resting: Fetcher, older_ms: int
) -> None:
    """A tenth of the rate was stored, so that too few records were said to be at risk, and too few offsets reserved."""
    for second in range(1, 31):
        now = T + second * 1_000
        resting.look({FIRST: at_rest(now), SECOND: at_rest(max(T, now - older_ms))})
    now = T + 31_000
    resting.look({FIRST: at_rest(now, 1_100), SECOND: at_rest(now - older_ms)})
    assert resting[FIRST].rate == 1_000


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(answer(T + 20_000, silent=T + 20_100), id="silent"),
        pytest.param(at_rest(T + 5_000), id="not asked for long"),
        pytest.param(replace(at_rest(T + 20_000), uncopied_at=EpochMs(T)), id="a record is not copied"),
        pytest.param(replace(at_rest(T + 20_000), source_log_end=SourceOffset(120)), id="another true end"),
        pytest.param(replace(at_rest(T + 20_000), record_epoch=SourceOffset(3)), id="another epoch"),
        pytest.param(answer(T + 20_000), id="never caught up by this worker"),
        pytest.param(at_rest(T + 20_000, caught_up=T), id="behind since"),
        pytest.param(replace(at_rest(T + 20_000), source_log_start=SourceOffset(3)), id="deleted at its start"),
        pytest.param(replace(at_rest(T + 20_000), position=SourceOffset(100)), id="copied further"),
    ],
)
def test_of_partitions_in_one_record_one_that_differs_is_written(resting: Fetcher, second: Report) -> None:
    resting.look({FIRST: at_rest(T + 20_000), SECOND: second})
    assert (resting.writes, resting.confirmations) == (2, 0)
    assert resting[SECOND].caught_up_at == second.caught_up_at
    assert resting[SECOND].log_start == second.source_log_start


def test_an_answer_that_is_older_than_what_is_on_record_confirms_nothing(resting: Fetcher) -> None:
    """The clock of this worker is behind that of the worker before."""
    resting.look({FIRST: at_rest(T - 500), SECOND: at_rest(T + 500)})
    assert (resting.writes, resting.confirmations) == (1, 0)
    assert times(resting[FIRST]) == (T, None)
    [chunk] = resting.seen.values()
    assert not chunk.written_at


@pytest.mark.parametrize(
    "of_another",
    [
        {"mirror_id": "of an earlier mirror"},
        {"at": EpochMs(T - 1)},
        {"of": EpochMs(T - 1)},
    ],
)
def test_what_confirms_other_ends_changes_no_time(resting: Fetcher, of_another: dict[str, str]) -> None:
    [chunk] = resting.view.source_ends(DR)
    fits = EndsConfirmed(mirror=DR, mirror_id=SPEC.mirror_id, chunk=CHUNK, of=EpochMs(T), at=EpochMs(T + 9_000))
    assert chunk.confirmed(fits).at == T + 9_000
    assert chunk.confirmed(replace(fits, **of_another)) == chunk  # type: ignore[arg-type]


def test_a_partition_that_nobody_asks_for_is_not_confirmed(resting: Fetcher) -> None:
    resting.look({FIRST: at_rest(T + 20_000)}, asked=(FIRST,))
    assert resting.confirmations == 0
    assert times(resting[SECOND]) == (T, None)
