"""Before a recovery a worker reads whether its topics have left the mirror, and touches neither log of those."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tanist.domain.appending import Pipeline
from tanist.domain.errors import (
    MirrorProducerFenced,
    PartitionBroken,
    SourceReplaced,
    StateLogLost,
    TanistError,
    Unreachable,
)
from tanist.domain.gap_markers import MarkerEpoch
from tanist.domain.names import (
    BrokerId,
    DestinationOffset,
    MirrorName,
    SourceOffset,
)
from tanist.domain.offset_map import OffsetMap
from tanist.domain.recovery import ResumePoint
from tanist.domain.states import Finding
from tanist.fetcher import fetcher_thread
from tanist.fetcher.assignment import Assigned, FetcherThreadKey
from tanist.fetcher.engines.batches.partition import BatchPartition
from tanist.fetcher.engines.engine import Phase
from tanist.fetcher.fetcher_thread import FetcherThread, Gate
from tanist.fetcher.totals import ThreadTotals
from tests.builders import AT, a_mirror
from tests.fakes.clock import JumpingClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tanist.fetcher.assignment import Report
    from tanist.fetcher.engines.engine import CopyEngine, Trouble
    from tanist.ports.clock import Deadline

SPEC = a_mirror(MirrorName("m"), source_cluster_id="", destination_cluster_id="")


class PlayedEngine:
    """Finds of each partition what a test says, and copies nothing."""

    stale_leaders = False

    def __init__(self, *found: Phase | TanistError) -> None:
        self.found, self.asked = list(found), 0

    def begin(self, assigned: Assigned, *, first_use: bool) -> BatchPartition:
        return BatchPartition(assigned, MarkerEpoch(assigned.claim_epoch, spent=not first_use))

    def prepare(self, partitions: Sequence[BatchPartition]) -> None: ...

    def recover(self, partitions: Sequence[BatchPartition]) -> Sequence[Phase | TanistError]:
        self.asked += 1
        for each in partitions:
            each.pipeline = Pipeline.resume(ResumePoint(SourceOffset(0), DestinationOffset(0), 0), OffsetMap())
        return [self.found.pop(0) for _ in partitions]

    def read(self, partitions: Sequence[BatchPartition], *, hurry: bool) -> None: ...
    def append(self, partitions: Sequence[BatchPartition], until: Callable[[], bool]) -> None: ...
    def leave(self, partitions: Sequence[BatchPartition]) -> None: ...
    def idle(self, partitions: Sequence[BatchPartition], *, whole: bool) -> None: ...

    def rests(self, partition: BatchPartition) -> bool:
        return partition.in_flight

    def news(self) -> Sequence[BatchPartition]:
        return ()

    def report(self, partition: BatchPartition, trouble: Trouble) -> Report:
        return partition.report(trouble)


@pytest.fixture
def a_lane(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FetcherThread]]:
    """A lane with one partition and a played engine; `look` is what its gate answers."""
    monkeypatch.setattr(fetcher_thread, "IDLE_SECONDS", 0)
    begun: list[FetcherThread] = []

    def make(engine: CopyEngine[BatchPartition], look: Callable[[Deadline], object]) -> FetcherThread:
        monkeypatch.setattr(fetcher_thread, "ENGINES", {SPEC.offsets: lambda *_: engine})
        monkeypatch.setattr(Gate, "look", lambda _, by: look(by))
        claims = SimpleNamespace(first_use=lambda _: True)
        tools = SimpleNamespace(
            spec=SPEC,
            claims=claims,
            clock=JumpingClock(),
            source=None,
            destination=None,
            client_id="test",
            totals=ThreadTotals(),
        )
        made = FetcherThread(FetcherThreadKey(SPEC.mirror, BrokerId(1), 0), cast("Any", tools))
        assigned = Assigned(SPEC, AT, 0, 1)
        made.assignment = {assigned.key: assigned}
        begun.append(made)
        return made

    yield make
    for each in begun:
        each.stop()
        each.run()  # no round any more: its end


def reported(of: FetcherThread, rounds: int = 1) -> Report:
    for _ in range(rounds):
        of._round()
    [report] = of.reports.values()
    return report


@pytest.mark.parametrize(
    "why", [MirrorProducerFenced("promoted"), SourceReplaced("promoted elsewhere")], ids=lambda why: why.name
)
def test_what_was_promoted_is_barred_for_good(why: PartitionBroken, a_lane: Callable[..., FetcherThread]) -> None:
    engine = PlayedEngine()
    report = reported(a_lane(engine, lambda _by: lambda _topic: why), rounds=2)
    assert (report.finding, report.error, engine.asked) == (Finding.BROKEN, why, 0)


def test_what_was_not_promoted_goes_on(a_lane: Callable[..., FetcherThread]) -> None:
    engine = PlayedEngine(Phase.COPY)
    copying = a_lane(engine, lambda _by: lambda _topic: None)
    assert reported(copying).finding is Finding.ALIGNED
    assert engine.asked == 1


def test_a_state_topic_that_is_gone_stops_the_copy(a_lane: Callable[..., FetcherThread]) -> None:
    def gone(_by: Deadline) -> Callable[[str], PartitionBroken | None]:
        raise StateLogLost("somebody deleted it")

    engine = PlayedEngine()
    report = reported(a_lane(engine, gone))
    assert (report.finding, engine.asked) == (None, 0)
    assert isinstance(report.error, StateLogLost)


def test_a_log_start_is_brought_along_without_asking_again_and_both_logs_are_read_after_it(
    a_lane: Callable[..., FetcherThread],
) -> None:
    """A long way is many calls; the last of them leads back to a whole recovery."""
    looks: list[Deadline] = []

    def look(by: Deadline) -> Callable[[str], None]:
        looks.append(by)
        return lambda _topic: None

    aligning = a_lane(PlayedEngine(Phase.FILL_START, Phase.FILL_START, Phase.RECOVER, Phase.COPY), look)
    assert [reported(aligning).finding for _ in range(4)] == [None, None, None, Finding.ALIGNED]
    assert len(looks) == 2


def test_what_fails_is_tried_again_ever_more_seldom_and_its_trouble_is_as_old_as_its_beginning(
    a_lane: Callable[..., FetcherThread],
) -> None:
    engine = PlayedEngine(*(Unreachable(str(n)) for n in range(9)), Phase.COPY)
    failing = a_lane(engine, lambda _by: lambda _topic: None)
    began = failing._clock.monotonic()
    while not (report := reported(failing)).finding:
        assert report.failing_since == began
        failing._clock.wait(0.01)
    took = failing._clock.monotonic() - began
    assert took == pytest.approx(sum(0.05 * 2**n for n in range(7)) + 2 * 5.0, abs=0.5)
    assert (report.error, report.failing_since) == (None, None)
