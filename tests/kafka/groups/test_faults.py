"""With the source gone, and after a shift: positions are exact all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.records import OffsetRangeWritten, OffsetTailMode
from tanist.domain.translation import Precision, Proof
from tanist.kafka.wire import requests
from tanist.kafka.wire.requests import Markers
from tests.kafka.fetcher.rig import Rig, RigCluster, soon, until, value
from tests.kafka.groups.mirrors import Mirrored
from tests.kafka.groups.readers import Followed, commit, moved, read_some
from tests.ports import over_positions

if TYPE_CHECKING:
    from tests.conftest import ClusterFactory


def test_the_source_is_killed(
    cluster_factory: ClusterFactory, sides: tuple[RigCluster, RigCluster], topic_name: str
) -> None:
    """SIGKILL: what was kept is translated exactly, and the group goes on with the next record."""
    cluster = cluster_factory("doomed", brokers=1)
    source, destination = RigCluster(cluster), sides[1]
    rig = Rig(source, destination)
    (at,) = rig.create(topic_name)
    source.produce(at, [b"%d" % n for n in range(30)])
    with rig.copier([at]) as copier:
        rig.copied(copier)
    with Mirrored(rig, (at,)) as mirrored, Followed(mirrored.spec, cluster.endpoint(), [topic_name]) as followed:
        before = read_some(source.servers, topic_name, at, 11)
        until(lambda: followed.position(topic_name, at) == 11, 20, followed.note)
        cluster.kill(cluster.brokers[0].id)
        until(lambda: (note := followed.note()) and note.mode is OffsetTailMode.DEGRADED, 20, followed.note)
        mirrored.groups += list(followed.groups.view().values())
        (row,) = mirrored.sync(topic_name).rows
        assert (row.offset, row.translation.precision, row.committed) == (11, Precision.EXACT, True)
        assert row.compared.proof is Proof.NONE
        assert row.age_ms is not None
        after = read_some(destination.servers, topic_name, at, 19)
        assert before + after == [(n, b"%d" % n) for n in range(30)]
        note = followed.note()
        assert note is not None
        assert 0 < note.complete_until_ms <= note.at
    with Followed(mirrored.spec, cluster.endpoint(), [topic_name], followed.groups) as restarted:
        until(
            lambda: (new := restarted.note()) and new.at > note.at and "UNREACHABLE" in new.reason, 20, restarted.note
        )
        kept = restarted.note()
        assert kept is not None
        assert (kept.mode, kept.complete_until_ms) == (OffsetTailMode.DEGRADED, note.complete_until_ms)
        assert kept.groups == note.groups > 0, "a restart has not made what is stored unknown"
    source.close()


def test_after_a_shift_the_next_record_is_the_next_record(rig: Rig, topic_name: str) -> None:
    """A surplus marker has moved everything behind it; the map has the run, and the proof finds the same records."""
    (at,) = rig.create(topic_name)
    rig.source.produce(at, [b"%d" % n for n in range(20)])
    with rig.copier([at]) as copier:
        rig.copied(copier)
    marker = Markers(rig.spec.marker_id, 20_000, [1_000, 1_001])
    value(requests.write_markers(rig.destination.router, {at: marker}, soon())[at])
    rig.source.produce(at, [b"%d" % n for n in range(20, 40)])
    with rig.copier([at]) as copier:
        rig.copied(copier)
    runs = rig.offsets(at).runs
    assert [(run.source, run.destination) for run in runs] == [(20, 22)]
    before = read_some(rig.source.servers, topic_name, at, 27)
    commit(rig.source.servers, topic_name + "-at-the-gap", {at: 20})
    with Mirrored(rig, (at,)) as mirrored:
        mirrored.runs += [
            r for r in rig.store.view().values() if isinstance(r, OffsetRangeWritten) and r.partition == at
        ]
        synced = mirrored.sync(topic_name, topic_name + "-at-the-gap")
        assert {row.offset: (row.compared.proof, row.committed) for row in synced.rows} == {
            29: (Proof.MATCH, True),
            22: (Proof.MATCH, True),
        }
    after = read_some(rig.destination.servers, topic_name, at, 13)
    assert [text for _, text in before + after] == [b"%d" % n for n in range(40)]
    assert after[0][0] == 29


@pytest.mark.long  # one of one is killed above
def test_a_coordinator_of_three_is_killed(cluster_factory: ClusterFactory, topic_name: str) -> None:
    """Another takes over its groups: positions go on arriving, and nothing goes back."""
    cluster = cluster_factory("three", brokers=3)
    source = RigCluster(cluster)
    (at,) = source.create(topic_name, brokers=[1, 2, 3])
    spec = Rig(source, source).spec
    groups = [f"{topic_name}-{n}" for n in range(6)]
    with (
        Followed(spec, cluster.endpoint(), [topic_name]) as followed,
        over_positions(cluster.endpoint(), spec.mirror) as client,
    ):

        def all_moved(offset: int) -> None:
            until(lambda: all(a == {at: None} for a in moved(client, groups, at, offset, soon()).values()), 60)

        def arrived(offset: int) -> bool:
            return all(followed.position(group, at) == offset for group in groups)

        all_moved(1)
        until(lambda: arrived(1), 20, followed.note)
        cluster.kill(source.leader(at))
        all_moved(2)
        until(lambda: arrived(2), 30, followed.note)
    source.close()
