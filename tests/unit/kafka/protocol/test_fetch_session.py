"""Fetches that name only what has changed (KIP-227), and a broker that remembers as FetchSession.scala does."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from tanist.kafka.protocol.fetch_session import FetchSession
from tanist.kafka.protocol.frames import FETCH_BY_EPOCH, FETCH_BY_ID, FetchPosition, SessionFetch

VERSION = FETCH_BY_EPOCH


def position(partition: int, offset: int = 0, topic: str = "orders", number: int = 1) -> FetchPosition:
    return FetchPosition(topic, partition, offset, 1 << 20, -1, UUID(int=number))


A, B, C = map(position, range(3))


def begun(*positions: FetchPosition) -> FetchSession:
    session = FetchSession()
    session.next(VERSION, positions)
    session.answered(7)
    return session


def test_the_first_fetch_has_all_positions_and_asks_for_a_session() -> None:
    session = FetchSession()
    assert session.next(VERSION, [A, B]) == SessionFetch(0, 0, [A, B], [])
    assert not session.goes_on


def test_the_next_one_has_what_was_moved_added_and_left_out() -> None:
    session = begun(A, B)
    moved = position(0, 5)
    assert session.next(VERSION, [moved, C]) == SessionFetch(7, 1, [moved, C], [B])
    assert session.goes_on
    session.answered(7)
    assert session.next(VERSION, [moved, C]) == SessionFetch(7, 2, [], [])


def test_a_broker_without_room_is_asked_for_everything_each_time() -> None:
    session = FetchSession()
    for _ in range(3):
        assert session.next(VERSION, [A]) == SessionFetch(0, 0, [A], [])
        session.answered(0)


def test_a_session_that_was_evicted_begins_anew_with_all_positions() -> None:
    session = begun(A, B)
    session.next(VERSION, [A, B])
    session.ended()
    assert session.next(VERSION, [A, B]) == SessionFetch(7, 0, [A, B], [])
    session.answered(8)
    assert session.next(VERSION, [A, B]) == SessionFetch(8, 1, [], [])


def test_a_session_that_the_broker_has_closed_begins_anew() -> None:
    session = begun(A)
    session.next(VERSION, [A])
    session.answered(0)
    assert session.next(VERSION, [A]) == SessionFetch(0, 0, [A], [])


def test_another_version_begins_another_session() -> None:
    """By id and by name are never mixed: FETCH_SESSION_TOPIC_ID_ERROR."""
    session = begun(A)
    assert session.next(FETCH_BY_ID, [A]) == SessionFetch(7, 0, [A], [])


def test_a_topic_that_was_created_again_is_forgotten_by_its_old_id() -> None:
    session = FetchSession()
    session.next(FETCH_BY_ID, [A])
    session.answered(7)
    again = position(0, number=2)
    assert session.next(FETCH_BY_ID, [again]) == SessionFetch(7, 1, [again], [A])


def test_the_epoch_begins_again_at_one() -> None:
    session = begun(A)
    session._epoch = (1 << 31) - 1
    session.next(VERSION, [A])
    session.answered(7)
    assert session.next(VERSION, [A]).epoch == 1


@pytest.mark.parametrize("seed", range(40))
def test_the_broker_always_knows_what_is_asked_for(seed: int) -> None:
    """Whatever is added, moved, left out, evicted, refused or throttled."""
    dice, session = Random(seed), FetchSession()
    cache: dict[tuple[str, int], FetchPosition] | None = None
    session_id = expected = 0
    for _ in range(60):
        wanted = [position(n, dice.randrange(3), dice.choice("ab")) for n in range(dice.randrange(6))]
        wanted = list({(each.topic, each.partition): each for each in wanted}.values())
        fetch = session.next(VERSION, wanted)
        if fetch.epoch == 0:
            cache, session_id, expected = {}, dice.choice([0, dice.randrange(1, 99)]), 0
        elif cache is None or (fetch.session_id, fetch.epoch) != (session_id, expected):
            assert cache is None, "an epoch was left out"
            session.ended()
            continue
        cache |= {(each.topic, each.partition): each for each in fetch.positions}
        for each in fetch.forgotten:
            del cache[each.topic, each.partition]
        assert cache == {(each.topic, each.partition): each for each in wanted}
        expected += 1
        session.answered(session_id)
        if session_id == 0 or dice.random() < 0.1:
            cache = None  # evicted, or never kept
