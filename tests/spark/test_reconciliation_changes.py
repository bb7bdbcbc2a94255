"""What happens to topics between their bounds and their last record: each that is hit is unknown by name, no other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from tanist.domain.reconciliation.job import PositionRequest, ReconciliationJob, TopicPair
from tanist.spark.reconciliation.job import reconcile
from tests.kafka.fetcher.rig import Rig
from tests.spark.forging import append, written
from tests.spark.test_planted import delete, delete_and_create

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.kafka.fetcher.rig import RigCluster

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # of pyspark, when it collects
]
NAMES: Final = ("same", "grown", "cut", "cut-copy", "deleted", "created-again")


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, sides: tuple[RigCluster, RigCluster], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """By name what is told of the partition; and of the position 7 in it."""
    rig = Rig(*sides)
    unique = f"changes-{time.time_ns()}"
    places = {name: rig.create(f"{unique}-{name}")[0] for name in NAMES}
    made = {name: written(rig.source, at) for name, at in places.items()}
    for name, at in places.items():
        append(rig.destination, at, made[name])
    happened: list[str] = []

    def meanwhile(stage: str) -> None:
        if not stage.startswith("records:"):
            return
        happened.append(stage)
        for side in (rig.source, rig.destination):
            append(side, places["grown"], made["grown"])
        rig.source.delete_before(places["cut"], 30)
        rig.destination.delete_before(places["cut-copy"], 30)
        delete(rig.source, places["deleted"].topic)
        delete_and_create(rig.destination, places["created-again"].topic)
        append(rig.destination, places["created-again"], made["created-again"])

    topics = {name: at.topic for name, at in places.items()}
    job = ReconciliationJob(
        run="r",
        source=rig.source.cluster.endpoint(),
        destination=rig.destination.cluster.endpoint(),
        pairs=tuple(TopicPair(topic, topic, 1) for topic in topics.values()),
        positions=tuple(PositionRequest(topic, 0, 7) for topic in topics.values()),
    )
    result = reconcile(spark, job, tmp_path_factory.mktemp("changes"), meanwhile)
    assert len(happened) == 1
    assert result["unknown"] == 2 * 4
    both = zip(NAMES, result["partitions"], result["positions"], strict=True)
    return {name: partition | {"position": position} for name, partition, position in both}


def test_what_is_written_meanwhile_is_nobodys_concern(found: dict[str, dict[str, Any]]) -> None:
    """Bounds are fixed: what comes later belongs to the next run."""
    for name in ("same", "grown"):
        each = found[name]
        assert (each["copied"], each["lost"], each["others"], each["reason"]) == (50, 0, 0, ""), each
        assert (each["position"]["destination_offset"], each["position"]["precision"]) == (7, "exact")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cut", "source: OFFSET_OUT_OF_RANGE"),
        ("cut-copy", "destination: OFFSET_OUT_OF_RANGE"),
        ("deleted", "source: TOPIC_REPLACED"),
        ("created-again", "destination: TOPIC_REPLACED"),
    ],
)
def test_a_topic_that_is_cut_deleted_or_created_again_meanwhile_is_unknown_by_name(
    found: dict[str, dict[str, Any]], name: str, why: str
) -> None:
    """Even where its name leads to the same records by now."""
    each = found[name]
    assert each["reason"].startswith(why), each
    assert (each["position"]["destination_offset"], each["position"]["precision"]) == (None, "unknown")
    assert each["position"]["reason"] == each["reason"]
