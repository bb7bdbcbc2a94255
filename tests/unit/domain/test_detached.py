"""Which topics are detached, what their records keep, and with what they come back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tanist.domain.detached import (
    attach,
    attach_command,
    detach,
    detached_from,
    detached_here,
    detached_topics,
    explained,
    since,
)
from tanist.domain.growth import new_topics
from tanist.domain.moves import left_over
from tanist.domain.names import EpochMs, MirrorName, MirrorPartition, ProducerId, SourceOffset, SourcePartition
from tanist.domain.records import STATE_PARTITIONS
from tanist.domain.source_ends import SourceEnd, SourceEnds
from tanist.domain.state_record import state_partition_of
from tanist.domain.state_view import StateView, fold
from tanist.domain.states import MirrorState
from tanist.fetcher.assignment import NO_NEWS
from tanist.fetcher.planning import Moment, Owned, next_observed, owned
from tanist.kafka.protocol.stored import decode, encode
from tests.builders import AT, DR, a_mirror, a_partition, a_topic, a_view

if TYPE_CHECKING:
    from tanist.domain.state_record import StateRecord

NOW = EpochMs(1_700_000_000_000)
SPEC = a_mirror(include=(".*",))
ORDERS = a_topic(partitions=2, denied=("User:app",), resumes=3, copy_starts=(5, 0))


def before(*records: StateRecord) -> StateView:
    """A mirror of orders and payments, copied so far."""
    return a_view(SPEC, ORDERS, a_topic("payments"), a_partition(last_mirrored_epoch=4, claim_epoch=7), *records)


def after(view: StateView) -> StateView:
    return fold(view, detach(ORDERS, SPEC, view, NOW))


def test_a_detached_topic_is_in_no_mirror_and_every_worker_lets_it_go() -> None:
    """Also one of an earlier version, which knows nothing of such a record: the topic is simply not there."""
    view = after(before())
    every = frozenset(range(STATE_PARTITIONS))
    assert {each.topic.topic for each in owned(view, every, STATE_PARTITIONS)} == {"payments"}
    assert view.topic(DR, "orders") is None
    assert view.observed(DR, AT) is None
    assert not view.removed(DR)
    assert [each.topic for each in detached_topics(view, DR)] == ["orders"]
    assert detached_topics(before(), DR) == ()


def test_its_record_keeps_what_its_mirror_knew_and_how_far_each_partition_was_copied() -> None:
    chunk = state_partition_of(DR, AT, STATE_PARTITIONS)
    end = SourceEnd(
        SourcePartition(*AT),
        SourceOffset(9),
        SourceOffset(9),
        copied_until=SourceOffset(8),
        record_until=SourceOffset(8),
        record_epoch=4,
    )
    (found,) = detached_topics(after(before(SourceEnds(mirror=DR, chunk=chunk, ends=(end,), at=NOW))), DR)
    assert (found.kept, found.cluster_id, found.at) == (ORDERS, "w", NOW)
    (seen,) = found.observed
    assert (seen.copied_until, seen.record_until, seen.record_epoch, seen.last_mirrored_epoch) == (8, 8, 4, 4)
    assert decode(*encode(found)) == found


def test_it_comes_back_with_its_denials_and_nothing_of_its_log_becomes_history() -> None:
    """What lies below `copy_starts` is compared with nothing: it must not grow by a detour."""
    (found,) = detached_topics(after(before()), DR)
    wanted = replace(ORDERS, denied=(), resumes=0, copy_starts=(20, 30), changed_at=NOW)
    topic, states = attach(found, wanted, SPEC)
    assert (topic.copy_starts, topic.denied, topic.resumes) == ((5, 0), ("User:app",), 3)
    shorter, _ = attach(found, replace(wanted, copy_starts=(3, 0)), SPEC)
    assert shorter.copy_starts == (3, 0)
    plain, _ = attach(replace(found, kept=replace(ORDERS, copy_starts=())), wanted, SPEC)
    assert plain.copy_starts == ()
    assert [each.key for each in states] == [a_partition().key]


def test_a_worker_compares_both_logs_of_a_topic_that_came_back_whatever_it_was_before() -> None:
    """FAILED, PAUSED or STOPPED: it is UNKNOWN, and how far it was copied stays known until it is copied again."""
    for state in (MirrorState.FAILED, MirrorState.PAUSED, MirrorState.STOPPED, MirrorState.MIRRORING):
        known = a_partition(
            state, claim_epoch=7, copied_until=SourceOffset(8), record_until=SourceOffset(8), record_epoch=4
        )
        view = after(fold(before(), [known]))
        (found,) = detached_topics(view, DR)
        topic, states = attach(found, replace(ORDERS, copy_starts=(20, 30)), SPEC)
        back = fold(view, (topic, *states))
        assert detached_topics(back, DR) == ()
        held = back.observed(DR, AT)
        mine = Owned(SPEC, topic, AT, 0)
        new = next_observed(mine, held, NO_NEWS, 8, Moment(NOW, 0.0))
        assert new is not None
        assert (new.state, new.row, new.error) == (MirrorState.PREPARING, 100, None)
        assert (new.copied_until, new.record_epoch) == (8, 4)


def test_no_filter_takes_it_in_again() -> None:
    assert new_topics(SPEC, ["orders", "payments", "fresh"], after(before())) == ("fresh",)


def test_records_of_an_earlier_mirror_of_that_name_say_nothing() -> None:
    view = after(before())
    assert detached_topics(fold(view, [replace(SPEC, mirror_id="another")]), DR) == ()


def test_it_goes_with_the_mirror_when_that_is_reversed_and_its_copy_stays_where_it_is() -> None:
    view = after(before())
    (found,) = detached_topics(view, DR)
    assert view.taken_along(DR) == (found,)
    assert left_over([found.key]) == (found.key,)
    back = replace(SPEC, source="west", destination="east", source_cluster_id="w", destination_cluster_id="e")
    there = a_view(back, found)
    assert detached_topics(there, DR) == (found,)
    assert detached_here(there, back) == {}
    assert "its copy is at 'west', which is the source of the mirror now" in explained(found, back)


def test_no_other_mirror_has_its_topic() -> None:
    view = after(before())
    assert detached_from(view, MirrorName("other")) == {"orders": DR}
    assert detached_from(view, DR) == {}


def test_what_is_printed_can_be_typed() -> None:
    (found,) = detached_topics(after(before()), DR)
    assert attach_command(SPEC, "a.b") == r"tanist mirrors add dr --destination west --topic 'a\.b'"
    assert attach_command(SPEC, "orders") in explained(found, SPEC)
    assert since(found).startswith("orders (since 2023-11-14")


def test_a_partition_of_which_nothing_was_reported_is_no_hindrance() -> None:
    (found,) = detached_topics(after(a_view(SPEC, ORDERS)), DR)
    assert found.observed == ()
    assert [*found.kept.all_partitions()] == [MirrorPartition("orders", 0), MirrorPartition("orders", 1)]


def test_a_copy_of_other_producer_ids_is_history_when_it_comes_back() -> None:
    """The mirror has gone round: its batches would be a FOREIGN_WRITE. An earlier version has stored no id."""
    (found,) = detached_topics(after(before()), DR)
    wanted = replace(ORDERS, denied=(), copy_starts=(20, 30), changed_at=NOW)
    for spec, record in (
        (replace(SPEC, data_id=ProducerId(77)), found),
        (SPEC, replace(found, data_id=ProducerId(-1))),
    ):
        topic, states = attach(record, wanted, spec)
        assert (topic.copy_starts, topic.denied, states) == ((20, 30), ("User:app",), ())
