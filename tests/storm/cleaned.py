"""Compacted logs after the storm: cleaners of both clusters, and of each replica, have taken what was superseded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kafka.fetcher.logs import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.logs import Row

    Locate = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class CleanedLogs:
    """What is left of compacted topics. `holes`: offsets of the source without a record.

    `wrong`: keys whose latest record is another one in the copy, or lies elsewhere.
    """

    records: int = 0
    holes: int = 0
    wrong: tuple[str, ...] = ()

    def __add__(self, other: CleanedLogs) -> CleanedLogs:
        return CleanedLogs(self.records + other.records, self.holes + other.holes, self.wrong + other.wrong)


def cleaned_logs(
    servers: tuple[str, str],
    partitions: Sequence[MirrorPartition],
    locate: Callable[[MirrorPartition], Locate],
    isolation: str = "read_uncommitted",
) -> CleanedLogs:
    """Both clusters are read by ordinary consumers, the copy by `isolation`. `locate`: where they lie there."""
    source = read(servers[0], partitions, "read_committed")
    copy = read(servers[1], partitions, isolation)
    return sum((compared(at, source[at], copy[at], locate(at)) for at in partitions), CleanedLogs())


def compared(at: MirrorPartition, source: Sequence[Row], copy: Sequence[Row], locate: Locate) -> CleanedLogs:
    """One partition. The latest record of each key counts: a superseded one may be gone, or a copy of the next one."""
    latest = {row.key: (locate(row.offset), row.content) for row in source}
    found = {row.key: (row.offset, row.content) for row in copy}
    wrong = tuple(
        f"{at}: the latest record of {key!r} is {found.get(key)}, expected {latest.get(key)}"
        for key in sorted(latest.keys() | found.keys(), key=str)
        if found.get(key) != latest.get(key)
    )
    holes = source[-1].offset + 1 - source[0].offset - len(source) if source else 0
    return CleanedLogs(len(source), holes, wrong)
