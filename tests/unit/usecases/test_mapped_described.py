"""What `tanist mirrors describe` says of a mirror with mapped offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tanist.domain.names import SourceOffset
from tanist.domain.offset_map import OffsetRange
from tanist.usecases.mirrors.describe import Describer, row_reason
from tests.builders import DR, a_command
from tests.unit.usecases.mapped import RUNS, MappedMirror

if TYPE_CHECKING:
    from tanist.domain.lag import PartitionRow


def described(mirror: MappedMirror) -> PartitionRow:
    describer = Describer(mirror.destination(), lambda _name: mirror.east.side())
    (found,) = describer.describe(DR, a_command(clock=mirror.west.clock))
    (row,) = found.rows
    return row


def test_lag_is_what_the_source_has_behind_the_mirrors_position() -> None:
    """The log of the copy is longer than its position says: an aborted attempt has left records there."""
    mirror = MappedMirror()
    mirror.copy(published=2)
    row = described(mirror)
    assert (row.lag, row.mode, row.destination_end) == (10, "mapped(+4)", 36)
    mirror.copy((*RUNS[:3], OffsetRange(SourceOffset(40), RUNS[3].destination)))
    row = described(mirror)
    assert (row.lag, row.lag_ms) == (0, 0)


def test_lag_is_unknown_with_its_reason_where_the_position_is_somebody_elses() -> None:
    mirror = MappedMirror()
    mirror.copy(published=2)
    mirror.commit(40, "a consumer's")
    row = described(mirror)
    assert (row.lag, row.lag_ms) == (None, None)
    assert "POSITION_NOT_OURS" in row_reason(row)


def test_nothing_was_copied_to_an_empty_log() -> None:
    row = described(MappedMirror())
    assert (row.lag, row.mode, row.unread) == (40, "mapped", "")


def test_a_source_that_is_down_leaves_what_workers_saw_of_it() -> None:
    mirror = MappedMirror()
    mirror.copy()
    mirror.east.dead = True
    assert described(mirror).lag is None
