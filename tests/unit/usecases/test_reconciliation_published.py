"""Reconciliations in `__mirror_offsets`: published whole, forgotten with their topic, and read for translations."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.copier import Copier
from tanist.domain.errors import UnknownMirror
from tanist.domain.names import DestinationOffset, EpochMs, MirrorPartition, SourceOffset
from tanist.domain.reconciled.placements import Standing
from tanist.domain.reconciled.published import (
    FoundPartition,
    NotReconciled,
    Reconciled,
    ReconciledSteps,
    ReconciliationOutdated,
    ReconciliationPublished,
    chunks,
    headers,
)
from tanist.domain.reconciled.steps import Step, Steps, packed
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.state_view import NOTHING_YET, fold
from tanist.domain.translation import Conservative, Exact, Inputs
from tanist.domain.translators.by_reconciliation import RECONCILED
from tanist.usecases.groups.gather import Views
from tanist.usecases.groups.reconciled import read_reconciled
from tanist.usecases.mirror import spec_at
from tanist.usecases.mirrors import forget
from tanist.usecases.mirrors.create import CreateRequest, create
from tanist.usecases.reconciliation.publish import publish
from tests.builders import DR, a_command
from tests.fakes.failover import GuardedCluster
from tests.unit.usecases.readings import clusters

if TYPE_CHECKING:
    from tanist.domain.errors import TanistError
    from tanist.domain.records import MirrorSpec
    from tanist.usecases.reconciliation.publish import PublishedPartition

AT = MirrorPartition("orders", 0)


class Mirrored:
    """A mirror of two topics, on clusters in memory."""

    def __init__(self) -> None:
        self.east = GuardedCluster("east").with_topic("orders", 2, 10).with_topic("bills")
        self.west = GuardedCluster("west")
        create(CreateRequest(mirror="dr", include=("orders", "bills")), self.east.side(), self.west.side(), a_command())

    @property
    def spec(self) -> MirrorSpec:
        return spec_at(self.west.side(), DR, a_command())

    def publish(
        self, run: str, read_at: int, *found: FoundPartition, dry_run: bool = False, spec: MirrorSpec | None = None
    ) -> tuple[PublishedPartition, ...]:
        command = replace(a_command(), dry_run=dry_run)
        return publish(self.west.side(), spec or self.spec, run, EpochMs(read_at), found, command)

    def read(self, *, ask_source: bool = True) -> Reconciled | TanistError:
        views = Views(*(self.west.view(topic) for topic in (STATE_TOPIC, OFFSETS_TOPIC, GROUPS_TOPIC)))
        mirror = clusters(self.spec, self.east, self.west)
        return read_reconciled(mirror, [AT], views, a_command(), ask_source=ask_source)[AT]

    def runs(self) -> tuple[str, set[str]]:
        """Which run is published, and whose chunks are there."""
        view = self.west.view(OFFSETS_TOPIC)
        return headers(view, self.spec)[AT].run, {each.run for each in chunks(view, self.spec)[AT]}


def found(count: int = 3, topic: str = "orders", **other: Any) -> FoundPartition:
    """A partition of as many steps, each of them ten records that were copied twice as far apart."""
    steps = [
        Step(n * 10, None, n * 20, slopes=True, exact=True, placement=Standing.EXACT, again=0) for n in range(count)
    ]
    own = FoundPartition(
        source_topic=topic,
        destination_topic=topic,
        partition=0,
        source_topic_id="",
        source_start=0,
        source_until=count * 10,
        destination_topic_id="",
        destination_start=0,
        destination_until=count * 20,
        copied=count * 10,
        moved=0,
        lost=0,
        repeated=0,
        foreign=0,
        steps=count,
        merged=0,
        packed=packed(Steps.of(steps)),
    )
    return replace(own, **other)


def test_what_is_published_is_read_and_translates() -> None:
    mirrored = Mirrored()
    (told,) = mirrored.publish("r1", 100, found(2500))
    assert (told.partition, told.steps, told.why_not) == (AT, 2500, "")
    read = mirrored.read()
    assert isinstance(read, Reconciled)
    assert (read.run, read.until, read.copy, len(read.steps)) == ("r1", 25_000, (0, 50_000), 2500)
    inputs = Inputs(copy=read.copy, reconciled=read)
    assert RECONCILED.translate(SourceOffset(24_995), inputs) == Exact(DestinationOffset(49_985))
    ahead = RECONCILED.translate(SourceOffset(25_003), inputs)
    assert isinstance(ahead, Conservative)
    assert ahead.offset == 50_000
    assert "3 offset(s) ahead of the reconciliation" in ahead.why


def test_the_one_before_stays_until_the_new_one_is_whole_and_then_leaves_nothing() -> None:
    mirrored = Mirrored()
    mirrored.publish("r1", 100, found(1500))
    for at in range(3):  # the writer dies after so many appends
        mirrored.west.write(OFFSETS_TOPIC, *chunks_of(mirrored.spec, "dead", 50 + at))
        read = mirrored.read()
        assert isinstance(read, Reconciled)
        assert read.run == "r1"
    mirrored.publish("r2", 200, found(10))
    assert mirrored.runs() == ("r2", {"r2"})


def chunks_of(spec: MirrorSpec, run: str, read_at: int, count: int = 2) -> list[ReconciledSteps]:
    return [
        ReconciledSteps(
            mirror=spec.mirror,
            mirror_id=spec.mirror_id,
            partition=AT,
            run=run,
            chunk=n,
            read_at=EpochMs(read_at),
            packed="x",
        )
        for n in range(count)
    ]


def test_of_two_at_once_the_later_look_wins() -> None:
    """Whichever is written last; and the later one's unfinished chunks are left alone."""
    mirrored = Mirrored()
    mirrored.west.write(OFFSETS_TOPIC, *chunks_of(mirrored.spec, "later", 300))
    mirrored.publish("r2", 200, found())
    assert mirrored.runs() == ("r2", {"r2", "later"})
    (told,) = mirrored.publish("r1", 100, found())
    assert "r2, which read the logs later" in told.why_not
    assert mirrored.runs()[0] == "r2"
    mirrored.publish("r3", 400, found())
    assert mirrored.runs() == ("r3", {"r3"})


def test_a_header_that_is_written_late_does_not_replace_a_later_look() -> None:
    mirrored = Mirrored()
    mirrored.publish("r2", 200, found())
    held = headers(mirrored.west.view(OFFSETS_TOPIC), mirrored.spec)[AT]
    late = replace(held, run="r1", read_at=EpochMs(100))
    assert headers(fold(NOTHING_YET, [held, late]), mirrored.spec)[AT].run == "r2"
    assert headers(fold(NOTHING_YET, [late, held]), mirrored.spec)[AT].run == "r2"


def test_a_rehearsal_publishes_nothing_and_says_what_it_would() -> None:
    mirrored = Mirrored()
    (told,) = mirrored.publish("r1", 100, found(7), dry_run=True)
    assert (told.steps, told.why_not) == (7, "")
    assert not mirrored.west.view(OFFSETS_TOPIC).items()
    assert isinstance(mirrored.read(), NotReconciled)


def test_only_topics_of_the_mirror_are_published() -> None:
    (told,) = Mirrored().publish("r1", 100, found(topic="others"))
    assert told.why_not == "its topic is not in the mirror"


def test_copies_that_somebody_else_makes_are_published_by_their_names_at_the_destination() -> None:
    """No topic of such a mirror is on record, and each was called none of the mirror."""
    mirrored = Mirrored()
    spec = replace(mirrored.spec, copied_by=Copier.MM2, include=("orders",), rename=("east.{topic}",))
    mirrored.west.write(STATE_TOPIC, spec)
    asked = [found(topic=topic) for topic in ("east.orders", "east.bills", "orders")]
    told = [each.why_not for each in mirrored.publish("r", 1, *asked, spec=spec)]
    assert told == ["", "its topic is not in the mirror", "its topic is not in the mirror"]


def test_nothing_is_published_for_a_mirror_that_was_deleted_meanwhile() -> None:
    mirrored = Mirrored()
    with pytest.raises(UnknownMirror):
        mirrored.publish("r1", 100, found(), spec=replace(mirrored.spec, mirror_id="another"))
    assert not mirrored.west.view(OFFSETS_TOPIC).items()


def test_a_topic_that_was_made_again_since_is_not_translated() -> None:
    """On either side, where the cluster tells; a source that does not answer is not waited for."""
    mirrored = Mirrored()
    ids = {side.name: side.topics["orders"].topic_id for side in (mirrored.east, mirrored.west)}
    own: dict[str, Any] = {"source_topic_id": ids["east"], "destination_topic_id": ids["west"]}
    mirrored.publish("r1", 100, found(**own))
    assert isinstance(mirrored.read(), Reconciled)
    mirrored.publish("r2", 200, found(**own | {"source_topic_id": "another"}))
    again = mirrored.read()
    assert isinstance(again, ReconciliationOutdated)
    assert "the source topic of orders-0 was made again" in again.reason
    assert isinstance(mirrored.read(ask_source=False), Reconciled)
    mirrored.east.dead = True
    assert isinstance(mirrored.read(), Reconciled)
    mirrored.publish("r3", 300, found(**own | {"destination_topic_id": "another"}))
    assert isinstance(mirrored.read(), ReconciliationOutdated)


def test_what_is_incomplete_or_damaged_is_none() -> None:
    mirrored = Mirrored()
    mirrored.publish("r1", 100, found(1500))
    header = headers(mirrored.west.view(OFFSETS_TOPIC), mirrored.spec)[AT]
    mirrored.west.write(OFFSETS_TOPIC, replace(header, chunks=3))
    missing = mirrored.read()
    assert isinstance(missing, NotReconciled)
    assert "is missing" in missing.reason
    mirrored.west.write(OFFSETS_TOPIC, *chunks_of(mirrored.spec, "r1", 100, 3))
    damaged = mirrored.read()
    assert isinstance(damaged, NotReconciled)
    assert "cannot be read" in damaged.reason


def test_it_is_of_these_logs_so_an_export_leaves_it_out() -> None:
    assert not ReconciliationPublished.policy.saved
    assert not ReconciledSteps.policy.saved
    assert not ReconciliationPublished.policy.moves
    assert not ReconciledSteps.policy.moves


def test_it_is_forgotten_with_the_mirror_and_when_its_topic_is_added_again() -> None:
    mirrored = Mirrored()
    mirrored.publish("r1", 100, found(), found(topic="bills"))
    forget.runs(mirrored.west.side(), holding(mirrored), ["orders"])
    assert {each.topic for each in headers(mirrored.west.view(OFFSETS_TOPIC), mirrored.spec)} == {"bills"}
    assert {each.topic for each in chunks(mirrored.west.view(OFFSETS_TOPIC), mirrored.spec)} == {"bills"}
    forget.everything(mirrored.west.side(), holding(mirrored), OFFSETS_TOPIC)
    assert not mirrored.west.view(OFFSETS_TOPIC).items()


def holding(mirrored: Mirrored) -> Any:
    """The lock of the mirror, which nobody else takes."""
    return SimpleNamespace(spec=mirrored.spec, command=a_command(), confirm=lambda: None)
