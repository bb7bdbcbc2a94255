"""The status of a mirror with more partitions than anybody reads: what is wrong comes first, the rest is counted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tanist.airflow.page import render
from tanist.cli.status_text import status_text
from tanist.domain.checks import Mode
from tanist.domain.circle import MirrorPlace
from tanist.domain.failover.facts import Facts, LiveEnd, ObservedTopic, PartitionFacts, SourceFacts, SourceState
from tanist.domain.failover.health import judged
from tanist.domain.failover.plan import FailoverRequest
from tanist.domain.lag import KnownEnd, PartitionRow
from tanist.domain.names import BrokerId, DestinationOffset, EpochMs, MirrorPartition, SourceOffset
from tanist.domain.next_steps.rules import guide
from tanist.domain.next_steps.situation import MirrorSituation
from tanist.domain.states import DesiredState, MirrorState
from tanist.usecases.failover.planning import intent_of
from tanist.usecases.items import following, status_item
from tanist.usecases.status.observe import MirrorStatus
from tanist.usecases.status.status_view import MOST_SHOWN, aged, board_item
from tests.builders import a_mirror, a_topic

if TYPE_CHECKING:
    from tanist.domain.records import MirrorSpec

NOW: Final = EpochMs(1_000_000)
TOPICS: Final = tuple(f"topic-{n:04}" for n in range(1_000))
PARTITIONS: Final = (
    *(MirrorPartition(topic, n) for topic in TOPICS for n in range(10)),
    MirrorPartition("topic-0000", 10),
)
WRONG: Final = {
    **{MirrorPartition("topic-0500", n): MirrorState.FAILED for n in range(3)},
    **{MirrorPartition("topic-0600", n): MirrorState.PAUSED for n in range(3)},
}
BEHIND: Final = {MirrorPartition("topic-0700", n): 100 + n for n in range(3)}
MOST_CHARACTERS: Final = 40_000
"""Of the page, its script and style, and what is said of a mirror."""


def facts(at: MirrorPartition) -> PartitionFacts:
    end = 1_000
    return PartitionFacts(
        partition=at,
        state=WRONG.get(at, MirrorState.MIRRORING),
        error="BROKER_REFUSED" if WRONG.get(at) is MirrorState.FAILED else None,
        live=LiveEnd(SourceOffset(end), SourceOffset(end), SourceOffset(end)),
        start=DestinationOffset(0),
        first=DestinationOffset(0),
        end=DestinationOffset(end - BEHIND.get(at, 0)),
        copied=SourceOffset(end - BEHIND.get(at, 0)),
        foreign=False,
        named=False,
        in_sync=3,
        min_in_sync=2,
        producer_fenced=False,
        leader=BrokerId(1),
    )


def row(spec: MirrorSpec, at: MirrorPartition) -> PartitionRow:
    return PartitionRow(
        mirror=spec.mirror,
        partition=at,
        desired=DesiredState.MIRRORING,
        state=WRONG.get(at, MirrorState.MIRRORING),
        source=KnownEnd(SourceOffset(1_000), NOW),
        destination_end=DestinationOffset(1_000 - BEHIND.get(at, 0)),
        observed=None,
    )


def status() -> MirrorStatus:
    spec = a_mirror()
    counts = {topic: 11 if topic == "topic-0000" else 10 for topic in TOPICS}
    topics = tuple(a_topic(topic, partitions=counts[topic]) for topic in TOPICS)
    found = Facts(
        now=NOW,
        destination=spec.destination,
        source=SourceFacts(state=SourceState.ALIVE, authorizer=True, transactions_told=True),
        destination_authorizer=True,
        partitions=tuple(map(facts, PARTITIONS)),
        topics=tuple(ObservedTopic(topic=t, mirrored=counts[t], partitions=counts[t], copy_id="c") for t in TOPICS),
        workers_alive=1,
    )
    intents = {mode: intent_of(spec, FailoverRequest(mode=mode), topics) for mode in Mode}
    situation = MirrorSituation(
        place=MirrorPlace(spec=spec, mirrored=topics),
        destination=spec.destination,
        status=judged(intents, found),
        source_answers=True,
        rows=tuple(row(spec, at) for at in PARTITIONS),
        now=NOW,
    )
    return MirrorStatus(spec=spec, situation=situation, workers=(), runs=())


def test_ten_thousand_and_one_partitions_are_a_page_of_bounded_size_with_short_links() -> None:
    assert len(PARTITIONS) == 10_001
    seen = status()
    item = aged(board_item(seen, NOW), NOW) | {"only_source": False}
    page = render({"items": [item], "errors": [], "as_of_ms": NOW})
    assert len(page) < MOST_CHARACTERS
    assert all(len(href) < 100 for href in re.findall(r'href="([^"]*)"', page))
    assert all(len(command) < 300 for command in re.findall(r"<code>(.*?)</code>", page))
    assert f"{len(WRONG) + len(BEHIND)}" in page
    shown = re.findall(r"<tr><td>(topic-\d+)-\d+</td>", page)
    assert shown[:3] == ["topic-0500"] * 3
    assert len(shown) <= MOST_SHOWN
    assert item["partitions"] == {"FAILED": 3, "MIRRORING": 9_995, "PAUSED": 3}
    assert item["lag"]["offsets"] == sum(BEHIND.values())


def test_what_a_terminal_shows_of_ten_thousand_and_one_partitions_fits_it() -> None:
    seen = status()
    lines = status_text(
        [status_item(seen.status) | following(guide(seen.situation))], list(Mode), 80, every=False
    ).splitlines()
    assert len(lines) < 60
    assert sum(map(len, lines)) < 4_000
    assert any("topic-0500-0 (BROKER_REFUSED)" in line for line in lines)
