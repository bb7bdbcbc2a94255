"""What a copier uses up while it copies: its process and the destination's ends, looked at together, many times."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tanist.domain.errors import CouldNotTell, ProcessFailed, TimedOut
from tanist.domain.names import MirrorPartition
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import End
from tanist.kafka.wire.router import Router

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.load import Load
    from bench.pair import Pair
    from tanist_testkit.sandbox.processes import Process

EVERY_SECONDS: Final = 0.1
FIRST_SECONDS: Final = 90.0
STALL_SECONDS: Final = 60.0
ASK_SECONDS: Final = 5.0
STEADY: Final = (0.1, 0.9)
"""Shares of the records between which speed and CPU are measured: starting and ending do not count."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """At monotonic second `at` the process had used `cpu` seconds, and `records` were committed."""

    at: float
    cpu: float
    records: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one run. MB are 10^6 bytes of values; all but the last three are of the steady part."""

    mb_per_s: float
    mb_per_cpu_s: float
    cpu_s_per_million: float
    wall_s: float
    cpu_s: float
    peak_mb: float
    first_record_s: float
    """From the order to copy until the first record is there: starting, joining, making topics."""
    all_s: float


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, the ended ones included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_megabytes(pid: int) -> float:
    """The most resident memory that a process has ever had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 / 1e6 if found else 0.0


class Watch:
    """Looks at one run until all its records are there."""

    def __init__(self, pair: Pair, topic: str, partitions: int, records: int, *, more: bool = False) -> None:
        """`more`: markers of transactions count as records, a few thousandths of them."""
        self._pair = pair
        self._topic = topic
        self._ends = dict.fromkeys((MirrorPartition(topic, n) for n in range(partitions)), End.HIGH_WATERMARK)
        self._records = records
        self._more = more
        self.samples: list[Sample] = []

    def until_copied(self, process: Process, begun: float) -> None:
        """`begun`: the monotonic second of the order to copy.

        Raises:
            ProcessFailed: it ended. TimedOut: nothing came for a minute. CouldNotTell: more came than there was.
        """
        clock = self._pair.clock
        self.samples.append(Sample(begun, 0.0, 0.0))
        moved_at = begun + FIRST_SECONDS - STALL_SECONDS
        with Router(self._pair.destination.endpoint(), "bench") as router:
            while self.samples[-1].records < self._records:
                clock.wait(EVERY_SECONDS)
                sample = self._look(router, process)
                moved_at = sample.at if sample.records > self.samples[-1].records else moved_at
                self.samples.append(sample)
                if sample.at - moved_at > STALL_SECONDS:
                    raise TimedOut(f"{self._topic}: {sample.records:.0f} of {self._records} records, then nothing")
        if self.samples[-1].records > self._records and not self._more:
            raise CouldNotTell(f"{self._topic}: {self.samples[-1].records:.0f} records, the source has {self._records}")

    def records_now(self, process: Process) -> float:
        """How many are committed.

        Raises:
            ProcessFailed: the copier has ended.
        """
        with Router(self._pair.destination.endpoint(), "bench") as router:
            return self._look(router, process).records

    def _look(self, router: Router, process: Process) -> Sample:
        if not process.alive:
            raise ProcessFailed(f"the copier of {self._topic} (pid {process.pid}) has ended")
        answers = requests.list_offsets(router, self._ends, self._pair.clock.deadline(ASK_SECONDS))
        cpu = cpu_seconds(process.pid)
        records = sum(end for end in answers.values() if isinstance(end, int))
        return Sample(self._pair.clock.monotonic(), cpu, records)


def figures(samples: Sequence[Sample], load: Load, peak_mb: float) -> Figures:
    """What the samples of one run say."""
    low, high = (_at(samples, share * load.records) for share in STEADY)
    wall, cpu = high.at - low.at, high.cpu - low.cpu
    share = STEADY[1] - STEADY[0]
    first = next(sample for sample in samples if sample.records > 0)
    return Figures(
        mb_per_s=share * load.megabytes / wall,
        mb_per_cpu_s=share * load.megabytes / cpu,
        cpu_s_per_million=cpu / (share * load.records / 1e6),
        wall_s=wall,
        cpu_s=cpu,
        peak_mb=peak_mb,
        first_record_s=first.at - samples[0].at,
        all_s=samples[-1].at - samples[0].at,
    )


def _at(samples: Sequence[Sample], records: float) -> Sample:
    """Between the two samples around the moment when so many records were there."""
    after = next(i for i, sample in enumerate(samples) if sample.records >= records)
    a, b = samples[after - 1], samples[after]
    part = (records - a.records) / (b.records - a.records)
    return Sample(a.at + part * (b.at - a.at), a.cpu + part * (b.cpu - a.cpu), records)
