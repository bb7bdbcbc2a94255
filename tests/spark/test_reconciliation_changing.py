"""What changes while two logs are reconciled: what is told is right, or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tanist.domain.errors import TopicReplaced
from tanist.domain.reconciliation.job import ReconciliationJob, TopicPair
from tanist.spark.reconciliation.job import bounds
from tests.spark.forging import append, written
from tests.spark.test_changing import again

if TYPE_CHECKING:
    from tests.kafka.fetcher.rig import Rig

pytestmark = pytest.mark.timeout(300)


def a_job(rig: Rig, *pairs: TopicPair) -> ReconciliationJob:
    return ReconciliationJob(
        run="r",
        source=rig.source.cluster.endpoint(),
        destination=rig.destination.cluster.endpoint(),
        pairs=pairs,
    )


def test_a_topic_created_again_while_its_ends_are_read_is_unknown_though_it_is_empty(rig: Rig, topic_name: str) -> None:
    """No task reads an empty log, so nobody looked: every record of the other side was said to be foreign, or lost."""
    ours, theirs, same = (rig.create(f"{topic_name}-{name}")[0] for name in ("ours", "theirs", "same"))
    for at in (ours, theirs, same):
        append(rig.destination, at, written(rig.source, at))

    def meanwhile(stage: str) -> None:
        if stage.startswith("ends of the destination"):
            again(rig.destination, theirs.topic)
            again(rig.source, ours.topic)

    found = bounds(a_job(rig, *(TopicPair(at.topic, at.topic, 1) for at in (ours, theirs, same))), meanwhile)
    assert isinstance(found[0].source, TopicReplaced)
    assert found[0].trouble.startswith("source: TOPIC_REPLACED")
    assert found[1].trouble.startswith("destination: TOPIC_REPLACED")
    assert not found[2].trouble
