"""Failovers of mirrors with mapped offsets where none of the mirror's logins has a right on either cluster itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tanist.domain.rights import TABLE, ClusterRole, Each, LoginRole, Use
from tanist.kafka.wire.admin import AclBinding
from tests.kafka.failover.conftest import ALL, ALLOW, GROUP, LITERAL, READ, TOPIC, TRANSACTION, WRITE, give, running
from tests.kafka.failover.documented_rights import acl_of
from tests.kafka.failover.test_dead_source import PARTITIONS, busily
from tests.kafka.failover.test_mapped import WAIT, committed, values
from tests.kafka.failover.test_real import QUICK
from tests.kafka.fetcher.rig import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tanist_testkit.sandbox.cluster import SandboxCluster
    from tanist_testkit.sandbox.processes import Guardian
    from tests.conftest import ClientConfig
    from tests.kafka.failover.conftest import Pair

MIRRORS: Final = ("still", "fire")
READERS: Final = "readers"
LEFT_TO_PEOPLE: Final = ("--no-fence-source", "--no-grant-writers")
_NAMES: Final = {Each.TOPIC: MIRRORS, Each.POSITIONS: MIRRORS, Each.GROUP: (READERS,)}
_USES: Final = {
    *(Use.COPY, Use.SERVE, Use.MAPPED, Use.POSITIONS, Use.GROUPS),
    *(Use.PLAN, Use.PLAN_MAPPED, Use.APPROVE, Use.RUN, Use.RUN_MAPPED, Use.NOTIFY),
}


def without_cluster(cluster: SandboxCluster) -> None:
    """What the table says, but nothing on the cluster. `app`: what its operators have granted to the application."""
    where = ClusterRole.SOURCE if cluster.spec.name == "east" else ClusterRole.DESTINATION
    mirror, approver, app = map(cluster.spec.principal, ("mirror", "approver", "app"))
    logins = {LoginRole.MIRROR: mirror, LoginRole.APPROVER: approver}
    needed = {
        acl_of(row.of(name).rights[0], logins[row.who])
        for row in TABLE
        if row.where is where and row.use in _USES and row.resource_type != "Cluster"
        for name in (_NAMES[row.resource] if isinstance(row.resource, Each) else ("",))
    }
    clients = ((TOPIC, READ), (TOPIC, WRITE), (GROUP, READ), (TRANSACTION, ALL))
    give(cluster, *needed, *(AclBinding(kind, "*", LITERAL, app, "*", operation, ALLOW) for kind, operation in clients))


@pytest.fixture(scope="module")
def bare(guardian: Guardian, client_config: ClientConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with running(guardian, client_config, tmp_path_factory.mktemp("bare"), grants=without_cluster) as found:
        found.worker()
        for name in MIRRORS:
            found.east.topic(name, PARTITIONS)
            assert found.east.writes(name, range(24), partitions=PARTITIONS)
            mapped = ("--offsets", "mapped", *LEFT_TO_PEOPLE)
            found.tanist("mirrors", "create", name, "--source", "east", "--topic", name, *mapped)
        for name in MIRRORS:
            found.tanist("mirrors", "wait", name, *WAIT)
        yield found


def test_planned_it_waits_for_producers_that_a_person_stops(bare: Pair) -> None:
    bare.east.commit(READERS, "still", 1)
    until(lambda: READERS in bare.tanist("state", "dump", "--key", "group/still").out, 40)
    plan = bare.approved("still")
    asked = bare.tanist("failover", "plan", "still").err
    assert "accept: SOURCE_NOT_FENCED: producers of the source are not blocked: stop them yourself" in asked
    assert "accept: WRITERS_NOT_GRANTED: who may write at the destination is neither looked at nor changed" in asked
    with busily(bare.east, "still") as acknowledged:
        stopped = bare.tanist("failover", "run", "still", "--plan", plan, *QUICK, "--drain", "3s", expected=None)
    assert stopped.code != 0
    assert "PRODUCERS_WRITE" in stopped.err
    plan = bare.approved("still")
    done = bare.tanist("failover", "run", "still", "--plan", plan, *QUICK).item
    assert done["status"] == "DONE"
    source = values(committed(bare.east, "still", PARTITIONS))
    assert values(committed(bare.west, "still", PARTITIONS)) == source
    for at, records in acknowledged.items():
        assert set(records.values()) <= set(source[at.partition])
    assert bare.west.committed(READERS, "still") == 1
    assert bare.west.writes("still", range(100, 104))


@pytest.mark.long  # the planned one above is as it is, besides the drain
def test_unplanned_nothing_but_what_the_table_says_is_needed(bare: Pair) -> None:
    plan = bare.approved("fire", mode="unplanned")
    done = bare.tanist("failover", "run", "fire", "--plan", plan, *QUICK).item
    assert done["status"] == "DONE"
    assert values(committed(bare.west, "fire", PARTITIONS)) == values(committed(bare.east, "fire", PARTITIONS))
    assert bare.west.writes("fire", range(100, 104))
