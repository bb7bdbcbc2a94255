"""From a job on real brokers to the translation of positions: `tanist reconcile --publish`, and who reads it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset, mirror_name
from tanist.domain.reconciled.published import NotReconciled, Reconciled
from tanist.domain.records import GROUPS_TOPIC, OFFSETS_TOPIC, STATE_TOPIC
from tanist.domain.translation import Conservative, Exact, Inputs, Unknown
from tanist.domain.translators.by_reconciliation import RECONCILED
from tanist.kafka.wire.clock import SystemClock
from tanist.kafka.wire.requests import End
from tanist.settings import load
from tanist.usecases.command import CommandContext
from tanist.usecases.groups.gather import Views
from tanist.usecases.groups.reconciled import read_reconciled
from tanist.wiring.registry import ClusterRegistry
from tests.kafka.cli.conftest import configured, tanist
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tanist.domain.errors import TanistError
    from tests.kafka.cli.conftest import Tanist
    from tests.kafka.fetcher.rig import Rig, RigCluster

__all__ = ["configured", "tanist"]

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("configured", "hasty_java")]
START_MS: Final = 1_700_000_000_000
SIZE: Final = 300
COPIED: Final = 260
REWOUND: Final = range(180, COPIED)
"""What a copier has written a second time, after it was killed."""


def write(side: RigCluster, topic: str, numbers: Sequence[int]) -> None:
    """The records of these numbers; every tenth is the same in everything as the one before."""
    producer = side.producer(enable_idempotence=True)
    for n in numbers:
        alike = n - (n % 10 == 9)
        producer.produce(topic, partition=0, key=b"k", value=b"%d" % alike, timestamp=START_MS + alike)
    assert producer.flush(20) == 0


@dataclass(frozen=True)
class Found:
    """What `read_reconciled` finds of a mirror's only partition, by a process of its own."""

    mirror: str
    at: MirrorPartition

    def read(self) -> Reconciled | TanistError:
        clock = SystemClock()
        context = CommandContext(clock=clock, by=clock.deadline(60))
        with ClusterRegistry(load(None, os.environ)) as registry:
            opened = registry.open_mirror(registry.connect("west"), mirror_name(self.mirror), context)
            topics = (STATE_TOPIC, OFFSETS_TOPIC, GROUPS_TOPIC)
            views = Views(*(opened.destination.state(topic, context.by) for topic in topics))
            return read_reconciled(opened, [self.at], views, context)[self.at]


@pytest.mark.long  # tests/airflow/test_mirror_reconciliation.py publishes, too
def test_what_a_job_publishes_is_what_positions_are_translated_by(
    tanist: Tanist, rig: Rig, topic_name: str, tmp_path: Path
) -> None:
    """Nothing of the copy is skipped, whatever is appended afterwards; a topic that is made again is not translated."""
    rig.source.create(topic_name, config={"retention.ms": "-1"})
    write(rig.source, topic_name, range(SIZE))
    created = tanist("mirrors", "create", topic_name, "--source", "east", "-d", "west", "--topic", topic_name)
    assert created.code == 0, created.err
    found = Found(topic_name, MirrorPartition(topic_name, 0))
    assert isinstance(found.read(), NotReconciled)
    written = [*range(COPIED), *REWOUND]
    write(rig.destination, topic_name, written)
    folder = tmp_path / "found"
    answer = tanist("reconcile", topic_name, "-d", "west", "--publish", "--report", str(folder), "--json")
    assert answer.code == 0, answer.err
    ((published,),) = (item["published"] for item in answer.items)
    assert (published["topic"], published["published"], published["merged"]) == (topic_name, True, 0)
    told = found.read()
    assert isinstance(told, Reconciled)
    assert (told.until, told.copy) == (SIZE, (0, len(written)))
    exact = check(written, told, len(written))
    assert exact > REWOUND.start - 20

    grown = [*written, *range(230, SIZE)]
    write(rig.destination, topic_name, grown[len(written) :])
    end = rig.destination.end(found.at, End.HIGH_WATERMARK)
    assert end == len(grown)
    assert not check(grown, told, end), "what was appended since may be repeats"
    ahead = RECONCILED.translate(SourceOffset(SIZE + 5), inputs(told, end))
    assert isinstance(ahead, Conservative)
    assert ahead.offset == len(written)

    rig.destination.admin.delete_topics([topic_name])[topic_name].result(20)
    until(lambda: topic_name not in rig.destination.admin.list_topics(timeout=10).topics, 30)
    rig.destination.create(topic_name)
    again = found.read()
    assert not isinstance(again, Reconciled)
    assert "was made again" in again.reason


def inputs(told: Reconciled, end: int) -> Inputs:
    return Inputs(copy=Span(DestinationOffset(0), DestinationOffset(end)), reconciled=told)


def check(written: Sequence[int], told: Reconciled, end: int) -> int:
    """How many positions are exact; each goes on so that all records that it has not read come."""
    exact, before = 0, 0
    for position in range(SIZE + 1):
        answer = RECONCILED.translate(SourceOffset(position), inputs(told, end))
        assert not isinstance(answer, Unknown), answer
        comes = written[answer.offset :]
        assert {n for n in written if n >= position} <= set(comes), (position, answer)
        assert before <= answer.offset
        before = answer.offset
        if isinstance(answer, Exact):
            exact += 1
            assert all(n >= position for n in comes)
            assert not comes or comes[0] == position
    return exact
