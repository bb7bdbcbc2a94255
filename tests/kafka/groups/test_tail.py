"""The freshest positions of the source's groups, as they arrive at the destination."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.records import OffsetTailMode
from tests.kafka.fetcher.rig import soon, until
from tests.kafka.groups.readers import Followed, commit, positions_in_transaction, read_some, wanted

if TYPE_CHECKING:
    from tests.kafka.fetcher.rig import Rig


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_both_protocols(rig: Rig, topic_name: str, group_name: str, protocol: str) -> None:
    """What a group commits arrives with its kind; a commit of before the tail began is there too."""
    (at,) = rig.source.create(topic_name)
    rig.source.produce(at, [b"%d" % n for n in range(10)])
    read_some(rig.source.servers, group_name, at, 3, protocol)
    with Followed(rig.spec, rig.source.cluster.endpoint(), [topic_name]) as followed:
        until(lambda: followed.position(group_name, at) == 3, 20, followed.positions)
        read_some(rig.source.servers, group_name, at, 4, protocol)
        until(lambda: followed.position(group_name, at) == 7, 10, followed.positions)
        (found,) = [each for each in followed.positions() if each.group == group_name]
        assert found.kind == protocol
        assert found.order >= 0
        assert found.at > 0
        note = followed.note()
        assert note is not None
        assert (note.mode, note.reason) == (OffsetTailMode.TAILING, "")


def test_transactional_positions_appear_with_the_commit(rig: Rig, topic_name: str) -> None:
    """Not a moment before, and never when the transaction is aborted."""
    group_name = topic_name  # librdkafka takes no others into a transaction
    (at,) = rig.source.create(topic_name)
    commit(rig.source.servers, group_name, {at: 1})
    with Followed(rig.spec, rig.source.cluster.endpoint(), [topic_name]) as followed:
        until(lambda: followed.position(group_name, at) == 1, 20)
        with positions_in_transaction(rig.source, group_name, at, 5) as producer:
            until(lambda: (note := followed.note()) and "open transactions" in note.reason, 15, followed.note)
            assert followed.position(group_name, at) == 1
            producer.commit_transaction(20)
            until(lambda: followed.position(group_name, at) == 5, 10, followed.positions)
        with positions_in_transaction(rig.source, group_name, at, 9) as producer:
            producer.abort_transaction(20)
        commit(rig.source.servers, group_name + "2", {at: 2})
        until(lambda: followed.position(group_name + "2", at) == 2, 10)
        assert followed.position(group_name, at) == 5


def test_deleted_groups_are_gone(rig: Rig, topic_name: str, group_name: str) -> None:
    (at,) = rig.source.create(topic_name)
    commit(rig.source.servers, group_name, {at: 1})
    with Followed(rig.spec, rig.source.cluster.endpoint(), [topic_name]) as followed:
        until(lambda: followed.position(group_name, at) == 1, 20)
        rig.source.admin.delete_consumer_groups([group_name])[group_name].result(20)
        until(lambda: followed.position(group_name, at) is None, 10)
        commit(rig.source.servers, group_name, {at: 0})
        until(lambda: followed.position(group_name, at) == 0, 10)


def test_only_topics_of_the_mirror(rig: Rig, topic_name: str, group_name: str) -> None:
    """A topic that joins the mirror has its positions at once: they were read long before."""
    (at,), (other,) = rig.source.create(topic_name), rig.source.create(topic_name + "-other")
    commit(rig.source.servers, group_name, {at: 1, other: 2})
    with Followed(rig.spec, rig.source.cluster.endpoint(), [topic_name]) as followed:
        until(lambda: followed.position(group_name, at) == 1, 20)
        assert followed.position(group_name, other) is None
        followed.state.append([wanted(rig.spec, other.topic)], soon())
        until(lambda: followed.position(group_name, other) == 2, 20)
