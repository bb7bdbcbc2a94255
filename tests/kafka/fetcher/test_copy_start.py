"""Mirror partitions that had records before the mirror: an old source that follows the cluster that took over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.names import DestinationOffset
from tanist.kafka.wire.requests import End
from tests.kafka.fetcher.logs import read
from tests.kafka.fetcher.raw import surplus
from tests.kafka.fetcher.rig import Rig, until
from tests.kafka.fetcher.test_log_start import batches
from tests.kafka.fetcher.test_writers import broken

if TYPE_CHECKING:
    from tanist.domain.names import MirrorPartition
    from tests.kafka.fetcher.copier import Copier

TAIL, RESERVED = 30, 100


def reversed_rig(rig: Rig) -> Rig:
    """The mirror with swapped roles, new producer ids and a state of its own."""
    return Rig(rig.destination, rig.source)


def returning(back: Rig, at: MirrorPartition, copy_start: int) -> Copier:
    return back.copier([at], copy_starts={at: DestinationOffset(copy_start)})


def failed_over(rig: Rig, at: MirrorPartition, tail: int) -> int:
    """Copy, then `tail` records that only the source has, and reserved offsets: where the source's records end."""
    batches(rig, at)
    rig.source.transaction(at, [b"committed"])
    rig.source.transaction(at, [b"aborted"], commit=False)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    end = rig.destination.end(at)
    if tail:
        rig.source.produce(at, [b"tail %d" % n for n in range(tail)])
        surplus(rig, at, RESERVED)
    return end


@pytest.mark.parametrize("tail", [0, TAIL])
def test_an_old_source_gets_what_was_written_since_at_the_same_offsets_and_keeps_its_tail(
    rig: Rig, topic_name: str, tail: int
) -> None:
    [at] = rig.create(topic_name)
    copied_until = failed_over(rig, at, tail)
    tail_until = rig.source.end(at, End.LOG_END)
    back = reversed_rig(rig)
    back.source.produce(at, [b"first own record"])
    with returning(back, at, tail_until) as copier:
        back.copied(copier)
        batches(back, at)
        back.source.transaction(at, [b"another"])
        back.copied(copier)
    with returning(back, at, tail_until) as copier:
        back.source.produce(at, [b"after a restart"])
        back.copied(copier)
        assert back.source.end(at) == back.destination.end(at, End.LOG_END)
    new, old = (read(side.servers, [at], "read_committed") for side in (back.source, back.destination))
    only_old = [row for row in old[at] if copied_until <= row.offset < tail_until]
    assert len(only_old) == tail
    assert [row for row in old[at] if row not in only_old] == new[at]


def test_what_others_write_to_an_old_source_behind_its_tail_is_found(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    failed_over(rig, at, TAIL)
    tail_until = rig.source.end(at, End.LOG_END)
    back = reversed_rig(rig)
    with returning(back, at, tail_until) as copier:
        until(lambda: back.source.end(at) == back.destination.end(at, End.LOG_END), 20, copier.reports)
    rig.source.produce(at, [b"foreign"])
    back.source.produce(at, [b"own"])
    with returning(back, at, tail_until) as copier:
        assert broken(copier, at) == "FOREIGN_WRITE"


def test_an_old_source_that_lost_records_since_is_not_copied_to(rig: Rig, topic_name: str) -> None:
    [at] = rig.create(topic_name)
    failed_over(rig, at, 0)
    back = reversed_rig(rig)
    with returning(back, at, rig.source.end(at, End.LOG_END) + 1) as copier:
        assert broken(copier, at) == "DIVERGED"
