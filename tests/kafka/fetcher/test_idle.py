"""S3.8: what costs nothing must not cost anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tanist.domain.states import Finding
from tests.kafka.fetcher.rig import Rig, RigCluster, until

if TYPE_CHECKING:
    from tests.conftest import ClusterFactory
    from tests.kafka.fetcher.copier import Copier


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


@pytest.fixture
def soon_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tanist.fetcher.engines.batches.reading.RESTS_AFTER_SECONDS", 0.3)


def at_rest(copier: Copier) -> int:
    """How many partitions need nothing until they have news; all are looked at every `WHOLE_SECONDS` nevertheless."""
    return sum(lane._engine.rests(state.partition) for lane in copier.made for state in dict(lane._states).values())


@pytest.mark.usefixtures("soon_at_rest")
def test_a_partition_at_rest_is_copied_as_soon_as_it_has_news_and_rests_again(rig: Rig, topic_name: str) -> None:
    at = rig.create(topic_name, 40)
    with rig.copier(at) as copier:
        for each in (at[3], at[7], at[3]):
            until(lambda: at_rest(copier) == len(at), 20, lambda: at_rest(copier))
            before = dict(copier.reports())
            rig.source.produce(each, [b"x", b"y"])
            rig.copied(copier, 2)
            assert [other for other in at if copier.reports()[other].records != before[other].records] == [each]
        until(lambda: at_rest(copier) == len(at), 20, lambda: at_rest(copier))
        busy = [at[1], *at[20:30]]
        for _ in range(10):
            for each in busy:
                rig.source.produce(each, [b"z" * 1_000] * 20)
        rig.copied(copier)
        assert at_rest(copier) >= len(at) - len(busy)
        copier.extend(rig.create(f"{topic_name}-2", 2))
        rig.source.produce(copier.partitions[-1], [b"x"])
        rig.copied(copier)
        until(lambda: at_rest(copier) == len(at) + 2, 20)
    assert rig.identical(copier.partitions) == ""


@pytest.mark.parametrize("slots", ["0", "1"])
@pytest.mark.usefixtures("soon_at_rest")
def test_a_source_without_room_for_fetch_sessions_is_copied_all_the_same(
    request: pytest.FixtureRequest,
    sides: tuple[RigCluster, RigCluster],
    cluster_factory: ClusterFactory,
    topic_name: str,
    slots: str,
) -> None:
    """`max.incremental.fetch.session.cache.slots`: without any; and with one, which others take from us."""
    properties = {"max.incremental.fetch.session.cache.slots": slots}
    source = RigCluster(cluster_factory(f"narrow-{slots}", brokers=1, properties=properties))
    request.addfinalizer(source.close)
    rig = Rig(source, sides[1])
    at = rig.create(topic_name, 6)
    with rig.copier(at) as copier:
        for round_ in range(4):
            for each in (at[round_], at[5]):
                rig.source.produce(each, [b"x"] * 3)
            assert len(rig.source.admin.list_topics(timeout=10).topics) > 0
            rig.copied(copier)
            time.sleep(0.8)  # noqa: TID251  # they come to rest, all or some
        assert [each.error for each in copier.reports().values()] == [None] * 6
    assert rig.identical(at) == ""
