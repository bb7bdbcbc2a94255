"""How fast a source grew before it fell silent: what the forecast makes of the time since."""

from __future__ import annotations

from dataclasses import replace

from tanist.domain.names import EpochMs, MirrorName, SourceOffset, TopicPartition
from tanist.domain.records import SourceEnd, SourceEnds
from tanist.fetcher.planning import RATE_HALVED_SECONDS, ends_news, rated

AT = TopicPartition("orders", 0)


def ends(high: int, rate: float = 0.0, at: int = 0) -> SourceEnds:
    end = SourceEnd(AT, SourceOffset(high), SourceOffset(high), rate)
    return SourceEnds(mirror=MirrorName("dr"), chunk=0, ends=(end,), at=EpochMs(at))


def rate(new: SourceEnds, before: SourceEnds | None, seconds: float) -> float:
    return rated(new, before, seconds).ends[0].rate


def test_what_was_never_seen_before_has_no_rate() -> None:
    """All that a log held when it was first seen did not come in a second."""
    assert rate(ends(1_000_000), None, 1.0) == 0
    assert rate(ends(1_000_000), ends(0), 0.0) == 0


def test_growth_is_counted_by_the_time_that_it_took() -> None:
    assert rate(ends(300), ends(100), 2.0) == 100
    assert rate(ends(100), ends(300), 2.0) == 0, "a log that was cut did not grow"


def test_a_peak_counts_for_less_as_it_gets_older() -> None:
    """But a steady rate stays, and a slow second does not hide a fast one."""
    assert rate(ends(100), ends(100, rate=80.0), RATE_HALVED_SECONDS) == 40
    assert 78 < rate(ends(101), ends(100, rate=80.0), 1.0) < 80
    assert rate(ends(190), ends(100, rate=80.0), 1.0) == 90


def test_a_true_end_is_news_where_it_is_above_the_high_watermark() -> None:
    def told(log_end: int) -> SourceEnds:
        record = ends(100)
        return replace(record, ends=tuple(replace(each, log_end=SourceOffset(log_end)) for each in record.ends))

    assert ends_news(told(120), told(110))
    assert ends_news(told(120), ends(100))
    assert not ends_news(told(90), ends(100))


def test_a_rate_that_fades_is_no_news() -> None:
    assert not ends_news(ends(100, rate=70.0, at=9_000), ends(100, rate=80.0))
    assert ends_news(ends(101, rate=80.0), ends(100, rate=80.0))
    assert ends_news(ends(100, rate=70.0, at=10_000), ends(100, rate=80.0))
