"""What all chapters share: two clusters, the command line, an audience; and which topics are in which mirror."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tanist_testkit.verify import clients
from tanist_testkit.verify.flows import Flow
from tanist_testkit.verify.reading import LogExtent, bounds, read
from tanist_testkit.verify.writing import Load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tanist.ports.clock import Clock, Deadline
    from tanist_testkit.demo.airflow_runs import AirflowRuns
    from tanist_testkit.sandbox.command_line import CommandLine
    from tanist_testkit.sandbox.environment import Environment
    from tanist_testkit.screen import Screen
    from tanist_testkit.verify.groups import Member
    from tanist_testkit.verify.inspection import Inspection
    from tanist_testkit.verify.traces import Place, Traces

STORM: Final = "m1"
"""Mirrored while everything that can be killed is killed; at the end its source dies."""
PLANNED: Final = "m2"
ABORTED: Final = "m3"
FLOWS: Final = (
    Flow(topic="orders", partitions=4, rate=3500),
    Flow(topic="clicks", partitions=3, rate=2000, compression="lz4"),
    Flow(topic="metrics", partitions=2, rate=1200, compression="zstd"),
    Flow(topic="payments", partitions=3, rate=1200, writers=2, transactional=True),
    Flow(topic="audit", partitions=2, rate=800, deleted=3000),
)
MOVING: Final = Flow(topic="invoices", partitions=2, rate=800, compression="lz4")
STAYING: Final = Flow(topic="refunds", partitions=2, rate=800, max_message_bytes=900_000)
MIRRORS: Final = {STORM: FLOWS, PLANNED: (MOVING,), ABORTED: (STAYING,)}
TOPICS: Final = tuple(flow.topic for flow in FLOWS)
WEST: Final = ("--destination", "west")
EAST: Final = ("--destination", "east")
SEED: Final = 1
STEP_SECONDS: Final = 300.0
AT_LEAST: Final = 500
"""Records that producers write before, and again after, each failover."""


@dataclass(slots=True)
class Stage:
    """`airflow`: failovers go through it; None: by hand. `records`: so many are written before they are compared.

    The rest is what one chapter leaves to the next.
    """

    screen: Screen
    clock: Clock
    home: Environment
    tanist: CommandLine
    airflow: AirflowRuns | None
    records: int
    killed: int = 0
    load: Load = field(init=False)
    early: Traces = field(default_factory=dict)
    found: Inspection = field(init=False)
    begins: dict[Place, LogExtent] = field(init=False)
    member: Member = field(init=False)
    forecast: Mapping[str, Any] = field(init=False)
    safe: dict[Place, int] = field(init=False)
    rescued: list[dict[str, Any]] = field(default_factory=list)
    """The partitions whose divergent tail was rescued, as `tanist failback rescue` shows them."""
    lives: list[Load] = field(default_factory=list)
    """What was written since the source died: at the new primary, and after the failback. `load` is that before."""

    @property
    def source(self) -> str:
        """Bootstrap servers."""
        return self.home.source.bootstrap_servers

    @property
    def destination(self) -> str:
        """Bootstrap servers."""
        return self.home.destination.bootstrap_servers

    def struck(self, words: str) -> None:
        """Something was killed."""
        self.killed += 1
        self.screen.event(words)

    def soon(self) -> Deadline:
        """For what a step waits for."""
        return self.clock.deadline(STEP_SECONDS)

    def logs(self, topics: Sequence[str]) -> dict[Place, LogExtent]:
        """Where the copy begins and ends now."""
        by = self.soon()
        return bounds(self.destination, clients.places(self.destination, topics, by, self.clock), by, self.clock)

    def ends(self, topics: Sequence[str]) -> dict[Place, LogExtent]:
        """Where the copy ends now: as empty logs from there on."""
        return {place: LogExtent(log.end, log.end) for place, log in self.logs(topics).items()}

    def copied(self, topics: Sequence[str], begins: Mapping[Place, LogExtent] | None = None) -> Traces:
        """The copy from `begins` on, as an ordinary reader sees it."""
        logs = self.logs(topics)
        wanted = {place: LogExtent((begins or logs)[place].start, log.end) for place, log in logs.items()}
        return read(self.destination, wanted, committed=True, by=self.soon(), clock=self.clock)

    def writing(self, bootstrap: str, flows: Sequence[Flow], number: int) -> Load:
        """Producers in full flight. `number`: tells their records from those of other loads."""
        load = Load(bootstrap, flows, self.clock, SEED + number)
        load.start()
        load.until(AT_LEAST, self.soon())
        return load
