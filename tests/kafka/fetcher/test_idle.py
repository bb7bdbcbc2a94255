"""What costs nothing must not cost anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tanist.domain.states import Finding
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from tests.kafka.fetcher.rig import Rig


PARTITIONS = 300
SECONDS = 4.0
SHARE_OF_A_CORE = 0.05
STOP_SECONDS = 2.0


def test_three_hundred_idle_partitions_need_no_processor_and_stop_at_once(rig: Rig, topic_name: str) -> None:
    at = rig.create(topic_name, PARTITIONS)
    with rig.copier(at) as copier:
        rig.copied(copier)
        until(lambda: all(r.finding is Finding.ALIGNED for r in copier.reports().values()), 10)
        [lane] = copier.made
        assert lane.ident is not None
        clock = time.pthread_getcpuclockid(lane.ident)
        begin = time.clock_gettime(clock)
        time.sleep(SECONDS)  # noqa: TID251  # that is what idle means
        used = time.clock_gettime(clock) - begin
        stopping = time.monotonic()
    took = time.monotonic() - stopping
    assert (used / SECONDS, took) < (SHARE_OF_A_CORE, STOP_SECONDS)
    assert took < STOP_SECONDS
    assert not lane.is_alive()
    assert lane.died is None
