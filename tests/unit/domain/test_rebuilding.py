"""Whose producer ids a log shows: the mirror's are told from others by what they wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tanist.domain.adoption import MirrorTopicPromoted, NotAPrefix
from tanist.domain.errors import CouldNotTell
from tanist.domain.filled import exactly
from tanist.domain.log_writers import (
    KnownProducer,
    LogWriters,
    NoMirrorProducer,
    SeveralMirrorProducers,
    UsedIds,
    WrittenSpan,
    claims,
    promoted,
    used_ids,
)
from tanist.domain.names import MirrorName, MirrorPartition, ProducerId
from tanist.domain.next_steps.rebuilding import Rebuilding, instead
from tanist.domain.problems import Problems, about
from tests.builders import AT

OTHER = MirrorPartition("orders", 1)
DATA, MARKER = ProducerId(7), ProducerId(8)
CLIENT = 99


def records(start: int, producer: int = DATA, epoch: int = 0, *, transactional: bool = False) -> WrittenSpan:
    return WrittenSpan(start, start + 5, producer, epoch, False, transactional)


def marker(start: int, producer: int = MARKER, epoch: int = 3) -> WrittenSpan:
    return WrittenSpan(start, start + 1, producer, epoch, True, True)


def log(*spans: WrittenSpan, producers: tuple[KnownProducer, ...] = ()) -> LogWriters:
    return LogWriters(start=0, end=spans[-1].next_offset if spans else 0, last=spans, producers=producers)


def test_the_ids_are_those_that_wrote_the_ends_of_the_logs() -> None:
    assert used_ids({AT: log(records(0), marker(5), records(6)), OTHER: log()}) == UsedIds(DATA, MARKER)
    assert used_ids({AT: log(records(0), marker(5))}) == UsedIds(DATA, MARKER)
    assert used_ids({AT: log(records(0))}) == UsedIds(DATA, None)


def test_gap_markers_that_no_log_shows_at_its_end_are_known_to_leaders() -> None:
    remembered = (KnownProducer(DATA, 0, True), KnownProducer(MARKER, 4, False), KnownProducer(CLIENT, 0, True))
    assert used_ids({AT: log(records(0), producers=remembered)}) == UsedIds(DATA, MARKER)
    several = (*remembered, KnownProducer(50, 0, False))
    assert used_ids({AT: log(records(0), producers=several)}) == UsedIds(DATA, None)


def test_the_fenced_markers_of_an_earlier_promotion_are_not_those_of_the_mirror() -> None:
    earlier = (KnownProducer(50, 32_767, False), KnownProducer(DATA, 0, True))
    after_a_failback = log(marker(0, 50, 32_767), records(1), producers=earlier)
    ids = used_ids({AT: after_a_failback})
    assert ids == UsedIds(DATA, None)
    assert list(promoted({AT: after_a_failback}, ids)) == []


def test_what_lies_below_the_last_promotion_was_written_by_clients() -> None:
    """Of an old source that copies back, the beginning is its own."""
    clients = log(records(0, CLIENT), records(5, CLIENT))
    assert used_ids({AT: log(records(0, CLIENT), records(5)).since(5), OTHER: clients.since(10)}) == UsedIds(DATA, None)
    with pytest.raises(NoMirrorProducer):
        used_ids({AT: clients.since(10)})


def test_the_markers_of_a_client_that_wrote_records_are_none_of_ours() -> None:
    client = (KnownProducer(CLIENT, 0, True),)
    spans = (records(0, CLIENT, transactional=True), marker(5, CLIENT, 0), marker(6), records(7))
    assert used_ids({AT: log(*spans, producers=client)}) == UsedIds(DATA, MARKER)


def test_history_of_other_producers_at_the_end_of_a_log_does_not_tell_a_mirror() -> None:
    for span in (records(0, -1), records(0, CLIENT, transactional=True)):
        with pytest.raises(NoMirrorProducer):
            used_ids({AT: log(span), OTHER: log()})
        assert used_ids({AT: log(span), OTHER: log(records(0))}) == UsedIds(DATA, None)


def test_the_logs_of_two_mirrors_are_named_by_their_producers() -> None:
    with pytest.raises(SeveralMirrorProducers, match=r"7: orders-0; 99: orders-1"):
        used_ids({AT: log(records(0)), OTHER: log(records(0, CLIENT))})


WHOLE = Rebuilding(mirror="dr", source="east", destination="west", include=(".*",))
COMMAND = "tanist state rebuild --destination west --source east --mirror dr --topic"


def test_a_rebuild_of_two_mirrors_names_the_command_of_each() -> None:
    bills = MirrorPartition("eu.bills", 3)
    refusal = SeveralMirrorProducers({CLIENT: [bills], DATA: [OTHER, AT]})
    assert instead(refusal, WHOLE) == (f"{COMMAND} orders", rf"{COMMAND} 'eu\.bills'")


def test_a_rebuild_with_topics_that_are_no_copies_names_the_command_without_them() -> None:
    refusal = Problems([about("b.c", NotAPrefix("b.c-0")), about("a", MirrorTopicPromoted("a-1"))])
    assert instead(refusal, WHOLE) == (rf"{COMMAND} '.*' --exclude a --exclude 'b\.c'",)
    assert instead(Problems([*refusal.problems, CouldNotTell("a-1")]), WHOLE) == ()


def test_where_every_topic_is_refused_there_is_no_command_without_them() -> None:
    """It selected nothing: `--topic orders --exclude orders`."""
    refusal = Problems([about("orders", MirrorTopicPromoted("x")), about("b.c", MirrorTopicPromoted("x"))])
    asked = replace(WHOLE, include=("orders", exactly("b.c")))
    assert instead(refusal, asked) == ()
    (command,) = instead(refusal, replace(WHOLE, include=("orders", "b.*", exactly("b.c"))))
    assert command.startswith(f"{COMMAND} 'b.*' --exclude")


@pytest.mark.parametrize(
    "fenced",
    [
        log(records(0), marker(5, DATA, 1)),
        log(records(0), marker(5, MARKER, 32_767)),
        log(records(0), records(5, DATA, 1)),
        log(records(0), producers=(KnownProducer(DATA, 1, True),)),
        log(records(0), producers=(KnownProducer(MARKER, 32_767, False),)),
    ],
)
def test_a_log_with_a_fence_of_these_ids_was_failed_over(fenced: LogWriters) -> None:
    (found,) = promoted({AT: fenced, OTHER: log(records(0))}, UsedIds(DATA, MARKER))
    assert "orders-0" in str(found)


def test_a_log_without_such_a_fence_was_not() -> None:
    quiet = log(marker(0, CLIENT, 32_767), records(1), marker(6))
    assert list(promoted({AT: quiet}, UsedIds(DATA, MARKER))) == []
    assert list(promoted({AT: quiet}, UsedIds(DATA, None))) == []


def test_leases_are_not_lower_than_the_gap_markers_in_the_logs() -> None:
    logs = {
        AT: log(records(0), marker(5, epoch=3), producers=(KnownProducer(MARKER, 6, False),)),
        OTHER: log(records(0), marker(5, epoch=32_767)),
    }
    found = claims(logs, UsedIds(DATA, MARKER), MirrorName("m"))
    assert [claim.epoch for claim in found.values()] == [6]
    assert claims(logs, UsedIds(DATA, None), MirrorName("m")) == {}
