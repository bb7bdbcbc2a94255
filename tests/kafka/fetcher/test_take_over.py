"""A worker that takes over many partitions reads both logs of all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tanist.domain.errors import TimedOut
from tanist.kafka.wire import requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kafka.fetcher.rig import Rig

PARTITIONS = 60


@pytest.mark.parametrize("answered", [True, False])
def test_partitions_that_are_taken_over_are_read_together_and_lose_and_repeat_nothing(
    rig: Rig, topic_name: str, monkeypatch: pytest.MonkeyPatch, *, answered: bool
) -> None:
    """Each was read alone, by two requests, one after the other.

    Not answered: the copies are not read together in time, and each of them alone is.
    """
    at = rig.create(topic_name, PARTITIONS)
    producer = rig.source.producer()

    def write(records: int) -> None:
        for n in range(PARTITIONS * records):
            producer.produce(topic_name, b"%d" % n, partition=n % PARTITIONS)
        assert producer.flush(20) == 0

    write(3)
    with rig.copier(at, name="w1") as copier:
        rig.copied(copier)
    write(2)
    read: list[int] = []
    fetch = requests.fetch

    def counted(router: Any, offsets: Mapping[Any, int], *more: Any) -> Any:
        read.append(len(offsets))
        if not answered and len(offsets) > 1 and router.endpoint.name == rig.destination.cluster.endpoint().name:
            raise TimedOut("too much at once")
        return fetch(router, offsets, *more)

    monkeypatch.setattr(requests, "fetch", counted)
    with rig.copier(at, name="w2") as copier:
        rig.copied(copier)
    assert rig.identical(at) == ""
    assert sum(read) >= 3 * PARTITIONS, "the start and the last batch at the source, and the end of the copy"
    assert (len(read) < PARTITIONS / 2) == answered, read
