"""The group of a mirror's own positions is lost: they are found again in both logs, or nothing is copied."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pytest

from tanist.domain.compaction import Holes
from tanist.domain.delivery import Delivery
from tanist.domain.errors import TanistError
from tanist.domain.fake_group import group_of, shown_group
from tanist.domain.losses import OnLoss
from tanist.domain.names import SourceOffset
from tanist.domain.offset_map import BEFORE_ALL, AnchoredSpan, OffsetMap, OffsetRange
from tanist.domain.offset_policy import OffsetPolicy
from tanist.domain.restored_ranges import RestoredRanges
from tanist.fetcher.engines.transactions import engine, partition, restoration, write_back
from tanist.kafka.adapters.log_pairs import KafkaLogPairs
from tanist.kafka.wire.groups import fetch_positions
from tests.fakes.cluster import worker_store
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, until, value
from tests.kafka.fetcher.test_at_least_once import Load, kill_one, repeated, said
from tests.kafka.fetcher.test_mapped import FIVE, committed, mapped_spec, must_be_equal, must_have, offsets
from tests.kafka.fetcher.test_writers import broken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tanist.domain.names import MirrorPartition

MANY: Final = 60


@pytest.fixture
def rig(sides: tuple[RigCluster, RigCluster]) -> Rig:
    """A mirror with mapped offsets whose groups are its own."""
    found = Rig(*sides)
    found.spec = mapped_spec(found.spec)
    found.spec = replace(found.spec, mirror=type(found.spec.mirror)(f"m-{uuid4().hex}"))
    return found


def copied(rig: Rig, at: Sequence[MirrorPartition], dice: Random, count: int = MANY) -> None:
    """Transactions, committed and aborted, and records outside of them; the worker stops behind the last one."""
    with rig.copier(at, compacted=False) as copier:
        for n in range(count):
            values = [b"%d-%d-%d" % (dice.randrange(1 << 30), n, m) for m in range(dice.randrange(1, 5))]
            if dice.random() < 0.5:
                rig.source.produce(dice.choice(at), values)
            else:
                rig.source.transaction(dice.choice(at), values, commit=dice.random() < 0.6)
            if n % 4 == 0:
                rig.copied(copier)
        rig.copied(copier)


def nothing_is_written_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the login had no READ on the group at the source."""
    monkeypatch.setattr(write_back.WriteBack, "write", lambda *_: None)


def lose(rig: Rig) -> None:
    """Somebody deletes the group of the mirror's positions."""
    group = group_of(rig.spec.mirror)
    rig.destination.admin.delete_consumer_groups([group])[group].result(20)


def test_positions_that_are_deleted_while_nothing_is_copied_are_committed_again(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody noticed for an hour: groups translated to 0, and a planned failover waited for nothing."""
    monkeypatch.setattr(engine, "POSITIONS_SECONDS", 0.5)
    monkeypatch.setattr(engine, "LOOK_SECONDS", 0.5)
    at = rig.create(topic_name, 2)
    with rig.copier(at) as copier:
        rig.source.produce(at[0], FIVE)
        rig.copied(copier)
        before = [committed(rig, each).position for each in at]
        lose(rig)
        until(lambda: positions(rig, at) == before, 20)
        rig.source.produce(at[1], FIVE)
        rig.copied(copier)
    assert must_be_equal(rig, at) == 10


def test_positions_that_do_not_move_are_committed_again_before_brokers_forget_them(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "COMMIT_AGAIN_SECONDS", 0.5)
    monkeypatch.setattr(engine, "LOOK_SECONDS", 0.2)
    (at,) = rig.create(topic_name)
    with rig.copier([at]) as copier:
        rig.source.produce(at, FIVE)
        rig.copied(copier)
        before = committed(rig, at)
        until(lambda: committed(rig, at).count >= before.count + 2, 20)
    after = committed(rig, at)
    assert (after.position, after.end) == (before.position, before.end)


def positions(rig: Rig, at: Sequence[MirrorPartition]) -> list[int | None]:
    """As the group has them now; None: there is none."""
    group = group_of(rig.spec.mirror)
    found = fetch_positions(rig.destination.router, [group], soon())[group]
    held = {} if isinstance(found, TanistError) else found
    return [None if each not in held else value(held[each]).offset for each in at]


@pytest.mark.parametrize(
    "known",
    [
        pytest.param("the beginning", marks=pytest.mark.long),
        "a beginning behind deleted records",
        "what is published",
        "what was written back",
    ],
)
def test_lost_positions_are_found_again_in_both_logs_and_nothing_is_repeated(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    """Wherever the last point is that is certain, the map is as exact as before."""
    written_back = known == "what was written back"
    if not written_back:
        nothing_is_written_back(monkeypatch)
    if known == "what is published":
        monkeypatch.setattr(partition, "PUBLISHED_AT_BYTES", 40)
        monkeypatch.setattr(partition, "FEW", 6)
    dice, at = Random(known), rig.create(topic_name, 2)
    if known == "a beginning behind deleted records":
        for each in at:
            rig.source.produce(each, FIVE)
            rig.source.delete_before(each, len(FIVE))
    copied(rig, at, dice)
    before = {each: committed(rig, each) for each in at}
    lose(rig)
    with rig.copier(at, compacted=False) as copier:
        until(lambda: all(_is_committed(rig, each) for each in at), 20, copier.reports)
        assert {each: committed(rig, each).end for each in at} == {each: before[each].end for each in at}
        notes = [each.note for each in copier.reports().values()]
        assert all("is found again in both logs" in each for each in notes) or written_back, notes
        for each in at:
            rig.source.produce(each, FIVE)
        rig.copied(copier)
    assert must_be_equal(rig, at) > MANY


def _is_committed(rig: Rig, at: MirrorPartition) -> bool:
    try:
        return committed(rig, at).count > 0
    except KeyError:
        return False


def test_a_long_way_from_what_is_known_is_read_in_several_turns(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_is_written_back(monkeypatch)
    (at,) = rig.create(topic_name)
    copied(rig, [at], Random(3), 30)
    lose(rig)
    turns: list[int] = []

    def a_few(_: object, batches: Iterator[Any]) -> Iterator[Any]:
        turns.append(1)
        return islice(batches, 9)

    monkeypatch.setattr(restoration, "takewhile", a_few)
    with rig.copier([at], compacted=False) as copier:
        until(lambda: _is_committed(rig, at), 20, copier.reports)
    assert len(turns) > 2
    must_be_equal(rig, [at])


def test_an_exact_copy_whose_source_has_lost_records_fails_and_at_least_once_repeats_them(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way on is at least once, for as long as that takes: it begins at the last known point again."""
    nothing_is_written_back(monkeypatch)
    monkeypatch.setattr(partition, "PUBLISHED_AT_BYTES", 20)
    monkeypatch.setattr(partition, "FEW", 3)
    (at,) = rig.create(topic_name)
    copied(rig, [at], Random(4), 12)
    monkeypatch.setattr(partition, "PUBLISHED_AT_BYTES", 1_000)
    copied(rig, [at], Random(5), 8)
    known, end = published(rig, at).until, rig.source.end(at)
    assert known is not None
    lose(rig)
    rig.source.delete_before(at, known + 1)
    with rig.copier([at], compacted=False) as copier:
        assert broken(copier, at) == "POSITION_LOST"
    copy = read(rig.destination.servers, [at], "read_committed")[at]
    behind = sum(each.offset >= published(rig, at).locate(known) for each in copy)
    rig.spec = replace(rig.spec, delivery=Delivery.AT_LEAST_ONCE, on_loss=OnLoss.CONTINUE)
    with rig.copier([at], compacted=False, holes=Holes.MARKERS) as copier:
        rig.copied(copier)
        rig.source.produce(at, FIVE)
        rig.copied(copier)
    after = read(rig.destination.servers, [at], "read_committed")[at]
    source = read(rig.source.servers, [at], "read_committed")[at]
    assert [each.content for each in after[len(copy) :]] == [each.content for each in source]
    assert len(source) - len(FIVE) <= behind
    found = offsets(rig, at)
    places = [
        (found.locate(SourceOffset(one.offset)), other.offset)
        for one, other in zip(source, after[len(copy) :], strict=True)
    ]
    assert all(one == other for one, other in places)
    assert end < rig.source.end(at)


def published(rig: Rig, at: MirrorPartition) -> OffsetMap:
    return OffsetPolicy.of(rig.store.catch_up(soon()), rig.spec).map_of(at)


def test_what_was_written_back_of_an_earlier_topic_is_not_used(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy was deleted and created again: its positions are gone with it, and it is copied from its start."""
    monkeypatch.setattr(write_back, "EVERY_SECONDS", 0.1)
    (at,) = rig.create(topic_name)
    with rig.copier([at]) as copier:
        rig.source.produce(at, FIVE)
        rig.copied(copier)
        until(lambda: write_back_of(rig, at) == len(FIVE), 10)
    rig.destination.admin.delete_topics([topic_name])[topic_name].result(20)
    until(lambda: not rig.destination.complete(topic_name, 1), 20)
    rig.destination.create(topic_name)
    with rig.copier([at], topic_ids={}) as copier:
        rig.copied(copier)
    must_have(rig, at, FIVE)


def write_back_of(rig: Rig, at: MirrorPartition) -> int:
    """What tools at the source show."""
    group = shown_group(rig.spec.mirror)
    found = value(fetch_positions(rig.source.router, [group], soon())[group])
    return value(found[at]).offset if at in found else -1


def test_at_least_once_what_may_have_been_copied_since_the_last_point_is_copied_again(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records are in no transaction; where nobody died, both logs tell the position, and nothing is repeated."""
    nothing_is_written_back(monkeypatch)
    rig.spec = replace(rig.spec, delivery=Delivery.AT_LEAST_ONCE)
    (at,) = rig.create(topic_name)
    copied(rig, [at], Random(6), 20)
    lose(rig)
    with rig.copier([at], compacted=False) as copier:
        until(lambda: _is_committed(rig, at), 20, copier.reports)
        rig.source.produce(at, FIVE)
        rig.copied(copier)
    assert repeated(rig, [at]) == 0


def test_at_least_once_a_worker_that_was_killed_has_left_records_that_are_copied_again(
    rig: Rig, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies behind the position that was written back to the source is not what lies behind it there."""
    monkeypatch.setattr(write_back, "EVERY_SECONDS", 0.1)
    rig.spec = replace(rig.spec, delivery=Delivery.AT_LEAST_ONCE, transaction_ms=1_000)
    at, rig.store = rig.create(topic_name, 3), worker_store(tmp_path / "state")
    dice, told = Random(7), 0
    with Load(rig, at, 7):
        kill_one(rig, at, tmp_path / "state", "w1", dice)
        with rig.copier(at, topic_ids={}) as copier:
            told += said(copier)
            until(lambda: all(write_back_of(rig, each) > 0 for each in at), 10)
        kill_one(rig, at, tmp_path / "state", "w2", dice)
    lose(rig)
    with rig.copier(at, topic_ids={}) as copier:
        told += said(copier)
        notes = [each.note for each in copier.reports().values()]
        assert all("the mirror's position was lost" in each for each in notes), notes
        rig.copied(copier)
    assert 0 < repeated(rig, at) <= told


@pytest.mark.parametrize("trimmed", ["source", *(pytest.param(e, marks=pytest.mark.long) for e in ("copy", "neither"))])
def test_a_whole_map_is_found_again_in_both_logs_wherever_they_begin(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, trimmed: str
) -> None:
    """As a rebuild reads it, up to the position: where one log begins later, records are counted from the end."""
    nothing_is_written_back(monkeypatch)
    (at,) = rig.create(topic_name)
    copied(rig, [at], Random(8), 40)
    until_here = committed(rig, at)
    span = AnchoredSpan(BEFORE_ALL, OffsetRange(until_here.position, until_here.end), ())
    source = read(rig.source.servers, [at], "read_committed")[at]
    copy = read(rig.destination.servers, [at], "read_committed")[at]
    gone = len(source) // 3
    if trimmed == "source":
        rig.source.delete_before(at, source[gone].offset)
    elif trimmed == "copy":
        rig.destination.delete_before(at, copy[gone].offset)
    paired = KafkaLogPairs(rig.source.router, rig.destination.router)
    found = paired.ranges(at, at, span, soon(60))  # type: ignore[arg-type]
    assert isinstance(found, RestoredRanges), found
    left = len(source) - (gone if trimmed != "neither" else 0)
    assert found.records == left
    places = OffsetMap.of(found.runs(until_here.end), until_here.position)
    for one, other in zip(source[-left:], copy[-left:], strict=True):
        assert places.locate(SourceOffset(one.offset)) == other.offset
