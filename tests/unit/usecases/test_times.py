"""What is read of both clusters for the strategy `timestamp`, partition by partition."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import TanistError, TimedOut, Unreachable
from tanist.domain.log_ends import Span
from tanist.domain.names import DestinationOffset, MirrorPartition, SourceOffset
from tanist.domain.translation import Exact, Inputs, Unknown
from tanist.domain.translators.by_timestamp import TIMESTAMP
from tanist.usecases.groups.times import read_times
from tests.builders import AT, a_command
from tests.fakes.times import MemoryLog, MemoryTimes, between

if TYPE_CHECKING:
    from collections.abc import Mapping

SECOND = MirrorPartition("orders", 1)
POSITION = SourceOffset(1)


def a_log(*times: int) -> MemoryLog:
    log = MemoryLog()
    for time in times:
        log.add(time, f"at {time}")
    return log


def spans(*ends: int) -> dict[MirrorPartition, Span[DestinationOffset] | TanistError]:
    at = (AT, SECOND)
    return {at[n]: Span(DestinationOffset(0), DestinationOffset(end)) for n, end in enumerate(ends)}


@dataclass
class Counted(MemoryTimes):
    """`calls`: what was asked for, of how many partitions."""

    calls: list[tuple[str, int]] = field(default_factory=list)

    def unread(self, positions: Mapping[Any, Any], limits: Any, by: Any) -> Any:
        self.calls.append(("unread", len(positions)))
        return super().unread(positions, limits, by)

    def before(self, offsets: Mapping[Any, Any], limits: Any, by: Any) -> Any:
        self.calls.append(("before", len(offsets)))
        return super().before(offsets, limits, by)

    def since(self, times: Mapping[Any, Any], limits: Any, by: Any) -> Any:
        self.calls.append(("since", len(times)))
        return super().since(times, limits, by)


def test_many_partitions_take_one_request_of_each_kind() -> None:
    source, copy = (Counted({AT: a_log(1, 2, 3), SECOND: a_log(1, 2, 3)}) for _ in range(2))
    wanted = {AT: [POSITION], SECOND: [POSITION, SourceOffset(2)]}
    read_times(between(source, copy), wanted, spans(3, 3), a_command())
    assert source.calls == [("unread", 2), ("since", 2)]
    assert copy.calls == [("before", 2), ("since", 2), ("unread", 2)]


def test_a_source_that_cannot_be_reached_is_the_reason_of_each_partition() -> None:
    dead = Unreachable("east:9092")
    found = read_times(between(dead, MemoryTimes({})), {AT: [POSITION], SECOND: []}, spans(3, 3), a_command())
    assert found == {AT: dead, SECOND: dead}


@dataclass
class Dying(MemoryTimes):
    """Answers the first question, and no more."""

    def since(self, times: Mapping[Any, Any], limits: Any, by: Any) -> Any:
        raise Unreachable("east:9092")


def test_a_source_that_dies_meanwhile_is_the_reason_of_each_partition() -> None:
    logs = {AT: a_log(1, 2, 3), SECOND: a_log(1, 2, 3)}
    found = read_times(
        between(Dying(logs), MemoryTimes(logs)), {AT: [POSITION], SECOND: [POSITION]}, spans(3, 3), a_command()
    )
    assert {at: type(each) for at, each in found.items()} == {AT: Unreachable, SECOND: Unreachable}


def test_an_error_of_one_partition_is_no_error_of_another_one() -> None:
    late = TimedOut("orders-1")
    logs = {AT: a_log(1, 2, 3), SECOND: a_log(1, 2, 3)}
    source, copy = Counted(logs, failing={SECOND: late}), Counted(logs)
    found = read_times(between(source, copy), {AT: [POSITION], SECOND: [POSITION]}, spans(3, 3), a_command())
    assert found[SECOND] is late
    assert not isinstance(found[AT], TanistError)
    assert copy.calls == [("before", 2), ("since", 1), ("unread", 1)]
    assert isinstance(TIMESTAMP.translate(POSITION, Inputs(copy=None, times=found[SECOND])), Unknown)
    copies = {**spans(3), SECOND: late}
    assert read_times(between(MemoryTimes(logs), copy), {SECOND: [POSITION]}, copies, a_command()) == {SECOND: late}


def test_what_was_copied_after_the_end_of_the_copy_was_read_is_not_mirrored_yet() -> None:
    """The source is read later: a record that was copied meanwhile may follow one that was not seen."""
    log = a_log(1, 2, 3)
    ends = spans(1)
    found = read_times(between(MemoryTimes({AT: log}), MemoryTimes({AT: log})), {AT: [POSITION]}, ends, a_command())
    copy = Span(DestinationOffset(0), DestinationOffset(1))
    answer = TIMESTAMP.translate(POSITION, Inputs(copy=copy, times=found[AT]))
    assert isinstance(answer, Unknown)
    assert answer.why.startswith("not mirrored yet")


def test_nothing_wanted_is_nothing_read() -> None:
    both = Counted({AT: a_log(1)})
    found = read_times(between(both, both), {AT: [SourceOffset(-1)]}, spans(1), a_command())
    assert found == {AT: {}}
    assert both.calls == [("before", 1)]


def test_a_position_is_at_least_where_a_lower_one_is() -> None:
    """What it leaves unread is part of what the lower one does; its own record was cleaned."""
    source, copy = a_log(1, 2, 3, 4), a_log(1, 2, 3, 4)
    del source.entries[2], copy.entries[1]
    mirror = between(MemoryTimes({AT: source}), MemoryTimes({AT: copy}))
    wanted = {AT: [SourceOffset(0), SourceOffset(3), SourceOffset(2)]}
    found = read_times(mirror, wanted, spans(4), a_command())
    inputs = Inputs(copy=Span(DestinationOffset(0), DestinationOffset(4)), times=found[AT])
    offsets = [TIMESTAMP.translate(at, inputs) for at in (SourceOffset(0), SourceOffset(2), SourceOffset(3))]
    assert offsets[0] == Exact(DestinationOffset(0))
    assert offsets[2] == Exact(DestinationOffset(3))
    assert not isinstance(offsets[1], Unknown)
    assert offsets[1].offset <= 2


@dataclass
class Bisecting(MemoryTimes):
    """What it finds by time it has not read up to: as behind a marker, where records are looked for by bisection."""

    def since(self, times: Mapping[Any, Any], limits: Any, by: Any) -> Any:
        return {
            at: each
            if isinstance(each, TanistError)
            else {time: found and replace(found, certain=False) for time, found in each.items()}
            for at, each in super().since(times, limits, by).items()
        }


@pytest.mark.parametrize(("copies", "exact"), [(MemoryTimes, True), (Bisecting, False)])
def test_a_bisection_that_finds_no_copy_does_not_prove_that_there_is_none(
    copies: type[MemoryTimes], exact: bool
) -> None:
    """A record that it has missed is skipped if the end of the copy is taken for the exact position."""
    source, copy = a_log(1, 2, 3), a_log(1)
    source.stable = 2
    copy.add(10**6)  # a marker
    copy.add(2, "at 2")
    mirror = between(MemoryTimes({AT: source}), copies({AT: copy}))
    position = SourceOffset(2)
    found = read_times(mirror, {AT: [position]}, spans(3), a_command())
    inputs = Inputs(copy=Span(DestinationOffset(0), DestinationOffset(3)), times=found[AT])
    answer = TIMESTAMP.translate(position, inputs)
    assert (answer == Exact(DestinationOffset(3))) is exact
