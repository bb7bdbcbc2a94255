"""A source at other addresses is the same source; another cluster at its addresses is not."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import AnotherCluster, PortTaken
from tanist.kafka.wire.requests import End
from tanist_testkit.sandbox.cluster import SandboxCluster
from tanist_testkit.sandbox.ports import check_free
from tanist_testkit.sandbox.spec import ClusterSpec
from tests.kafka.fetcher.raw import reassign
from tests.kafka.fetcher.rig import Rig, RigCluster, until
from tests.kafka.fetcher.test_broken import ALONE
from tests.kafka.fetcher.test_log_start import batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tanist.domain.names import MirrorPartition
    from tanist_testkit.sandbox.processes import Guardian
    from tests.kafka.fetcher.copier import Copier


@pytest.fixture
def movable(guardian: Guardian) -> Iterator[SandboxCluster]:
    with SandboxCluster.new(ClusterSpec(name="movable", heap_mb=384), guardian=guardian) as cluster:
        yield cluster


@pytest.fixture
def from_movable(movable: SandboxCluster, sides: tuple[RigCluster, RigCluster]) -> Iterator[Rig]:
    """A mirror that pins the id of its source."""
    rig = Rig(RigCluster(movable), sides[1])
    rig.spec = replace(rig.spec, source_cluster_id=movable.cluster_id)
    yield rig
    rig.source.close()


def see_again(rig: Rig) -> None:
    """The source's addresses have changed, or its clients were told of another cluster."""
    rig.source.close()
    rig.source = RigCluster(rig.source.cluster)


def test_a_source_at_new_addresses_is_copied_from_where_it_was(from_movable: Rig, topic_name: str) -> None:
    """All of its addresses are new; its id is not, so nothing is copied twice."""
    rig, cluster = from_movable, from_movable.source.cluster
    [at] = rig.create(topic_name)
    batches(rig, at)
    with rig.copier([at]) as copier:
        rig.copied(copier)
    before = (cluster.bootstrap_servers, cluster.cluster_id)
    cluster.stop()
    cluster.move()
    cluster.start()
    see_again(rig)
    assert (cluster.bootstrap_servers != before[0], cluster.cluster_id) == (True, before[1])
    until(lambda: rig.source.complete(topic_name, 1), 30)
    batches(rig, at, 2)
    with rig.copier([at], name="w2") as copier:
        rig.copied(copier)
        assert copier.reports()[at].records == 20
    assert rig.identical([at]) == ""
    assert rig.offsets(at).runs == ()


def test_a_worker_follows_a_source_whose_brokers_are_replaced_one_by_one(out_of_trio: Rig, topic_name: str) -> None:
    """The only address in its configuration is that of a broker which is gone in the end."""
    rig = out_of_trio
    rig.destination.create(topic_name)
    [at] = rig.source.create(topic_name, brokers=[1], config=ALONE)
    batches(rig, at)
    copier = rig.copier([at])
    copier.source = replace(copier.source, bootstrap=copier.source.bootstrap[:1])
    with copier:
        rig.copied(copier)
        reassign(rig.source, at, [2, 3])
        batches(rig, at, 1)
        rig.copied(copier)
        rig.source.cluster.kill(1)
        batches(rig, at, 2)
        rig.copied(copier)
        assert sum(report.records for report in copier.reports().values()) <= 80
    assert rig.identical([at]) == ""
    assert rig.destination.end(at, End.LOG_END) == 80


def halted(copier: Copier) -> None:
    """Wait until the worker has named the reason, and then for another moment in which it could append."""
    until(lambda: isinstance(copier._leaders.error, AnotherCluster), 40, lambda: copier._leaders.error)
    time.sleep(1)  # noqa: TID251  # nothing may happen in it


def free(port: int) -> bool:
    """Whether nobody listens there; right after a kill somebody still may."""
    try:
        check_free(port)
    except PortTaken:
        return False
    return True


def ends(rig: Rig, partitions: Sequence[MirrorPartition]) -> list[int]:
    return [rig.destination.end(at, End.LOG_END) for at in partitions]


@pytest.mark.long
def test_another_cluster_at_the_address_of_the_source_halts_its_copy_and_nothing_is_appended(
    from_movable: Rig, guardian: Guardian, topic_name: str
) -> None:
    """Its topic has the same name and a longer log. One mirror partition is still empty, so no record could differ."""
    rig, cluster = from_movable, from_movable.source.cluster
    at = rig.create(topic_name, 2)
    batches(rig, at[0])
    (port,) = (broker.port for broker in cluster.brokers)
    impostor = SandboxCluster.new(ClusterSpec(name="impostor", heap_mb=384, ports=(port,)), guardian=guardian)
    with closing(impostor), rig.copier(at, topic_ids={}) as running:
        rig.copied(running)
        cluster.kill()
        until(lambda: free(port), 30)
        impostor.start()
        other = RigCluster(impostor)
        other.create(topic_name, 2)
        for each in at:
            other.produce(each, [b"%d of another cluster" % n for n in range(100)])
        halted(running)
        assert ends(rig, at) == [50, 0]
        with rig.copier(at, name="w2", topic_ids={}) as restarted:
            halted(restarted)
        assert ends(rig, at) == [50, 0]
        other.close()
        impostor.kill()
        until(lambda: free(port), 30)
        cluster.start()
        see_again(rig)
        until(lambda: rig.source.complete(topic_name, 2), 30)
        for each in at:
            batches(rig, each, 1)
        rig.copied(running)
    assert rig.identical(at) == ""
