"""Compacted logs: what two cleaners have done is no difference, and what they cannot have done is one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pytest

from tanist.spark import superseded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

TOMBSTONE: Final = ""
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # pyspark leaves that behind
OPEN: Final = 20
"""Offsets at the end of a log that its cleaner does not touch."""
HISTORIES: Final = 200


class Kept(NamedTuple):
    """A record of a log. `compared`: within the bounds of the comparison."""

    key: str
    value: str
    compared: bool = True
    time: int = 0
    mirrored: bool = True


Log: TypeAlias = dict[int, Kept]


def found(spark: SparkSession, logs: Mapping[int, tuple[Log, Log]]) -> set[tuple[int, int, str]]:
    """(partition, offset, kind) of what differs."""
    source, copy = (
        spark.createDataFrame(
            [
                (
                    "t",
                    partition,
                    at,
                    at,
                    kept.compared,
                    hash(kept.key),
                    not kept.value,
                    hash(kept.value) if kept.value else superseded.NO_CONTENT,
                    kept.time,
                    False,
                    kept.mirrored,
                    None,
                )
                for partition, both in logs.items()
                for at, kept in both[side].items()
            ],
            superseded.SCHEMA,
        )
        for side in range(2)
    )
    return {(row.partition, row.place, row.kind) for row in superseded.differences(source, copy).collect()}


def written(rng: random.Random) -> Log:
    """A log before any cleaner; some offsets hold markers."""
    return {
        at: Kept(rng.choice("abcdefgh"), TOMBSTONE if rng.random() < 0.2 else f"v{at}", time=at // 4)
        for at in range(rng.randint(OPEN + 10, 120))
        if rng.random() < 0.95
    }


def cleaned(log: Log, rng: random.Random, upto: int) -> Log:
    """What a cleaner that has reached `upto` leaves, with or without the tombstones before it."""
    latest = {kept.key: at for at, kept in log.items() if at < upto}
    forgets = rng.random() < 0.5
    return {
        at: kept
        for at, kept in log.items()
        if at >= upto or (latest[kept.key] == at and (kept.value or not forgets or rng.random() < 0.5))
    }


def refilled(log: Log, rng: random.Random) -> Log:
    """Holes filled with copies of the next record, some of them tombstones of its key."""
    copy, survivors = dict(log), sorted(log)
    for at in range(survivors[-1]):
        if at not in log:
            following = log[next(survivor for survivor in survivors if survivor > at)]
            copy[at] = following if rng.random() < 0.7 else following._replace(value=TOMBSTONE)
    return dict(sorted(copy.items()))


def history(rng: random.Random, *, moves: bool = False) -> tuple[Log, Log]:
    """A source that was cleaned, copied, and cleaned further; and the copy, which was cleaned, too.

    `moves`: to a replica of the source that was cleaned less.
    """
    log = written(rng)
    end = max(log) - OPEN
    if moves:
        source = cleaned(log, rng, rng.randint(0, end // 2))
        return source, cleaned(refilled(cleaned(log, rng, end), rng), rng, rng.randint(0, end // 2))
    first, second, third = sorted(rng.randint(0, end) for _ in range(3))
    as_copied = cleaned(log, rng, first)
    source = cleaned(as_copied, rng, rng.choice([second, third]))
    copy = cleaned(refilled(as_copied, rng), rng, rng.choice([first, second, third]))
    return source, copy


@pytest.mark.long
def test_two_cleaners_make_no_difference(spark: SparkSession) -> None:
    logs = {number: history(random.Random(number)) for number in range(HISTORIES)}
    differing = sum(source != copy for source, copy in logs.values())
    assert differing > HISTORIES / 2
    assert found(spark, logs) == set()


@pytest.mark.long
def test_a_leader_of_the_source_that_was_cleaned_less_makes_no_difference(spark: SparkSession) -> None:
    """It has records where copies of later ones were written. After a reversal the source has these copies."""
    logs = {number: history(random.Random(number), moves=True) for number in range(HISTORIES)}
    assert sum(bool(unlike(source, copy)) for source, copy in logs.values()) > HISTORIES / 2
    reversed_ = {-1 - number: (copy, of_others(source)) for number, (source, copy) in logs.items()}
    assert found(spark, logs | reversed_) == set()


def unlike(source: Log, copy: Log) -> list[int]:
    """Offsets at which both logs have records that are not the same."""
    return [at for at in source.keys() & copy.keys() if source[at] != copy[at]]


def of_others(log: Log) -> Log:
    """As it was before the mirror wrote to it."""
    return {at: kept._replace(mirrored=False) for at, kept in log.items()}


def test_an_altered_copy_of_a_superseded_record_is_a_difference(spark: SparkSession) -> None:
    """It was none: both records were superseded."""
    logs, expected = dict[int, tuple[Log, Log]](), set[tuple[int, int, str]]()
    for number in range(HISTORIES):
        rng = random.Random(number)
        source, copy = history(rng, moves=number % 2 == 0)
        latest = {kept.key: at for at, kept in copy.items()}
        both = [at for at in sorted(source.keys() & copy.keys()) if at < latest[copy[at].key]]
        if both:
            at = rng.choice(both)
            copy[at] = copy[at]._replace(value="altered")
            logs[number] = source, copy
            expected.add((number, at, "changed"))
    assert len(logs) > HISTORIES / 2
    assert found(spark, logs) == expected


def test_a_key_whose_latest_record_is_lost_or_changed_is_a_difference(spark: SparkSession) -> None:
    """Of each history once, in the middle of what both cleaners have done."""
    logs, expected = dict[int, tuple[Log, Log]](), set[tuple[int, int, str]]()
    for number in range(HISTORIES):
        rng = random.Random(number)
        source, copy = history(rng)
        latest = {kept.key: at for at, kept in copy.items()}
        at = rng.choice([at for at in latest.values() if copy[at].value])
        kind = rng.choice(["missing", "extra", "changed"])
        if kind == "missing":
            copy = {place: kept for place, kept in copy.items() if place != at}
        elif kind == "changed":
            copy[at] = copy[at]._replace(value="altered")
        else:  # no record of the key says that it is gone: a tombstone that was never copied
            source = {place: kept for place, kept in source.items() if kept.key != copy[at].key}
        logs[number] = source, copy
        expected.add((number, at, kind))
    assert found(spark, logs) == expected


OLD, NEW, GONE = Kept("k", "old"), Kept("k", "new"), Kept("k", TOMBSTONE)
OTHER, LATER = Kept("other", "of another key"), NEW._replace(compared=False)


CASES: Final[Mapping[str, tuple[Log, Log, Mapping[int, str]]]] = {
    "cleaned in the copy": ({0: OLD, 5: NEW}, {5: NEW}, {}),
    "cleaned in the source": ({5: NEW}, {0: OLD, 5: NEW}, {}),
    "the latest is lost": ({0: OLD, 5: NEW}, {0: OLD}, {5: "missing"}),
    "the only one is lost": ({0: OLD}, {}, {0: "missing"}),
    "a key that the source does not have": ({}, {0: OLD}, {0: "extra"}),
    "the copy has forgotten a key, tombstone and all": ({0: OLD, 5: GONE}, {}, {}),
    "a tombstone is lost": ({5: GONE}, {0: OLD}, {5: "missing"}),
    "a tombstone that the source does not have": ({0: OLD}, {5: GONE}, {5: "extra"}),
    "a copy of a superseded record, altered": ({0: OLD, 5: NEW}, {0: OLD._replace(value="x"), 5: NEW}, {0: "changed"}),
    "a superseded record, at another time": ({0: OLD, 5: NEW}, {0: OLD._replace(time=1), 5: NEW}, {0: "changed"}),
    "a superseded record, as a tombstone": ({0: OLD, 5: NEW}, {0: GONE._replace(time=1), 5: NEW}, {0: "changed"}),
    "a later record, at another time": ({0: OLD, 5: NEW}, {0: NEW._replace(time=1), 5: NEW}, {0: "changed"}),
    "a later record, with another key": (
        {0: OLD, 5: NEW, 6: OTHER},
        {0: OTHER._replace(value="new"), 5: NEW, 6: OTHER},
        {0: "changed"},
    ),
    "an earlier record": ({0: OLD, 3: NEW, 5: GONE}, {0: OLD, 3: OLD, 5: GONE}, {3: "changed"}),
    "a tombstone where the copy has a hole": ({0: OLD, 5: NEW}, {0: GONE, 5: NEW}, {}),
    "a lost tombstone, and the key again": (
        {0: OLD, 1: OLD, 5: OTHER, 6: NEW, 9: OTHER},
        {0: OLD, 1: OTHER._replace(value=TOMBSTONE, time=7), 6: NEW, 9: OTHER},
        {},
    ),
    "a reversed mirror, whose source has the copy": ({0: NEW, 5: NEW}, {0: OLD._replace(mirrored=False), 5: NEW}, {}),
    "a mirror whose source has the same record twice": ({0: NEW, 5: NEW}, {0: OLD, 5: NEW}, {0: "changed"}),
    "holes": ({5: OTHER}, {0: OTHER, 1: OTHER._replace(value=TOMBSTONE), 5: OTHER}, {}),
    "a hole that this replica of the source has not": ({0: OLD, 5: OTHER, 6: NEW}, {0: OTHER, 5: OTHER, 6: NEW}, {}),
    "the only one, where the copy has a hole": ({0: OLD, 5: OTHER}, {0: OTHER, 5: OTHER}, {0: "changed"}),
    "superseded after the comparison began": ({0: OLD, 9: LATER}, {9: LATER}, {}),
    "lost, and superseded by what is not copied": ({0: OLD, 9: LATER}, {}, {0: "missing"}),
    "not copied yet": ({0: OLD, 9: LATER}, {0: OLD}, {}),
}


def test_each_case_by_itself(spark: SparkSession) -> None:
    logs = {number: (source, copy) for number, (source, copy, _) in enumerate(CASES.values())}
    seen = found(spark, logs)
    names = list(CASES)
    assert {(names[number], at, kind) for number, at, kind in seen} == {
        (name, at, kind) for name, (*_, expected) in CASES.items() for at, kind in expected.items()
    }


def test_a_value_that_ends_like_headers_is_not_the_record_with_these_headers() -> None:
    """One was EQUAL to the other: a short value with a header of two zero bytes, a longer one without any."""
    with_header = superseded.content_of(b"a", b"\x02\x02k\x04\0\0")
    without = superseded.content_of(b"a\0\x02\x02k\x04", b"\0")
    assert with_header != without
    assert with_header == superseded.content_of(b"a", b"\x02\x02k\x04\0\0")
