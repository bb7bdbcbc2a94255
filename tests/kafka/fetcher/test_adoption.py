"""Destination topics that have records: taken where their log is a prefix of the source's, else refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.adoption import AdoptableLog, CandidateLog, TailAtDestination
from tanist.domain.errors import TanistError
from tanist.domain.names import DestinationOffset
from tanist.kafka.adapters.log_prefixes import KafkaLogPrefixes
from tanist.kafka.adapters.producer_fencing import KafkaProducerFencing
from tanist.kafka.wire.requests import End
from tests.kafka.fetcher.rig import Rig, soon
from tests.kafka.fetcher.test_log_start import batches

if TYPE_CHECKING:
    from tanist.domain.names import MirrorPartition


def examined(
    rig: Rig, at: MirrorPartition, *reserved: tuple[int, int], compacted: bool = False
) -> AdoptableLog | TanistError:
    prefixes = KafkaLogPrefixes(rig.source.router, rig.destination.router)
    return prefixes.adoptable({at: CandidateLog(compacted, reserved)}, soon())[at]


def refused(rig: Rig, at: MirrorPartition, *reserved: tuple[int, int]) -> str:
    found = examined(rig, at, *reserved)
    assert isinstance(found, TanistError), found
    return f"{found.name}: {found.reason}"


def copied(rig: Rig, name: str) -> MirrorPartition:
    """A log with transactions, committed and aborted, and its copy."""
    [at] = rig.create(name)
    batches(rig, at)
    rig.source.transaction(at, [b"committed"])
    rig.source.transaction(at, [b"aborted"], commit=False)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    return at


def test_an_adopted_copy_is_continued_by_another_mirror_without_copying_it_again(rig: Rig, topic_name: str) -> None:
    at = copied(rig, topic_name)
    end = rig.destination.end(at)
    batches(rig, at)
    found = examined(rig, at)
    assert isinstance(found, AdoptableLog), found
    assert (found.end, found.compared > 0, found.writers) == (end, True, frozenset({rig.spec.data_id}))
    assert found.by_one_mirror
    another = Rig(rig.source, rig.destination)
    start = {at: DestinationOffset(end)}
    with another.copier([at], copy_starts=start) as copier:
        another.copied(copier)
    batches(rig, at)
    with another.copier([at], copy_starts=start) as copier:
        another.copied(copier)
    assert another.identical([at]) == ""
    again = examined(another, at)
    assert isinstance(again, AdoptableLog), again
    assert again.end == another.source.end(at)


def test_a_log_that_ends_with_gap_markers_only_is_compared_further_back(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    batches(rig, at)
    for _ in range(40):
        rig.source.transaction(at, [b"aborted"], commit=False)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    found = examined(rig, at)
    assert isinstance(found, AdoptableLog), found
    assert (found.end, found.compared > 0) == (rig.source.end(at), True)


def test_a_shifted_copy_is_refused_with_its_first_difference(rig: Rig, topic_name: str) -> None:
    """As a tool leaves it that copies records without their offsets: MirrorMaker 2, behind an aborted transaction."""
    [at] = rig.create(topic_name)
    first, then = [b"%d" % n for n in range(150)], [b"%d" % n for n in range(150, 900)]
    rig.source.produce(at, first)
    rig.source.transaction(at, [b"aborted"], commit=False)
    rig.source.produce(at, then)
    rig.destination.produce(at, [*first, *then])
    assert "DESTINATION_NOT_A_PREFIX" in refused(rig, at)
    assert "first differing offset is 150" in refused(rig, at)


def test_a_copy_that_is_longer_than_the_source_is_refused(rig: Rig, topic_name: str) -> None:
    at = copied(rig, topic_name)
    end = rig.source.end(at)
    rig.destination.produce(at, [b"foreign"])
    assert f"first differing offset is {end}: it does not exist" in refused(rig, at)
    rig.source.produce(at, [b"own", b"another"])
    assert f"first differing offset is {end}" in refused(rig, at)


def test_a_divergent_tail_is_left_out_of_the_comparison(rig: Rig, topic_name: str) -> None:
    """After a reversal that left it where it lies, its first offset was the first difference: delete the topic."""
    [at] = rig.create(topic_name)
    first, then = [b"%d" % n for n in range(20)], [b"%d" % n for n in range(30, 40)]
    rig.source.produce(at, first)
    rig.destination.produce(at, first)
    for _ in range(4):
        rig.source.transaction(at, [b"reserved"], commit=False)
    rig.source.settle([at])
    rig.destination.produce(at, [b"tail"] * 8)
    for each in (rig.source, rig.destination):
        each.produce(at, then)
    assert rig.source.end(at) == rig.destination.end(at) == 38
    assert "first differing offset is 20" in refused(rig, at)
    found = examined(rig, at, (20, 28))
    assert isinstance(found, AdoptableLog), found
    assert (found.end, found.compared) == (38, 30)


def test_a_log_with_a_divergent_tail_that_differs_elsewhere_is_not_to_be_deleted(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    rig.source.produce(at, [b"%d" % n for n in range(40)])
    rig.destination.produce(at, [b"%d" % n for n in range(20)])
    rig.destination.produce(at, [b"tail"] * 8)
    rig.destination.produce(at, [b"foreign"] * 4)
    said = refused(rig, at, (20, 28))
    assert said.startswith("DESTINATION_HAS_A_TAIL")
    assert "first differing offset is 28; it has 8 record(s) at offsets 20 to 27" in said
    assert "delete" not in TailAtDestination.operator_action.replace("do not delete", "")
    rig.destination.delete_before(at, 20)
    rig.source.delete_before(at, 25)
    rig.source.produce(at, [b"more"])
    assert "first differing offset is 28" in refused(rig, at, (20, 28))


def test_a_log_of_which_only_a_divergent_tail_is_left_cannot_be_compared(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    rig.source.produce(at, [b"%d" % n for n in range(40)])
    rig.destination.produce(at, [b"tail"] * 8)
    said = refused(rig, at, (0, 8))
    assert said.startswith("DESTINATION_HAS_A_TAIL")
    assert "nothing can be compared" in said


def test_a_copy_that_ends_inside_a_batch_is_refused(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    rig.source.produce(at, [b"%d" % n for n in range(9)], linger_ms=200)
    rig.destination.produce(at, [b"%d" % n for n in range(5)])
    assert "ends at 5, inside the source's batch" in refused(rig, at)


def test_a_log_with_a_producer_fence_is_never_adopted(rig: Rig, topic_name: str) -> None:
    at = copied(rig, topic_name)
    fence = rig.destination.end(at)
    fencing = KafkaProducerFencing(rig.destination.router)
    fenced = fencing.fence_producers({at: rig.spec.writer}, soon())
    assert fenced[at] == rig.destination.end(at, End.LOG_END)
    assert "MIRROR_TOPIC_PROMOTED" in refused(rig, at)
    for _ in range(3):
        rig.source.transaction(at, [b"aborted"], commit=False)  # offsets that no reader sees, as those of the fence
    assert "MIRROR_TOPIC_PROMOTED" in refused(rig, at)
    batches(rig, at)
    rig.destination.produce(at, [b"own"] * 3)
    assert "MIRROR_TOPIC_PROMOTED" in refused(rig, at)
    assert rig.destination.end(at) > fence


def test_a_log_whose_records_are_all_deleted_is_not_adopted(rig: Rig, topic_name: str) -> None:
    at = copied(rig, topic_name)
    rig.destination.delete_before(at, rig.destination.end(at))
    assert "nothing can be compared" in refused(rig, at)
    rig.source.delete_before(at, rig.source.end(at))
    found = examined(rig, at)
    assert isinstance(found, AdoptableLog), found
    assert found.end == rig.source.end(at)


def test_a_compacted_copy_is_adopted_whatever_either_cleaner_has_taken(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    rig.source.produce(at, [b"%d" % n for n in range(40)])
    with rig.copier([at]) as copier:
        rig.copied(copier)
    rig.source.produce(at, [b"more"])
    found = examined(rig, at, compacted=True)
    assert isinstance(found, AdoptableLog), found
    assert found.end == 40
