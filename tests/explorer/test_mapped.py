"""Failovers of a mirror with mapped offsets: killed after each row, with a worker that sleeps in its transactions."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.fake_group import group_of
from tanist.domain.names import DestinationOffset
from tanist.ports.fencing import ProducerFence, TransactionFence
from tests.explorer.explore import describe, play, shortest
from tests.explorer.mapped import FENCED, ONCE, MappedPlace, MappedWorker
from tests.explorer.mapped_story import drawn_mapped, mapped_relays, points
from tests.explorer.place import DR, PARTITIONS
from tests.explorer.product import MemoryProducerFencing, RunStatus
from tests.explorer.stage import Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tanist.domain.names import MirrorPartition
    from tanist.domain.writer_identity import TransactionalWriter
    from tests.explorer.explore import Played

pytestmark = pytest.mark.timeout(600)
STORIES: Final = int(os.environ.get("STORIES", "20"))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def _played(seed: int) -> tuple[Played, MappedPlace]:
    seen: list[MappedPlace] = []
    found = play(drawn_mapped(seed), keep=seen.append)
    return found, seen[0]


def _must_hold(found: Played) -> None:
    if found.violations:
        rule = found.violations[0].rule
        pytest.fail(describe(shortest(found, rule), rule), pytrace=False)


def test_somebody_is_killed_after_each_row_and_no_rule_breaks() -> None:
    killed, done = set[str](), 0
    for seed in range(1, len(mapped_relays()) + 1):
        found, place = _played(seed)
        _must_hold(found)
        actors = {each.name: each for each in place.stage.actors}
        killed |= {each.label for each in found.story.orders if actors[each.actor].seen[each.label] >= each.nth}
        done += any(each.status is RunStatus.DONE for each in place.view().failovers(DR))
        assert all(place.copied[at] for at in PARTITIONS), "records were copied"
    assert killed == points()
    assert done


def test_no_story_with_sleepers_breaks_a_rule() -> None:
    slept = 0
    for seed in range(len(mapped_relays()) + 1, len(mapped_relays()) + 1 + STORIES):
        found, _ = _played(seed)
        _must_hold(found)
        slept += any(each.actor == "worker" and each.effect is Effect.FREEZE for each in found.story.orders)
    assert slept > STORIES / 2


def _nothing_is_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The barrier says that it is there, and so does its proof; no transaction was ended."""

    def pretended(self: MemoryProducerFencing, at: MirrorPartition, writer: TransactionalWriter) -> TransactionFence:
        cluster = self._cluster
        return TransactionFence(cluster.owners[writer.transactional_id], DestinationOffset(cluster.ends[at][2]))

    monkeypatch.setattr(MemoryProducerFencing, "_fence_transactions", pretended)

    def proof(_self: MemoryProducerFencing, _at: MirrorPartition, writer: TransactionalWriter) -> ProducerFence:
        return ProducerFence.OPEN if writer.fence is None else ProducerFence.FENCED

    monkeypatch.setattr(MemoryProducerFencing, "_proof", proof)


def _a_position_is_committed_before_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence aborts the records, and the position stays."""
    real = MappedWorker._append

    def append(self: MappedWorker, name: str, at: MirrorPartition, records: range) -> DestinationOffset | None:
        found, place = real(self, name, at, records), self.place
        assert isinstance(place, MappedPlace)
        spec = place.spec()
        if found is not None and spec is not None:
            place.at_west.commit(group_of(DR), at, records[-1] + 1, place.position(spec, at).metadata)
        return found

    monkeypatch.setattr(MappedWorker, "_append", append)


@pytest.mark.parametrize(
    ("breaks", "rule"),
    [
        pytest.param(_nothing_is_fenced, FENCED, id="a fence that is none"),
        pytest.param(_a_position_is_committed_before_its_records, ONCE, id="a position without its records"),
    ],
)
def test_a_story_shows_that_it_is_broken(
    monkeypatch: pytest.MonkeyPatch, breaks: Callable[[pytest.MonkeyPatch], None], rule: str
) -> None:
    breaks(monkeypatch)
    first = len(mapped_relays()) + 1
    assert any(_played(seed)[0].broke(rule) for seed in range(first, first + 60))
