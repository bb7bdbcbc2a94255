"""Filler markers are not compare-and-append: what goes wrong with them is counted, put on record and worked off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import Unreachable
from tanist.domain.names import DestinationOffset, SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.domain.records import STATE_TOPIC, OffsetRangeWritten
from tanist.fetcher.engines.batches import filling
from tests.fakes.cluster import MemoryCluster
from tests.fakes.state import WORKER, MemoryStateStore
from tests.kafka.fetcher.raw import Wires, forget_gaps, producers, surplus, unanswered
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tanist.domain.names import MirrorPartition
    from tanist.domain.state_record import StateRecord
    from tanist.domain.state_view import StateView
    from tanist.ports.clock import Deadline
    from tests.kafka.fetcher.copier import Copier
    from tests.kafka.fetcher.rig import Rig


def translated(rig: Rig, at: MirrorPartition) -> bool:
    """Whether both logs hold the same records, each where the map says."""
    source, copy = rig.read([at])
    assert [row.content for row in source[at]] == [row.content for row in copy[at]]
    offsets = rig.offsets(at)
    return all(offsets.locate(SourceOffset(a.offset)) == b.offset for a, b in zip(source[at], copy[at], strict=True))


def idle(rig: Rig, copier: Copier, at: MirrorPartition) -> None:
    rig.source.transaction(at, [b"first"])
    rig.copied(copier)


@pytest.mark.parametrize("rule", ["on", "off"])
def test_a_fill_that_lands_after_it_was_given_up_is_refused(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """The request waits in a frozen leader, its gap is filled again, then it is let go. Off: no higher epoch."""
    [at] = rig.create(topic_name)
    wires = Wires(monkeypatch)
    if rule == "off":
        monkeypatch.setattr(filling.Filling, "_renew_epoch", lambda *_: None)
    with rig.copier([at]) as copier:
        idle(rig, copier, at)
        late: list[Any] = []

        def keep(_router: object, markers: Any, _by: object) -> Any:
            late.append(markers)
            return unanswered(markers)

        wires.next_fill = keep
        rig.source.transaction(at, [b"second"])
        rig.copied(copier)
        filler = producers(rig.destination, at)[rig.spec.marker_id]
        assert (filler.producer_epoch > late[0][at].producer_epoch) == (rule == "on")
        [answer] = wires.real(rig.destination.router, late[0], copier.clock.deadline(5)).values()
        assert (answer is None) == (rule == "off"), answer
        rig.source.produce(at, [b"third"])
        rig.copied(copier)
    assert bool(rig.identical([at])) == (rule == "off")
    assert bool(rig.offsets(at).runs) == (rule == "off")
    assert translated(rig, at)


def test_a_fill_whose_answer_is_lost_is_not_made_again(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the look at the end (fillers) it is: `test_a_surplus...` shows what becomes of that."""
    [at] = rig.create(topic_name)
    wires = Wires(monkeypatch)
    with rig.copier([at]) as copier:
        idle(rig, copier, at)

        def lose(router: object, markers: Any, by: object) -> Any:
            wires.real(router, markers, by)
            return unanswered(markers)

        wires.next_fill = lose
        rig.source.transaction(at, [b"second"] * 3, commit=False)
        rig.source.transaction(at, [b"third"])
        rig.copied(copier)
    assert rig.identical([at]) == ""
    assert rig.offsets(at).runs == ()


def test_a_fill_that_could_not_be_counted_spends_its_epoch(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole cluster is gone between the answer and the count: it raises, instead of answering by partition."""
    [at] = rig.create(topic_name)
    wires = Wires(monkeypatch)
    with rig.copier([at]) as copier:
        idle(rig, copier, at)

        def gone(*_: object) -> None:
            monkeypatch.setattr(filling.Filling, "_count", count)
            raise Unreachable("nobody answers")

        count = filling.Filling._count
        monkeypatch.setattr(filling.Filling, "_count", gone)
        for _ in range(2):
            rig.source.transaction(at, [b"more"])
            rig.copied(copier)
    epochs = [sent.producer_epoch for call in wires.calls for sent in call.values()]
    assert epochs[-1] > epochs[0]
    assert rig.identical([at]) == ""


@pytest.mark.parametrize("rule", ["on", "off"])
def test_a_refusal_that_hides_among_merged_answers_is_counted(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """Three entries or four, one of them fenced, one answer: success. Off: the answer is believed.

    The marker of the transaction may come with a later fetch than its three records.
    """
    [at] = rig.create(topic_name)
    wires = Wires(monkeypatch)
    if rule == "off":

        def believe(_: object, sent: Any, wanted: Any) -> dict[MirrorPartition, Exception]:
            for each, number in sent.items():
                wanted[each].pipeline.end += number
            return {}

        monkeypatch.setattr(filling.Filling, "_count", believe)
    with rig.copier([at]) as copier:
        idle(rig, copier, at)

        def fence_one(router: object, markers: Any, by: object) -> Any:
            [(each, sent)] = markers.items()
            first, second, *more = sent.coordinator_epochs
            assert second
            assert more
            wrong = replace_epochs(sent, (first, 0, *more))
            answers = wires.real(router, {each: wrong}, by)
            assert answers == {each: None}
            return answers

        wires.next_fill = fence_one
        rig.source.transaction(at, [b"aborted"] * 3, commit=False)
        rig.source.produce(at, [b"last"])
        rig.copied(copier)
    assert bool(rig.identical([at])) == (rule == "off")
    assert translated(rig, at)


def replace_epochs(sent: Any, epochs: tuple[int, ...]) -> Any:
    return sent._replace(coordinator_epochs=epochs)


class Forgetful(MemoryStateStore):
    def append(self, records: Sequence[StateRecord], by: Deadline) -> StateView:
        return super().append([r for r in records if not isinstance(r, OffsetRangeWritten)], by)


@pytest.mark.parametrize("rule", ["on", "off"])
@pytest.mark.parametrize("worker", ["up", "down"])
def test_a_surplus_is_on_record_before_the_next_record_and_worked_off(
    rig: Rig, topic_name: str, worker: str, rule: str
) -> None:
    """Off: no run is written."""
    if rule == "off":
        rig.store = Forgetful(MemoryCluster(), STATE_TOPIC, WORKER)
    [at] = rig.create(topic_name)
    with rig.copier([at]) as copier:
        idle(rig, copier, at)
        if worker == "up":
            surplus(rig, at, 3)
            rig.source.produce(at, [b"shifted"] * 3)
            rig.copied(copier)
    if worker == "down":
        surplus(rig, at, 3)
    with rig.copier([at], name="w2") as copier:
        rig.source.produce(at, [b"shifted too"])
        rig.copied(copier)
        shift = rig.destination.end(at) - rig.source.end(at)
        assert shift == 3
        assert translated(rig, at) == (rule == "on")
        if rule == "off":
            return
        rig.source.transaction(at, [b"a"])  # one offset to work off
        rig.source.produce(at, [b"b"])
        rig.copied(copier)
        assert rig.destination.end(at) - rig.source.end(at) == 2
        rig.source.transaction(at, [b"c"] * 3, commit=False)  # more than enough
        rig.source.produce(at, [b"d"] * 2)
        rig.copied(copier)
    assert translated(rig, at)
    assert rig.offsets(at).shift_at(SourceOffset(rig.source.end(at))) == 0
    assert rig.destination.end(at) == rig.source.end(at)


def test_fillers_that_are_missing_are_made_up_for(rig: Rig, topic_name: str) -> None:
    """A worker that miscounted put a record one offset too low: the next append is preceded by a filler."""
    [at] = rig.create(topic_name)
    with rig.copier([at]) as copier, pytest.MonkeyPatch.context() as patch:
        idle(rig, copier, at)
        forget_gaps(patch)
        rig.source.transaction(at, [b"second"])
        rig.copied(copier)
        rig.source.produce(at, [b"low"])
        until(lambda: rig.destination.end(at) == 4, 10, copier.reports)
    with rig.copier([at], name="w2") as copier:
        rig.source.produce(at, [b"made up for"])
        rig.copied(copier)
        assert copier.deaths() == []
    assert translated(rig, at)
    assert rig.destination.end(at) == rig.source.end(at)
    assert OffsetRange(SourceOffset(4), DestinationOffset(3)) in rig.offsets(at).runs


def test_a_worker_without_the_lease_fills_nothing_and_says_so(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    with rig.copier([at], lease_seconds=0.0) as copier:
        rig.source.transaction(at, [b"first"])
        until(lambda: (r := copier.reports().get(at)) and r.error and r.error.name == "NOT_OUR_SLICE", 10)
        assert rig.destination.end(at) == 1
        copier.own(1e6)
        rig.copied(copier)
    assert rig.identical([at]) == ""


def test_epochs_that_are_used_up_are_told(rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [at] = rig.create(topic_name)
    wires = Wires(monkeypatch)
    with rig.copier([at]) as copier:
        idle(rig, copier, at)
        monkeypatch.setattr("tanist.domain.gap_markers.LAST_EPOCH", 1)
        wires.next_fill = lambda _router, markers, _by: unanswered(markers)
        rig.source.transaction(at, [b"second"])
        until(lambda: (e := copier.reports()[at].error) and e.name == "FILLER_EPOCHS_EXHAUSTED", 10, copier.reports)


def test_the_ids_of_another_mirror_are_foreign(rig: Rig, topic_name: str) -> None:
    """Whatever they write."""
    [at] = rig.create(topic_name)
    with rig.copier([at]) as copier:
        idle(rig, copier, at)
    stranger = replace(rig.spec, marker_id=rig.spec.start_id, start_id=rig.spec.marker_id)
    with rig.copier([at], spec=stranger) as copier:
        until(lambda: (r := copier.reports().get(at)) and r.error and r.error.name == "FOREIGN_WRITE", 10)
